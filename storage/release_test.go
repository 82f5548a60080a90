package storage

import (
	"slices"
	"testing"
	"time"

	"urltree/storage/record"
)

// TestRelease frees what is still held and for which a budget has a place, and tells of exactly
// that, before another transaction may end it.
func TestRelease(t *testing.T) {
	x, _ := newIndex(t, 1)
	url := func(path string) string { return "http://a.org/" + path }
	hold := &record.Outcome{}
	for _, path := range []string{"1", "2", "3", "4"} {
		hold.Links = append(hold.Links, record.Link{URL: url(path), Source: url(""), Depth: 1, Held: "scope"})
	}
	if _, err := x.Commit([]*record.Outcome{hold}); err != nil {
		t.Fatal(err)
	}
	all := func(string) bool { return true }
	rows, _, err := x.Queues().HeldRows("a.org", nil, 10, all, func(*record.Row) bool { return true })
	if err != nil || len(rows) != 4 {
		t.Fatalf("%d rows are held, %v", len(rows), err)
	}
	// Two are held no more by the time they are to be released: one waits for a later try.
	failed := &record.Outcome{Row: rows[0], State: record.Failed, Reason: "dns"}
	later := &record.Outcome{Row: rows[1], State: record.Pending, Next: rows[1]}
	later.Next.Range, later.Next.Reason, later.Next.Due = record.Later, "", time.Now().Add(time.Hour).UnixNano()
	if _, err := x.Commit([]*record.Outcome{failed, later}); err != nil {
		t.Fatal(err)
	}
	x.opts.Limits.Host = 3
	var told []string
	var at uint64
	err = x.Release(rows, func(rows []record.Row, tx uint64) {
		for _, r := range rows {
			told = append(told, r.URL)
		}
		at = tx
		if x.mu.TryLock() {
			t.Error("another transaction may come before this one is told of")
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if tx, err := x.Transaction(); err != nil || tx != at || !slices.Equal(told, []string{url("3")}) {
		t.Errorf("told of %q in transaction %d of %d, %v; want the one for which there is a place", told, at, tx, err)
	}
	if h, err := x.Hosts().Get("a.org"); err != nil || h.Now != 1 || h.Later != 1 || h.Held != 1 || h.Failed != 1 {
		t.Errorf("%+v, %v; want one of each", h.Counts, err)
	}
	if got := faultsOf(t, x); len(got) > 0 {
		t.Error(got)
	}
}
