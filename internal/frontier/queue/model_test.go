package queue

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// variants are all queues.
var variants = []struct {
	name  string
	exact bool // Extract returns the first of all
	make  func() (Queue[uint32], error)
}{
	{"tournament", true, func() (Queue[uint32], error) { return New[uint32](CBT) }},
	{"quickheap", true, func() (Queue[uint32], error) { return New[uint32](QuickHeap) }},
	{"three quickheaps", false, func() (Queue[uint32], error) { return multi(QuickHeap, 3) }},
	{"two tournaments", false, func() (Queue[uint32], error) { return multi(CBT, 2) }},
}

func multi(kind string, n int) (Queue[uint32], error) {
	queues := make([]Queue[uint32], n)
	for i := range queues {
		var err error
		if queues[i], err = New[uint32](kind); err != nil {
			return nil, err
		}
	}
	return NewMulti(queues), nil
}

// A model is a sorted slice beside a queue.
type model struct {
	q     Queue[uint32]
	exact bool
	items []Item[uint32]
	seq   uint64
	cost  int64
}

// item makes a new item. Its value depends on the rest of it, so that a mix-up shows.
func (m *model) item(key uint64) Item[uint32] {
	m.seq++
	return Item[uint32]{Key: key, Seq: m.seq, Value: uint32(key*1000 + m.seq)}
}

func (m *model) insert(items ...Item[uint32]) error {
	given := slices.Clone(items)
	m.q.Insert(items...)
	if !slices.Equal(given, items) {
		return fmt.Errorf("Insert changed the caller's slice")
	}
	m.items = append(m.items, items...)
	slices.SortFunc(m.items, Compare)
	return nil
}

func (m *model) extract(r int) error {
	before := m.item(0)
	got := m.q.Extract([]Item[uint32]{before}, r)
	n := min(max(r, 0), len(m.items))
	if len(got) != n+1 || got[0] != before {
		return fmt.Errorf("Extract(%d) of %d items appended %d", r, len(m.items), len(got)-1)
	}
	got = got[1:]
	slices.SortFunc(got, Compare)
	if m.exact {
		if !slices.Equal(got, m.items[:n]) {
			return fmt.Errorf("Extract(%d) gave %v, want %v", r, got, m.items[:n])
		}
		m.items = slices.Delete(m.items, 0, n)
		return nil
	}
	for i, item := range got {
		at, ok := slices.BinarySearchFunc(m.items, item, Compare)
		if !ok || m.items[at] != item {
			return fmt.Errorf("Extract(%d) gave %v, which is not there", r, item)
		}
		if i == 0 && at > 0 && n >= len(m.q.(*Multi[uint32]).queues) {
			return fmt.Errorf("Extract(%d) left out the first item", r)
		}
		m.items = slices.Delete(m.items, at, at+1)
	}
	return nil
}

func (m *model) check() error {
	if m.q.Len() != len(m.items) {
		return fmt.Errorf("Len is %d, want %d", m.q.Len(), len(m.items))
	}
	now := m.q.Comparisons()
	if now < m.cost {
		return fmt.Errorf("the count of comparisons went back from %d to %d", m.cost, now)
	}
	m.cost = now
	return checkQueue(m.q)
}

func TestAgainstModel(t *testing.T) {
	for _, tt := range variants {
		t.Run(tt.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				q, err := tt.make()
				if err != nil {
					t.Fatal(err)
				}
				m := &model{q: q, exact: tt.exact}
				keys := rapid.SampledFrom([]uint64{1, 5, 1 << 62}).Draw(t, "keys")
				key := rapid.Uint64Range(0, keys)
				do := func(err error) {
					if err != nil {
						t.Fatal(err)
					}
				}
				t.Repeat(map[string]func(*rapid.T){
					"insert": func(t *rapid.T) { do(m.insert(m.item(key.Draw(t, "key")))) },
					"insert many": func(t *rapid.T) {
						var items []Item[uint32]
						for _, k := range rapid.SliceOfN(key, 0, 60).Draw(t, "keys") {
							items = append(items, m.item(k))
						}
						do(m.insert(items...))
					},
					"extract":      func(t *rapid.T) { do(m.extract(1)) },
					"extract many": func(t *rapid.T) { do(m.extract(rapid.IntRange(-1, 50).Draw(t, "r"))) },
					"":             func(*rapid.T) { do(m.check()) },
				})
				do(m.extract(len(m.items)))
				do(m.check())
			})
		})
	}
}

// Each byte is an operation: below 128 an insertion of as many items as its low four bits say
// with a key from its other bits, else an extraction.
func FuzzQueues(f *testing.F) {
	f.Add([]byte{0x0f, 0x1f, 0x81, 0x2f, 0x9f, 0x01, 0xff})
	f.Add([]byte{0x7f, 0x6f, 0x5f, 0x4f, 0x3f, 0x2f, 0x1f, 0x81, 0x81, 0x81, 0x0f, 0x84})
	f.Fuzz(func(t *testing.T, ops []byte) {
		ops = ops[:min(len(ops), 60)]
		for _, tt := range variants {
			q, err := tt.make()
			if err != nil {
				t.Fatal(err)
			}
			m := &model{q: q, exact: tt.exact}
			for _, op := range ops {
				if op < 128 {
					items := make([]Item[uint32], op%16)
					for i := range items {
						items[i] = m.item(uint64(op/16) ^ uint64(i)*3)
					}
					err = m.insert(items...)
				} else {
					err = m.extract(int(op % 128))
				}
				if err == nil {
					err = m.check()
				}
				if err != nil {
					t.Fatalf("%s: %v", tt.name, err)
				}
			}
		}
	})
}

func TestTournamentChangesItems(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var (
			tour Tournament[uint32]
			in   = map[ID]Item[uint32]{}
			ids  []ID
			m    model
		)
		key := rapid.Uint64Range(0, 20)
		pick := func(t *rapid.T) int {
			if len(ids) == 0 {
				t.Skip("empty")
			}
			return rapid.IntRange(0, len(ids)-1).Draw(t, "which")
		}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				item := m.item(key.Draw(t, "key"))
				id := tour.Add(item)
				if _, taken := in[id]; taken || id == 0 {
					t.Fatalf("id %d was given twice, or names none", id)
				}
				in[id], ids = item, append(ids, id)
			},
			"update": func(t *rapid.T) {
				id := ids[pick(t)]
				in[id] = m.item(key.Draw(t, "key"))
				tour.Update(id, in[id])
			},
			"remove": func(t *rapid.T) {
				i := pick(t)
				id := ids[i]
				if got := tour.Remove(id); got != in[id] {
					t.Fatalf("Remove gave %v, want %v", got, in[id])
				}
				delete(in, id)
				ids = slices.Delete(ids, i, i+1)
			},
			"": func(t *rapid.T) {
				if err := tour.check(); err != nil {
					t.Fatal(err)
				}
				id, first, ok := tour.First()
				if ok != (len(in) > 0) || tour.Len() != len(in) {
					t.Fatalf("First says %t and Len %d for %d items", ok, tour.Len(), len(in))
				}
				if ok && in[id] != first {
					t.Fatalf("First is %v, but item %d is %v", first, id, in[id])
				}
				most := key.Draw(t, "most")
				var want, got []uint32
				for _, item := range in {
					if item.Less(&first) {
						t.Fatalf("First is %v, but %v is better", first, item)
					}
					if item.Key <= most {
						want = append(want, item.Value)
					}
				}
				for v := range tour.UpTo(most, 10) {
					got = append(got, v)
				}
				for _, v := range got {
					if !slices.Contains(want, v) {
						t.Fatalf("UpTo(%d) yields %v, of %v", most, got, want)
					}
				}
				if slices.Sort(got); len(got) != min(len(want), 10) || len(slices.Compact(got)) != len(got) {
					t.Fatalf("UpTo(%d) yields %v, of %v", most, got, want)
				}
			},
		})
	})
}
