package frontier

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"urltree/internal/testseed"
	"urltree/storage/record"
)

// TestShareOfRevisits: while both wait, a host is asked for stored pages with their share of its
// requests, at any moment to less than one but for what came back unasked, and each row is asked
// once, pages in their order, whatever the loans and the windows.
func TestShareOfRevisits(t *testing.T) {
	seed := testseed.Draw(t)
	for _, share := range []int{1, 30, 50, 99, 100} {
		for _, perLoan := range []int{1, 16} {
			for _, memory := range []int64{0, 4000} {
				for _, queue := range []string{"", "cbt"} {
					t.Run(fmt.Sprint(share, " of 100, loans of ", perLoan, ", memory ", memory, ", queue ", queue), func(t *testing.T) {
						shareOfRevisits(t, share, Options{PerLoan: perLoan, Memory: memory, Queue: queue}, rand.New(rand.NewPCG(seed, 0)))
					})
				}
			}
		}
	}
}

func shareOfRevisits(t *testing.T, share int, opts Options, rng *rand.Rand) {
	s := newStore()
	opts.Revisits = Revisits{share, func(host string, now time.Time, n int, skip func(string) bool) ([]record.Row, int64, error) {
		return s.read(host, record.RevisitRow, now, n, skip), 0, s.err
	}}
	f := start(t, s, opts)
	const each = 150
	var rows []record.Row
	for i := range uint64(2 * each) {
		r := row("a.example", i%3, i)
		if i >= each {
			r.Kind, r.Rank = record.RevisitRow, 1<<63
		}
		rows = append(rows, r)
		s.rows[r.ID()] = r
	}
	rng.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	f.Add(rows[:each], 1)
	f.Add(rows[each:], 1)
	asked, last := map[record.Kind]int{}, map[record.Kind]record.Row{}
	for asked[record.PageRow]+asked[record.RevisitRow] < 2*each {
		_, loans := take(t, f, 1)
		for _, l := range loans {
			if n := rng.IntN(len(l.Rows) + 1); opts.PerLoan > 1 && rng.IntN(4) == 0 {
				f.Return(l, l.Rows[n:])
				l.Rows = l.Rows[:n]
			}
			for _, r := range l.Rows {
				asked[r.Kind]++
				if before, ok := last[r.Kind]; ok && r.Kind == record.PageRow && before.Rank > r.Rank {
					t.Fatalf("rank %d after %d", r.Rank, before.Rank)
				}
				last[r.Kind] = r
			}
			finish(f, s, l)
		}
		news, again := asked[record.PageRow], asked[record.RevisitRow]
		if off := again*100 - share*(news+again); opts.PerLoan == 1 && news < each && again < each && (off >= 100 || off <= -100) {
			t.Fatalf("%d pages and %d again, want %d in 100", news, again, share)
		}
	}
	if asked[record.PageRow] != each || asked[record.RevisitRow] != each {
		t.Errorf("asked %v", asked)
	}
	wantEnd(t, f)
}
