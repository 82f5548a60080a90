package frontier

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"unsafe"

	"urltree/storage/record"
)

// TestWindowAgainstModel compares windows with a sorted slice.
func TestWindowAgainstModel(t *testing.T) {
	for _, o := range exactOrders {
		t.Run(o.name, func(t *testing.T) {
			f, err := New(o.options(Options{Store: newStore()}))
			if err != nil {
				t.Fatal(err)
			}
			testWindow(t, f.newWindow(new(sorted)))
		})
	}
}

func testWindow(t *testing.T, w window) {
	rng := rand.New(rand.NewPCG(5, 6))
	var model []record.Row
	free := make([]record.Row, 0, 300)
	for i := range cap(free) {
		r := row("a.example", uint64(rng.IntN(4)), uint64(i))
		if rng.IntN(4) == 0 {
			r.Range, r.Due = record.Later, rng.Int64N(5)
		}
		free = append(free, r)
	}
	for step := range 3000 {
		switch kind := rng.IntN(5); kind {
		case 0, 1:
			rng.Shuffle(len(free), func(i, j int) { free[i], free[j] = free[j], free[i] })
			n := min(rng.IntN(6), len(free))
			rows := slices.Clone(free[:n])
			free = free[n:]
			sortRows(rows)
			for i := range rows {
				if w.has(&rows[i]) {
					t.Fatalf("step %d: a row is found that is not there", step)
				}
			}
			if kind == 0 {
				w.merge(rows, nil)
				model = append(model, rows...)
			} else {
				w.merge(slices.Clone(rows), func(r *record.Row) { free = append(free, *r) })
				for i := range rows {
					if behind := len(model) == 0 || compareRows(&rows[i], &model[len(model)-1]) > 0; w.has(&rows[i]) == behind {
						t.Fatalf("step %d: a row is behind all others: %v, and there: %v", step, behind, behind)
					}
				}
				if last := len(model) - 1; last >= 0 {
					end := model[last]
					model = append(model, slices.DeleteFunc(rows, func(r record.Row) bool { return compareRows(&r, &end) > 0 })...)
				}
			}
			sortRows(model)
		case 2:
			for range min(rng.IntN(4), len(model)) {
				if first := *w.first(); first != model[0] || w.pop() != first {
					t.Fatalf("step %d: not the first row", step)
				}
				free, model = append(free, model[0]), model[1:]
			}
		case 3:
			least, most, limit := rng.IntN(4), rng.IntN(150), rng.Int64N(30_000)
			w.cut(least, most, limit, func(r *record.Row) {
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
		var rows []record.Row
		w.each(func(r *record.Row) { rows = append(rows, *r) })
		sortRows(rows)
		if err := soundWindow(w); err != nil || !slices.Equal(rows, model) || w.len() != len(model) {
			t.Fatalf("step %d: %d rows, want %d: %v", step, w.len(), len(model), err)
		}
		for i := range model {
			if !w.has(&model[i]) {
				t.Fatalf("step %d: a row is not found that is there", step)
			}
		}
	}
}

func TestHostRecordIsSmall(t *testing.T) {
	if size := unsafe.Sizeof(host{}); size > 320 {
		t.Errorf("a host without its window takes %d bytes, want at most 320", size)
	}
}

// TestWindowMemory: what a window says that it takes is about what it takes.
func TestWindowMemory(t *testing.T) {
	for _, o := range allOrders() {
		f, err := New(o.options(Options{Store: newStore()}))
		if err != nil {
			t.Fatal(err)
		}
		for _, rows := range []int{fewRows, 60, 1100, maxRows} {
			t.Run(fmt.Sprintf("%s/%d rows", o.name, rows), func(t *testing.T) {
				list := make([]window, 3*maxRows/rows)
				before := heap()
				for i := range list {
					list[i] = f.newWindow(new(sorted))
					more := make([]record.Row, 0, rows)
					for k := range rows {
						more = append(more, row("a.example", 0, uint64(k)))
					}
					list[i].merge(more, nil)
					list[i].first()
				}
				took, told := heap()-before, int64(0)
				for _, w := range list {
					told += w.bytes()
				}
				t.Logf("%d bytes, told %d: %.2f, a window %d", took, told, float64(took)/float64(told), took/int64(len(list)))
				if took > told+told/4 || took < told/3 {
					t.Errorf("windows take %d bytes and tell of %d", took, told)
				}
			})
		}
	}
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
