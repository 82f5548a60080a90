// Package freshness says how often pages change, by what looks at them came to, and when another
// look at one is worth its request. It reads no clock and keeps nothing: all times are handed to
// it, in seconds.
//
// Pages are taken to change as a Poisson process does, each at a rate of its own, as in Cho and
// Garcia-Molina, "Estimating frequency of change", ACM TOIT 3 (2003), and "Effective page refresh
// policies for Web crawlers", ACM TODS 28 (2003).
package freshness

import "math"

// remembered is how many looks count in full: pages change their ways.
const remembered = 32

// A History is what looks at a page came to, each with the time since the one before, in a few
// numbers. The zero value is that of no looks.
type History struct {
	Changes, Same       int64 // looks that found other content, and the same
	ChangesFor, SameFor int64 // seconds that they span together
}

// Add adds a look, so many seconds after the one before. One that came at once says nothing.
func (h *History) Add(changed bool, seconds int64) {
	switch {
	case seconds <= 0:
		return
	case changed:
		h.Changes++
		h.ChangesFor += seconds
	default:
		h.Same++
		h.SameFor += seconds
	}
	if h.Changes+h.Same > remembered {
		h.Changes, h.ChangesFor = half(h.Changes, h.ChangesFor)
		h.Same, h.SameFor = half(h.Same, h.SameFor)
	}
}

// half leaves half of n looks, rounded up, with their part of the time.
func half(n, seconds int64) (int64, int64) {
	if n == 0 {
		return 0, 0
	}
	left := (n + 1) / 2
	return left, int64(float64(seconds) * float64(left) / float64(n))
}

// Looks returns the number of looks that count.
func (h *History) Looks() int64 { return h.Changes + h.Same }

// Rate returns the estimated number of changes per second; 0: there was none.
//
// The likelihood of a rate r, with t the time that a look spans, is greatest where the sum of
// t/(exp(rt)-1) over the looks that found a change is the time that the others span ("Estimating
// frequency of change", section 5). With one time for all that found a change, their mean, r has a
// closed form, which needs no list of looks. Half such a time is added to that of the others, by
// which the bias goes of few looks: for looks at regular times this is the estimator of section 4.2
// there, -log((n-X+0.5)/(n+0.5)) for X changes in n looks.
func (h *History) Rate() float64 {
	if h.Changes == 0 {
		return 0
	}
	each := float64(h.ChangesFor) / float64(h.Changes)
	return math.Log1p(float64(h.ChangesFor)/(float64(h.SameFor)+each/2)) / each
}
