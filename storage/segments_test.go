package storage

import (
	"maps"
	"testing"

	"urltree/storage/record"
)

// TestSegmentEnds: the index keeps where the last answer of a segment ends and what is open before
// it; an answer that is looked at again changes neither.
func TestSegmentEnds(t *testing.T) {
	x, _ := newIndex(t, 0)
	rows := commitLinks(t, x, "http://a/", "http://b/")
	commit := func(o *record.Outcome, ends, open map[uint32]int64) {
		t.Helper()
		if _, err := x.Commit([]*record.Outcome{o}); err != nil {
			t.Fatal(err)
		}
		gotEnds, err := x.Marks().SegmentEnds(t.Context())
		if err != nil || !maps.Equal(gotEnds, ends) {
			t.Errorf("ends %v, %v; want %v", gotEnds, err, ends)
		}
		gotOpen, err := x.Marks().SegmentsOpen(t.Context())
		if err != nil || !maps.Equal(gotOpen, open) {
			t.Errorf("open %v, %v; want %v", gotOpen, err, open)
		}
	}
	at := func(offset int64) record.Page {
		return record.Page{Status: 200, Extent: record.Extent{Segment: 3, Offset: offset, Length: 10, About: 20}}
	}
	stored := func(url string, offset, open int64) *record.Outcome {
		return &record.Outcome{Row: rows[url], State: record.Stored, Page: at(offset), Open: map[uint32]int64{3: open}}
	}
	commit(stored("http://b/", 100, 40), map[uint32]int64{3: 110}, map[uint32]int64{3: 40})
	commit(&record.Outcome{Row: record.Row{URL: "http://b/"}, State: record.Stored, Page: at(900), Again: true}, map[uint32]int64{3: 110}, map[uint32]int64{3: 40})
	commit(stored("http://a/", 40, -1), map[uint32]int64{3: 110}, map[uint32]int64{})
}
