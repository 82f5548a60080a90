package queue

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"urltree/internal/frontier/queue"
	"urltree/tools/lab/queue/block"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memFile is a File in memory whose calls can fail.
type memFile struct {
	bytes []byte
	fail  int // calls until the first one that fails; 0: none does
	err   error
}

func (f *memFile) call() error {
	if f.fail > 0 {
		if f.fail--; f.fail == 0 {
			f.fail = 1 // all later calls fail, too
			return f.err
		}
	}
	return nil
}

func (f *memFile) ReadAt(b []byte, off int64) (int, error) {
	if err := f.call(); err != nil {
		return 0, err
	}
	return copy(b, f.bytes[off:]), nil
}

func (f *memFile) WriteAt(b []byte, off int64) (int, error) {
	if err := f.call(); err != nil {
		return 0, err
	}
	if end := int(off) + len(b); end > len(f.bytes) {
		f.bytes = append(f.bytes, make([]byte, end-len(f.bytes))...)
	}
	return copy(f.bytes[off:], b), nil
}

var number = block.Codec[uint32]{
	Size: 4,
	Put:  func(b []byte, v *uint32) { binary.LittleEndian.PutUint32(b, *v) },
	Get:  func(b []byte, v *uint32) { *v = binary.LittleEndian.Uint32(b) },
}

// variants are all queues, on disk with blocks of few items and few blocks in memory.
var variants = []struct {
	name, kind string
	options    func() Options[uint32]
}{
	{"cbt of 1", CBT, func() Options[uint32] { return Options[uint32]{Leaf: 1} }},
	{"cbt of 2", CBT, func() Options[uint32] { return Options[uint32]{Leaf: 2} }},
	{"cbt of 7", CBT, func() Options[uint32] { return Options[uint32]{Leaf: 7} }},
	{"cbt on disk, leaf 1", CBT, func() Options[uint32] {
		return Options[uint32]{Leaf: 1, File: new(memFile), Value: number, Block: 50, Memory: 1}
	}},
	{"cbt on disk, a block each", CBT, func() Options[uint32] {
		return Options[uint32]{File: new(memFile), Value: number, Block: 70, Memory: 1}
	}},
	{"cbt on disk, many blocks each", CBT, func() Options[uint32] {
		return Options[uint32]{Leaf: 11, File: new(memFile), Value: number, Block: 90, Memory: 1}
	}},
	{"quickheap", QuickHeap, func() Options[uint32] { return Options[uint32]{} }},
	{"quickheap on disk", QuickHeap, func() Options[uint32] {
		return Options[uint32]{File: new(memFile), Value: number, Block: 70, Memory: 1}
	}},
}

// TestAgainstTournament: each queue extracts what the crawler's tournament does.
func TestAgainstTournament(t *testing.T) {
	for _, tt := range variants {
		t.Run(tt.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				q, err := New(tt.kind, tt.options())
				if err != nil {
					t.Fatal(err)
				}
				var (
					model queue.Tournament[uint32]
					cost  Count
					seq   uint64
				)
				key := rapid.Uint64Range(0, rapid.SampledFrom([]uint64{1, 5, 1 << 62}).Draw(t, "keys"))
				extract := func(t *rapid.T, r int) {
					before := Item[uint32]{Key: 7, Value: 7}
					got := q.Extract([]Item[uint32]{before}, r)
					slices.SortFunc(got[1:], Compare)
					want := []Item[uint32]{before}
					for range min(r, model.Len()) {
						want = append(want, model.Pop())
					}
					if !slices.Equal(got, want) {
						t.Fatalf("Extract(%d) gave %v, want %v", r, got, want)
					}
				}
				t.Repeat(map[string]func(*rapid.T){
					"insert": func(t *rapid.T) {
						var items []Item[uint32]
						for _, k := range rapid.SliceOfN(key, 0, 60).Draw(t, "keys") {
							seq++
							items = append(items, Item[uint32]{Key: k, Seq: seq, Value: uint32(k*1000 + seq)}) // a mix-up shows
						}
						given := slices.Clone(items)
						q.Insert(items...)
						for _, item := range items {
							model.Insert(item)
						}
						if !slices.Equal(given, items) {
							t.Fatal("Insert changed the caller's slice")
						}
					},
					"extract": func(t *rapid.T) { extract(t, rapid.IntRange(-1, 50).Draw(t, "r")) },
					"": func(t *rapid.T) {
						d := q.Count().Sub(cost)
						if cost = q.Count(); d.Comparisons < 0 || d.Reads < 0 || d.Writes < 0 {
							t.Fatalf("a count went back by %v", d)
						}
						if q.Len() != model.Len() || q.Err() != nil {
							t.Fatalf("Len is %d, want %d; %v", q.Len(), model.Len(), q.Err())
						}
						if err := q.(counted[uint32]).counting.(interface{ check() error }).check(); err != nil {
							t.Fatal(err)
						}
					},
				})
				extract(t, model.Len())
			})
		})
	}
}

// check asserts that blocks are sorted and as full as they must be, and that each winner's
// items stand before the loser's.
func (c *cbt[V]) check() error {
	n, total := c.bracket.Size(), 0
	for i := n; i < 2*n; i++ {
		id := c.bracket.Node[i]
		p := &c.prio[id]
		total += p.n
		items := make([]Item[V], p.n)
		c.cells.Read(int(id)*c.stride+p.from, items)
		switch {
		case p.n == 0, p.n < c.n && id != c.bracket.Winner() && id != c.bracket.Loser():
			return fmt.Errorf("block %d of %d leaves has %d items of %d", id, n, p.n, c.n)
		case !slices.IsSortedFunc(items, Compare):
			return fmt.Errorf("block %d is not sorted", id)
		case Compare(items[0], p.first) != 0 || Compare(items[p.n-1], p.last) != 0:
			return fmt.Errorf("block %d has other ends than noted", id)
		}
	}
	for i := 1; i < n; i++ {
		win, lose := c.bracket.Node[2*i], c.bracket.Node[2*i+1]
		if win != c.bracket.Node[i] {
			win, lose = lose, win
		}
		if c.prio[lose].first.Less(&c.prio[win].last) {
			return fmt.Errorf("match %d: an item of the loser %d is better than one of %d", i, lose, win)
		}
	}
	if total != c.length {
		return fmt.Errorf("blocks hold %d items of %d", total, c.length)
	}
	return c.cells.Err()
}

// check asserts that pivots partition the array.
func (q *quickHeap[V]) check() error {
	if q.Len() < 0 || q.Len() > q.cap || q.cap&(q.cap-1) != 0 {
		return fmt.Errorf("%d items in %d cells", q.Len(), q.cap)
	}
	items := make([]Item[V], q.Len())
	for i := range items {
		items[i] = *q.at(q.idx + i)
	}
	for j := 1; j < len(q.stack); j++ {
		p := q.stack[j] - q.idx
		if p < 0 || q.stack[j] >= q.stack[j-1] {
			return fmt.Errorf("pivot at %d, the next at %d, head at %d", q.stack[j], q.stack[j-1], q.idx)
		}
		for i := range items {
			if i < p && items[p].Less(&items[i]) || i > p && items[i].Less(&items[p]) {
				return fmt.Errorf("the item at %d is on the wrong side of the pivot at %d", q.idx+i, q.idx+p)
			}
		}
	}
	return nil
}

func TestNewRefuses(t *testing.T) {
	for _, tt := range []struct {
		name, kind string
		o          Options[uint32]
	}{
		{"unknown kind", "heap", Options[uint32]{}},
		{"negative leaf", CBT, Options[uint32]{Leaf: -1}},
		{"negative memory", QuickHeap, Options[uint32]{File: new(memFile), Memory: -1}},
		{"value without functions", QuickHeap, Options[uint32]{File: new(memFile), Value: block.Codec[uint32]{Size: 4}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if q, err := New(tt.kind, tt.o); !errors.Is(err, ErrOptions) || q != nil {
				t.Errorf("New gave %v, %v; want ErrOptions", q, err)
			}
		})
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

// The bounds are those of the analysis, with the constants of this code: a block passes at most two
// items' comparisons for each of them and level, and is sorted once; a quickheap costs a small
// multiple of its logarithm on average.
func TestComparisonsAreBounded(t *testing.T) {
	const n, r = 1 << 14, 1 << 8
	for _, tt := range []struct {
		kind    string
		insert  float64 // comparisons for each item
		extract float64
	}{
		{CBT, 8 + 2*6 + 2, 2*6 + 2},
		{QuickHeap, 14, 2 * 14},
	} {
		q, err := New(tt.kind, Options[uint32]{Leaf: r})
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(1, 2))
		for range n / r {
			q.Insert(items(rng, r)...)
		}
		in := q.Comparisons()
		for range n / r {
			q.Extract(nil, r)
		}
		out := q.Comparisons() - in
		if got := float64(in) / n; got > tt.insert {
			t.Errorf("%s: %.1f comparisons for each item inserted, want at most %.1f", tt.kind, got, tt.insert)
		}
		if got := float64(out) / n; got > tt.extract || got == 0 {
			t.Errorf("%s: %.1f comparisons for each item extracted, want at most %.1f", tt.kind, got, tt.extract)
		}
	}
}

// Items that are all alike make no chunk lopsided.
func TestEqualItems(t *testing.T) {
	const n = 1 << 11
	for _, kind := range []string{CBT, QuickHeap} {
		q, err := New(kind, Options[uint32]{})
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

// A quickheap on disk partitions from both ends to the pivot, so that the first extraction reads
// each block about twice: it goes through the whole array, then through half of what is left.
func TestQuickHeapReadsInOrder(t *testing.T) {
	const per, blocks, room = 16, 200, 20
	const size = per * 16
	q, err := New(QuickHeap, Options[uint32]{File: new(memFile), Block: size, Memory: room * size, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	q.Insert(items(rand.New(rand.NewPCG(3, 4)), per*blocks)...)
	before := q.Count()
	q.Extract(nil, 1)
	if c := q.Count().Sub(before); c.Reads > 2.2*blocks || c.Writes > 2.2*blocks || c.Reads < blocks-room {
		t.Errorf("%d blocks took %d reads and %d writes", blocks, c.Reads, c.Writes)
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
			q.Insert(items(rng, n)...)
			for range n / r {
				got := q.Extract(nil, r)
				q.Insert(items(rng, r)...)
				if err := q.Err(); err != nil || len(got) != r {
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
					q.Insert(items(rng, 40)...)
					q.Extract(nil, 30)
					if failed = q.Err(); failed != nil {
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
				q.Extract(nil, 1)
				q.Insert(items(rng, 1)...)
				if again := q.Err(); !errors.Is(again, broken) {
					t.Fatalf("call %d: after later calls the error is %v", k, again)
				}
				if d := q.Count().Sub(before); d.Reads+d.Writes != 0 {
					t.Fatalf("call %d: %v after the error", k, d)
				}
			}
		})
	}
}
