/*
 * What a kill or a power cut leaves of segments, and what the next run makes of it.
 *
 * Two builders share one segment for each run, and append groups to it; a committer closes a set,
 * syncs, commits for each page where it is, how far each segment is committed, and where the first
 * page begins that is not. Between any two steps the process may be killed, or the power be cut:
 * then a segment keeps what a sync has covered, and of the rest as much as chance has it, with a
 * torn group behind. The next run reads each segment from the first page on that is not committed:
 * whole groups are adopted, in any order, and a torn end is cut off. CRASHES bounds how often.
 *
 * Promises checked
 *   - a page that the index calls stored has its group, whole;
 *   - no page is appended that has a whole group;
 * and at the end each page is stored and no segment has a torn group.
 *
 * Each -DBREAK_x takes one rule away, and must be caught.
 */

#ifndef CRASHES
#define CRASHES 2
#endif
#define PAGES 3
#define RUNS  (CRASHES + 1)
#define NONE  9

#define bit(p) (1 << (p))

/* Disk: of each page the segment that it is in and its place there, of each segment its groups. */
byte seg[PAGES] = NONE, place[PAGES];
byte size[RUNS], durable[RUNS];
bit  torn[RUNS];

/* Index. Changes only in transactions. */
byte stored;       /* set of pages */
byte ends[RUNS];   /* groups up to the last committed one */
byte open[RUNS];   /* the first group that is not committed; ends, if there is none before */

/* Memory. Gone after a crash. */
bit  running;
byte now;
byte todo, loose;  /* sets of pages: not taken yet; found whole by this run */
byte page[2] = NONE;
byte phase[2];     /* builders; 0 idle, 1 has a page, 2 its group is begun, 3 it is in the tree */
byte handed, set, covered;
byte dirty;        /* segments of earlier runs that the next sync covers */
byte step;         /* committer; 0 waits, 1 syncs, 2 synced */

byte crashes, i, s, w;

inline check() {
	for (i : 0 .. PAGES - 1) {
		assert(!(stored & bit(i)) || (seg[i] != NONE && place[i] < size[seg[i]]))
	}
	i = 0
}

inline forget() {
	running = 0; todo = 0; loose = 0; handed = 0; set = 0; covered = 0; dirty = 0; step = 0;
	phase[0] = 0; phase[1] = 0; page[0] = NONE; page[1] = NONE;
	crashes++; now++
}

/* What a segment has lost, its pages have. */
inline lose() {
	for (i : 0 .. PAGES - 1) {
		if
		:: !(stored & bit(i)) && seg[i] != NONE && place[i] >= size[seg[i]] -> seg[i] = NONE; place[i] = 0
		:: else
		fi
	}
	i = 0
}

/* Go: iut.Tree.Recover */
inline recover() {
	for (i : 0 .. PAGES - 1) {
		if
#ifdef BREAK_from_the_end
		:: seg[i] != NONE && !(stored & bit(i)) && place[i] >= ends[seg[i]] ->
#else
		:: seg[i] != NONE && !(stored & bit(i)) && place[i] >= open[seg[i]] ->
#endif
			loose = loose | bit(i);
#ifndef BREAK_adopt_unsynced
			dirty = dirty | bit(seg[i])
#endif
		:: else
		fi
	}
	i = 0;
	for (s : 0 .. RUNS - 1) {
		if
		:: torn[s] ->
#ifndef BREAK_leave_torn
			torn[s] = 0;
#endif
#ifdef BREAK_cut_committed
			size[s] = (size[s] > 0 -> size[s] - 1 : 0);
			durable[s] = (durable[s] < size[s] -> durable[s] : size[s])
#endif
		:: else
		fi
	}
	s = 0
}

inline take() {
	if
	:: todo & bit(0) -> page[w] = 0
	:: todo & bit(1) -> page[w] = 1
	:: todo & bit(2) -> page[w] = 2
	fi;
	todo = todo & ~bit(page[w]);
	phase[w] = (loose & bit(page[w]) -> 3 : 1)
}

/* Go: iut.Committer.Run, storage.Index.Commit */
inline transaction() {
	stored = stored | set;
	for (i : 0 .. PAGES - 1) {
		if
		:: (set & bit(i)) && ends[seg[i]] <= place[i] -> ends[seg[i]] = place[i] + 1
		:: else
		fi
	}
	for (s : 0 .. RUNS - 1) {
		open[s] = ends[s];
		for (i : 0 .. PAGES - 1) {
			if
			:: seg[i] == s && !(stored & bit(i)) && place[i] < open[s] -> open[s] = place[i]
			:: else
			fi
		}
	}
	i = 0; s = 0;
	set = 0
}

inline sync() {
	for (s : 0 .. RUNS - 1) {
		if
		:: s == now || (dirty & bit(s)) -> durable[s] = size[s]
		:: else
		fi
	}
	s = 0; dirty = 0
}

init {
	do
	:: atomic { !running -> running = 1; recover(); todo = (bit(0) | bit(1) | bit(2)) & ~stored; check() }

	:: atomic { running ->
		if
		:: w = 0
		:: w = 1
		fi;
		if
		:: phase[w] == 0 && todo -> take()
		/* Go: iut.Tree.Store; one builder at a time has a segment */
		:: phase[w] == 1 && phase[1 - w] != 2 ->
			assert(seg[page[w]] == NONE);
			torn[now] = 1;
			phase[w] = 2
		:: phase[w] == 2 ->
			torn[now] = 0;
			seg[page[w]] = now;
			place[page[w]] = size[now];
			size[now]++;
			phase[w] = 3
		/* Go: iut.Builder.Run */
		:: phase[w] == 3 -> handed = handed | bit(page[w]); phase[w] = 0; page[w] = NONE
		:: else
		fi;
		w = 0;
		check()
	   }

	:: atomic { running && step == 0 && handed -> set = handed; handed = 0; step = 1 }
	/* Go: iut.Tree.Sync */
	:: atomic { running && step == 1 ->
#ifdef BREAK_commit_before_sync
		transaction();
#else
		sync();
#endif
		step = 2;
		check()
	   }
	:: atomic { running && step == 2 ->
#ifdef BREAK_commit_before_sync
		sync();
#else
		transaction();
#endif
		step = 0;
		check()
	   }

	/* kill -9 */
	:: atomic { running && crashes < CRASHES -> forget(); check() }

	/* The power goes. */
	:: atomic { running && crashes < CRASHES ->
		forget();
		for (s : 0 .. RUNS - 1) {
			do
			:: size[s] > durable[s] -> size[s]--; torn[s] = 1
			:: break
			od
		}
		s = 0;
		check();
		lose()
	   }

	/* Nothing is left. */
	:: atomic { running && !todo && !handed && step == 0 && phase[0] == 0 && phase[1] == 0 ->
		assert(stored == (bit(0) | bit(1) | bit(2)));
		for (s : 0 .. RUNS - 1) {
			assert(!torn[s])
		}
		break
	   }
	od
}
