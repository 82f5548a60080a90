package repair

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	"urltree/internal/cluster"
	"urltree/internal/testsite"
	"urltree/storage/record"
)

// TestCheckNode: in the tree of a node a link without a record is a fault if nobody else can have
// it: not while its host is another node's, is still to be handed over, or was lost with a node.
func TestCheckNode(t *testing.T) {
	const page, lost = "http://a.org/new", "http://lost.org/"
	part := int(cluster.Partition("lost.org", cluster.Partitions))
	for _, tt := range []struct {
		name   string
		change func(a *cluster.Assign)
		marked map[int]uint64
		read   uint64
		faults int
	}{
		{"its own", func(*cluster.Assign) {}, nil, 0, 1},
		{"of another node", func(a *cluster.Assign) { a.Owner[part] = "b" }, nil, 0, 0},
		{"not handed over", func(a *cluster.Assign) { a.From[part], a.Moved[part] = "b", 3 }, map[int]uint64{part: 2}, 0, 0},
		{"handed over", func(a *cluster.Assign) { a.From[part], a.Moved[part] = "b", 3 }, map[int]uint64{part: 3}, 0, 1},
		{"lost", func(a *cluster.Assign) { a.Lost = map[int]uint64{part: 3} }, nil, 2, 0},
		{"lost and read again", func(a *cluster.Assign) { a.Lost = map[int]uint64{part: 3} }, nil, 3, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := testsite.Small(t)
			f := s.Write(page, "http://a.org/", 1, "http://a.org/x", lost)
			s.Commit(&record.Outcome{ // without its links
				Row: record.Row{URL: page, Source: "http://a.org/", Depth: 1}, State: record.Stored, Page: f.Page,
			})
			a := cluster.Assign{
				Epoch: 3, Members: map[string]string{"a": "1", "b": "1"}, Owner: slices.Repeat([]string{"a"}, cluster.Partitions),
				From: make([]string, cluster.Partitions), Moved: make([]uint64, cluster.Partitions),
			}
			tt.change(&a)
			kept, err := json.Marshal(map[string]any{"name": "a", "assign": a, "marked": tt.marked, "read": tt.read})
			if err == nil {
				err = s.Index.Marks().SetCluster(kept)
			}
			if err != nil {
				t.Fatal(err)
			}
			var faults []string
			report, err := Check(context.Background(), s.Tree, s.Index, &testsite.Parser{}, CheckOptions{Links: true},
				func(text string) { faults = append(faults, text) })
			if err != nil || report.Faults != tt.faults {
				t.Errorf("%+v, %v: %q; want %d faults", report, err, faults, tt.faults)
			}
		})
	}
}
