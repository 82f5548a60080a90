package frontier

import (
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"urltree/storage"
)

func TestWindowAgainstModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	var w window
	var model []storage.Row
	free := make([]storage.Row, 0, 300)
	for i := range cap(free) {
		r := row("a.example", uint64(rng.IntN(4)), uint64(i))
		if rng.IntN(4) == 0 {
			r.Range, r.Due = storage.Later, rng.Int64N(5)
		}
		free = append(free, r)
	}
	check := func(step int) {
		t.Helper()
		text := int64(0)
		for i := range model {
			text += rowText(&model[i])
		}
		if !slices.Equal(w.rows[w.head:], model) || w.text != text {
			t.Fatalf("step %d: %d rows with %d bytes, want %d with %d", step, w.len(), w.text, len(model), text)
		}
	}
	for step := range 6000 {
		switch rng.IntN(4) {
		case 0, 1:
			rng.Shuffle(len(free), func(i, j int) { free[i], free[j] = free[j], free[i] })
			n := min(rng.IntN(6), len(free))
			rows := slices.Clone(free[:n])
			free = free[n:]
			sortRows(rows)
			for i := range rows {
				if _, there := w.search(&rows[i]); there {
					t.Fatalf("step %d: a row is found that is not there", step)
				}
			}
			w.merge(rows)
			model = append(model, rows...)
			sortRows(model)
			for i := range rows {
				if _, there := w.search(&rows[i]); !there {
					t.Fatalf("step %d: a row is not found that is there", step)
				}
			}
		case 2:
			for range min(rng.IntN(4), len(model)) {
				if first := *w.first(); first != model[0] || w.pop() != first {
					t.Fatalf("step %d: not the first row", step)
				}
				free, model = append(free, model[0]), model[1:]
			}
		case 3:
			least, most, limit := rng.IntN(4), rng.IntN(150), rng.Int64N(20_000)
			w.cut(least, most, limit, func(r *storage.Row) {
				last := len(model) - 1
				if *r != model[last] {
					t.Fatalf("step %d: cut a row that is not the last", step)
				}
				free, model = append(free, *r), model[:last]
			})
			if w.len() > least && (w.len() > most || w.bytes() > limit) {
				t.Fatalf("step %d: %d rows, %d bytes after a cut to %d, %d", step, w.len(), w.bytes(), most, limit)
			}
		}
		check(step)
	}
}

func TestHostRecordIsSmall(t *testing.T) {
	if size := unsafe.Sizeof(host{}); size > 300 {
		t.Errorf("a host without its window takes %d bytes, want at most 300", size)
	}
}
