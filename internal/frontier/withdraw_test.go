package frontier

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"urltree/storage/record"
)

// TestWithdraw: what was withdrawn is lent no more, in memory or not, until it is added again: nor
// is what comes back unasked, or to be asked again, or what a reading brings that was under way.
func TestWithdraw(t *testing.T) {
	in(t, allOrders(), func(t *testing.T, o order) {
		var rows []record.Row
		for i := range uint64(100) {
			rows = append(rows, row("a.example", 0, i), row("b.example", 0, 100+i))
		}
		s := newStore()
		f := start(t, s, o.options(Options{PerLoan: 3, MaxHosts: 2}))
		add := func(list ...record.Row) {
			tx := s.commit(nil, list, nil)
			f.Add(list, tx)
		}
		add(rows...)
		add(s.addSitemaps("http://b.example/sitemap.xml")...)
		add(row("c.example", 0, 500)) // there is no room for its host
		_, loans := take(t, f, 2)
		clear(s.rows)
		f.Withdraw()
		wait, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if l, err := f.Take(wait, 5); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("while some are out: %v, %v", l, err)
		}
		for _, l := range loans {
			f.Return(l, l.Rows[1:])
			later := l.Rows[0]
			later.Range, later.Due = record.Later, time.Now().Add(time.Minute).UnixNano()
			f.Done([]Done{{Row: l.Rows[0], Next: later}}, nil)
		}
		now := time.Now()
		wantEnd(t, f)
		if n, waited := f.Stats().Eligible, time.Since(now); n != 0 || waited > 0 {
			t.Errorf("%d are eligible, waited for %v", n, waited)
		}
		add(rows[:4]...)
		for left := 4; left > 0; {
			got, loans := take(t, f, 1)
			left -= len(got)
			finish(f, s, loans...)
		}
		wantEnd(t, f)

		// A refill is under way, then the reading of other hosts, of which one rests.
		s.commit(nil, nil, []record.HostTimes{{Name: "d.example", Next: time.Now().Add(time.Minute).UnixNano()}})
		for _, host := range []string{"a.example", "d.example"} {
			add(row(host, 0, 0), row(host, 0, 1))
			reads, goOn := make(chan struct{}), make(chan struct{})
			s.pause = func() { reads <- struct{}{}; <-goOn }
			later := row(host, 0, 900)
			later.Range = record.Later
			add(later)
			ended := make(chan error, 1)
			go func() { _, err := f.Take(t.Context(), 1); ended <- err }()
			<-reads
			goOn <- struct{}{}
			<-reads // its answer is there
			f.Withdraw()
			clear(s.rows)
			s.pause = nil
			now := time.Now()
			goOn <- struct{}{}
			if err, waited := <-ended, time.Since(now); !errors.Is(err, io.EOF) || f.Stats().Eligible != 0 || waited > 0 {
				t.Errorf("after a reading: %v, %d are eligible, waited for %v", err, f.Stats().Eligible, waited)
			}
		}
	})
}
