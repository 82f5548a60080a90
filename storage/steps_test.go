package storage

import (
	"path/filepath"
	"slices"
	"testing"

	"urltree/storage/record"
)

// TestBulk: in bulk all links wait in the outbox, each as often as it is found, until they arrive;
// the step stays what it was when the index is opened again, and its trace knows of each outcome
// once.
func TestBulk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "index.db")
	if err := Create(path); err != nil {
		t.Fatal(err)
	}
	open := func() *Index {
		t.Helper()
		x, err := Open(path, Options{NoSync: true, Bulk: true})
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	x := open()
	if begun, err := x.Steps().Begun(); begun || err != nil {
		t.Errorf("begun %v, %v", begun, err)
	}
	if _, _, _, err := x.Runs().Begin(); err != nil {
		t.Fatal(err)
	}
	commit := func(o record.Outcome) Committed {
		t.Helper()
		done, err := x.Commit([]*record.Outcome{&o})
		if err != nil {
			t.Fatal(err)
		}
		return done
	}
	found := []record.Link{{URL: "http://here/", Source: "http://there/"}, {Kind: record.SitemapRow, URL: "http://here/sitemap.xml", Depth: 1}}
	for range 2 {
		if done := commit(record.Outcome{Links: found}); done.Posted != 2 || done.New != 0 || len(done.Fresh) != 0 {
			t.Errorf("before: %+v", done)
		}
	}
	done := commit(record.Outcome{Links: found, Arrived: true, Delivered: []record.Delivery{{First: 0, Last: 4}}})
	if done.New != 1 || len(done.Fresh) != 2 || x.Outbox().Len() != 0 {
		t.Errorf("%+v, %d rows are left", done, x.Outbox().Len())
	}
	if err := x.Steps().Set([]uint64{7, 1 << 60}, func(s *record.Step) { s.Number = 5 }); err != nil {
		t.Fatal(err)
	}
	page := record.Outcome{Row: done.Fresh[0], State: record.Stored}
	later := page
	later.State, later.Next = record.Pending, record.Row{Range: record.Later, Due: 9, Reason: "timeout"}
	commit(later)
	if s := x.Steps().Get(); s.Trace != (record.Trace{}) {
		t.Error("that a URL is asked again is in the trace")
	}
	commit(page)
	commit(page)
	commit(record.Outcome{Row: done.Fresh[1], State: record.Read})
	var want record.Trace
	want.Add(5, &record.Record{Row: done.Fresh[0], State: record.Stored})
	want.Add(5, &record.Record{Row: done.Fresh[1], State: record.Read})
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	x = open()
	defer x.Close()
	members, err := x.Steps().Members()
	if s := x.Steps().Get(); s != (record.Step{Number: 5, Trace: want}) || err != nil || !slices.Equal(members, []uint64{7, 1 << 60}) {
		t.Errorf("opened again: %+v with rows %v, %v; want trace %s", s, members, err, want)
	}
}
