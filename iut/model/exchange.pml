/*
 * How a link gets from one node to another, and when a crawl of several is finished.
 *
 * The web is a path: page u links to page u + 1, and two nodes own its pages in turn, so that each
 * link goes to the other node, and one that is lost is missed. An engine carries batches of one
 * link; it may lose all that it has, and each confirmation, LOSSES times. A node may be killed
 * between any two steps, CRASHES times. The leader asks both nodes twice whether they have
 * nothing left.
 *
 * Promises checked
 *   - the link of a page that is done is in the outbox, or at the node that owns it;
 *   - when the leader says that the crawl is finished, all pages are done and no outbox has a link;
 * and at the end it has said so.
 *
 * Each -DBREAK_x takes one rule away, and must be caught.
 */

#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef LOSSES
#define LOSSES 0
#endif
#ifndef PAGES
#define PAGES 5
#endif

#define bit(u)    (1 << (u))
#define ALL       (bit(PAGES) - 1)
#define mine(n)   ((n) == 0 -> 85 : 170) /* the pages of a node, as a set */
#define theirs(n) ((n) == 0 -> 170 : 85)

/* Sets of pages. Those of the index, which transactions change, and of the memory are those of both
 * nodes: a page is at the node that owns it, the link to it in the outbox of the other one. */
byte known = 1, done, outbox;
byte half;       /* done, and the link is not in the outbox yet: BREAK_two_transactions */
byte hand;       /* in memory: has arrived, and is in no transaction yet */
byte owed;       /* in memory: is in one, and not acknowledged yet */
byte counter[2]; /* in memory: of transactions */
byte boot[2];

/* Of the engine. */
byte stream;     /* batches that are not acknowledged */
byte said;       /* confirmations on their way */

byte crashes, losses;
bit  finished;

#ifdef BREAK_counters
#define same(n) (b[n] == boot[n])
#else
#define same(n) (b[n] == boot[n] && c[n] == counter[n])
#endif

#define idle(n) (!(known & ~done & mine(n)) && !((hand | half) & mine(n)) && !(outbox & theirs(n)))

inline check() {
	assert((((done & ~half) << 1) & ALL & ~(known | outbox)) == 0)
}

/* Chooses a page of a set that is not empty. */
inline choose(set) {
	u = 0;
	do
	:: (set) & bit(u) -> break
	:: u + 1 < PAGES && ((set) >> (u + 1)) -> u++
	od
}

proctype node(byte n) {
	byte u;
end:	do
	/* Go: cluster.Node.Committed */
	:: atomic { known & ~done & mine(n) ->
		choose(known & ~done & mine(n));
		done = done | bit(u);
#ifdef BREAK_two_transactions
		half = half | bit(u);
#else
		outbox = outbox | (bit(u + 1) & ALL);
#endif
		counter[n]++; check(); u = 0 }
#ifdef BREAK_two_transactions
	:: atomic { half & mine(n) ->
		choose(half & mine(n));
		half = half & ~bit(u); outbox = outbox | (bit(u + 1) & ALL); u = 0 }
#endif
	/* Go: cluster.Node.publish */
	:: atomic { outbox & ~stream & theirs(n) ->
		choose(outbox & ~stream & theirs(n));
		stream = stream | bit(u);
#ifdef BREAK_engine_trusted
		outbox = outbox & ~bit(u); counter[n]++;
#endif
		u = 0 }
	/* Go: cluster.Node.take */
	:: atomic { stream & ~hand & ~owed & mine(n) ->
		choose(stream & ~hand & ~owed & mine(n));
		hand = hand | bit(u);
#ifdef BREAK_ack_first
		stream = stream & ~bit(u); said = said | bit(u);
#endif
		u = 0 }
	:: atomic { hand & mine(n) ->
		choose(hand & mine(n));
		hand = hand & ~bit(u);
		if
		:: !(known & bit(u)) -> counter[n]++
		:: else
		fi;
		known = known | bit(u); owed = owed | bit(u); check(); u = 0 }
	/* Go: cluster.acks.give */
	:: atomic { owed & mine(n) ->
		choose(owed & mine(n));
		owed = owed & ~bit(u); stream = stream & ~bit(u); said = said | bit(u); u = 0 }
	/* Go: cluster.Node.confirmed */
	:: atomic { said & theirs(n) ->
		choose(said & theirs(n));
		if
		:: outbox & bit(u) -> counter[n]++
		:: else
		fi;
		said = said & ~bit(u); outbox = outbox & ~bit(u); check(); u = 0 }
	/* killed, and started again */
	:: atomic { crashes < CRASHES && !finished ->
		crashes++; boot[n]++; counter[n] = 0;
		hand = hand & ~mine(n); owed = owed & ~mine(n); half = half & ~mine(n); check() }
	od
}

proctype engine() {
end:	do
	:: atomic { losses < LOSSES && stream -> losses++; stream = 0 }
	:: atomic { losses < LOSSES && said -> losses++; said = said & (said - 1) }
	od
}

/* Go: cluster.Node.finish */
proctype leader() {
	byte c[2], b[2];
again:	atomic { idle(0) -> c[0] = counter[0]; b[0] = boot[0] }
	atomic { idle(1) -> c[1] = counter[1]; b[1] = boot[1] }
#ifndef BREAK_one_wave
	if
	:: atomic { idle(0) && same(0) }
	:: else -> goto again
	fi;
	if
	:: atomic { idle(1) && same(1) }
	:: else -> goto again
	fi;
#endif
	atomic { finished = 1; assert(done == ALL && !outbox) }
}

init {
	atomic { run node(0); run node(1); run engine(); run leader() }
}
