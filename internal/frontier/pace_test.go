package frontier

import (
	"math/rand/v2"
	"testing"
	"time"
)

// A limiter is a server that takes so many requests in a time, as nginx's limit_req does: what is
// over is refused and does not count.
type limiter struct {
	every time.Duration // between two requests, on average
	burst float64       // requests that may come at once besides
	full  float64       // requests over the rate so far
	last  time.Time
}

func (l *limiter) takes(at time.Time) bool {
	full := l.full
	if !l.last.IsZero() {
		full = max(full-float64(at.Sub(l.last))/float64(l.every)+1, 0)
	}
	if full > l.burst {
		return false
	}
	l.full, l.last = full, at
	return true
}

// A paced is what came of asking a host for a while.
type paced struct {
	taken, refused int
	row            int           // the most refusals in a row
	settled        int           // refusals before 20 requests in a row were taken; -1: that never was
	took           time.Duration // until enough were taken
	end            time.Duration // the delay at the end
}

// paceOf asks a host, one request at a time, until so many are taken or it is given up.
func paceOf(t *testing.T, opts Options, least time.Duration, enough int, takes func(at time.Time) bool) paced {
	t.Helper()
	f := start(t, newStore(), opts)
	l := &Loan{h: f.hostLocked("a.example")}
	begin := time.Unix(1_000_000, 0)
	at, p, run, row := begin, paced{settled: -1}, 0, 0
	for p.taken < enough && !l.h.pace.givenUp {
		a := Answer{Start: at, End: at.Add(least)}
		if takes(at) {
			p.taken++
			run, row = run+1, 0
			if run == 20 && p.settled < 0 {
				p.settled = p.refused
			}
		} else {
			a.Fault = Refused
			p.refused++
			run, row = 0, row+1
			p.row = max(p.row, row)
		}
		times := f.Answered(l, a)
		at = time.Unix(0, max(times.Next, a.End.UnixNano()))
	}
	p.took, p.end = at.Sub(begin), l.h.pace.wait(&f.opts)
	return p
}

// TestPaceFindsLimit: a limit is found within some ten refusals, and from then on few are refused,
// though the host is asked nearly as often as it may be.
func TestPaceFindsLimit(t *testing.T) {
	for _, tt := range []struct {
		name  string
		every time.Duration
		burst float64
	}{
		{"10 a minute", 6 * time.Second, 0},
		{"10 a minute, burst", 6 * time.Second, 20},
		{"1 a minute", time.Minute, 0},
		{"1 a second", time.Second, 0},
		{"5 a second", 200 * time.Millisecond, 0},
		{"5 a second, burst", 200 * time.Millisecond, 20},
		{"8 a second", 125 * time.Millisecond, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, per := range []int{1, 3} {
				s := limiter{every: tt.every, burst: tt.burst}
				p := paceOf(t, Options{Auto: true, PerHost: per}, 2*time.Millisecond, 1000, s.takes)
				t.Logf("%+v", p)
				if p.taken < 1000 {
					t.Fatalf("given up after %d refusals in a row", p.row)
				}
				if p.settled < 0 || p.settled > 12 {
					t.Errorf("%d refusals before the limit was found, want at most 12", p.settled)
				}
				if p.refused > 30 {
					t.Errorf("%d refusals for 1000 requests, want at most 30", p.refused)
				}
				if best := 1000 * tt.every; p.took > best*13/10 {
					t.Errorf("took %v, at best it takes %v", p.took, best)
				}
			}
		})
	}
}

// TestPaceOfAnOutage: a server that is away for a moment is asked as often as before soon after it
// is back.
func TestPaceOfAnOutage(t *testing.T) {
	for _, away := range []time.Duration{time.Second, 10 * time.Second, time.Minute} {
		n, from := 0, time.Time{}
		p := paceOf(t, Options{Auto: true}, 2*time.Millisecond, 1000, func(at time.Time) bool {
			if n++; n == 500 {
				from = at
			}
			return n < 500 || at.Sub(from) > away
		})
		t.Logf("%v: %+v", away, p)
		if p.taken < 1000 || p.took > 1000*102*time.Millisecond+5*away+20*time.Second || p.end > 150*time.Millisecond {
			t.Errorf("away for %v: %+v", away, p)
		}
	}
}

// TestPaceOfChance: refusals that come whatever the pace do not bring the host nearly to a stand.
func TestPaceOfChance(t *testing.T) {
	for _, share := range []int{100, 30, 10, 4} {
		rng := rand.New(rand.NewPCG(1, uint64(share)))
		p := paceOf(t, Options{Auto: true}, 2*time.Millisecond, 2000, func(time.Time) bool { return rng.IntN(share) > 0 })
		t.Logf("one in %d: %+v", share, p)
		if p.taken < 2000 || p.took > 2000*1500*time.Millisecond {
			t.Errorf("one in %d refused: %+v", share, p)
		}
	}
}

// TestRefusalsInARow: a host that refuses ten times in a row is given up.
func TestRefusalsInARow(t *testing.T) {
	if p := paceOf(t, Options{Auto: true}, time.Millisecond, 1000, func(time.Time) bool { return false }); p.refused != giveUpAfter {
		t.Errorf("%d refusals, want %d", p.refused, giveUpAfter)
	}
}
