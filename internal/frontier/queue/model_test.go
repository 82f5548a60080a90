package queue

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// variants are all queues.
var variants = []struct {
	kind string
	n    int
}{{CBT, 1}, {QuickHeap, 1}, {QuickHeap, 3}, {CBT, 2}}

// A model is a sorted slice beside a queue.
type model struct {
	q     Queue[uint32]
	items []Item[uint32]
	seq   uint64
}

func newModel(kind string, n int) (*model, error) {
	q, err := New[uint32](kind, n)
	return &model{q: q}, err
}

// item makes a new item. Its value depends on the rest of it, so that a mix-up shows.
func (m *model) item(key uint64) Item[uint32] {
	m.seq++
	return Item[uint32]{Key: key, Seq: m.seq, Value: uint32(key*1000 + m.seq)}
}

func (m *model) insert(item Item[uint32]) {
	m.q.Insert(item)
	at, _ := slices.BinarySearchFunc(m.items, item, Compare)
	m.items = slices.Insert(m.items, at, item)
}

// pop pops r items, or all if there are fewer.
func (m *model) pop(r int) error {
	for range min(r, len(m.items)) {
		if got := m.q.Pop(); got != m.items[0] {
			return fmt.Errorf("Pop gave %v, want %v", got, m.items[0])
		}
		m.items = m.items[1:]
	}
	return nil
}

func (m *model) check() error {
	if m.q.Len() != len(m.items) {
		return fmt.Errorf("Len is %d, want %d", m.q.Len(), len(m.items))
	}
	if first, ok := m.q.First(); ok != (len(m.items) > 0) || ok && first != m.items[0] {
		return fmt.Errorf("First gave %v, %v of %d items", first, ok, len(m.items))
	}
	return checkQueue(m.q)
}

func TestAgainstModel(t *testing.T) {
	for _, tt := range variants {
		t.Run(fmt.Sprint(tt.n, " ", tt.kind), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				m, err := newModel(tt.kind, tt.n)
				if err != nil {
					t.Fatal(err)
				}
				keys := rapid.SampledFrom([]uint64{1, 5, 1 << 62}).Draw(t, "keys")
				key := rapid.Uint64Range(0, keys)
				do := func(err error) {
					if err != nil {
						t.Fatal(err)
					}
				}
				t.Repeat(map[string]func(*rapid.T){
					"insert": func(t *rapid.T) { m.insert(m.item(key.Draw(t, "key"))) },
					"insert many": func(t *rapid.T) {
						for _, k := range rapid.SliceOfN(key, 0, 60).Draw(t, "keys") {
							m.insert(m.item(k))
						}
					},
					"pop":      func(t *rapid.T) { do(m.pop(1)) },
					"pop many": func(t *rapid.T) { do(m.pop(rapid.IntRange(0, 50).Draw(t, "r"))) },
					"":         func(*rapid.T) { do(m.check()) },
				})
				do(m.pop(len(m.items)))
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
			m, err := newModel(tt.kind, tt.n)
			if err != nil {
				t.Fatal(err)
			}
			for _, op := range ops {
				if op < 128 {
					for i := range uint64(op % 16) {
						m.insert(m.item(uint64(op/16) ^ i*3))
					}
				} else {
					err = m.pop(int(op % 128))
				}
				if err == nil {
					err = m.check()
				}
				if err != nil {
					t.Fatalf("%d %s: %v", tt.n, tt.kind, err)
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
				first, ok := tour.First()
				if ok != (len(in) > 0) || tour.Len() != len(in) {
					t.Fatalf("First says %t and Len %d for %d items", ok, tour.Len(), len(in))
				}
				if ok && !slices.Contains(slices.Collect(maps.Values(in)), first) {
					t.Fatalf("First is %v, which is not there", first)
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
