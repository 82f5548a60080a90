/*
 * Source D: one frontier behind one lock, batches, and extended crawling: a crawler that has work
 * only tries the lock, and works on while it is busy.
 *
 * Page u names 2u+1 and 2u+2. A crawler that gets the lock brings the pages it has read, so that
 * what they name enters the frontier, and takes up to BATCH URLs. The lock is that of package
 * sync: whoever comes while it is free may overtake those who wait, until the first of them has
 * been overtaken PATIENCE times (there it is a millisecond); then it is handed over in turn.
 *
 * Promises checked
 *   - no URL is taken twice, though looking into the frontier and taking are two steps;
 *   - bounded waiting: who waits for the lock is overtaken at most BOUND times;
 *   - extended crawling: nobody waits for the lock who has a URL to ask;
 *   - no deadlock, nobody goes round for ever (-DNP), and whoever ends finds all pages read.
 * Each -DBREAK_x takes one rule away, and must be caught.
 */

#ifndef CRAWLERS
#define CRAWLERS 2
#endif
#ifndef URLS
#define URLS     7
#endif
#ifndef BATCH
#define BATCH    2
#endif
#define PATIENCE 1
#define BOUND    (CRAWLERS * (PATIENCE + 1) - 1)
#define ALL      ((1 << URLS) - 1)
#define bit(x)   (1 << (x))
#define second(m) ((m) & ((m) - 1))   /* a set without its first URL */
#define first(m) ((m) ^ second(m))

/* What a set of pages names: each URL of it in its place, twice over. */
#define spread(m) ( \
	((m) & 1) * 6 | ((m) >> 1 & 1) * 24 | ((m) >> 2 & 1) * 96 | ((m) >> 3 & 1) * 384 | ((m) >> 4 & 1) * 1536)
#define links(m) (spread(m) & ALL)

short ready = 1;   /* the frontier */
short known = 1;
short taken;       /* ever */
short read;        /* brought back */
byte  out;         /* URLs taken and not brought back */
byte  asleep;      /* crawlers that wait for a change of the frontier */
byte  left = CRAWLERS;

/* The lock. */
bit  held, hungry;   /* hungry: it goes to the first who waits, whoever else comes */
chan waiting = [CRAWLERS] of { byte };
byte overtaken[CRAWLERS];

/* Somebody gets the lock. All who still wait have been overtaken. */
inline gets() {
	held = 1;
	hungry = 0;
	i = 0;
	do
	:: i < CRAWLERS ->
		if
		:: waiting ?? [eval(i)] ->
			overtaken[i]++;
			assert(overtaken[i] <= BOUND);
#ifndef BREAK_never_hungry
			hungry = hungry || (overtaken[i] >= PATIENCE && waiting ? [eval(i)])
#endif
		:: else
		fi;
		i++
	:: else -> break
	od;
	i = 0
}

#define turn(me) (!held && waiting ? [eval(me)])

/* Go: frontier.Frontier.lockMeasured */
inline lock() {
	assert(mine == 0);
#if defined(BREAK_test_then_lock)
	!held;
	held = 1
#elif !defined(BREAK_no_lock)
	atomic {
		if
		:: !held && !hungry
		:: else ->
			waiting ! me;
			turn(me) -> waiting ? eval(me);
			overtaken[me] = 0
		fi;
		gets()
	}
#endif
}

/* Under the lock: brings what was read, and takes a batch. */
inline bringAndTake() {
	/* Go: frontier.Frontier.Add, then frontier.Frontier.Done */
	d_step {
		ready = ready | (links(raw) & ~known);
		known = known | links(raw);
		read = read | raw;
		do
		:: raw != 0 ->
			raw = second(raw);
			out--;
#ifndef BREAK_no_wake
			asleep = 0
#endif
		:: else -> break
		od
	};
	batch = ready;
	atomic {
		do
		:: batch != 0 && n < BATCH ->
			assert(!(taken & first(batch)));
			taken = taken | first(batch);
			ready = ready & ~first(batch);
			mine = mine | first(batch);
			batch = second(batch);
			n++;
			out++
		:: else -> break
		od;
		batch = 0
	}
}

proctype crawler(byte me) {
	short mine, raw, batch;   /* URLs to ask, pages read, the frontier as it looked */
	byte n, i;                /* n: how many of mine */
	do
	:: mine == 0 ->   /* Go: frontier.Taker.Take */
		lock();
		bringAndTake();
		if
#ifdef BREAK_end_when_empty
		:: atomic { mine == 0 -> assert(read == known); held = 0; break }
#else
		:: atomic { mine == 0 && out == 0 -> assert(read == known); held = 0; break }
		:: atomic { mine == 0 && out != 0 ->
			held = 0;
			asleep = asleep | bit(me);
			!(asleep & bit(me))
		   }
#endif
		:: mine != 0 -> held = 0
		fi
	:: mine != 0 ->
#ifdef BREAK_wait_with_work
		lock();
		bringAndTake();
		held = 0;
#else
		/* Go: frontier.Taker.TryTake */
		if
		:: atomic { !held && !hungry -> gets() };
			bringAndTake();
			held = 0
		:: held || hungry
		fi;
#endif
		/* Extended crawling. Go: crawler.crawler.work */
		d_step { raw = raw | first(mine); mine = second(mine); n-- }
	od;
	left--
}

init {
	byte k;
	atomic {
		for (k : 0 .. CRAWLERS - 1) { run crawler(k) }
		k = 0
	};
	left == 0;
	assert(read == ALL)
}
