/*
 * The way of an item from a crawler to its commit: the two semaphores of each buffer, the
 * bytes, the builders, the one committer, and how all of it ends.
 *
 * The web has URLS pages; page u names u+1, u+2 and u+3, and page 0 is the seed. Crawlers 0 and 2
 * share buffer 0, crawler 1 has buffer 1: crawler i uses buffer i mod BUFFERS.
 *
 * Promises checked
 *   - at most N items of a buffer wait, are being written, or are written and not committed;
 *   - free + in hand + ready + taken == N for each buffer, so free + ready + taken == N
 *     whenever no crawler is between its permit and its item;
 *   - no deadlock: every run ends with all processes gone;
 *   - a URL is handed out only when it has a record, written once and committed exactly once;
 *   - a commit holds only what the sync before it covered;
 *   - at the end nothing is left in a buffer, all permits and bytes are back, everything that a
 *     crawler added is committed, and without a stop that is the whole web.
 *
 * -DINTERVAL adds the flush interval, -DBURST that pages are written, and give back bytes, before
 * there is reason to take them; without these the other wake-ups alone must do.
 * -DSTOP adds a stop at any time: waiting Adds give up, and the buffers may be closed while a
 * crawler is still on its way to one.
 * -DONE has one buffer with two crawlers, and page u names four pages: all crawlers may wait at
 * one buffer while there is more to hand out.
 * Each -DBREAK_x takes one rule away, and must be caught.
 */

#if defined(BREAK_keep_permit) || defined(BREAK_add_after_close)
#define STOP
#endif
#if defined(BREAK_byte_wake) || defined(BREAK_no_lock) || defined(BREAK_count_before_lock)
#define ONE
#endif

#ifndef URLS
#if defined(ONE)
#define URLS     5
#elif defined(STOP)
#define URLS     3
#else
#define URLS     4
#endif
#endif
#define ALL      ((1 << URLS) - 1)
#ifdef ONE
#define BUFFERS  1
#define CRAWLERS 2
#define links(m) ((((m) << 1) | ((m) << 2) | ((m) << 3) | ((m) << 4)) & ALL)
#else
#define BUFFERS  2
#ifdef STOP
#define CRAWLERS 2
#else
#define CRAWLERS 3
#endif
#define links(m) ((((m) << 1) | ((m) << 2) | ((m) << 3)) & ALL)
#endif
#define N        2  /* items of a buffer */
#define BYTES    2  /* bytes of a buffer; an item takes 1 or, if its URL is odd, 2 until it is written */

#define bit(u)    (1 << (u))
#define size(u)   (1 + ((u) & 1))
#define count(m)  (((m) & 1) + (((m) >> 1) & 1) + (((m) >> 2) & 1) + (((m) >> 3) & 1) + (((m) >> 4) & 1))

/* Buffers. Sets of URLs are bit masks. What the code does under a buffer's lock is atomic here. */
byte crawlerSem[BUFFERS] = N;   /* free places */
byte builderSem[BUFFERS];       /* ready items */
byte bytes[BUFFERS] = BYTES;    /* free bytes */
byte inHand[BUFFERS];           /* permits between the crawler semaphore and the list */
byte taken[BUFFERS];            /* permits of items that left the list and are not committed */
byte items[BUFFERS];            /* the list */
byte wantBytes[BUFFERS];        /* bytes that crawlers wait for */
bit  closed[BUFFERS];        
bit  flush[BUFFERS];            /* take what is there; never set without items */

/* Frontier. */
byte ready = 1;                 /* may be handed out */
byte out;                       /* handed out and not committed */
byte loans;                     /* handed out and not returned */
bit  told;                      /* Idle was called since the last Return */
bit  idle;                      /* ... and no new URL has come since */

/* Durable. */
byte known = 1;                 /* URLs with a record */
byte committed;                 /* URLs with an outcome */

/* Tree. */
byte written;                   /* pages whose files are there */
byte synced;                    /* pages whose files outlive a power cut */

/* For the promises only. */
byte added;                     /* items that a buffer accepted */
byte held[BUFFERS];             /* items that a buffer accepted and that are not committed */

byte crawlersLeft = CRAWLERS, buildersLeft = BUFFERS;
bit  stop, ended;

chan handed = [BUFFERS] of { byte, byte };   /* builder to committer: buffer, batch */

#define balanced(b) (crawlerSem[b] + inHand[b] + builderSem[b] + taken[b] == N)

#ifdef STOP
#define mayStop stop
#else
#define mayStop false
#endif

#ifdef BREAK_byte_wake
#define bytesFull(b) false
#else
#define bytesFull(b) (wantBytes[b] > bytes[b])
#endif

#ifdef INTERVAL
#define interval true
#else
#define interval false
#endif

#ifdef BURST
#define burst true
#else
#define burst false
#endif

#define unwritten(b) (items[b] & ~written)
#define early(b) (builderSem[b] > 0 && (interval || flush[b] || bytesFull(b) || closed[b]))

/* Takes the new links of a set of pages into filter and frontier. The filter is `known`. */
inline admit(set) {
	ready = ready | (links(set) & ~known);
	known = known | links(set)
}

proctype crawler(byte id) {
	byte b = id % BUFFERS;
	byte u, m;
	do
	:: mayStop -> break
#ifndef BREAK_idle_wake
	/* All that is left is on its way, and a buffer may hold what names the next URL. */
	:: atomic { ready == 0 && out > 0 && !told && !mayStop -> told = 1; idle = 1 };
	   d_step {   /* Go: buffer.Buffer.Flush */
		flush[0] = (items[0] != 0);
		flush[BUFFERS-1] = (items[BUFFERS-1] != 0)
	   }
#endif
	:: atomic {   /* Go: frontier.Taker.Take */
		ready != 0 && !mayStop ->
		u = 0;
		do
		:: ready & bit(u) -> break
		:: else -> u++
		od;
		ready = ready & ~bit(u);
		out++;
		loans++;
		assert(known & bit(u))
	   }

	   /* fetch and parse */
#ifdef BREAK_admit_at_parse
	   atomic { ready = ready | (links(bit(u)) & ~known & ~committed) }
#endif
	   if
	   :: atomic { crawlerSem[b] > 0 -> crawlerSem[b]--; inHand[b]++; assert(balanced(b)) }   /* Go: buffer.Buffer.Add */
	   :: atomic { mayStop -> out--; loans--; break }   /* Go: frontier.Frontier.Return */
	   fi;
	   wantBytes[b] = wantBytes[b] + size(u);
	   if
	   :: atomic { bytes[b] >= size(u) -> bytes[b] = bytes[b] - size(u); wantBytes[b] = wantBytes[b] - size(u) }
	   :: atomic { mayStop ->
		wantBytes[b] = wantBytes[b] - size(u);
		inHand[b]--;
#ifndef BREAK_keep_permit
		crawlerSem[b]++;
#endif
		out--; loans--;
		break
	      }
	   fi;
#ifdef BREAK_no_lock
	   m = items[b];
	   items[b] = m | bit(u);
#endif
	   atomic {
		if
#ifndef BREAK_add_after_close
		:: closed[b] ->
			bytes[b] = bytes[b] + size(u);
			inHand[b]--;
			crawlerSem[b]++;
			out--; loans--;
			break
#endif
		:: else
		fi;
#ifndef BREAK_no_lock
		items[b] = items[b] | bit(u);
#endif
		added = added | bit(u);
		inHand[b]--;
		builderSem[b]++;
		held[b] = held[b] | bit(u);
		assert(balanced(b));
		assert(count(held[b]) <= N);
		m = 0; u = 0
	   };
	   d_step {   /* Go: frontier.Frontier.Return */
		flush[b] = (flush[b] || (idle && items[b] != 0));
		loans--;
#ifndef BREAK_idle_once
		told = 0
#endif
	   }
	:: ready == 0 && out == 0 && loans == 0 -> break   /* Take gives io.EOF */
	od;
	crawlersLeft--
}

proctype builder(byte b) {
	byte batch, new, k;
	do   /* Go: buffer.Buffer.Take */
	/* Asleep until there are N items, which is as good as a flush ... */
	:: d_step { builderSem[b] == N && !flush[b] -> flush[b] = 1 }
	/* ... or until something else wakes it. Then what is there is written, while more may come, ... */
	:: d_step { unwritten(b) != 0 && (burst || early(b)) -> new = unwritten(b) };
	   /* Go: iut.Tree.Store, called by iut.Builder.Run */
	   assert(!(written & new));
	   written = written | new;
	   d_step { bytes[b] = bytes[b] + count(new & 10); new = 0 }
	/* ... and all of it taken, under the lock, once nothing is left to write. */
#ifdef BREAK_count_before_lock
	:: atomic { early(b) && unwritten(b) == 0 -> k = builderSem[b]; builderSem[b] = 0; taken[b] = taken[b] + k };
	   d_step { batch = items[b]; items[b] = 0; flush[b] = 0 };
#else
#ifdef BREAK_take_unwritten
	:: atomic { early(b) ->
#else
	:: atomic { early(b) && unwritten(b) == 0 ->
#endif
		k = builderSem[b]; builderSem[b] = 0; taken[b] = taken[b] + k;
		batch = items[b]; items[b] = 0; flush[b] = 0
	   };
#endif
	   assert(count(batch) == k);
	   assert(balanced(b));
#ifdef BREAK_permits_after_tree
	   d_step { crawlerSem[b] = crawlerSem[b] + k; taken[b] = taken[b] - k; bytes[b] = bytes[b] + count(batch) };
#endif
#ifdef BREAK_admit_after_tree
	   d_step { ready = ready | (links(batch) & ~known & ~committed) };
#endif
	   handed ! b, batch;
	   batch = 0; k = 0
	:: atomic { closed[b] && items[b] == 0 -> break }
	od;
	buildersLeft--
}

/* Go: iut.Committer.Run */
active proctype committer() {
	byte set[BUFFERS];
	byte all, covered, b, batch;
	do
	:: handed ? b, batch ->
		set[b] = batch;
		/* Several builders together. Whoever comes later waits for the next transaction. */
		do
		:: handed ? b, batch -> set[b] = set[b] | batch
		:: break
		od;
		/* What the sync covers is what was there when it began. */
		covered = written;
		synced = synced | covered;
#ifdef BREAK_close_after_sync
		do
		:: handed ? b, batch -> set[b] = set[b] | batch
		:: break
		od;
		b = 0;
#endif
		/* Go: storage.Index.Commit */
		d_step {
			all = set[0] | set[BUFFERS-1];
			assert(!(all & ~synced));       /* the index never calls a page stored that a power cut may take */
			assert(!(all & committed));     /* once */
			assert(!(all & ~known));        /* an outcome has a record to go to */
			committed = committed | all;
			held[0] = held[0] & ~all;
			held[BUFFERS-1] = held[BUFFERS-1] & ~all
		};
#ifdef BREAK_done_before_admit
		out = out - count(all);
		d_step { admit(all) };
#else
		/* Go: frontier.Frontier.Add, then frontier.Frontier.Done */
		idle = (idle && !(links(all) & ~known));
		d_step { admit(all) };
		out = out - count(all);
#endif
		/* Go: buffer.Batch.Done */
		b = 0;
		do
		:: b < BUFFERS ->
			d_step {
#ifndef BREAK_permits_after_tree
				crawlerSem[b] = crawlerSem[b] + count(set[b]);
				taken[b] = taken[b] - count(set[b]);
				bytes[b] = bytes[b] + count(set[b]);
#endif
				assert(balanced(b));
				set[b] = 0;
				b++
			}
		:: else -> break
		od;
		all = 0; covered = 0; b = 0; batch = 0
	:: buildersLeft == 0 && empty(handed) -> break
	od;
	ended = 1
}

#ifdef STOP
active proctype stopper() {
	stop = 1
}
#endif

/* Go: cleaner.Clean */
init {
	byte i;
	atomic {
		for (i : 0 .. CRAWLERS-1) { run crawler(i) }
		for (i : 0 .. BUFFERS-1) { run builder(i) }
	};
	/* Buffers close when the crawlers have gone, or when their time to finish is over. */
	if
	:: crawlersLeft == 0
	:: mayStop
	fi;
	for (i : 0 .. BUFFERS-1) {
		closed[i] = 1   /* Go: buffer.Buffer.Close */
	}
	crawlersLeft == 0 && ended;
	for (i : 0 .. BUFFERS-1) {
		assert(items[i] == 0 && builderSem[i] == 0 && taken[i] == 0);
		assert(crawlerSem[i] == N && bytes[i] == BYTES)
	}
	assert(out == 0);
	assert(committed == added);
	assert(mayStop || committed == ALL)
}
