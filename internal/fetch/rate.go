package fetch

import (
	"context"
	"io"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// A throttle is the rate that all bodies share.
type throttle struct{ now atomic.Pointer[pace] }

// A pace is a rate that counts until replaced ends.
type pace struct {
	limiter  *rate.Limiter // nil: no limit
	replaced context.Context
	replace  context.CancelFunc
}

// SetLimitRate changes Options.LimitRate at once, also for bodies that are on their way.
func (c *Client) SetLimitRate(most int64) {
	p := &pace{}
	p.replaced, p.replace = context.WithCancel(context.Background())
	if most > 0 {
		p.limiter = rate.NewLimiter(rate.Limit(most), rateBurst)
	}
	if was := c.rate.now.Swap(p); was != nil {
		was.replace()
	}
}

// take waits until n bytes may pass, or until their rate counts no more.
func (p *pace) take(ctx context.Context, n int) error {
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(p.replaced, stop)()
	if err := p.limiter.WaitN(waiting, n); err != nil && p.replaced.Err() == nil {
		return err
	}
	return context.Cause(ctx)
}

// metered makes a body keep to the rates: the highest one, which all bodies share, and the lowest
// one.
func (c *Client) metered(w *watch, r io.Reader) io.Reader { return &meteredReader{&c.rate, w, r} }

type meteredReader struct {
	rate *throttle
	w    *watch
	r    io.Reader
}

func (m *meteredReader) Read(b []byte) (int, error) {
	p := m.rate.now.Load()
	if p.limiter != nil {
		b = b[:min(len(b), rateBurst)]
	}
	n, err := m.r.Read(b)
	m.w.count(n)
	if n > 0 && p.limiter != nil && !p.limiter.AllowN(time.Now(), n) {
		wait := func(ctx context.Context) error { return p.take(ctx, n) }
		if werr := m.w.pause(wait); werr != nil {
			return n, werr
		}
	}
	return n, err
}
