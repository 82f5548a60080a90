package storage

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"urltree/storage/record"
)

// Metadata are of stored pages only, and go when the page is asked again.
func TestMetaFollowsState(t *testing.T) {
	x, _ := newIndex(t, 0)
	const url = "http://a.org/"
	want := func(m *record.Meta) {
		t.Helper()
		got, err := x.Meta(url)
		if diff := cmp.Diff(m, got); diff != "" || err != nil {
			t.Fatalf("%v, %s", err, diff)
		}
		if faults := faultsOf(t, x); len(faults) > 0 {
			t.Fatal(faults)
		}
	}
	commit := func(state record.State, m *record.Meta) {
		t.Helper()
		o := &record.Outcome{Row: record.Row{URL: url, Source: record.Seed}, State: state, Meta: m}
		if _, err := x.Commit([]*record.Outcome{o}); err != nil {
			t.Fatal(err)
		}
	}
	reopen := func() {
		t.Helper()
		if n, err := x.Reopen(t.Context(), nil, func(*record.Record) bool { return true }, nil); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	}
	first, second := &record.Meta{Title: "first"}, &record.Meta{Title: "second", Headings: []record.Heading{{Level: 1, Text: "h"}}}
	want(nil)
	commit(record.Failed, first)
	want(nil)
	reopen()
	commit(record.Stored, first)
	want(first)
	commit(record.Stored, second) // it has an outcome
	want(first)
	reopen()
	want(nil)
	commit(record.Stored, second)
	want(second)
	reopen()
	commit(record.Stored, nil)
	want(nil)
}
