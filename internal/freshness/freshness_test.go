package freshness

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"urltree/internal/testseed"
)

const (
	hour = 3600
	day  = 24 * hour
)

// TestRateOfRegularLooks: for looks at regular times the rate is the one of the paper, worked out
// here from the counts alone.
func TestRateOfRegularLooks(t *testing.T) {
	for n := 1; n <= remembered; n++ {
		for changes := 0; changes <= n; changes++ {
			for _, every := range []int64{1, hour, 30 * day} {
				var h History
				for i := range n {
					h.Add(i < changes, every)
				}
				want := -math.Log((float64(n-changes)+0.5)/(float64(n)+0.5)) / float64(every)
				if got := h.Rate(); math.Abs(got-want) > 1e-9*want {
					t.Fatalf("%d of %d looks, one each %ds: %g, want %g", changes, n, every, got, want)
				}
			}
		}
	}
}

// changesIn draws whether a page with a rate has changed in a time.
func changesIn(rng *rand.Rand, rate float64, seconds int64) bool {
	return rng.Float64() < -math.Expm1(-rate*float64(seconds))
}

// likeliest finds the rate by all looks, as the sum in the comment of Rate says, without its means.
func likeliest(spans []int64, changed []bool) float64 {
	low, high := 1e-12, 1.0
	for range 200 {
		rate, left, right := math.Sqrt(low*high), 0.0, 0.0
		for i, span := range spans {
			if s := float64(span); changed[i] {
				left += s / math.Expm1(rate*s)
			} else {
				right += s
			}
		}
		if left > right {
			low = rate
		} else {
			high = rate
		}
	}
	return low
}

// TestRateOfIrregularLooks: where looks come at times that differ tenfold, the rate in closed form
// is about that of greatest likelihood, which needs all of them.
func TestRateOfIrregularLooks(t *testing.T) {
	rng := rand.New(rand.NewPCG(testseed.Draw(t), 1))
	var off []float64
	for range 2000 {
		rate := 1.0 / float64(day)
		var h History
		var spans []int64
		var changed []bool
		for range 30 {
			span := int64(float64(day) / 4 * math.Pow(10, rng.Float64()))
			spans, changed = append(spans, span), append(changed, changesIn(rng, rate, span))
			h.Add(changed[len(changed)-1], span)
		}
		if h.Same > 0 && h.Changes > 0 {
			off = append(off, math.Abs(math.Log(h.Rate()/likeliest(spans, changed))))
		}
	}
	slices.Sort(off)
	if at := math.Exp(off[len(off)*9/10]); at > 1.35 {
		t.Errorf("nine in ten rates are within a factor of %.2f of the likeliest one", at)
	}
}

// TestHistory: whatever looks come, one that found the same lowers the rate and one that found a
// change after the usual time raises it, a unit of time is a unit, the numbers stay few, and a look
// that came at once is none.
func TestHistory(t *testing.T) {
	rng := rand.New(rand.NewPCG(testseed.Draw(t), 2))
	for range 2000 {
		var h, slow History
		for range rng.IntN(200) {
			changed, span := rng.IntN(3) == 0, 1000+rng.Int64N(1_000_000)
			h.Add(changed, span)
			slow.Add(changed, 60*span)
			if h.Looks() > remembered {
				t.Fatalf("%d looks count", h.Looks())
			}
		}
		if before := h; true {
			if h.Add(rng.IntN(2) == 0, 0); h != before {
				t.Fatalf("%+v, a look that came at once makes %+v", before, h)
			}
		}
		if h.Changes == 0 || h.Looks() == remembered {
			continue
		}
		if rate := h.Rate(); math.Abs(60*slow.Rate()/rate-1) > 1e-3 {
			t.Fatalf("%+v: %g, and at a sixtieth of the pace %g", h, rate, slow.Rate())
		}
		same, more := h, h
		same.Add(false, 1000)
		more.Add(true, h.ChangesFor/h.Changes)
		if same.Rate() >= h.Rate() || more.Rate() <= h.Rate() {
			t.Fatalf("%+v: %g, after the same %g, after a change %g", h, h.Rate(), same.Rate(), more.Rate())
		}
	}
}

// TestWays: a page that begins to change, or stops, has its new rate, within a factor of two, after
// as many looks as are remembered.
func TestWays(t *testing.T) {
	rng := rand.New(rand.NewPCG(testseed.Draw(t), 3))
	for _, rates := range [][2]float64{{0.05, 1}, {2, 0.2}} {
		near := 0
		for range 500 {
			var h History
			for range 200 {
				h.Add(changesIn(rng, rates[0]/day, day), day)
			}
			for range 2 * remembered {
				h.Add(changesIn(rng, rates[1]/day, day), day)
			}
			if r := h.Rate() * day / rates[1]; r >= 0.5 && r <= 2 {
				near++
			}
		}
		if near < 450 {
			t.Errorf("from %g to %g changes a day: %d of 500 rates are near", rates[0], rates[1], near)
		}
	}
}

// TestRateAfterTenLooks: of pages that change between 0.8 and 2.2 times from look to look, which
// is where ten looks can tell, nine in ten rates are within a factor of two.
func TestRateAfterTenLooks(t *testing.T) {
	rng := rand.New(rand.NewPCG(testseed.Draw(t), 4))
	const pages = 20_000
	near := 0
	for range pages {
		rate := 0.8 + 1.4*rng.Float64()
		var h History
		for range 10 {
			h.Add(changesIn(rng, rate/day, day), day)
		}
		if r := h.Rate() * day / rate; r >= 0.5 && r <= 2 {
			near++
		}
	}
	if near < pages*9/10 {
		t.Errorf("%d of %d rates are within a factor of two", near, pages)
	}
	t.Logf("%.1f %% within a factor of two", 100*float64(near)/pages)
}

// TestInterval: the interval is the shortest, Min, at one rate, and grows to both sides of it; it
// stays in its bounds, and what a look gains then is the same wherever it is within them.
func TestInterval(t *testing.T) {
	p := Policy{Min: day, Max: 30 * day}
	of := func(rate float64) History { // a history with this rate
		h := History{Changes: 16, ChangesFor: 16 * 1000, Same: 0}
		each := 1000.0
		h.SameFor = int64(float64(h.ChangesFor)/math.Expm1(rate*each) - each/2)
		return h
	}
	last := int64(math.MaxInt64)
	for rate := 0.001 / day; rate < bestPace/day; rate *= 1.1 {
		h := of(rate)
		got := p.Interval(h, 0)
		if got > last || got < p.Min || got > p.Max {
			t.Fatalf("%g changes a day: looked at each %.2f days, at a slower pace each %.2f", rate*day, float64(got)/day, float64(last)/day)
		}
		if gain := p.Gain(h, 0, got); got > p.Min && got < p.Max && math.Abs(gain/p.price()-1) > 0.01 {
			t.Errorf("%g changes a day: a look gains %g, want %g", rate*day, gain, p.price())
		}
		last = got
	}
	if best := p.Interval(of(bestPace/day), 0); best > p.Min+p.Min/1000 {
		t.Errorf("the page that is worth most looks gets one each %.3f days", float64(best)/day)
	}
	for rate := bestPace / day; rate < 1000.0/day; rate *= 1.1 {
		got := p.Interval(of(rate), 0)
		if got < p.Min || got > 3*p.Min {
			t.Errorf("%g changes a day: each %.2f days", rate*day, float64(got)/day)
		}
	}
	if fast := p.Interval(of(10.0/day), 0); fast < p.Min*3/2 {
		t.Errorf("a page that changes ten times a day gets a look each %.2f days, no less than others", float64(fast)/day)
	}
}

// TestNeverChanged: a page that is the same at each look is looked at after twice the time, from
// the hint on, up to Max.
func TestNeverChanged(t *testing.T) {
	p := Policy{Min: day, Max: 30 * day}
	for hint, want := range map[int64][]int64{
		0: {1, 1, 2, 4, 8, 16, 30, 30}, 7 * day: {7, 7, 14, 28, 30, 30}, hour: {1, 1, 2, 4}, 1000 * day: {30, 30, 30},
	} {
		var h History
		for i, days := range want {
			got := p.Interval(h, hint)
			if got != days*day {
				t.Errorf("hint %d: interval %d is %.2f days, want %d", hint, i, float64(got)/day, days)
			}
			if gain := p.Gain(h, hint, got); math.Abs(gain-p.price()) > 1 {
				t.Errorf("a look that is due gains %g, want %g", gain, p.price())
			}
			h.Add(false, got)
		}
	}
}
