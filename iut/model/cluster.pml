/*
 * One crawl of two nodes that get partitions from each other, over an engine that may lose, repeat
 * and bring back messages.
 *
 * Page 0 names page 1, and 1 names 2. Pages 0 and 2 are of partition 0, which node 0 owns at first, 1
 * of partition 1, which node 1 owns. A leader moves partitions in order, or takes one from a node that is silent. A
 * node may be killed, be cut off from the engine and come back. It acts by what it has last seen of
 * the assignment. At most CRASHES, LOSSES, REPEATS, MOVES, and CUTS of each happen.
 *
 * Promises checked
 *   - no two nodes ask the hosts of one partition at a time;
 *   - no page is asked for that is done on any node, but for pages of a node that was silent;
 *   - what waits at a node is of a partition that it owns, or that is on its way out;
 *   - at the end each page is done, and nothing is under way.
 *
 * Each -DBREAK_x takes one rule away, and must be caught.
 */

#ifndef CRASHES
#define CRASHES 1
#endif
#ifndef LOSSES
#define LOSSES 1
#endif
#ifndef REPEATS
#define REPEATS 1
#endif
#ifndef MOVES
#define MOVES 1
#endif
#ifndef CUTS
#define CUTS 0
#endif

#define PAGES  3
#define ALL    7
#define NOBODY 2
#define bit(u)    (1 << (u))
#define part(u)   ((u) == 1)
#define pages(p)  ((p) == 1 -> 2 : 5)

/* Index of each node. Changes only in transactions. */
byte queued[2], done[2];      /* sets of pages */
byte outQ[2], outD[2], outM[2];    /* outbox: links and waiting pages, pages with their outcome, markers: by partition their epoch */
byte sentQ[2], sentD[2], sentM[2]; /* sent, and not confirmed */
byte number[6];               /* node * 3 + page: of the latest batch that has it */
bit  waits[4];                /* node * 2 + partition: not before the marker */
byte view[4];                 /* owner as the node knows it */
byte since[4];                /* epoch of that partition's latest move, as the node knows it */
byte leaving[2];              /* 0: none; 1 to 3: steps of a partition on its way out */
byte leaves[2];               /* which */

/* Memory of each node. Gone after a kill. */
byte asks[2];                 /* page + 1 */
byte hand[2], what[2], page[2]; /* a message: 1 received, 2 merged; 1 link, 2 outcome, 3 marker; page, or partition */
bit  from[2];                 /* its sender */
byte mark[2];                 /* its epoch, or the number of its batch */
bit  stale[2];                /* it was silent: what it knows of the assignment no longer counts */
bit  later[2];                /* with BREAK_two_transactions */

/* Engine: messages of each sender, by page; markers by partition, with their epoch. */
byte engQ[2], engD[2], engM[4];
byte everQ[2], everD[2];
byte engN[6];                 /* number of the batch */
byte sub[2];                  /* who receives a partition */
byte owner[2], gives[2];      /* assignment: who owns it, who has still to hand it over */
byte epoch, moved[2];
bit  cut[2];                  /* silent: its lease has run out */

/* Leader: waves that look whether all is at rest. */
byte wave;                    /* 0, 1: node 0 was at rest, 2: both were, 3: node 0 again */
bit  changed[2];

byte crashes, losses, repeats, moves, cuts, n, u, p;
bit  forced;

#define at(n, p)  ((n) * 2 + (p))
#define mine(n, p) (view[at(n, p)] == (n))
/* what a message is about */
#define partOf(n) (what[n] == 3 -> page[n] : part(page[n]))
/* a node at rest */
#define idle(n) (!cut[n] && !stale[n] && !asks[n] && !hand[n] && !queued[n] && !outQ[n] && !outD[n] && !outM[n] && \
	!sentQ[n] && !sentD[n] && !sentM[n] && !leaving[n] && !waits[at(n, 0)] && !waits[at(n, 1)] && !later[n] && \
	view[at(n, 0)] == owner[0] && view[at(n, 1)] == owner[1] && \
	since[at(n, 0)] == moved[0] && since[at(n, 1)] == moved[1])
#define somewhere(u) ((done[0] | done[1] | outD[0] | outD[1] | sentD[0] | sentD[1]) & bit(u))

inline either() {
	if
	:: n = 0
	:: n = 1
	fi
}

inline anyPage() {
	if
	:: u = 0
	:: u = 1
	:: u = 2
	fi
}

inline anyPart() {
	if
	:: p = 0
	:: p = 1
	fi
}

/* A link of a page that is done: into the queue of its owner, or the outbox. */
inline link(v) {
	if
	:: mine(n, part(v)) ->
		if
		:: !((queued[n] | done[n]) & bit(v)) -> queued[n] = queued[n] | bit(v)
		:: else
		fi
	:: else -> outQ[n] = outQ[n] | bit(v)
	fi
}

inline merge() {
	changed[n] = 1;
	if
	:: what[n] == 1 ->
#ifdef BREAK_last_wins
		done[n] = done[n] & ~bit(page[n]);
		queued[n] = queued[n] | bit(page[n])
#else
		if
		:: !((queued[n] | done[n]) & bit(page[n])) -> queued[n] = queued[n] | bit(page[n])
		:: else
		fi
#endif
	:: what[n] == 2 ->
		queued[n] = queued[n] & ~bit(page[n]);
		done[n] = done[n] | bit(page[n])
	:: else ->
		if
#ifdef BREAK_any_marker
		:: true -> waits[at(n, page[n])] = 0
#else
		:: mark[n] >= since[at(n, page[n])] -> waits[at(n, page[n])] = 0
		:: else
#endif
		fi
	fi;
	assert(!(queued[n] & ~((mine(n, 0) -> pages(0) : 0) | (mine(n, 1) -> pages(1) : 0) | (leaving[n] -> pages(leaves[n]) : 0))))
}

/* The engine lets the message go; of somebody whose subscription was ended this has no effect. */
inline acknowledge() {
	if
	:: sub[partOf(n)] == n ->
		if
		:: what[n] == 1 -> engQ[from[n]] = engQ[from[n]] & ~bit(page[n])
		:: what[n] == 2 -> engD[from[n]] = engD[from[n]] & ~bit(page[n])
		:: else -> engM[at(from[n], page[n])] = 0
		fi
	:: else
	fi
}

inline confirm() {
	if
#ifdef BREAK_number_again
	:: what[n] == 1 -> sentQ[from[n]] = sentQ[from[n]] & ~bit(page[n])
	:: what[n] == 2 -> sentD[from[n]] = sentD[from[n]] & ~bit(page[n])
#else
	:: what[n] == 1 && mark[n] == number[from[n] * 3 + page[n]] -> sentQ[from[n]] = sentQ[from[n]] & ~bit(page[n])
	:: what[n] == 2 && mark[n] == number[from[n] * 3 + page[n]] -> sentD[from[n]] = sentD[from[n]] & ~bit(page[n])
#endif
	:: what[n] == 3 && sentM[from[n]] == mark[n] && leaves[from[n]] == page[n] -> sentM[from[n]] = 0
	:: else
	fi;
	changed[from[n]] = 1
}

inline drop() {
	hand[n] = 0; what[n] = 0; page[n] = 0; from[n] = 0; mark[n] = 0
}

init {
	d_step {
		queued[0] = 1;
		view[at(0, 1)] = 1; view[at(1, 1)] = 1;
		owner[1] = 1; sub[1] = 1;
		gives[0] = NOBODY; gives[1] = NOBODY
	}
	do
	/* A page is asked for. Go: cluster.Node.MayAsk, cluster.Node.Asks */
	:: atomic { either(); anyPage();
		if
#ifdef BREAK_ask_without_lease
		:: !asks[n] && (queued[n] & bit(u)) && mine(n, part(u)) && !waits[at(n, part(u))] && !leaving[n] ->
#else
		:: !cut[n] && !stale[n] && !asks[n] && (queued[n] & bit(u)) && mine(n, part(u)) && !waits[at(n, part(u))] && !leaving[n] ->
#endif
			assert(!(asks[1 - n] && part(asks[1 - n] - 1) == part(u)));
			assert(forced || !somewhere(u));
			asks[n] = u + 1
		:: else
		fi; n = 0; u = 0 }

	/* Its outcome, with its link. Go: cluster.Node.Committed */
	:: atomic { either();
		if
		:: asks[n] ->
			u = asks[n] - 1;
			queued[n] = queued[n] & ~bit(u);
			done[n] = done[n] | bit(u);
			changed[n] = 1;
			asks[n] = 0;
			if
			:: u == 2
			:: else ->
#ifdef BREAK_two_transactions
				if
				:: mine(n, part(u + 1)) -> link(u + 1)
				:: else -> later[n] = 1
				fi
#else
				link(u + 1)
#endif
			fi
		:: else
		fi; n = 0; u = 0 }
#ifdef BREAK_two_transactions
	:: atomic { either();
		if
		:: later[n] ->
			later[n] = 0;
			if
			:: done[n] & 2 -> link(2)
			:: else -> link(1)
			fi
		:: else
		fi; n = 0 }
#endif

	/* The sender. Go: cluster.Node.sendNew, cluster.Node.publish */
	:: atomic { either();
		if
		:: outQ[n] | outD[n] | outM[n] ->
			for (u : 0 .. PAGES - 1) {
				number[n * 3 + u] = number[n * 3 + u] + ((outQ[n] | outD[n]) & bit(u) -> 1 : 0)
			}
			u = 0;
			sentQ[n] = sentQ[n] | outQ[n]; outQ[n] = 0;
			sentD[n] = sentD[n] | outD[n]; outD[n] = 0;
			if
			:: outM[n] -> sentM[n] = outM[n]; outM[n] = 0
			:: else
			fi;
			changed[n] = 1
		:: else
		fi; n = 0 }
	:: atomic { either();
		if
		:: !cut[n] && (sentQ[n] | sentD[n] | sentM[n]) ->
			for (u : 0 .. PAGES - 1) {
				engN[n * 3 + u] = ((sentQ[n] | sentD[n]) & bit(u) -> number[n * 3 + u] : engN[n * 3 + u])
			}
			u = 0;
			engQ[n] = engQ[n] | sentQ[n]; everQ[n] = everQ[n] | sentQ[n];
			engD[n] = engD[n] | sentD[n]; everD[n] = everD[n] | sentD[n];
			if
			:: sentM[n] -> engM[at(n, leaves[n])] = sentM[n]
			:: else
			fi;
#ifdef BREAK_free_on_publish
			sentQ[n] = 0; sentD[n] = 0; sentM[n] = 0; changed[n] = 1
#endif
		:: else
		fi; n = 0 }

	/* A message is received. Go: cluster.Node.receiveOf */
	:: atomic { either(); anyPage();
		if
		:: !cut[n] && !hand[n] && sub[part(u)] == n ->
			if
			:: engQ[0] & bit(u) -> hand[n] = 1; what[n] = 1; page[n] = u; from[n] = 0; mark[n] = engN[0 * 3 + u]
			:: engQ[1] & bit(u) -> hand[n] = 1; what[n] = 1; page[n] = u; from[n] = 1; mark[n] = engN[1 * 3 + u]
			:: engD[0] & bit(u) -> hand[n] = 1; what[n] = 2; page[n] = u; from[n] = 0; mark[n] = engN[0 * 3 + u]
			:: engD[1] & bit(u) -> hand[n] = 1; what[n] = 2; page[n] = u; from[n] = 1; mark[n] = engN[1 * 3 + u]
			:: engM[at(0, part(u))] -> hand[n] = 1; what[n] = 3; page[n] = part(u); from[n] = 0; mark[n] = engM[at(0, part(u))]
			:: engM[at(1, part(u))] -> hand[n] = 1; what[n] = 3; page[n] = part(u); from[n] = 1; mark[n] = engM[at(1, part(u))]
			:: else
			fi
		:: else
		fi; n = 0; u = 0 }

	/* It is merged, and acknowledged after that. Go: cluster.Node.take, cluster.acks.give */
	:: atomic { either();
		if
#ifdef BREAK_ack_before_merge
		:: hand[n] == 1 && !cut[n] -> acknowledge(); confirm(); hand[n] = 2
		:: hand[n] == 2 -> merge(); drop()
#else
#ifdef BREAK_merge_of_others
		:: hand[n] == 1 -> merge(); hand[n] = 2
#else
		:: hand[n] == 1 && mine(n, partOf(n)) && !(leaving[n] && leaves[n] == partOf(n)) -> merge(); hand[n] = 2
		:: hand[n] == 1 && !(mine(n, partOf(n)) && !(leaving[n] && leaves[n] == partOf(n))) -> drop()
#endif
		:: hand[n] == 2 && !cut[n] -> acknowledge(); confirm(); drop()
		/* the end-to-end acknowledgement is lost */
		:: hand[n] == 2 && !cut[n] && losses < LOSSES -> acknowledge(); drop(); losses++
		:: hand[n] == 2 && cut[n] -> drop()
#endif
		:: else
		fi; n = 0 }

	/* The leader moves a partition. Go: cluster.Assign.balance */
	:: atomic { anyPart();
		if
		:: moves < MOVES && gives[p] == NOBODY && !cut[owner[p]] && !cut[1 - owner[p]] ->
			moves++;
			epoch++;
			moved[p] = epoch;
			gives[p] = owner[p];
			owner[p] = 1 - owner[p];
			sub[p] = NOBODY
		:: else
		fi; p = 0 }
	/* ... takes one from a node that is silent. */
	:: atomic { anyPart();
		if
#ifdef BREAK_take_at_once
		:: cut[owner[p]] && gives[p] == NOBODY && !cut[1 - owner[p]] ->
#else
		:: cut[owner[p]] && !asks[owner[p]] && gives[p] == NOBODY && !cut[1 - owner[p]] ->
#endif
			epoch++;
			moved[p] = epoch;
			owner[p] = 1 - owner[p];
			sub[p] = NOBODY;
			forced = 1
		:: else
		fi; p = 0 }
	/* ... hears that it has been handed over. Go: cluster.Node.ask, cluster.Assign.next */
	:: atomic { anyPart();
		if
		:: gives[p] != NOBODY && view[at(owner[p], p)] == owner[p] && since[at(owner[p], p)] == moved[p] && !waits[at(owner[p], p)] ->
			gives[p] = NOBODY
		:: else
		fi; p = 0 }

	/* A node sees the assignment. Go: cluster.kept.follow, cluster.Node.adopt */
	:: atomic { either(); anyPart();
		if
		:: !cut[n] && since[at(n, p)] < moved[p] && !leaving[n] && !(asks[n] && part(asks[n] - 1) == p) ->
			if
			:: mine(n, p) && owner[p] != n -> leaving[n] = 1; leaves[n] = p
			:: else
			fi;
			view[at(n, p)] = owner[p];
			since[at(n, p)] = moved[p];
			changed[n] = 1;
			if
			:: owner[p] == n ->
#ifdef BREAK_start_before_marker
				waits[at(n, p)] = 0;
#else
				waits[at(n, p)] = (gives[p] == 1 - n);
#endif
			:: else -> waits[at(n, p)] = 0
			fi;
		:: else
		fi; n = 0; p = 0 }
	/* ... and receives what it owns. */
	:: atomic { either(); anyPart();
		if
		:: !cut[n] && sub[p] == NOBODY && owner[p] == n && mine(n, p) && since[at(n, p)] == moved[p] -> sub[p] = n
		:: else
		fi; n = 0; p = 0 }

	/* A partition leaves: what waits, then that the rest is done, then the marker. Go: cluster.Node.handOver */
	:: atomic { either();
		if
		:: leaving[n] == 1 ->
			outQ[n] = outQ[n] | (queued[n] & pages(leaves[n]));
			queued[n] = queued[n] & ~pages(leaves[n]);
			leaving[n] = 2;
			changed[n] = 1
		:: leaving[n] == 2 && !((outQ[n] | sentQ[n]) & pages(leaves[n])) ->
			outD[n] = outD[n] | (done[n] & pages(leaves[n]));
			leaving[n] = 3;
			changed[n] = 1
		:: leaving[n] == 3 && !((outQ[n] | sentQ[n] | outD[n] | sentD[n]) & pages(leaves[n])) ->
			outM[n] = since[at(n, leaves[n])];
			leaving[n] = 4;
			changed[n] = 1
		:: leaving[n] == 4 && !outM[n] && !sentM[n] -> leaving[n] = 0; leaves[n] = 0; changed[n] = 1
		:: else
		fi; n = 0 }

	/* kill -9 */
	:: atomic { either();
		if
		:: crashes < CRASHES -> crashes++; asks[n] = 0; drop(); later[n] = 0; changed[n] = 1
		:: else
		fi; n = 0 }
	/* The engine loses messages, and brings old ones back. */
	:: atomic { either();
		if
		:: losses < LOSSES && (engQ[n] | engD[n] | engM[at(n, 0)] | engM[at(n, 1)]) ->
			losses++; engQ[n] = 0; engD[n] = 0; engM[at(n, 0)] = 0; engM[at(n, 1)] = 0
		:: repeats < REPEATS && (everQ[n] | everD[n]) ->
			repeats++; engQ[n] = engQ[n] | everQ[n]; engD[n] = engD[n] | everD[n]
		:: else
		fi; n = 0 }
	/* A node is silent for longer than its lease, and comes back. Go: cluster.Node.lapse */
	:: atomic { either();
		if
		:: cuts < CUTS && !cut[0] && !cut[1] -> cuts++; cut[n] = 1; stale[n] = 1
		:: cut[n] -> cut[n] = 0
		:: !cut[n] && stale[n] && since[at(n, 0)] == moved[0] && since[at(n, 1)] == moved[1] -> stale[n] = 0
#ifdef BREAK_ask_by_old_view
		:: !cut[n] && stale[n] -> stale[n] = 0
#endif
		:: else
		fi; n = 0 }

	/* Is it the end? Go: cluster.Node.finish */
	:: atomic { !cut[0] && !cut[1] && gives[0] == NOBODY && gives[1] == NOBODY ->
		if
		:: wave == 0 && idle(0) -> wave = 1; changed[0] = 0
		:: wave == 1 && idle(1) -> wave = 2; changed[1] = 0
		:: wave == 2 && idle(0) && !changed[0] -> wave = 3
#ifdef BREAK_one_wave
		:: wave == 2 -> break
#endif
		:: wave == 3 && idle(1) && !changed[1] -> break
		:: else -> wave = 0
		fi }
	od;
	assert((done[0] | done[1]) == ALL);
#ifdef REACH_end
	assert(false);
#endif
	assert(!(queued[0] | queued[1] | outQ[0] | outQ[1] | sentQ[0] | sentQ[1]))
}
