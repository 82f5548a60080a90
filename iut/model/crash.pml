/*
 * What a crash may find, and what the next run makes of it.
 *
 * The web: S names P, Q and R; P and Q both name L; R redirects to T, which nobody else names.
 * P names L in one answer and nothing in another, R redirects or fails: so each may answer
 * differently after a crash.
 *
 * Two workers (crawler, buffer and builder in one) each bring one URL at a time through its
 * steps; the committer closes a set, syncs, commits. Between any two steps, and within the
 * commit, the process may be killed, or the power may be cut: then each page that no sync has
 * covered is kept, torn or lost, as chance has it. Then the next run starts from what is left.
 * A run may also be stopped cleanly. CRASHES and STOPS bound how often.
 *
 * Promises checked, after every step
 *   - index implies tree: a URL that the index calls stored has a complete folder;
 *   - no loss: if the index calls a page stored, each link of the page that the folder holds
 *     has a record; if it calls R redirected, T has a record;
 *   - memory knows nothing that the index does not: what the frontier gives out has a record;
 *   - no duplicate: a complete page is never written again, an outcome is given to a pending
 *     record only;
 *   - bounded repeat: a URL whose page is complete in the tree is not asked again;
 * and at the end of a run that was left alone: no record is pending and S is stored, so that
 * every URL that a stored page or a redirect names is stored or has another outcome.
 *
 * -DSECOND_LOOK takes the look into the tree before the request away (and with it the bounded
 * repeat): the second look of the tree alone must still keep the other promises.
 * Each -DBREAK_x takes one rule away, and must be caught.
 */

#if defined(BREAK_new_answer) || defined(BREAK_overwrite)
#define SECOND_LOOK
#endif

#ifndef CRASHES
#define CRASHES 2
#endif
#ifndef STOPS
#define STOPS   1
#endif

#define S 0
#define P 1
#define Q 2
#define R 3
#define L 4
#define T 5
#define URLS 6

#define bit(u)  (1 << (u))
#define pages(m) ((m) & ~bit(R))

/* What answer `a` (0 or 1) of page u names. */
#define links(u, a) ( \
	(u) == S -> (bit(P) | bit(Q) | bit(R)) : ( \
	(u) == P && (a) == 0 -> bit(L) : ( \
	(u) == Q -> bit(L) : ( \
	(u) == R && (a) == 0 -> bit(T) : 0))))

/* Tree. Sets of URLs are bit masks. */
byte torn;        /* content.html is begun, or source.txt does not fit it */
byte complete;    /* source.txt is whole and content.html is what it says */
byte second;      /* the folder holds answer 1 */
byte durable;     /* a sync has covered it */

/* Index. Changes only in transactions, which a crash leaves whole or undone. */
byte known;       /* has a record */
byte settled;     /* its record is not pending */
byte stored;      /* its record says stored */
byte redirected;  /* its record says redirected */
byte old;         /* pending row of a run not later than the last unclean stop */
bit  begun;       /* the last run has no end mark */

/* Memory. Gone after a crash. */
bit  running;
byte ready;       /* frontier */
byte filter;      /* seen filter */
byte phase[2];    /* workers; 0 idle, 1 asked, 2 content.html written, 3 in the tree */
byte url[2];
bit  answer[2];
byte named[2];    /* links that the item carries */
byte handed, handedLinks, handedSecond;   /* items handed to the committer, what they name, which have answer 1 */
byte set, setLinks, setSecond;            /* the closed set */
byte covered;     /* pages that the sync covers */
byte fresh;       /* new URLs of the last transaction */
byte step;        /* committer; 0 waits, 1 syncs, 2 synced, 3 committed */
#ifdef BREAK_sync_own_pages
byte own;         /* pages that this run has written */
#endif

byte crashes, stops;
byte i, w;

inline check() {
	assert(!(stored & ~complete));
	assert(!(stored & bit(S)) || !(links(S, 0) & ~known));
	assert(!(stored & bit(P) & ~second) || (known & bit(L)));
	assert(!(stored & bit(Q)) || (known & bit(L)));
	assert(!redirected || (known & bit(T)))
}

inline forget() {
	running = 0; ready = 0; filter = 0;
	phase[0] = 0; url[0] = 0; answer[0] = 0; named[0] = 0;
	phase[1] = 0; url[1] = 0; answer[1] = 0; named[1] = 0;
	handed = 0; handedLinks = 0; handedSecond = 0;
	set = 0; setLinks = 0; setSecond = 0;
	covered = 0; fresh = 0; step = 0;
#ifdef BREAK_sync_own_pages
	own = 0;
#endif
	i = 0; w = 0
}

#ifdef BREAK_trust_torn
#define whole(u) ((complete | torn) & bit(u))
#else
#define whole(u) (complete & bit(u))
#endif

#if defined(SECOND_LOOK) || defined(BREAK_adopt_nothing)
#define adopts(u) false
#else
#define adopts(u) ((old & bit(u)) && whole(u))
#endif

/* Answer and links are those of the page that the folder holds. */
inline adopt() {
	answer[w] = ((second & bit(url[w])) -> 1 : 0);
	named[w] = links(url[w], answer[w])
}

inline take() {
	if
	:: ready & bit(S) -> url[w] = S
	:: ready & bit(P) -> url[w] = P
	:: ready & bit(Q) -> url[w] = Q
	:: ready & bit(R) -> url[w] = R
	:: ready & bit(L) -> url[w] = L
	:: ready & bit(T) -> url[w] = T
	fi;
	ready = ready & ~bit(url[w]);
	assert(known & bit(url[w]));
	if
	/* Go: iut.Tree.Has, then iut.Tree.Adopt, called by iut.Builder.Run */
	:: adopts(url[w]) -> adopt(); phase[w] = 3
	:: else ->
#ifndef SECOND_LOOK
		assert(!(complete & bit(url[w])));
#endif
		if
		:: url[w] == P || url[w] == R -> answer[w] = 1
		:: true -> answer[w] = 0
		fi;
		/* A crawler may leave out what the filter has, for that is durable. */
		named[w] = links(url[w], answer[w]) & ~filter;
		phase[w] = 1
	fi
#ifdef BREAK_admit_at_parse
	; filter = filter | named[w]
#endif
}

inline hand() {
	handed = handed | bit(url[w]);
	handedLinks = handedLinks | named[w];
	if
	:: answer[w] -> handedSecond = handedSecond | bit(url[w])
	:: else
	fi;
#ifdef BREAK_admit_after_tree
	ready = ready | (named[w] & ~filter);
	filter = filter | named[w];
#endif
	phase[w] = 0; url[w] = 0; answer[w] = 0; named[w] = 0
}

inline closeSet() {
	set = handed; setLinks = handedLinks; setSecond = handedSecond;
	handed = 0; handedLinks = 0; handedSecond = 0
}

inline transaction() {
	assert(!(set & ~known));
	assert(!(set & settled));
	settled = settled | set;
	stored = stored | pages(set);
	redirected = redirected | (set & bit(R) & ~setSecond);
	old = old & ~set;
	fresh = setLinks & ~known;
#if defined(BREAK_links_after)
	skip
#elif defined(BREAK_target_after)
	known = known | (setLinks & ~bit(T))
#else
	known = known | setLinks
#endif
}

inline admit() {
	known = known | fresh;   /* changes nothing unless a rule is broken */
	filter = filter | fresh;
	ready = ready | fresh;
	set = 0; setLinks = 0; setSecond = 0; fresh = 0; covered = 0
}

#define idle (phase[0] == 0 && phase[1] == 0 && handed == 0 && step == 0)

init {
	do
	/* A run begins; seeds.txt is durable and its line gets a record. Go: storage.Runs.Begin */
	:: atomic { !running ->
		if
		:: begun -> old = known & ~settled
#ifdef BREAK_forget_unclean
		:: else -> old = 0
#else
		:: else
#endif
		fi;
		known = known | bit(S);
		begun = 1;
		running = 1;
		filter = known;
		ready = known & ~settled
	   }

	/* A worker takes a step: crawler, buffer and builder in one. */
	:: atomic { running ->
		if
		:: w = 0
		:: w = 1
		fi;
		if
		/* Go: frontier.Taker.Take */
		:: phase[w] == 0 && ready != 0 -> take()
		/* Go: iut.Tree.Store */
#ifdef BREAK_overwrite
		:: phase[w] == 1 && url[w] != R ->
#else
		/* The second look: a complete page stays, and the new answer is dropped. */
		:: phase[w] == 1 && url[w] != R && (complete & bit(url[w])) ->
#ifndef BREAK_new_answer
			adopt();
#endif
			phase[w] = 3
		:: phase[w] == 1 && url[w] != R && !(complete & bit(url[w])) ->
#endif
			assert(!(complete & bit(url[w])));
			torn = torn | bit(url[w]);
			durable = durable & ~bit(url[w]);
			phase[w] = 2
		:: phase[w] == 2 ->
			torn = torn & ~bit(url[w]);
			complete = complete | bit(url[w]);
			second = second & ~bit(url[w]);
			if
			:: answer[w] -> second = second | bit(url[w])
			:: else
			fi;
#ifdef BREAK_sync_own_pages
			own = own | bit(url[w]);
#endif
			phase[w] = 3
		:: phase[w] == 1 && url[w] == R -> phase[w] = 3
		/* Go: iut.Builder.Run */
		:: phase[w] == 3 -> hand()
		:: else
		fi;
		w = 0;
		check()
	   }

	/* Go: iut.Committer.Run */
	:: atomic { running && step == 0 && handed != 0 ->
#ifndef BREAK_close_after_sync
		closeSet();
#endif
		covered = complete;   /* what comes during the sync may not be covered */
#ifdef BREAK_sync_own_pages
		covered = covered & own;
#endif
		step = 1
	   }
	/* Go: iut.Tree.Sync */
	:: atomic { running && step == 1 ->
#ifdef BREAK_close_after_sync
		closeSet();
#endif
#ifdef BREAK_commit_before_sync
		transaction();
#else
		durable = durable | covered;
#endif
		step = 2;
		check()
	   }
	/* Go: storage.Index.Commit */
	:: atomic { running && step == 2 ->
#ifdef BREAK_commit_before_sync
		durable = durable | covered;
#else
		transaction();
#endif
		step = 3;
		check()
	   }
	/* Go: frontier.Frontier.Add */
	:: atomic { running && step == 3 -> admit(); step = 0; check() }

	/* kill -9 */
	:: atomic { running && crashes < CRASHES -> crashes++; forget(); check() }

	/* The power goes: what no sync has covered is kept, torn or lost, each page on its own. */
	:: atomic { running && crashes < CRASHES ->
		crashes++;
		forget();
		do
		:: i < URLS ->
			if
			:: (complete | torn) & ~durable & bit(i) -> torn = torn & ~bit(i); complete = complete & ~bit(i)
			:: (complete | torn) & ~durable & bit(i) -> torn = torn | bit(i); complete = complete & ~bit(i)
			:: true
			fi;
			i++
		:: else -> break
		od;
		second = second & complete;
		i = 0;
		check()
	   }

	/* A clean stop. Go: storage.Runs.Finish */
	:: atomic { running && idle && stops < STOPS -> stops++; begun = 0; forget() }

	/* Nothing is left. */
	:: atomic { running && idle && ready == 0 ->
		assert(known == settled);
		assert(stored & bit(S));
		break
	   }
	od
}
