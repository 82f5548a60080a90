package buffer

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"
)

// An adding is one call of Add; clock gives the order of its start and its end.
type adding struct {
	weight     int64
	rest       int64 // what it weighs once it is written
	start, end int   // end 0: not returned yet
	err        error
	ended      bool // the test cancelled its context
	cancel     context.CancelFunc
	counted    bool
	writes     int
	arrivals   int
}

// A model does things to a buffer in any order and states, at each quiet point, what holds.
type model struct {
	t      *rapid.T
	ctx    context.Context
	b      *Buffer[*adding]
	clock  int
	all    []*adding
	wrote  []*adding // in the order of writing
	got    []*adding // in the order of arrival
	out    []*Batch[*adding]
	flush  bool // Flush was called since the last batch, with items there
	closed bool

	taking     bool
	takeCancel context.CancelFunc
	takeEnded  bool
	takeDone   chan func()

	slow    bool       // a write waits for the test
	writing bool       // one does
	written chan error // lets it go on
}

// errWrite is the error of a write that fails.
var errWrite = errors.New("write failed")

// write takes from items what they do not weigh any longer. It runs in the goroutine of Take.
func (m *model) write(items []*adding) error {
	var err error
	if m.slow {
		m.writing = true
		err = <-m.written
		m.writing = false
	}
	for _, a := range items {
		a.writes++
		m.wrote = append(m.wrote, a)
		if err == nil {
			a.weight = a.rest
		}
	}
	return err
}

func (m *model) add() {
	ctx, cancel := context.WithCancel(m.ctx)
	m.clock++
	a := &adding{weight: rapid.Int64Range(0, 12).Draw(m.t, "weight"), start: m.clock, cancel: cancel}
	a.rest = rapid.Int64Range(0, a.weight).Draw(m.t, "rest")
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
		batch, err := m.b.Take(ctx, m.write)
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
	case err == errWrite && m.slow:
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
			if a.ended || m.closed {
				m.t.Fatal("an Add waits though its context ended or the buffer is closed")
			}
		case a.err == nil:
			added++
		}
	}
	c := m.b.Counts()
	out := 0
	for _, batch := range m.out {
		out += len(batch.Items)
	}
	if c.Added != int64(added) || c.Added != c.Removed+int64(c.Waiting)+int64(c.Out) || c.Out != out {
		m.t.Fatalf("counts %+v; %d added, %d out", c, added, out)
	}

	// What the items that are here and those that are out weigh.
	m.b.mu.Lock()
	here, written, wanted := slices.Clone(m.b.here.items), m.b.here.written, m.b.wanted
	m.b.mu.Unlock()
	var used, fresh int64
	for i, a := range here {
		used += min(a.weight, m.b.opts.Bytes)
		if i >= written {
			fresh += min(a.weight, m.b.opts.Bytes)
		}
	}
	for _, batch := range m.out {
		for _, a := range batch.Items {
			used += min(a.weight, m.b.opts.Bytes)
		}
	}

	// Permits. A semaphore that someone waits at shows none. An Add that has a place waits for bytes.
	places := free(m.b.crawlerSem)
	withPlace := int(int64(m.b.opts.Size)-places) - c.Waiting - c.Out
	if withPlace < 0 || withPlace > pending || (withPlace > 0) != (wanted > 0) {
		m.t.Fatalf("%d free places of %d with %+v, and %d Adds wait, for %d bytes", places, int64(m.b.opts.Size), c, pending, wanted)
	}
	if got := free(m.b.byteSem); wanted == 0 && got != m.b.opts.Bytes-used {
		m.t.Fatalf("%d free bytes, want %d", got, m.b.opts.Bytes-used)
	}
	if got := free(m.b.builderSem); !m.taking && got != int64(c.Waiting) {
		m.t.Fatalf("%d permits for %d items", got, c.Waiting)
	}

	// Nobody waits without a reason.
	if pending > withPlace && places != 0 {
		m.t.Fatalf("%d Adds wait for one of %d free places", pending-withPlace, places)
	}
	if wanted > 0 && used == 0 {
		m.t.Fatal("Adds wait for bytes and all are free")
	}
	if m.taking && !m.writing && (m.closed || m.takeEnded || int64(c.Waiting) >= int64(m.b.opts.Batch) ||
		c.Waiting > 0 && (m.flush || wanted > 0) || fresh >= m.b.opts.Burst) {
		m.t.Fatalf("Take waits: closed %v, ended %v, flush %v, wanted %d, not written %d, %+v", m.closed, m.takeEnded, m.flush, wanted, fresh, c)
	}

	// Nothing is written twice, or arrives without.
	for _, a := range m.wrote {
		if a.writes != 1 || a.end == 0 || a.err != nil {
			m.t.Fatalf("an item was written %d times; its Add: ended %v, %v", a.writes, a.end != 0, a.err)
		}
	}
	if len(m.got) > len(m.wrote) || !slices.Equal(m.got, m.wrote[:len(m.got)]) {
		m.t.Fatal("items are not written in the order in which they arrive, or not before")
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
		m.slow = false
		if m.writing {
			m.written <- nil
		}
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
	if p, i, by := free(m.b.crawlerSem), free(m.b.builderSem), free(m.b.byteSem); p != int64(m.b.opts.Size) || i != 0 || by != m.b.opts.Bytes {
		m.t.Fatalf("left over: %d of %d places, %d items, %d of %d bytes", p, int64(m.b.opts.Size), i, by, m.b.opts.Bytes)
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
				slow: rapid.Bool().Draw(rt, "slow writes"), written: make(chan error),
				b: New(Options[*adding]{
					Size:   rapid.IntRange(1, 4).Draw(rt, "size"),
					Batch:  rapid.IntRange(0, 5).Draw(rt, "batch"),
					Bytes:  rapid.Int64Range(1, 10).Draw(rt, "bytes"),
					Burst:  rapid.Int64Range(1, 12).Draw(rt, "burst"),
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
				"write": func(rt *rapid.T) {
					if !m.writing {
						rt.Skip()
					}
					if rapid.IntRange(0, 9).Draw(rt, "fails") > 0 {
						m.written <- nil
					} else {
						m.written <- errWrite
					}
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
