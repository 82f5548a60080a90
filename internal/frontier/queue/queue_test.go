package queue

import (
	"container/heap"
	"errors"
	"math/rand/v2"
	"testing"
)

func TestNewRefuses(t *testing.T) {
	for n := range 3 {
		if q, err := New[uint32]("heap", n); !errors.Is(err, ErrKind) || q != nil {
			t.Errorf("New gave %v, %v; want ErrKind", q, err)
		}
	}
}

// What an operation of a quickheap costs is the number of its pivots, and what a partition does,
// which leaves one: of n items there are about twice the logarithm, if they are all alike too.
func TestPivotsAreFew(t *testing.T) {
	const n = 1 << 14
	for _, alike := range []bool{false, true} {
		rng := rand.New(rand.NewPCG(1, 2))
		q := &quickHeap[uint32]{}
		item := func() (item Item[uint32]) {
			if !alike {
				item.Key, item.Seq = rng.Uint64(), rng.Uint64()
			}
			return item
		}
		for range n {
			q.Insert(item())
		}
		sum := 0
		for range n {
			q.Pop()
			sum += len(q.pivots)
			q.Insert(item())
		}
		if mean := sum / n; mean > 40 {
			t.Errorf("alike %v: %d pivots on average", alike, mean)
		}
	}
}

// Items whose numbers follow one another are spread evenly.
func TestSeveralSpread(t *testing.T) {
	q, err := New[uint32](CBT, 3)
	if err != nil {
		t.Fatal(err)
	}
	for seq := range uint64(3000) {
		q.Insert(Item[uint32]{Key: 1, Seq: seq})
	}
	for i, q := range q.(several[uint32]) {
		if q.Len() < 900 || q.Len() > 1100 {
			t.Errorf("queue %d has %d items of 3000, want about 1000", i, q.Len())
		}
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

// Each operation takes one item out of 100,000 and puts one in.
func BenchmarkQueues(b *testing.B) {
	const n = 100_000
	for _, kind := range []string{CBT, QuickHeap} {
		b.Run(kind, func(b *testing.B) {
			q, err := New[uint32](kind, 1)
			if err != nil {
				b.Fatal(err)
			}
			rng := rand.New(rand.NewPCG(1, 2))
			for _, item := range items(rng, n) {
				q.Insert(item)
			}
			for b.Loop() {
				item := q.Pop()
				item.Key = rng.Uint64()
				q.Insert(item)
			}
		})
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
