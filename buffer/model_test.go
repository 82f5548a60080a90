package buffer

import (
	"context"
	"io"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"
)

// An adding is one call of Add; clock gives the order of its start and its end.
type adding struct {
	weight     int64
	start, end int // end 0: not returned yet
	err        error
	ended      bool // the test cancelled its context
	cancel     context.CancelFunc
	counted    bool
	arrivals   int
}

// A model does things to a buffer in any order and states, at each quiet point, what holds.
type model struct {
	t      *rapid.T
	ctx    context.Context
	b      *Buffer[*adding]
	clock  int
	all    []*adding
	got    []*adding // in the order of arrival
	out    []*Batch[*adding]
	flush  bool // Flush was called since the last batch, with items there
	closed bool

	taking     bool
	takeCancel context.CancelFunc
	takeEnded  bool
	takeDone   chan func()
}

func (m *model) add() {
	ctx, cancel := context.WithCancel(m.ctx)
	m.clock++
	a := &adding{weight: rapid.Int64Range(0, 12).Draw(m.t, "weight"), start: m.clock, cancel: cancel}
	m.all = append(m.all, a)
	go func() {
		a.err = m.b.Add(ctx, a)
		a.counted = true
	}()
}

func (m *model) take() {
	ctx, cancel := context.WithCancel(m.ctx)
	m.taking, m.takeCancel, m.takeEnded = true, cancel, false
	go func() {
		batch, err := m.b.Take(ctx)
		m.takeDone <- func() { m.took(batch, err) }
	}()
}

func (m *model) took(batch *Batch[*adding], err error) {
	m.taking = false
	m.takeCancel()
	switch {
	case err == nil:
		if len(batch.Items) == 0 {
			m.t.Fatal("an empty batch")
		}
		m.out = append(m.out, batch)
		m.flush = false
		for _, a := range batch.Items {
			a.arrivals++
			m.got = append(m.got, a)
		}
	case err == io.EOF && m.closed:
	case err == context.Canceled && m.takeEnded:
	default:
		m.t.Fatalf("Take: %v", err)
	}
}

// quiet lets all goroutines run until they stand still, and checks everything.
func (m *model) quiet() {
	synctest.Wait()
	select {
	case f := <-m.takeDone:
		f()
	default:
	}
	m.clock++
	var pending, added int
	var lightest, used int64 = 1 << 30, 0
	for _, a := range m.all {
		if a.counted && a.end == 0 {
			a.end = m.clock
			a.cancel()
			if a.err != nil && !(a.err == context.Canceled && a.ended) && !(a.err == ErrClosed && m.closed) {
				m.t.Fatalf("Add: %v", a.err)
			}
		}
		switch {
		case a.end == 0:
			pending++
			lightest = min(lightest, a.weight)
			if a.ended || m.closed {
				m.t.Fatal("an Add waits though its context ended or the buffer is closed")
			}
		case a.err == nil:
			added++
		}
	}
	for _, batch := range m.out {
		used += batch.bytes
	}
	c := m.b.Counts()
	out := 0
	for _, batch := range m.out {
		out += len(batch.Items)
	}
	if c.Added != int64(added) || c.Added != c.Removed+int64(c.Waiting)+int64(c.Out) || c.Out != out {
		m.t.Fatalf("counts %+v; %d added, %d out", c, added, out)
	}

	// Permits. A semaphore that someone waits at shows none.
	m.b.mu.Lock()
	starved, waitingBytes := m.b.starved, m.b.bytes
	m.b.mu.Unlock()
	used += waitingBytes
	places := m.b.size - int64(c.Waiting+c.Out+starved)
	if got := free(m.b.crawlerSem); got != places {
		m.t.Fatalf("%d free places, want %d", got, places)
	}
	if got := free(m.b.byteSem); starved == 0 && got != m.b.limit-used {
		m.t.Fatalf("%d free bytes, want %d", got, m.b.limit-used)
	}
	if got := free(m.b.builderSem); !m.taking && got != int64(c.Waiting) {
		m.t.Fatalf("%d permits for %d items", got, c.Waiting)
	}

	// Nobody waits without a reason.
	if pending > starved && places != 0 {
		m.t.Fatalf("%d Adds wait for one of %d free places", pending-starved, places)
	}
	if starved > 0 && used == 0 {
		m.t.Fatalf("%d Adds wait for bytes and all are free", starved)
	}
	if m.taking && (m.closed || m.takeEnded || int64(c.Waiting) == m.b.size || c.Waiting > 0 && (m.flush || starved > 0)) {
		m.t.Fatalf("Take waits: closed %v, ended %v, flush %v, starved %d, %+v", m.closed, m.takeEnded, m.flush, starved, c)
	}

	// Nothing arrives twice or unsent, and of two items the one that was in first comes first.
	for _, a := range m.got {
		if a.arrivals != 1 || a.end == 0 || a.err != nil {
			m.t.Fatalf("an item arrived %d times; its Add: ended %v, %v", a.arrivals, a.end != 0, a.err)
		}
	}
	for i, a := range m.got {
		if i > 0 && m.got[i-1].start > a.end {
			m.t.Fatal("an item overtook another")
		}
	}
}

func (m *model) finish() {
	// With a builder that goes on, every Add ends.
	for range 10*len(m.all) + 10 {
		if !m.taking {
			m.take()
		}
		m.b.Flush()
		m.quiet()
		for _, batch := range m.out {
			batch.Done()
		}
		m.out = nil
		m.quiet()
	}
	for _, a := range m.all {
		if a.end == 0 {
			m.t.Fatal("an Add never ends")
		}
	}
	m.closed = true
	m.b.Close()
	m.quiet()
	if m.taking {
		m.t.Fatal("Take waits at a closed buffer")
	}
	got := 0
	for _, a := range m.all {
		if a.err == nil {
			got++
		}
	}
	if c := m.b.Counts(); int(c.Removed) != got || len(m.got) != got || c.Waiting+c.Out != 0 {
		m.t.Fatalf("%d added, %d arrived, %+v", got, len(m.got), c)
	}
	if p, i, by := free(m.b.crawlerSem), free(m.b.builderSem), free(m.b.byteSem); p != m.b.size || i != 0 || by != m.b.limit {
		m.t.Fatalf("left over: %d of %d places, %d items, %d of %d bytes", p, m.b.size, i, by, m.b.limit)
	}
}

func TestModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := struct{ *testing.T }{t} // rapid asks a bare T for its deadline, which a bubble has not
		rapid.Check(tb, func(rt *rapid.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			m := &model{
				t: rt, ctx: ctx, takeDone: make(chan func(), 1),
				b: New(Options[*adding]{
					Size:   rapid.IntRange(1, 4).Draw(rt, "size"),
					Bytes:  rapid.Int64Range(1, 10).Draw(rt, "bytes"),
					Weight: func(a *adding) int64 { return a.weight },
				}),
			}
			pendingAdds := func() (list []*adding) {
				for _, a := range m.all {
					if a.end == 0 {
						list = append(list, a)
					}
				}
				return list
			}
			rt.Repeat(map[string]func(*rapid.T){
				"add": func(*rapid.T) { m.add() },
				"add two at once": func(*rapid.T) {
					m.add()
					m.add()
				},
				"cancel an add": func(rt *rapid.T) {
					list := pendingAdds()
					if len(list) == 0 {
						rt.Skip()
					}
					a := rapid.SampledFrom(list).Draw(rt, "which")
					a.ended = true
					a.cancel()
				},
				"take": func(rt *rapid.T) {
					if m.taking {
						rt.Skip()
					}
					m.take()
				},
				"cancel take": func(rt *rapid.T) {
					if !m.taking {
						rt.Skip()
					}
					m.takeEnded = true
					m.takeCancel()
				},
				"flush": func(*rapid.T) {
					m.flush = m.b.Counts().Waiting > 0
					m.b.Flush()
				},
				"done": func(rt *rapid.T) {
					if len(m.out) == 0 {
						rt.Skip()
					}
					i := rapid.IntRange(0, len(m.out)-1).Draw(rt, "which")
					m.out[i].Done()
					if rapid.Bool().Draw(rt, "twice") {
						m.out[i].Done()
					}
					m.out = append(m.out[:i:i], m.out[i+1:]...)
				},
				"close": func(rt *rapid.T) {
					if rapid.IntRange(0, 9).Draw(rt, "rarely") > 0 {
						rt.Skip()
					}
					m.closed = true
					m.b.Close()
				},
				"": func(*rapid.T) { m.quiet() },
			})
			m.finish()
		})
	})
}
