package frontier

import "time"

// A host that refuses requests (429, 503) has a pace: the least time between two of them that went
// well, as far as is known. It is found as congestion control finds a rate. A refusal after an
// answer makes the pace longer by a part of the time that was too short, and the back-off, which
// doubles with each refusal in a row and halves with each answer, takes the host there from above:
// so a server that was away for a moment does not change the pace for long. Then each answer makes
// the pace a little shorter, to find out whether the limit is still there.
const (
	mostPace   = 2 * time.Minute
	slowing    = 512 // each answer makes the pace shorter by this part of it
	steady     = 64  // answers in a row by which a pace has proved right
	searching  = 8   // fewer answers in a row tell that a pace is far from right
	mostRaises = 10  // of which a steady run takes two back
)

// slower takes note of a refusal. Where refusals come whatever the pace, as from a server that
// fails at random, there is none for a while.
func (f *Frontier) slower(h *host) {
	if short := max(f.wait(h), leastAuto); h.fails == 0 {
		longer := short + short/4
		if h.run < searching {
			longer = short + short/2
		}
		h.raises = min(h.raises+1, mostRaises+1)
		if h.pace = min(longer, mostPace); h.raises > mostRaises {
			h.pace = 0
		}
	}
	h.backoff = max(h.backoff, f.wait(h))
}

// faster takes note of an answer.
func (f *Frontier) faster(h *host) {
	if h.run++; h.run%steady == 0 {
		h.raises = max(h.raises-2, 0)
	}
	if h.backoff /= 2; h.backoff < firstDelay || h.backoff <= h.pace {
		h.backoff = 0
	}
	if h.backoff > 0 || h.pace == 0 {
		return
	}
	pace := h.pace - h.pace/slowing - 1
	h.pace = 0
	if pace > f.wait(h) {
		h.pace = pace // else it is no more than what the host waits anyway
	}
}
