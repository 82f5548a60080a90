/*
 * Source B: threads that explore a tree together, and the states of its nodes.
 *
 * Node 0 is the sentinel, node 1 the root; 1 has the children 2 and 3, 2 has 4 and 5, 3 has 6. A
 * thread that processes a node finds its children, or that it is a leaf, or fails: ERRORS times
 * at most. When all threads are home, what has failed is tried once more, without failures.
 *
 * Without COUNTERS it is B's algorithm, with a lock and a condition for the children of each
 * node, put right in two places: whoever fails sets its node to ERROR, and a second try makes a
 * node that failed itself OPEN, not VISITED. With -DCOUNTERS it is what is built: a transaction
 * counts for each folder what is open and what has failed below, and no lock is taken level by
 * level.
 *
 * Promises checked
 *   - no deadlock: every thread comes home;
 *   - a node is taken once in each try;
 *   - a node is CLOSED only if all below it is closed, and in ERROR only if all below is closed or
 *     in error, and something is in error; whenever no state is on its way up, the converse holds;
 *   - at the end nothing is OPEN; after the second try all is CLOSED; nothing goes round for ever
 *     if every thread gets its turn (-DNP -DFAIR).
 * Each -DBREAK_x takes one rule away, and must be caught.
 */

#ifdef BREAK_counted_later
#define COUNTERS
#endif

#ifndef THREADS
#define THREADS 2
#endif
#ifndef ERRORS
#define ERRORS  1
#endif
#define NODES   7
#define ALL     126   /* nodes 1 to 6 */
#define bit(n)  (1 << (n))

#define parent(n) ((n) == 1 -> 0 : ((n) < 4 -> 1 : ((n) < 6 -> 2 : 3)))
#define kids(n) ((n) == 0 -> 2 : ((n) == 1 -> 12 : ((n) == 2 -> 48 : ((n) == 3 -> 64 : 0))))
#define below(n) (((n) == 0 -> 126 : ((n) == 1 -> 124 : kids(n))) & (open | processing | visited | closed | error))
#define leaf(n) ((n) > 3)

/* Sets of nodes; a node in none of them is not known yet. */
byte open = 2, processing, visited, closed, error;
byte own;          /* nodes that failed themselves, not for something below them */
byte taken;        /* in this try */
byte fails = ERRORS;
byte away = THREADS;
bit  second;       /* the second try runs */

#define forget(n) \
	open = open & ~bit(n); processing = processing & ~bit(n); visited = visited & ~bit(n); \
	closed = closed & ~bit(n); error = error & ~bit(n)

inline take(n) {
	assert(!(taken & bit(n)));
	taken = taken | bit(n);
	open = open & ~bit(n);
	processing = processing | bit(n)
}

#ifndef COUNTERS

bit  lock[NODES];    /* of the children of a node */
byte asleep[NODES];   /* threads that wait for one of them */

#define acquire(n) !lock[n] -> lock[n] = 1
#define notify(n)  asleep[n] = 0

/* For each n: if closed and error are right as far as they go, and if all of them is told. */
#define justified(n) ( \
	(!(closed & bit(n)) || !(below(n) & ~closed)) && \
	(!(error & ~own & bit(n)) || (!(below(n) & ~(closed | error)) && (below(n) & error))))
#define told(n) ( \
	((kids(n) & ~closed) || (closed & bit(n))) && \
	((kids(n) & ~(closed | error)) || ((closed | error) & bit(n))))

inline check() {
	assert(justified(1) && justified(2) && justified(3));
	if
	:: !lock[0] && !lock[1] && !lock[2] && !lock[3] -> assert(told(1) && told(2) && told(3))
	:: else
	fi
}

/* B's internal_update_node_state, whose recursion is a climb and a descent: the caller holds the
 * lock of `n`, and in the end all locks from there upwards are free again. Locks are taken from
 * below upwards, never the other way. */
inline climb(n) {
	top = n;
	do
#ifndef BREAK_no_climb
#ifdef BREAK_close_early
	:: top != 0 ->
#elif defined(BREAK_error_closes)
	:: top != 0 && !(kids(top) & ~(closed | error)) ->
#else
	:: top != 0 && !(kids(top) & ~closed) ->
#endif
		atomic { acquire(parent(top)) };
		d_step { forget(top); closed = closed | bit(top); top = parent(top) }
	:: top != 0 && !(kids(top) & ~(closed | error)) && (kids(top) & error) ->
		atomic { acquire(parent(top)) };
		d_step { forget(top); error = error | bit(top); top = parent(top) }
#endif
	:: else -> break
	od;
	do
	:: atomic { top != n ->
		notify(top);
		lock[top] = 0;
		/* The next one below, on the way to n. */
		if
		:: top == parent(n) -> top = n
		:: else -> top = parent(n)
		fi
	   }
	:: top == n -> break
	od;
	atomic {
#ifndef BREAK_no_notify
		notify(n);
#endif
		lock[n] = 0;
		top = 0;
		check()
	}
}

proctype thread(byte me) {
	byte node, child, top;
	do
	/* B's get_available_child. Go: frontier.Taker.Take */
	:: atomic { !lock[node] && (kids(node) & open) ->
		if
		:: kids(node) & open & 18 -> child = (node == 0 -> 1 : 4)
		:: kids(node) & open & 36 -> child = (node == 1 -> 2 : 5)
		:: kids(node) & open & 72 -> child = (node == 1 -> 3 : 6)
		fi;
#ifndef BREAK_take_in_two_steps
		take(child)
#endif
	   };
#ifdef BREAK_take_in_two_steps
	   atomic { take(child) };
#endif
	   if
	   :: atomic { fails > 0 && !second ->   /* B's set_error, and back to the sentinel */
		fails--;
#ifndef BREAK_no_handler
		acquire(node);
		forget(child);
		error = error | bit(child);
		own = own | bit(child)
	      };
	      climb(node);
	      atomic {
#endif
		node = 0; child = 0
	      }
	   :: true ->   /* B's set_node_type. Go: storage.Index.Commit */
	      atomic {
		acquire(node);
		forget(child);
		if
		:: leaf(child) -> closed = closed | bit(child)
		:: else -> open = open | kids(child); visited = visited | bit(child)
		fi
	      };
	      if
	      :: leaf(child) -> climb(node)
	      :: else -> atomic { notify(node); lock[node] = 0; node = child }
	      fi;
	      child = 0
	   fi
	:: atomic { !lock[node] && !(kids(node) & open) && (kids(node) & visited) ->
		if
		:: kids(node) & visited & 2 -> child = 1
		:: kids(node) & visited & 4 -> child = 2
		:: kids(node) & visited & 8 -> child = 3
		:: kids(node) & visited & 112 -> child = (node == 3 -> 6 : (visited & 16 -> 4 : 5))
		fi;
#ifdef BREAK_lock_downwards
		lock[node] = 1
	   };
	   atomic { acquire(child) };
	   lock[child] = 0;
	   atomic {
		lock[node] = 0;
#endif
		node = child; child = 0
	   }
	:: atomic { !lock[node] && !(kids(node) & (open | visited)) && (kids(node) & processing) ->
		asleep[node] = asleep[node] | bit(me);
		!(asleep[node] & bit(me))
	   }
	:: atomic { !lock[node] && !(kids(node) & (open | visited | processing)) ->
		if
		:: node == 0 -> break
		:: else -> node = parent(node)
		fi
	   }
	od;
	away--
}

#else

/* For each folder: what is open, and what has failed, below it. Go: record.Counts.FolderState */
byte pending[4], failed[4];
#define count(m)    (((m) >> 1 & 1) + ((m) >> 2 & 1) + ((m) >> 3 & 1) + ((m) >> 4 & 1) + ((m) >> 5 & 1) + ((m) >> 6 & 1))

/* Counters against the records that they count. */
#define right(n) (pending[n] == count(below(n) & (open | processing)) && failed[n] == count(below(n) & error))

inline counted() {
	top = n;
	do
	:: top != 0 ->
		top = parent(top);
		pending[top] = pending[top] - 1 + count(fresh);
		failed[top] = failed[top] + count(error & bit(n))
	:: else -> break
	od
}

proctype thread(byte me) {
	byte n, top, fresh;
	do
	:: atomic { open != 0 ->   /* Go: frontier.Taker.Take */
		n = 1;
		do
		:: open & bit(n) -> break
		:: else -> n++
		od;
		take(n)
	   };
	   atomic {   /* Go: iut.Committer.Run */
		processing = processing & ~bit(n);
		if
		:: fails > 0 && !second -> fails--; error = error | bit(n)
		:: true -> closed = closed | bit(n); fresh = kids(n)
		fi;
		open = open | fresh;
#ifndef BREAK_counted_later
		/* Go: storage.Index.Commit */
		counted();
#endif
		if
		:: fresh != 0 -> pending[n] = pending[n] + count(fresh)
		:: else
		fi;
		assert(right(0) && right(1) && right(2) && right(3));
		n = 0; top = 0; fresh = 0
	   }
#ifdef BREAK_counted_later
	   ;
	   atomic { counted() }
#endif
	:: open == 0 && processing == 0 -> break
	od;
	away--
}

#endif

init {
	byte i;
	atomic {
#ifdef COUNTERS
		pending[0] = 1;
#endif
		for (i : 0 .. THREADS - 1) { run thread(i) }
		i = 0
	};
	away == 0;
	atomic {   /* Go: storage.Index.Reopen */
		assert(open == 0 && processing == 0);
		second = 1;
		taken = 0;
		away = THREADS;
#ifdef COUNTERS
		open = error;
		do
		:: i < 4 -> pending[i] = failed[i]; failed[i] = 0; i++
		:: else -> break
		od;
		error = 0;
#else
#ifdef BREAK_retry_visited
		visited = error;
#else
		open = error & own;
		visited = error & ~own;
#endif
		error = 0;
		own = 0;
#endif
		for (i : 0 .. THREADS - 1) { run thread(i) }
		i = 0
	};
	away == 0;
	assert(closed == ALL)
}
