package storage

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"urltree/storage/record"
)

// checkOpen compares the entries of a folder in which something waits with all of its entries.
func (w *world) checkOpen(t *rapid.T, folder []byte, all []record.Child) {
	var want []record.Child
	var keys [][]byte
	for _, c := range all {
		keys = append(keys, c.Key)
		if c.Record != nil && (c.Record.State != record.Pending || c.Record.Range == record.Held) {
			c.Record = nil
		}
		if c.Record != nil || c.Below.Now+c.Below.Later > 0 {
			want = append(want, c)
		}
	}
	var got []record.Child
	for after, more := []byte(nil), true; more; more = after != nil {
		list, next, err := w.x.Queues().OpenChildren(folder, after, 2)
		if err != nil || len(list) > 2 {
			t.Fatalf("folder %q: %d of 2 entries, %v", folder, len(list), err)
		}
		got, after = append(got, list...), next
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("open in folder %q: %s", folder, diff)
	}
	got, err := w.x.Queues().OpenOf(keys)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Fatalf("open of the entries in folder %q: %v %s", folder, err, diff)
	}
}

// pageState is source B's word for a page by itself.
func pageState(r *record.Record) string {
	switch r.State {
	case record.Pending:
		return "open"
	case record.Failed:
		return "error"
	}
	return "closed"
}

// checkState compares the state of a folder with what source B makes of the states of its entries:
// closed if all of them are, error if all are closed or in error, else visited.
func checkState(t interface{ Fatalf(string, ...any) }, folder []byte, counts record.Counts, all []record.Child) {
	want := "closed"
	for _, c := range all {
		states := []string{c.Below.FolderState()}
		if c.Record != nil {
			states = append(states, pageState(c.Record))
		}
		for _, s := range states {
			switch {
			case s == "open" || s == "visited":
				want = "visited"
			case s == "error" && want == "closed":
				want = "error"
			}
		}
	}
	if got := counts.FolderState(); got != want {
		t.Fatalf("folder %q is %s, its entries make it %s", folder, got, want)
	}
}

// TestFolderStates follows source B's figure 3 on the index: node 12 is the last of its folder to
// get its outcome, and the states of the folders above change as far up as they are decided by it.
func TestFolderStates(t *testing.T) {
	const root = "http://t.example/"
	urls := []string{root + "1/2/5", root + "1/3/6", root + "1/3/7/11", root + "1/3/7/12"}
	folders := []string{root + "1/3/7", root + "1/3", root + "1"} // upwards
	for _, tt := range []struct {
		name   string
		before map[string]record.State // outcomes of others than node 12; those that are missing are closed
		last   record.State            // of node 12
		links  []string                // that its page gives
		want   string                  // of the folders, upwards
	}{
		{"closed to the top", nil, record.Stored, nil, "closed closed closed"},
		{"a redirect closes as well", nil, record.Redirected, nil, "closed closed closed"},
		{"a refusal closes as well", nil, record.Refused, nil, "closed closed closed"},
		{"up to where something is open", map[string]record.State{urls[1]: record.Pending}, record.Stored, nil, "closed visited visited"},
		{"open far above only", map[string]record.State{urls[0]: record.Pending}, record.Stored, nil, "closed closed visited"},
		{"an error goes up", nil, record.Failed, nil, "error error error"},
		{"an error elsewhere", map[string]record.State{urls[0]: record.Failed}, record.Stored, nil, "closed closed error"},
		{"an error beside it", map[string]record.State{urls[2]: record.Failed}, record.Stored, nil, "error error error"},
		{"an error while something is open", map[string]record.State{urls[0]: record.Pending}, record.Failed, nil, "error error visited"},
		{"a link below keeps all open", nil, record.Stored, []string{root + "1/3/7/12/13"}, "visited visited visited"},
		{"a link to where all is closed", nil, record.Stored, []string{root + "1/2/14"}, "closed closed visited"},
		{"a link to elsewhere", nil, record.Stored, []string{"http://u.example/1/"}, "closed closed closed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x, _ := newIndex(t, 0)
			states := func() (words []string) {
				for _, f := range folders {
					key, err := record.Key(f)
					if err != nil {
						t.Fatal(err)
					}
					counts, err := x.Folders().Counts(key)
					if err != nil {
						t.Fatal(err)
					}
					all, err := x.Folders().Children(key, nil, 100)
					if err != nil {
						t.Fatal(err)
					}
					checkState(t, key, counts, all)
					words = append(words, counts.FolderState())
				}
				return words
			}
			rows := commitLinks(t, x, urls...)
			commitOutcome(t, x, rows[root+"1/3/7/12"], record.Pending) // asked again: nothing changes
			for _, url := range urls[:3] {
				if state, other := tt.before[url]; !other || state != record.Pending {
					if !other {
						state = record.Stored
					}
					commitOutcome(t, x, rows[url], state)
				}
			}
			if got := states(); got[0] != "visited" || got[1] != "visited" || got[2] != "visited" {
				t.Errorf("before: %v", got)
			}
			commitOutcome(t, x, rows[root+"1/3/7/12"], tt.last, tt.links...)
			if got := strings.Join(states(), " "); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
			failed := x.Totals().Failed
			key, err := record.Key(root + "1")
			if err != nil {
				t.Fatal(err)
			}
			n, err := x.Reopen(t.Context(), key, func(r *record.Record) bool { return r.State == record.Failed }, nil)
			if err != nil || int64(n) != failed || x.Totals().Failed != 0 {
				t.Errorf("a retry opened %d of %d, %v", n, failed, err)
			}
			after := states()
			if opened := after[2] == "visited"; opened != (strings.Contains(tt.want, "error") || strings.Contains(tt.want, "visited")) || slices.Contains(after, "error") {
				t.Errorf("after a retry: %v", after)
			}
		})
	}
}

// commitLinks makes records of URLs and gives their rows.
func commitLinks(t *testing.T, x *Index, urls ...string) map[string]record.Row {
	t.Helper()
	o := &record.Outcome{}
	for _, url := range urls {
		o.Links = append(o.Links, record.Link{URL: url, Source: record.Seed})
	}
	done, err := x.Commit([]*record.Outcome{o})
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]record.Row{}
	for _, r := range done.Fresh {
		rows[r.URL] = r
	}
	return rows
}

// commitOutcome commits what happened to one row.
func commitOutcome(t *testing.T, x *Index, row record.Row, state record.State, links ...string) {
	t.Helper()
	o := &record.Outcome{Row: row, State: state, Next: record.Row{Range: record.Later, Due: 1}}
	for _, url := range links {
		o.Links = append(o.Links, record.Link{URL: url, Source: row.URL, Depth: 1})
	}
	if _, err := x.Commit([]*record.Outcome{o}); err != nil {
		t.Fatal(err)
	}
}
