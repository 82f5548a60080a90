package freshness

import "math"

const (
	// bestPace is the number of changes between two looks of the page that is worth most looks: the
	// root of exp(x) = 1 + x + x*x.
	bestPace = 1.7932821329007607
	// mostWorth bounds what a rate may be, as a part of the rate from which no look is worth its
	// request. Estimates beyond it rest on chance: a page that changed each time may change at any
	// rate.
	mostWorth = 0.99
)

// A Policy says when a page is looked at again. What a look gains is the time for which, by it, the
// copy will be fresh: with a rate r and the time t since the last look, (1-(1+rt)exp(-rt))/r. In
// the refresh policy that keeps most copies fresh with so many requests this is the same for all
// pages when they are looked at ("Effective page refresh policies", section 5.3); here it is the
// gain by which the page that is worth most looks gets one each Min. So a page that changes faster
// is looked at less often again: its copy is soon old whatever is done.
type Policy struct {
	Min, Max int64 // seconds between two looks at a page, 0 < Min <= Max
}

// price returns what the look that is just worth its request gains, in seconds.
func (p Policy) price() float64 {
	return float64(p.Min) * bestPace * math.Exp(-bestPace)
}

// Interval returns the seconds from the last look at a page to the next one. A page that has never
// changed is looked at after as long again as it has been seen not to, one without looks after hint
// seconds; 0: Min.
func (p Policy) Interval(h History, hint int64) int64 {
	switch rate := h.Rate(); {
	case h.Looks() == 0:
		return p.bound(hint)
	case rate == 0:
		return p.bound(h.SameFor)
	default:
		rate = min(rate, mostWorth/p.price())
		return p.bound(int64(changesUntil(p.price()*rate) / rate))
	}
}

func (p Policy) bound(seconds int64) int64 { return min(max(seconds, p.Min), p.Max) }

// Gain returns what a look gains now, in seconds, that long after the last one. Of a page that has
// never changed it is the gain by which its interval would be right.
func (p Policy) Gain(h History, hint, since int64) float64 {
	if rate := h.Rate(); rate > 0 {
		return fresh(rate*float64(since)) / rate
	}
	late := float64(since) / float64(p.Interval(h, hint))
	return p.price() * late * late
}

// fresh returns how much of x expected changes a look saves: 1 - (1+x)exp(-x).
func fresh(x float64) float64 {
	if x < 1e-4 {
		return x * x / 2 // else the difference of nearly equal numbers
	}
	return 1 - (1+x)*math.Exp(-x)
}

// changesUntil is the inverse of fresh, for 0 < y < 1.
func changesUntil(y float64) float64 {
	low, high := 0.0, 64.0
	for range 60 {
		if mid := (low + high) / 2; fresh(mid) < y {
			low = mid
		} else {
			high = mid
		}
	}
	return high
}
