package frontier

import (
	"math"
	"time"
)

// A Policy is what is special about one host. Its robots.txt, its answers and its rests count
// besides, as for any other.
type Policy struct {
	Delay   time.Duration // between two requests, in milliseconds; 0: as for any other, negative: none
	PerHost int           // loans at once; 0: as for any other
}

// follow takes note of the policy of the host.
func (p *pace) follow(own Policy) {
	p.perHost = uint16(min(max(own.PerHost, 0), math.MaxUint16))
	p.delay = int32(min(own.Delay/time.Millisecond, math.MaxInt32))
	switch {
	case own.Delay < 0:
		p.delay = -1
	case own.Delay > 0:
		p.delay = max(p.delay, 1)
	}
}

// atOnce returns how many loans of the host there may be at once.
func (p *pace) atOnce(o *Options) int {
	if p.perHost > 0 {
		return int(p.perHost)
	}
	return o.PerHost
}

// SetPace changes Options.Delay, Auto and PerHost. They count for each request that begins after it
// has returned. A host that was not asked in this run yet waits besides as the last run has left
// it.
func (f *Frontier) SetPace(delay time.Duration, auto bool, perHost int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.opts.Delay, f.opts.Auto, f.opts.PerHost = delay, auto, perHost
	for i := len(f.hosts.list) - 1; i >= 0; i-- { // from the end, since hosts may leave
		h := f.hosts.list[i]
		if p := &h.pace; p.asked != 0 {
			p.next = max(p.until, p.asked+int64(p.wait(&f.opts)))
		}
		f.placeLocked(h)
	}
	f.wakeLocked()
}
