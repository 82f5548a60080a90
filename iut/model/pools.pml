/*
 * Source C: downloads, parsing, and how a crawl ends. Page u names 2u+1 and 2u+2; pages from
 * FIRST_LEAF on may also fail.
 *
 * -DPRINTED is C's pseudocode: downloaders and parsers between two queues of QUEUE places, with
 * one mutex and two conditions. It deadlocks. -DBROADCAST wakes all that wait where C wakes one;
 * then it still deadlocks, and -DJUDGE shows that nothing but two full queues can be the cause:
 * whenever nothing moves before the end, both are full. -DROOM gives the queue of links room for
 * the whole web: with both, C's four conditions end the crawl neither early nor never.
 *
 * Without PRINTED it is what is built: what is pending is in the frontier, and nobody waits to put
 * it there; a worker (one download of a crawler) takes a URL, asks, takes a place among the
 * parsers and keeps it until the buffer has its item; a builder and the committer in one let the
 * new URLs in. Take ends by one count: eligible, in flight, buffered.
 *
 * Promises checked
 *   - no deadlock: every run ends with all processes gone;
 *   - not early: who ends finds every page done that was ever named;
 *   - not never: nothing goes round for ever (-DNP);
 *   - a page is downloaded once; at most PARSERS are parsed at a time.
 * Each -DBREAK_x takes one rule away, and must be caught.
 */

#if defined(BREAK_parser_not_counted) || defined(BREAK_leave_first)
#define PRINTED
#define BROADCAST
#define ROOM
#endif

#ifndef URLS
#ifdef PRINTED
#define URLS        15
#else
#define URLS        7
#endif
#endif
#ifndef DOWNLOADERS
#ifdef BREAK_bounded_frontier
#define DOWNLOADERS 1
#else
#define DOWNLOADERS 2
#endif
#endif
#ifndef PARSERS
#define PARSERS     1
#endif
#ifndef QUEUE
#define QUEUE       1   /* places of each of C's queues; items of our buffer */
#endif
#define FIRST_LEAF  (URLS / 2)
#define bit(x)      (1 << (x))

short named = 1;   /* pages that were ever to be asked */
short asked;       /* pages whose download has begun */
short done;        /* pages that are through */
#ifdef PRINTED
byte  left = DOWNLOADERS + PARSERS;   /* workers that have not ended */
#else
byte  left = DOWNLOADERS;
#endif

/* Sleeping on a condition; a sleeper that is woken looks again. Used within atomic. */
byte asleep[2];
#define NOT_EMPTY 0
#define NOT_FULL  1
#define wake(c)   asleep[c] = 0
#define sleep(c)  asleep[c] = asleep[c] | bit(me); !(asleep[c] & bit(me))

inline ask(u) {
	assert(!(asked & bit(u)));
	asked = asked | bit(u)
}

#ifdef PRINTED

#ifdef ROOM
#define LINKS URLS
#else
#define LINKS QUEUE
#endif

#ifdef BROADCAST
#define signal(c) wake(c)
#else
#define signal(c) \
	if \
	:: asleep[c] == 0 \
	:: asleep[c] & 1 -> asleep[c] = asleep[c] & ~1 \
	:: asleep[c] & 2 -> asleep[c] = asleep[c] & ~2 \
	:: asleep[c] & 4 -> asleep[c] = asleep[c] & ~4 \
	:: asleep[c] & 8 -> asleep[c] = asleep[c] & ~8 \
	:: asleep[c] & 16 -> asleep[c] = asleep[c] & ~16 \
	fi
#endif

chan links = [LINKS] of { byte };
chan content = [QUEUE] of { byte };
byte activeDownloads, activeParsers;
bit  shutdown, over;

/* What happens under C's queue_mutex is atomic here; a wait gives it up. */
inline await(c, condition) {
	do
	:: condition -> break
	:: else -> sleep(c)
	od
}

inline enqueue(u) {
	atomic {
		printf("step: thread %d names %d, the queue of links has %d\n", me, u, len(links));
		await(NOT_FULL, len(links) < LINKS || shutdown);
		if
		:: !shutdown -> links ! u; named = named | bit(u); signal(NOT_EMPTY)
		:: else
		fi
	}
}

proctype downloader(byte me) {
	byte u;
	do
	:: atomic {
		await(NOT_EMPTY, len(links) > 0 || shutdown);
		if
		:: len(links) == 0 -> break
		:: else
		fi;
		links ? u;
		printf("step: downloader %d takes %d\n", me, u);
		ask(u);
		activeDownloads++;
		signal(NOT_FULL)
	   };
	   if
	   :: atomic {
#ifdef BREAK_leave_first
		activeDownloads--;
#endif
		printf("step: downloader %d has %d, the queue of contents has %d\n", me, u, len(content));
		await(NOT_FULL, len(content) < QUEUE || shutdown);
		if
		:: !shutdown -> content ! u; signal(NOT_EMPTY)
		:: else
		fi;
#ifndef BREAK_leave_first
		activeDownloads--;
#endif
		u = 0
	      }
	   :: atomic { u >= FIRST_LEAF -> done = done | bit(u); activeDownloads--; signal(NOT_EMPTY); u = 0 }
	   fi
	od;
	left--
}

proctype parser(byte me) {
	byte u;
	do
	:: atomic {
		await(NOT_EMPTY, len(content) > 0 || shutdown);
		if
		:: len(content) == 0 -> break
		:: else
		fi;
		content ? u;
		printf("step: parser %d takes %d\n", me, u);
#ifndef BREAK_parser_not_counted
		activeParsers++;
#endif
		signal(NOT_FULL)
	   };
	   if
	   :: u < FIRST_LEAF -> enqueue(2 * u + 1); enqueue(2 * u + 2)
	   :: else
	   fi;
	   atomic {
		done = done | bit(u);
#ifndef BREAK_parser_not_counted
		activeParsers--;
#endif
		signal(NOT_EMPTY);
		u = 0
	   }
	od;
	left--
}

#define complete (len(links) == 0 && len(content) == 0 && activeDownloads == 0 && activeParsers == 0)

init {
	byte me, i;   /* the main thread is number 0 */
	atomic {
		for (i : 1 .. DOWNLOADERS) { run downloader(i) }
		for (i : DOWNLOADERS + 1 .. DOWNLOADERS + PARSERS) { run parser(i) }
		i = 0
	};
	enqueue(0);
	atomic {
		await(NOT_EMPTY, complete);
		assert(done == named);
		shutdown = 1;
		wake(NOT_EMPTY);
		wake(NOT_FULL)
	};
	left == 0;
	over = 1
}

#ifdef JUDGE
active proctype judge() {
	timeout -> assert(over || (len(links) == LINKS && len(content) == QUEUE))
}
#endif

#else

short ready = 1;     /* frontier: may be given out; a set that takes what comes */
byte  out;           /* URLs given out whose outcome is not committed */
byte  loans;         /* not returned */
byte  parsing;       /* places among the parsers that are taken */
byte  free = QUEUE;  /* places of the buffer; an item keeps its place until it is committed */
short items;         /* in the buffer */
bit   flush;         /* take what is there */
bit   told;          /* Idle was called since the last return of a loan */

#define starved   (out > 0 && ready == 0)

proctype worker(byte me) {
	byte u;
	do
	:: atomic {   /* Go: frontier.Taker.Take */
		do
		:: ready != 0 ->
			u = 0;
			do
			:: ready & bit(u) -> break
			:: else -> u++
			od;
			ready = ready & ~bit(u);
			out++;
			loans++;
			ask(u);
			goto taken
#ifdef BREAK_end_when_empty
		:: ready == 0 -> break
#else
		:: ready == 0 && out == 0 && loans == 0 -> break
#endif
		:: starved && !told -> told = 1; flush = (items != 0)   /* Go: buffer.Buffer.Flush */
		:: else -> sleep(NOT_EMPTY)
		od;
		assert(done == named);
		break
	   };
taken:
	   /* The answer is there. Go: crawler.crawler.askPage */
	   atomic { parsing < PARSERS -> parsing++ };
	   atomic { free > 0 -> free-- };   /* Go: buffer.Buffer.Add */
	   d_step {
		items = items | bit(u);
#ifdef BREAK_buffered_not_counted
		out--;
#endif
		flush = flush || starved;
		parsing--;
		u = 0
	   };
	   d_step {   /* Go: frontier.Frontier.Return */
		loans--;
		told = 0;
		wake(NOT_EMPTY)
	   }
	od;
	left--
}

/* A builder and the committer in one. */
active proctype committer() {
	short set, new;
	byte u, n;
	do
	:: atomic {   /* Go: buffer.Buffer.Take */
		items != 0 && (flush || free == 0 || left == 0) -> set = items; items = 0; flush = 0
	   };
#ifdef BREAK_builder_takes_parser
	   atomic { parsing < PARSERS -> parsing++ };
	   parsing--;
#endif
	   d_step {   /* Go: storage.Index.Commit */
		u = 0;
		do
		:: u < URLS ->
			if
			:: set & bit(u) ->
				n++;
				if
				:: u < FIRST_LEAF -> new = new | bit(2 * u + 1) | bit(2 * u + 2)
				:: else
				fi
			:: else
			fi;
			u++
		:: else -> break
		od;
		done = done | set;
		named = named | new;
		u = 0; set = 0
	   };
	   atomic {   /* Go: frontier.Frontier.Add, then frontier.Frontier.Done */
#ifdef BREAK_bounded_frontier
		(ready == 0 || new == 0);
#endif
		ready = ready | new;
		new = 0;
#ifndef BREAK_buffered_not_counted
		out = out - n;
#endif
#ifndef BREAK_no_wake
		wake(NOT_EMPTY)
#endif
	   };
	   d_step { free = free + n; n = 0 }   /* Go: buffer.Batch.Done */
	:: left == 0 && items == 0 -> break
	od
}

init {
	byte i;
	atomic {
		for (i : 0 .. DOWNLOADERS - 1) { run worker(i) }
		i = 0
	}
}

#endif
