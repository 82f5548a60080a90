package queue

import (
	"container/heap"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
)

func TestNewRefuses(t *testing.T) {
	for _, tt := range []struct {
		name, kind string
		o          Options[uint32]
	}{
		{"unknown kind", "heap", Options[uint32]{}},
		{"negative leaf", CBT, Options[uint32]{Leaf: -1}},
		{"negative memory", QuickHeap, Options[uint32]{File: new(memFile), Memory: -1}},
		{"value without functions", QuickHeap, Options[uint32]{File: new(memFile), Value: struct {
			Size int
			Put  func([]byte, *uint32)
			Get  func([]byte, *uint32)
		}{Size: 4}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if q, err := New(tt.kind, tt.o); !errors.Is(err, ErrOptions) || q != nil {
				t.Errorf("New gave %v, %v; want ErrOptions", q, err)
			}
		})
	}
}

// items gives n items with random keys.
func items(rng *rand.Rand, n int) []Item[uint32] {
	list := make([]Item[uint32], n)
	for i := range list {
		list[i] = Item[uint32]{Key: rng.Uint64(), Seq: rng.Uint64()}
	}
	return list
}

// The bounds are those of the analysis, with the constants of this code: a tournament plays
// one match for each level; a block passes at most two items' comparisons for each of them and
// level, and is sorted once; a quickheap costs a small multiple of its logarithm on average.
func TestComparisonsAreBounded(t *testing.T) {
	const n, r = 1 << 14, 1 << 8
	for _, tt := range []struct {
		name, kind string
		leaf       int
		insert     float64 // comparisons for each item
		extract    float64
	}{
		{"tournament", CBT, 1, 14, 14},
		{"cbt", CBT, r, 8 + 2*6 + 2, 2*6 + 2},
		{"quickheap", QuickHeap, 0, 14, 2 * 14},
	} {
		t.Run(tt.name, func(t *testing.T) {
			q, err := New(tt.kind, Options[uint32]{Leaf: tt.leaf})
			if err != nil {
				t.Fatal(err)
			}
			rng := rand.New(rand.NewPCG(1, 2))
			var in, out int64
			step := func(f func() error) int64 {
				before := q.Count()
				if err := f(); err != nil {
					t.Fatal(err)
				}
				return q.Count().Sub(before).Comparisons
			}
			for range n / r {
				in += step(func() error { return q.Insert(items(rng, r)...) })
			}
			for range n / r {
				out += step(func() error { _, err := q.Extract(nil, r); return err })
			}
			if got := float64(in) / n; got > tt.insert {
				t.Errorf("%.1f comparisons for each item inserted, want at most %.1f", got, tt.insert)
			}
			if got := float64(out) / n; got > tt.extract || got == 0 {
				t.Errorf("%.1f comparisons for each item extracted, want at most %.1f", got, tt.extract)
			}
		})
	}
}

// Items that are all alike make no chunk lopsided.
func TestEqualItems(t *testing.T) {
	const n = 1 << 11
	for _, kind := range []string{CBT, QuickHeap} {
		q, err := New(kind, Options[uint32]{Leaf: 16})
		if err != nil {
			t.Fatal(err)
		}
		if err := q.Insert(make([]Item[uint32], n)...); err != nil {
			t.Fatal(err)
		}
		for range n {
			if got, err := q.Extract(nil, 1); len(got) != 1 || err != nil {
				t.Fatalf("%s: %d items, %v", kind, len(got), err)
			}
		}
		if c := q.Count().Comparisons; q.Len() != 0 || c > 40*n {
			t.Errorf("%s: %d comparisons for %d equal items, %d left", kind, c, n, q.Len())
		}
	}
}

// A partition of a quickheap on disk reads and writes blocks in order, from both ends to the
// pivot, each about once. Only the block or two of the items of which one was chosen as pivot and the last
// block, whose last item takes its place meanwhile, are used out of order.
func TestQuickHeapPartitionsInOrder(t *testing.T) {
	const per, blocks, room = 16, 200, 20
	const size = per * 16
	f := &memFile{}
	queue, err := New(QuickHeap, Options[uint32]{File: f, Block: size, Memory: room * size, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	q := queue.(*quickHeap[uint32])
	if err := q.Insert(items(rand.New(rand.NewPCG(3, 4)), per*blocks)...); err != nil {
		t.Fatal(err)
	}
	q.cells.Read(0, make([]Item[uint32], per*blocks)) // what is in memory now was not changed
	f.note = true
	before := q.Count()
	pivot := q.partition(q.idx, q.stack[0]-1)
	cost := q.Count().Sub(before)
	if cost.Reads > blocks+3 || cost.Writes > blocks+2 {
		t.Errorf("%d blocks took %d reads and %d writes", blocks, cost.Reads, cost.Writes)
	}
	offset := func(call string) int {
		off, err := strconv.Atoi(call[1:])
		if err != nil {
			t.Fatal(err)
		}
		return off
	}
	odds := map[int]bool{offset(f.calls[0]): true, (blocks - 1) * size: true}
	if next := offset(f.calls[0]) + size; offset(f.calls[1]) == next {
		odds[next] = true
	}
	for _, op := range []byte{'r', 'w'} {
		left, right, odd := -1, blocks, 0 // last block from each end; blocks out of order
		calls := 0
		for _, call := range f.calls {
			b := offset(call) / size
			switch {
			case call[0] != op || odds[b*size]:
				continue
			case b >= left && b <= pivot/per:
				left = b
			case b <= right && b >= pivot/per:
				right = b
			default:
				odd++
			}
			calls++
		}
		if odd > 0 || calls < blocks-2*room {
			t.Errorf("%c: of %d blocks %d are out of order", op, calls, odd)
		}
	}
}

// Less memory costs more transfers, and none loses an item.
func TestMemoryBoundsTransfers(t *testing.T) {
	const n, r, size = 8_000, 80, 512
	for _, kind := range []string{CBT, QuickHeap} {
		last := int64(math.MaxInt64)
		for _, percent := range []int64{10, 30, 300} {
			q, err := New(kind, Options[uint32]{Leaf: r, File: new(memFile), Block: size, Memory: n * 16 * percent / 100})
			if err != nil {
				t.Fatal(err)
			}
			rng := rand.New(rand.NewPCG(5, 6))
			if err := q.Insert(items(rng, n)...); err != nil {
				t.Fatal(err)
			}
			for range n / r {
				got, err := q.Extract(nil, r)
				if err == nil {
					err = q.Insert(items(rng, r)...)
				}
				if err != nil || len(got) != r {
					t.Fatalf("%s: %d items, %v", kind, len(got), err)
				}
			}
			c := q.Count()
			if c.Reads+c.Writes >= last {
				t.Errorf("%s: %d transfers with %d %% in memory, %d with less", kind, c.Reads+c.Writes, percent, last)
			}
			last = c.Reads + c.Writes
		}
		if last != 0 {
			t.Errorf("%s: %d transfers though all fits in memory", kind, last)
		}
	}
}

// The k-th call of the file fails, for each k until all succeed.
func TestFileErrorEndsQueue(t *testing.T) {
	broken := errors.New("broken")
	for _, kind := range []string{CBT, QuickHeap} {
		t.Run(kind, func(t *testing.T) {
			for k, done := 1, false; !done; k++ {
				f := &memFile{fail: k, err: broken}
				q, err := New(kind, Options[uint32]{Leaf: 9, File: f, Block: 64, Memory: 1})
				if err != nil {
					t.Fatal(err)
				}
				rng := rand.New(rand.NewPCG(7, 8))
				var failed error
				for range 4 {
					if failed = q.Insert(items(rng, 40)...); failed == nil {
						_, failed = q.Extract(nil, 30)
					}
					if failed != nil {
						break
					}
				}
				if done = failed == nil; done {
					if k < 20 {
						t.Errorf("only %d calls of the file", k)
					}
					return
				}
				if !errors.Is(failed, broken) {
					t.Fatalf("call %d: error is %v", k, failed)
				}
				before := q.Count()
				_, again := q.Extract(nil, 1)
				if more := q.Insert(items(rng, 1)...); !errors.Is(again, broken) || !errors.Is(more, broken) {
					t.Fatalf("call %d: later calls give %v, %v", k, again, more)
				}
				if d := q.Count().Sub(before); d.Reads+d.Writes != 0 {
					t.Fatalf("call %d: %v after the error", k, d)
				}
			}
		})
	}
}

// Equal parts from each queue, and others give more where one has too few.
func TestMultiShares(t *testing.T) {
	byKey := func(item *Item[uint32]) uint64 { return item.Key % 3 }
	for _, tt := range []struct {
		name string
		have [3]int // items of each queue
		r    int
		want [3]int
	}{
		{"equal parts", [3]int{9, 9, 9}, 6, [3]int{2, 2, 2}},
		{"the rest from the first", [3]int{9, 9, 9}, 8, [3]int{3, 3, 2}},
		{"one has too few", [3]int{9, 1, 9}, 9, [3]int{4, 1, 4}},
		{"two are empty", [3]int{0, 0, 9}, 5, [3]int{0, 0, 5}},
		{"fewer than queues", [3]int{9, 9, 9}, 1, [3]int{1, 0, 0}},
		{"all", [3]int{1, 2, 3}, 100, [3]int{1, 2, 3}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			queues := []Queue[uint32]{new(Tournament[uint32]), new(Tournament[uint32]), new(Tournament[uint32])}
			m := NewMulti(queues, byKey)
			total := 0
			for k, n := range tt.have {
				for i := range n {
					total++
					if err := m.Insert(Item[uint32]{Key: uint64(3*i + k), Seq: uint64(total)}); err != nil {
						t.Fatal(err)
					}
				}
			}
			got, err := m.Extract(nil, tt.r)
			if err != nil {
				t.Fatal(err)
			}
			var parts [3]int
			for _, item := range got {
				k := item.Key % 3
				if item.Key/3 != uint64(parts[k]) {
					t.Errorf("queue %d gave key %d as its %d.", k, item.Key, parts[k])
				}
				parts[k]++
			}
			if parts != tt.want || m.Len() != total-len(got) {
				t.Errorf("parts %v, want %v; %d are left of %d", parts, tt.want, m.Len(), total)
			}
		})
	}
}

// Queues have their turn one after the other when less is taken than there are queues.
func TestMultiTakesTurns(t *testing.T) {
	queues := []Queue[uint32]{new(Tournament[uint32]), new(Tournament[uint32]), new(Tournament[uint32])}
	m := NewMulti(queues, func(item *Item[uint32]) uint64 { return item.Key })
	for key := range uint64(30) {
		if err := m.Insert(Item[uint32]{Key: key}); err != nil {
			t.Fatal(err)
		}
	}
	for round := range 3 {
		for _, r := range []int{1, 2, 2, 1} {
			if _, err := m.Extract(nil, r); err != nil {
				t.Fatal(err)
			}
		}
		for i, q := range queues {
			if want := 10 - 2*(round+1); q.Len() != want {
				t.Errorf("round %d: queue %d has %d items, want %d", round, i, q.Len(), want)
			}
		}
	}
}

// Work in goroutines gives what work in sequence gives.
func TestMultiInParallel(t *testing.T) {
	const n = 40 * parallelFrom
	whole, err := multi(QuickHeap, 4)
	if err != nil {
		t.Fatal(err)
	}
	parts, err := multi(CBT, 4)
	if err != nil {
		t.Fatal(err)
	}
	list := items(rand.New(rand.NewPCG(9, 10)), n)
	if err := whole.Insert(list...); err != nil {
		t.Fatal(err)
	}
	for part := range slices.Chunk(list, 100) {
		if err := parts.Insert(part...); err != nil {
			t.Fatal(err)
		}
	}
	a, errA := whole.Extract(nil, n/2)
	var b []Item[uint32]
	var errB error
	for len(b) < n/2 && errB == nil {
		b, errB = parts.Extract(b, 80)
	}
	if errA != nil || errB != nil {
		t.Fatal(errA, errB)
	}
	slices.SortFunc(a, Compare)
	slices.SortFunc(b, Compare)
	if !slices.Equal(a, b) {
		t.Error("items differ")
	}
}

// baseline is an ordinary binary heap, for the benchmarks.
type baseline []Item[uint32]

func (h baseline) Len() int           { return len(h) }
func (h baseline) Less(i, j int) bool { return h[i].Less(&h[j]) }
func (h baseline) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *baseline) Push(x any)        { *h = append(*h, x.(Item[uint32])) }
func (h *baseline) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}

// Each operation takes one item out of 100,000 and puts one in, r at a time.
func BenchmarkQueues(b *testing.B) {
	const n = 100_000
	for _, r := range []int{1, 100, 1000} {
		for _, tt := range []struct {
			name, kind string
			leaf       int
		}{
			{"tournament", CBT, 1},
			{"cbt", CBT, 256},
			{"quickheap", QuickHeap, 0},
		} {
			b.Run(fmt.Sprintf("%s/r=%d", tt.name, r), func(b *testing.B) {
				q, err := New(tt.kind, Options[uint32]{Leaf: tt.leaf})
				if err != nil {
					b.Fatal(err)
				}
				rng := rand.New(rand.NewPCG(1, 2))
				if err := q.Insert(items(rng, n)...); err != nil {
					b.Fatal(err)
				}
				var list []Item[uint32]
				for i := 0; b.Loop(); i++ {
					if i%r != 0 {
						continue
					}
					list, _ = q.Extract(list[:0], r)
					for j := range list {
						list[j].Key = rng.Uint64()
					}
					_ = q.Insert(list...)
				}
			})
		}
	}
	b.Run("container/heap", func(b *testing.B) {
		rng := rand.New(rand.NewPCG(1, 2))
		h := baseline(items(rng, n))
		heap.Init(&h)
		for b.Loop() {
			item := heap.Pop(&h).(Item[uint32])
			item.Key = rng.Uint64()
			heap.Push(&h, item)
		}
	})
}
