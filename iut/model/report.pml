/*
 * The protocol of source A as its report has it: crawlers, each with a queue of its own, bounded
 * buffers, builders, the tree with a lock for each path, the cleaner. Its assertions come under
 * the names that the report gives them.
 *
 * The web is the report's: the seeds are the numbers of the crawlers and are not stored; seed 0
 * names the last page, every other seed one of the rest, and each page the next one in a ring.
 * With CRAWLERS 4 and PAGES 2 that is [5, 4, 4, 4, 5, 4].
 *
 *   deadlockfree             no state without a way on, but the end
 *   noDuplicateFileCreation  always: no file of the tree is created twice
 *   noDuplicateDataWrite     always: no data is written twice
 *   correct                  in the end, and for good: the tree is exactly what it should be
 *   allCrawlersJoined, allBuildersJoined    reached (-DREACH_crawlers, -DREACH_builders)
 *   containsDuplicates       one URL in two buffers is reached (-DREACH_duplicates); twice in one
 *                            buffer never
 *   bufferSize               N items in a buffer are reached (-DREACH_full); N + 1 never
 *
 * A -DREACH_x run must stop: it asserts that x is never reached. All others must not.
 *
 * -DNO_LOCK takes the lock of the path out, as the report's SHOW_DATARACE does: then both safety
 * assertions and correctness fail. -DONLY_files, -DONLY_data and -DONLY_correct each keep one of
 * the three, so that each gives a trail of its own. A trail read by Spin prints what happened,
 * one step a line, for the replay on the real code.
 * -DLIVE makes correctness a claim about infinite runs; otherwise it is looked at in the end.
 * Each -DBREAK_x takes one rule away, and must be caught.
 */

#if defined(BREAK_no_crawler_semaphore)
#define N        1   /* two pages cannot be three items: with more places nothing would show */
#elif defined(BREAK_no_cleaner)
#define CRAWLERS 2
#elif defined(BREAK_inverted)
#define LIVE         /* the crawlers go round for ever */
#endif
#ifndef CRAWLERS
#define CRAWLERS 4
#endif
#ifndef BUFFERS
#define BUFFERS  2
#endif
#ifndef PAGES
#define PAGES    2
#endif
#ifndef N
#define N        2   /* items of a buffer */
#endif
#define URLS     (CRAWLERS + PAGES)
#define LAST     (URLS - 1)
#define NONE     255

#define seed(u)  ((u) < CRAWLERS)
#define link(u)  ( \
	(u) == 0 || (u) == LAST - 1 -> LAST : ( \
	(u) == LAST -> CRAWLERS : ( \
	(u) < CRAWLERS -> CRAWLERS + ((u) - 1) % (PAGES - 1) : (u) + 1)))

#if defined(ONLY_files) || defined(ONLY_data) || defined(ONLY_correct)
#define ONLY
#endif
#if !defined(ONLY) || defined(ONLY_files)
#define fileOnce(u) assert(files[(u) - CRAWLERS] == 1)
#else
#define fileOnce(u) skip
#endif
#if !defined(ONLY) || defined(ONLY_data)
#define dataOnce(u) assert(data[(u) - CRAWLERS] == 1)
#else
#define dataOnce(u) skip
#endif

/* How often each page was created and written. */
byte files[PAGES];
byte data[PAGES];
#define exists(u) (!seed(u) && files[(u) - CRAWLERS] != 0)

chan buffer[BUFFERS] = [N + 1] of { byte };
byte crawlerSem[BUFFERS] = N;
byte builderSem[BUFFERS];
bit  mutex[BUFFERS];
bit  locked[PAGES];

byte crawlersLeft = CRAWLERS, buildersLeft = BUFFERS;
bit  cleaned, wrong;

#ifdef LIVE
ltl correct { <> (cleaned && !wrong) }
#endif

/* What builder `who` (the cleaner is the one after the last) does with a URL. */
inline add(who, u) {
	if
	:: exists(u)
	:: else ->
#ifndef NO_LOCK
		atomic { !locked[(u) - CRAWLERS] -> locked[(u) - CRAWLERS] = 1 };   /* Go: iut.pathLocks.lock */
#endif
		/* The second look. Go: iut.Tree.Store */
		if
#if defined(BREAK_inverted)
		:: !exists(u)
		:: d_step { exists(u) -> printf("step: builder %d looks for %d\n", who, u) };
#elif defined(BREAK_one_look)
		:: true ->
#else
		:: exists(u)
		:: d_step { !exists(u) -> printf("step: builder %d looks for %d\n", who, u) };
#endif
			d_step { files[(u) - CRAWLERS]++; printf("step: builder %d creates %d\n", who, u); fileOnce(u) };
			d_step { data[(u) - CRAWLERS]++; printf("step: builder %d writes %d\n", who, u); dataOnce(u) }
		fi;
#ifndef NO_LOCK
		locked[(u) - CRAWLERS] = 0
#else
		skip
#endif
	fi
}

proctype crawler(byte id) {
	byte b = id % BUFFERS;
	byte u = id, v;   /* the one URL of its queue, and what that names */
	do
	:: u != NONE ->
		/* Fetch; what is named joins the queue, unless the tree has it. */
		d_step {
			v = link(u);
			if
			:: exists(v) -> v = NONE
			:: else
			fi
		};
		/* Go: buffer.Buffer.Add */
#ifndef BREAK_no_crawler_semaphore
		atomic { crawlerSem[b] > 0 -> crawlerSem[b]-- };
#endif
#ifndef BREAK_no_mutex
		atomic { !mutex[b] -> mutex[b] = 1 };
#endif
		if
		:: seed(u)
#ifdef BREAK_no_look_in_buffer
		:: !seed(u) ->
#else
		:: !seed(u) && buffer[b] ?? [eval(u)]
		:: !seed(u) && !(buffer[b] ?? [eval(u)]) ->
#endif
			d_step {
				assert(!(buffer[b] ?? [eval(u)]));   /* twice in one buffer: never */
				buffer[b] ! u;
				printf("step: crawler %d puts %d into %d\n", id, u, b);
				assert(len(buffer[b]) <= N);
#ifdef REACH_full
				assert(len(buffer[b]) < N);
#endif
#ifdef REACH_duplicates
				v = 0;
				do
				:: v < BUFFERS -> assert(v == b || !(buffer[v] ?? [eval(u)])); v++
				:: else -> break
				od
#endif
			}
		fi;
		mutex[b] = 0;
		d_step { builderSem[b]++; u = v; v = 0 }
	:: else -> break
	od;
	crawlersLeft--
}

/* Go: iut.Builder.Run */
proctype builder(byte b) {
	byte u;
	do
	:: d_step { builderSem[b] >= N -> builderSem[b] = builderSem[b] - N };   /* Go: buffer.Buffer.Take */
		do
		:: buffer[b] ? u -> add(b, u); u = 0
		:: empty(buffer[b]) -> break
		od;
		/* Go: buffer.Batch.Done */
#ifdef BREAK_keep_permit
		crawlerSem[b] = crawlerSem[b] + N - 1
#else
		crawlerSem[b] = crawlerSem[b] + N
#endif
	:: crawlersLeft == 0 -> break
	od;
	buildersLeft--
}

/* The application, then the cleaner. Go: cleaner.Clean */
init {
	byte i, u;
	atomic {
		for (i : 0 .. CRAWLERS - 1) { run crawler(i) }
		for (i : 0 .. BUFFERS - 1) { run builder(i) }
		i = 0
	};
	crawlersLeft == 0;
#ifdef REACH_crawlers
	assert(false);
#endif
	buildersLeft == 0;
#ifdef REACH_builders
	assert(false);
#endif
#ifndef BREAK_no_cleaner
	do
	:: i < BUFFERS ->
		if
		:: buffer[i] ? u -> add(BUFFERS, u)
		:: empty(buffer[i]) -> i++
		fi
	:: else -> break
	od;
#endif
	atomic {
		for (i : 0 .. PAGES - 1) { wrong = wrong || files[i] != 1 || data[i] != 1 };
		cleaned = 1
	};
#if !defined(LIVE) && (!defined(ONLY) || defined(ONLY_correct))
	assert(!wrong)
#endif
}
