package frontier

import (
	"slices"
	"testing"
	"time"

	"urltree/storage/record"
)

// TestBarred: of a host that is barred nothing is lent, what is being asked ends, and its rows
// count for nothing; once it is barred no more it comes in from the store, and waits one delay.
func TestBarred(t *testing.T) {
	in(t, allOrders(), func(t *testing.T, o order) {
		s := newStore(row("a.example", 0, 1), row("b.example", 0, 2), row("b.example", 0, 3))
		barred := map[string]bool{}
		f := start(t, s, o.options(Options{Delay: time.Minute, Barred: func(host string) bool { return barred[host] }}))
		got, loans := take(t, f, 1)
		for len(got) < 2 {
			more, others := take(t, f, 1)
			got, loans = append(got, more...), append(loans, others...)
		}
		barred["b.example"] = true
		f.Rebar(0)
		if n := f.Barred(); n != 1 {
			t.Errorf("%d hosts leave, want one that is out", n)
		}
		for _, l := range loans {
			if begins := f.Begin(l); begins != (l.Host == "a.example") {
				t.Errorf("a request to %s may begin: %t", l.Host, begins)
			}
		}
		finish(f, s, loans...)
		news := row("b.example", 0, 4)
		f.Add([]record.Row{news}, s.commit(nil, []record.Row{news}, nil))
		if n := f.figures().Eligible; f.Barred() != 0 || n != 0 || f.Left() {
			t.Errorf("%d hosts have not left, %d rows count", f.Barred(), n)
		}
		wantEnd(t, f)

		barred["b.example"] = false
		begin := time.Now()
		f.Rebar(5) // more than there are
		got, loans = nil, nil
		for len(got) < 2 {
			more, others := take(t, f, 1)
			if waited := time.Since(begin); len(got) == 0 && waited < time.Minute {
				t.Errorf("it was lent after %v, want a delay", waited)
			}
			got = append(got, more...)
			finish(f, s, others...)
		}
		if slices.Sort(got); !slices.Equal(got, []uint64{3, 4}) {
			t.Errorf("got %v", got)
		}
		wantEnd(t, f)
		if n := f.figures().Eligible; n != 0 {
			t.Errorf("%d rows count at the end", n)
		}
	})
}
