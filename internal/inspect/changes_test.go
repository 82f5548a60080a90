package inspect

import (
	"slices"
	"testing"

	"urltree/storage/record"
)

// TestChangesOf: what is different with a page since a time, and since a run whose begin that is.
// Of two moments the later one never has more.
func TestChangesOf(t *testing.T) {
	for _, tt := range []struct {
		name   string
		page   record.Record
		look   record.Look
		time   []string // since 100
		run    []string // since run 2, which began at 100
		before []string // since 50
	}{
		{name: "nothing", page: record.Record{Found: 60, Row: record.Row{Run: 1}, Page: record.Page{Time: 70}}, before: []string{"new"}},
		{name: "stored in the second of the begin, before it", page: record.Record{Found: 90, Row: record.Row{Run: 1}, Page: record.Page{Time: 100}}, time: []string{"new"}, before: []string{"new"}},
		{name: "new", page: record.Record{Found: 60, Row: record.Row{Run: 2}, Page: record.Page{Time: 120}}, time: []string{"new"}, run: []string{"new"}, before: []string{"new"}},
		{
			name: "changed", page: record.Record{Found: 40, Row: record.Row{Run: 1}, Page: record.Page{Time: 130}},
			look: record.Look{State: record.Stored, Changed: 130, Changes: 1},
			time: []string{"changed"}, run: []string{"changed"}, before: []string{"changed"},
		},
		{
			name: "changed before", page: record.Record{Found: 40, Row: record.Row{Run: 1}, Page: record.Page{Time: 80}},
			look: record.Look{State: record.Stored, Changed: 80, Changes: 1}, before: []string{"changed"},
		},
		{
			name: "gone", page: record.Record{Found: 40, Row: record.Row{Run: 1}, Page: record.Page{Time: 45}},
			look: record.Look{State: record.Failed, Status: 410, Since: 100, Reason: "http-4xx"},
			time: []string{"gone"}, run: []string{"gone"}, before: []string{"gone"},
		},
		{
			name: "gone since long", page: record.Record{Found: 40, Row: record.Row{Run: 1}, Page: record.Page{Time: 45}},
			look: record.Look{State: record.Failed, Status: 404, Since: 99, Time: 150}, before: []string{"gone"},
		},
		{
			name: "forbidden", page: record.Record{Found: 40, Row: record.Row{Run: 1}, Page: record.Page{Time: 45}},
			look: record.Look{State: record.Failed, Status: 403, Since: 100},
			time: []string{"failing"}, run: []string{"failing"}, before: []string{"failing"},
		},
		{
			name: "moved", page: record.Record{Found: 40, Row: record.Row{Run: 1}, Page: record.Page{Time: 45}},
			look: record.Look{State: record.Redirected, Status: 301, Since: 140},
			time: []string{"moved"}, run: []string{"moved"}, before: []string{"moved"},
		},
		{
			name: "back with other content", page: record.Record{Found: 40, Row: record.Row{Run: 1}, Page: record.Page{Time: 110}},
			look: record.Look{State: record.Stored, Changed: 110, Back: 110, Changes: 1},
			time: []string{"back", "changed"}, run: []string{"back", "changed"}, before: []string{"back", "changed"},
		},
		{
			name: "changed in the second of the begin, before it", page: record.Record{Found: 40, Row: record.Row{Run: 1}, Page: record.Page{Time: 100}},
			look: record.Look{State: record.Stored, Changed: 100, Changes: 1, ChangedRun: 1},
			time: []string{"changed"}, before: []string{"changed"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, since := range []struct {
				Since
				want []string
			}{{Since{Time: 100}, tt.time}, {Since{Time: 100, Run: 2}, tt.run}, {Since{Time: 50}, tt.before}, {Since{Time: 1_000}, nil}} {
				var got []string
				for _, c := range changesOf(&tt.page, &tt.look, since.Since) {
					if got = append(got, c.What); !slices.Contains(Words("change"), c.What) {
						t.Errorf("the word %q is not explained", c.What)
					}
				}
				if !slices.Equal(got, since.want) {
					t.Errorf("since %+v: %q, want %q", since.Since, got, since.want)
				}
			}
		})
	}
}
