/* The agreement protocol of csrc/negotiation and what csrc/engine makes of it, for Spin.
 *
 * Three ranks in a chain: 0 is the root, 1 an inner node, 2 a leaf. Two tensors; every rank calls tensor 0 twice and
 * tensor 1 once, in any order and at any time. A call has one of two signatures.
 *
 * -DIDS       what was agreed before is announced by its id
 * -DMISMATCH  rank 2 may call with the other signature
 * -DJOIN      every rank joins, at any time, and makes no further calls
 * -DLEAVE     a rank may leave at any time
 * -DCRASH     a rank may die at any time
 *
 * Claims, for every order of events: batches come in one order on all ranks; nobody runs a batch that it has not
 * called (unless it has joined) or has called differently; a node knows every id that it is told; no queue overflows;
 * in the end no call is pending on a rank that lives, so every call completes or fails; and the end is always reached.
 *
 * Planted errors, each of which must be found:
 *
 * -DBUG_ORDER  a node runs what was agreed in an order of its own
 * -DBUG_MERGE  an inner node forgets that signatures differ (with MISMATCH)
 * -DBUG_LEARN  ids are learnt when a batch is run, not when its plan passes
 * -DBUG_RELAY  a node runs its own part of a plan before it relays it
 * -DBUG_JOIN   who has joined counts for all of its subtree (with JOIN)
 * -DBUG_DEATH  nobody looks after the connection to a child (with CRASH)
 */

#define RANKS 3
#define TENSORS 2
#define ROOT 0
#define LEAF 2
#define QUEUE 6  /* no edge ever holds more */
#define LOG 8    /* batches of a job at most */
#define ALL 7    /* a bit for each rank */

mtype = { announce, joins, departs, failure,  /* up; a failure goes both ways */
          batch, refusal, joined, departure } /* down */

/* kind, tensor, signatures as bits, ranks as bits, whether it is an id */
chan up[RANKS] = [QUEUE] of { mtype, byte, byte, byte, bool }   /* from a rank to its parent */
chan down[RANKS] = [QUEUE] of { mtype, byte, byte, byte, bool } /* from its parent to a rank */
chan todo[RANKS] = [QUEUE] of { mtype, byte, byte }             /* agreed, and not yet run */
chan ready = [QUEUE] of { byte, byte }                          /* at the root: called by all */

/* For each rank and tensor. */
#define AT(r, t) ((r) * TENSORS + (t))
byte left[RANKS * TENSORS];       /* calls that are still to come */
bool pending[RANKS * TENSORS];    /* called, and not complete */
byte own[RANKS * TENSORS];        /* the signature of that call, as a bit */
byte heard[RANKS * TENSORS];      /* who has announced to this node: itself 1, its child 2 */
byte signatures[RANKS * TENSORS]; /* that were announced */
byte callers[RANKS * TENSORS];    /* ranks of this subtree that announced */
bool by_id[RANKS * TENSORS];      /* all of them by the id */
byte known[RANKS * TENSORS];      /* signatures that have an id here */

/* For each rank. */
byte has_joined[RANKS];  /* ranks of the subtree that have joined, as this node knows */
bool joining[RANKS];     /* has called join, which is not complete */
bool may_join[RANKS];
bool closed[RANKS];      /* a departure has passed */
bool over[RANKS];        /* its session has ended */
bool dead[RANKS];
byte agreed[RANKS];      /* batches that have passed */
byte finished[RANKS];    /* batches that have been run */

byte log[LOG], logged;   /* the order of batches: that of whoever comes first */
bool departing, leaves, dies;
byte ended;              /* ranks that know that all is over */

#define BELOW(r) (ALL & ~((2 << (r)) - 1))  /* ranks below the node */
#define IS_HEARD(r, t, source, ranks) ((heard[AT(r, t)] & (source)) || (has_joined[r] & (ranks)) == (ranks))
#ifdef BUG_JOIN
#define IS_COMPLETE(r, t) (heard[AT(r, t)] && (has_joined[r] || IS_HEARD(r, t, 1, 1 << (r)) && IS_HEARD(r, t, 2, BELOW(r))))
#else
#define IS_COMPLETE(r, t) (heard[AT(r, t)] && IS_HEARD(r, t, 1, 1 << (r)) && IS_HEARD(r, t, 2, BELOW(r)))
#endif
#define IS_SINGLE(bits) ((bits) == 1 || (bits) == 2)
#define HAS_CALLS(r) (left[AT(r, 0)] || left[AT(r, 1)])
#define IS_IDLE(r) (over[r] || !HAS_CALLS(r) && !may_join[r] && !joining[r] && !pending[AT(r, 0)] && \
                    !pending[AT(r, 1)] && empty(todo[r]))
#define IS_AT(q, r) (finished[q] > finished[r] || finished[q] == finished[r] && agreed[q] > finished[r])

inline finish_if_complete(r, t) {
  if
  :: IS_COMPLETE(r, t) ->
    if
    :: r == ROOT -> ready!t,signatures[AT(r, t)]
#ifdef BUG_MERGE
    :: else -> up[r]!announce,t,(signatures[AT(r, t)] & 1 -> 1 : 2),callers[AT(r, t)],by_id[AT(r, t)]
#else
    :: else -> up[r]!announce,t,signatures[AT(r, t)],callers[AT(r, t)],by_id[AT(r, t)]
#endif
    fi;
    heard[AT(r, t)] = 0; signatures[AT(r, t)] = 0; callers[AT(r, t)] = 0; by_id[AT(r, t)] = false
  :: else
  fi
}

inline contribute(r, t, source, bits, ranks, is_id) {
  assert(!(heard[AT(r, t)] & source));
  by_id[AT(r, t)] = is_id && (heard[AT(r, t)] == 0 || by_id[AT(r, t)]);
  heard[AT(r, t)] = heard[AT(r, t)] | source;
  signatures[AT(r, t)] = signatures[AT(r, t)] | bits;
  callers[AT(r, t)] = callers[AT(r, t)] | ranks;
  finish_if_complete(r, t)
}

inline call(r, t, form) {
  left[AT(r, t)]--;
  pending[AT(r, t)] = true;
  own[AT(r, t)] = form;
  if
  :: !closed[r] -> contribute(r, t, 1, form, 1 << r, (known[AT(r, t)] & form) != 0)
  :: else
  fi
}

inline join(r, who) {
  has_joined[r] = has_joined[r] | (1 << (who));
  finish_if_complete(r, 0);
  finish_if_complete(r, 1);
  if
  :: r != ROOT -> up[r]!joins,0,0,who,false
  :: else
  fi
}

inline relay(r, kind, t, bits) {
  if
  :: r != LEAF -> down[r + 1]!kind,t,bits,0,false
  :: else
  fi
}

/* What was agreed passes a node on its way down. */
inline pass(r, kind, t, bits) {
#ifndef BUG_RELAY
  relay(r, kind, t, bits);
#endif
  if
#if defined(IDS) && !defined(BUG_LEARN)
  :: kind == batch -> known[AT(r, t)] = known[AT(r, t)] | bits
#endif
  :: kind == joined -> has_joined[r] = 0
  :: kind == departure -> closed[r] = true
  :: else
  fi;
#ifdef BUG_ORDER
  todo[r]!!kind,t,bits;
#else
  todo[r]!kind,t,bits;
#endif
  agreed[r]++
}

inline give_up(r) {
  pending[AT(r, 0)] = false;
  pending[AT(r, 1)] = false;
  joining[r] = false;
  over[r] = true
}

inline fail(r) {
  if
  :: r != ROOT -> up[r]!failure,0,0,0,false
  :: else
  fi;
  if
  :: r != LEAF -> down[r + 1]!failure,0,0,0,false
  :: else
  fi;
  give_up(r)
}

inline write_log(r, what) {
  if
  :: finished[r] == logged -> log[logged] = what; logged++
  :: else -> assert(log[finished[r]] == what)
  fi;
  finished[r]++
}

proctype Rank(byte r) {
  mtype kind;
  byte t, bits, ranks;
  bool is_id;
  do
  :: d_step { IS_IDLE(0) && IS_IDLE(1) && IS_IDLE(2) -> ended++ } break

  /* The program calls. */
  :: d_step { !over[r] && left[AT(r, 0)] && !pending[AT(r, 0)] -> call(r, 0, 1) }
  :: d_step { !over[r] && left[AT(r, 1)] && !pending[AT(r, 1)] -> call(r, 1, 1) }
#ifdef MISMATCH
  :: d_step { r == LEAF && !over[r] && left[AT(r, 0)] && !pending[AT(r, 0)] -> call(r, 0, 2) }
  :: d_step { r == LEAF && !over[r] && left[AT(r, 1)] && !pending[AT(r, 1)] -> call(r, 1, 2) }
#endif
#ifdef JOIN
  :: d_step { !over[r] && may_join[r] -> may_join[r] = false; joining[r] = true;
      left[AT(r, 0)] = 0; left[AT(r, 1)] = 0; ranks = r; join(r, ranks); ranks = 0 }
#endif
#ifdef LEAVE
  :: d_step { !over[r] && !leaves && !closed[r] -> leaves = true; left[AT(r, 0)] = 0; left[AT(r, 1)] = 0;
      if
      :: r == ROOT -> departing = true
      :: else -> up[r]!departs,0,0,r,false
      fi }
#endif
#ifdef CRASH
  :: d_step { !over[r] && !dies -> dies = true; dead[r] = true; give_up(r) }
  /* The connections of the dead are closed. */
  :: d_step { !over[r] && r != ROOT && dead[r - 1] -> fail(r) }
#ifndef BUG_DEATH
  :: d_step { !over[r] && r != LEAF && dead[r + 1] -> fail(r) }
#endif
#endif

  /* A message from the child. */
  :: d_step { r != LEAF && !over[r] && nempty(up[r + 1]) -> up[r + 1]?kind,t,bits,ranks,is_id;
      if
      :: kind == failure -> fail(r)
      :: kind != failure && closed[r]
      :: kind == announce && !closed[r] ->
        assert(!is_id || (known[AT(r, t)] & bits) == bits);
        contribute(r, t, 2, bits, ranks, is_id)
      :: kind == joins && !closed[r] -> join(r, ranks)
      :: kind == departs && !closed[r] ->
        if
        :: r == ROOT -> departing = true
        :: else -> up[r]!departs,0,0,ranks,false
        fi
      fi; kind = 0; t = 0; bits = 0; ranks = 0; is_id = false }

  /* From the parent. */
  :: d_step { r != ROOT && !over[r] && nempty(down[r]) -> down[r]?kind,t,bits,ranks,is_id;
      if
      :: kind == failure -> fail(r)
      :: else -> pass(r, kind, t, bits)
      fi; kind = 0; t = 0; bits = 0; ranks = 0; is_id = false }

  /* The root plans when its engine is free. */
  :: d_step { r == ROOT && !over[r] && !closed[r] && empty(todo[r]) && nempty(ready) -> ready?t,bits;
      if
      :: IS_SINGLE(bits) -> pass(r, batch, t, bits)
      :: else -> pass(r, refusal, t, bits)
      fi; t = 0; bits = 0 }
  :: d_step { r == ROOT && !over[r] && !closed[r] && empty(todo[r]) && empty(ready) && has_joined[r] == ALL ->
      pass(r, joined, 0, 0) }
  :: d_step { r == ROOT && !over[r] && !closed[r] && empty(todo[r]) && empty(ready) && has_joined[r] != ALL &&
      departing -> pass(r, departure, 0, 0) }

  /* The engine: a batch takes all ranks that are not over, what is refused does not. */
  :: d_step { !over[r] && todo[r]?[batch,t,bits] && IS_AT(0, r) && IS_AT(1, r) && IS_AT(2, r) -> todo[r]?kind,t,bits;
      write_log(r, 1 + t);
#ifdef BUG_RELAY
      relay(r, kind, t, bits);
#endif
      assert(pending[AT(r, t)] || joining[r]);
      assert(!pending[AT(r, t)] || own[AT(r, t)] == bits);
#ifdef BUG_LEARN
      known[AT(r, t)] = known[AT(r, t)] | bits;
#endif
      pending[AT(r, t)] = false; kind = 0; t = 0; bits = 0 }
  :: d_step { !over[r] && todo[r]?[refusal,t,bits] -> todo[r]?kind,t,bits;
      write_log(r, 10 + t);
      assert(pending[AT(r, t)] || joining[r]);
      pending[AT(r, t)] = false; kind = 0; t = 0; bits = 0 }
  :: d_step { !over[r] && todo[r]?[joined,t,bits] -> todo[r]?kind,t,bits;
      write_log(r, 20);
      assert(joining[r]);
      joining[r] = false; kind = 0; t = 0; bits = 0 }
  :: d_step { !over[r] && todo[r]?[departure,t,bits] -> todo[r]?kind,t,bits;
      write_log(r, 30);
      give_up(r); kind = 0; t = 0; bits = 0 }
  od
}

init {
  byte r;
  d_step {
    for (r : 0 .. RANKS - 1) {
      left[AT(r, 0)] = 2;
      left[AT(r, 1)] = 1;
#ifdef JOIN
      may_join[r] = true
#endif
    }
    r = 0
  };
  atomic { run Rank(0); run Rank(1); run Rank(2) }
}

ltl everything_ends { <> (ended == RANKS) }
