package queues

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"go.uber.org/goleak"

	labqueue "urltree/tools/lab/queue"
	"urltree/tools/lab/queue/block"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scale is small, or a hundredth if there is time: the race detector makes these queues
// twenty times slower.
func scale() float64 {
	if os.Getenv("TEST_URLTREE_FULL") != "" {
		return 0.01
	}
	return 0.0005
}

func TestExperiments(t *testing.T) {
	dir := t.TempDir()
	all, err := All(t.Context(), Options{Scale: scale(), Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]int{"figure 8": 9, "figure 9": 18, "table 1": 4, "figure 10": 7}
	for _, r := range all {
		t.Logf("%s\n%s\n%v", r.Name, r.Setup, r.Table.Columns)
		for _, row := range r.Table.Rows {
			t.Log(row)
			if len(row) != len(r.Table.Columns) {
				t.Errorf("%s: row %v for columns %v", r.Name, row, r.Table.Columns)
			}
		}
		for _, c := range r.Claims {
			t.Logf("%+v", c)
			if c.Says == "" || c.Ours == "" {
				t.Errorf("%s: claim %+v lacks a side", r.Name, c)
			}
		}
		if len(r.Table.Rows) != rows[r.Name] || len(r.Claims) == 0 {
			t.Errorf("%s: %d rows, want %d; %d claims", r.Name, len(r.Table.Rows), rows[r.Name], len(r.Claims))
		}
		delete(rows, r.Name)
		for i := range r.Charts {
			if err := r.Charts[i].WriteSVG(new(bytes.Buffer)); err != nil {
				t.Error(err)
			}
		}
	}
	if len(rows) != 0 {
		t.Errorf("these are missing: %v", rows)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("files left: %v, %v", left, err)
	}
}

// What is counted and not timed depends on the seed alone. Figure 8 takes the way of figure 9.
func TestSameSeedSameTable(t *testing.T) {
	for _, run := range []func(context.Context, Options) (Result, error){Figure9, Table1} {
		o := Options{Scale: 0.0002, Dir: t.TempDir(), Seed: 7}
		a, errA := run(t.Context(), o)
		b, errB := run(t.Context(), o)
		o.Seed++
		c, errC := run(t.Context(), o)
		if err := errors.Join(errA, errB, errC); err != nil {
			t.Fatal(err)
		}
		same := func(x, y Result) bool { return slices.EqualFunc(x.Table.Rows, y.Table.Rows, slices.Equal) }
		if !same(a, b) {
			t.Errorf("%s differs with the same seed", a.Name)
		}
		if same(a, c) {
			t.Errorf("%s is the same with another seed", a.Name)
		}
	}
}

func TestCancelEndsExperiments(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, run := range []func(context.Context, Options) (Result, error){Figure8, Figure9, Table1, Figure10} {
		if _, err := run(ctx, Options{Scale: 0.001, Dir: t.TempDir()}); !errors.Is(err, context.Canceled) {
			t.Errorf("error is %v, want %v", err, context.Canceled)
		}
	}
}

// The heap that the queues are compared with is right, in memory and on disk.
func TestBinaryHeap(t *testing.T) {
	const n = 300
	o := Options{Dir: t.TempDir()}
	err := o.onDisk(func(f block.File) error {
		for name, s := range map[string]store{
			"memory": new(ram),
			"disk":   block.New(f, labqueue.ItemCodec(block.Codec[struct{}]{}), 64, 0),
		} {
			h := newBinaryHeap(s, n)
			list := draw(make([]item, n), rand.New(rand.NewPCG(1, 2)))
			h.Insert(list...)
			got := h.Extract(nil, n+1)
			if err := h.Err(); err != nil {
				return err
			}
			slices.SortFunc(list, labqueue.Compare)
			if !slices.Equal(got, list) || h.Len() != 0 {
				t.Errorf("%s: not the items in order", name)
			}
			c := h.Count()
			if c.Comparisons < n || c.Comparisons > 3*9*n {
				t.Errorf("%s: %d comparisons", name, c.Comparisons)
			}
			if moved := c.Reads > 0 && c.Writes > 0; moved != (name == "disk") {
				t.Errorf("%s: %d reads, %d writes", name, c.Reads, c.Writes)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestEfficiency(t *testing.T) {
	for _, tt := range []struct {
		name string
		b    balance
		want float64
	}{
		{"all alike", balance{sum: 80, most: 20}, 1},
		{"one does all", balance{sum: 80, most: 80}, 0.25},
		{"no work", balance{}, 1},
	} {
		if got := tt.b.efficiency(4); got != tt.want {
			t.Errorf("%s: %g, want %g", tt.name, got, tt.want)
		}
	}
}
