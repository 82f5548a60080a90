package queue

import (
	"container/heap"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
)

func TestNewRefuses(t *testing.T) {
	if q, err := New[uint32]("heap"); !errors.Is(err, ErrKind) || q != nil {
		t.Errorf("New gave %v, %v; want ErrKind", q, err)
	}
}

// items returns n items with random keys.
func items(rng *rand.Rand, n int) []Item[uint32] {
	list := make([]Item[uint32], n)
	for i := range list {
		list[i] = Item[uint32]{Key: rng.Uint64(), Seq: rng.Uint64()}
	}
	return list
}

// The bounds are those of the analysis, with the constants of this code: a tournament plays
// one match for each level; a quickheap costs a small multiple of its logarithm on average.
func TestComparisonsAreBounded(t *testing.T) {
	const n, r = 1 << 14, 1 << 8
	for _, tt := range []struct {
		kind    string
		insert  float64 // comparisons for each item
		extract float64
	}{
		{CBT, 14, 14},
		{QuickHeap, 14, 2 * 14},
	} {
		t.Run(tt.kind, func(t *testing.T) {
			q, err := New[uint32](tt.kind)
			if err != nil {
				t.Fatal(err)
			}
			rng := rand.New(rand.NewPCG(1, 2))
			var in, out int64
			for range n / r {
				q.Insert(items(rng, r)...)
			}
			in = q.Comparisons()
			for range n / r {
				q.Extract(nil, r)
			}
			out = q.Comparisons() - in
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
		q, err := New[uint32](kind)
		if err != nil {
			t.Fatal(err)
		}
		q.Insert(make([]Item[uint32], n)...)
		for range n {
			if got := q.Extract(nil, 1); len(got) != 1 {
				t.Fatalf("%s: %d items", kind, len(got))
			}
		}
		if c := q.Comparisons(); q.Len() != 0 || c > 40*n {
			t.Errorf("%s: %d comparisons for %d equal items, %d left", kind, c, n, q.Len())
		}
	}
}

// Equal parts from each queue, and others give more where one has too few.
func TestMultiShares(t *testing.T) {
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
			m := NewMulti(queues)
			total := 0
			for k, n := range tt.have {
				for i := range n {
					total++
					queues[k].Insert(Item[uint32]{Key: uint64(3*i + k), Seq: uint64(total)})
				}
			}
			got := m.Extract(nil, tt.r)
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
	m := NewMulti(queues)
	for key := range uint64(30) {
		queues[key%3].Insert(Item[uint32]{Key: key})
	}
	for round := range 3 {
		for _, r := range []int{1, 2, 2, 1} {
			m.Extract(nil, r)
		}
		for i, q := range queues {
			if want := 10 - 2*(round+1); q.Len() != want {
				t.Errorf("round %d: queue %d has %d items, want %d", round, i, q.Len(), want)
			}
		}
	}
}

// Items whose numbers follow one another are spread evenly.
func TestMultiSpreads(t *testing.T) {
	queues := []Queue[uint32]{new(Tournament[uint32]), new(Tournament[uint32]), new(Tournament[uint32])}
	m := NewMulti(queues)
	for seq := range uint64(3000) {
		m.Insert(Item[uint32]{Key: 1, Seq: seq})
	}
	for i, q := range queues {
		if q.Len() < 900 || q.Len() > 1100 {
			t.Errorf("queue %d has %d items of 3000, want about 1000", i, q.Len())
		}
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
		for _, kind := range []string{CBT, QuickHeap} {
			b.Run(fmt.Sprintf("%s/r=%d", kind, r), func(b *testing.B) {
				q, err := New[uint32](kind)
				if err != nil {
					b.Fatal(err)
				}
				rng := rand.New(rand.NewPCG(1, 2))
				q.Insert(items(rng, n)...)
				var list []Item[uint32]
				for i := 0; b.Loop(); i++ {
					if i%r != 0 {
						continue
					}
					list = q.Extract(list[:0], r)
					for j := range list {
						list[j].Key = rng.Uint64()
					}
					q.Insert(list...)
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
