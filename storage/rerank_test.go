package storage

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"urltree/storage/record"
)

// TestRerank moves more pending URLs to new places than fit into one transaction, is cut off, and
// done again.
func TestRerank(t *testing.T) {
	x, _ := newIndex(t, 1)
	links := []record.Link{{URL: "http://a.org/seed", Source: record.Seed}}
	for i := range 2*rerankURLs + 10 {
		links = append(links, record.Link{URL: fmt.Sprintf("http://a.org/%d", i), Source: "http://host0.org/0", Depth: 1})
	}
	if _, err := x.Commit([]*record.Outcome{{Links: links}}); err != nil {
		t.Fatal(err)
	}
	held := record.Row{Range: record.Held, Reason: "scope"}
	rec, err := x.Record("http://a.org/7")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := x.Commit([]*record.Outcome{{Row: rec.Row, State: record.Pending, Next: held}}); err != nil {
		t.Fatal(err)
	}
	// The later found, the earlier in place; those that end in 3 have no rank.
	rank := func(url string) (uint64, bool) {
		var n uint64
		_, err := fmt.Sscanf(url, "http://a.org/%d", &n)
		return 1<<40 - n, err == nil && !strings.HasSuffix(url, "3")
	}
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	_, err = x.Rerank(ctx, 5, func(url string) (uint64, bool) {
		if calls++; calls == rerankURLs+rerankURLs/2 {
			cancel()
		}
		return rank(url)
	})
	if version, verr := x.Marks().Ranked(); err != nil && (!errors.Is(err, context.Canceled) || version != 0) || verr != nil {
		t.Fatalf("cut off: %v, version %d, %v", err, version, verr)
	}
	if _, err := x.Rerank(t.Context(), 6, rank); err != nil {
		t.Fatal(err)
	}
	if version, err := x.Marks().Ranked(); version != 6 || err != nil {
		t.Errorf("version %d, %v", version, err)
	}
	if n, err := x.Rerank(t.Context(), 6, rank); n != 0 || err != nil {
		t.Errorf("done again it moves %d, %v", n, err)
	}
	rows, _, err := x.Queues().Refill("a.org", time.Now(), len(links), -1, func(string) bool { return false })
	if err != nil || len(rows) != len(links)-1 || rows[0].URL != "http://a.org/seed" {
		t.Fatalf("%d rows, the first %v, %v", len(rows), rows[:1], err)
	}
	for i, r := range rows[1:] {
		if want, ok := rank(r.URL); ok && r.Rank != want || !ok && r.Rank != 1 {
			t.Fatalf("%s has place %d", r.URL, r.Rank)
		}
		if i > 0 && r.Less(&rows[i]) {
			t.Fatalf("%s stands behind %s", r.URL, rows[i].URL)
		}
	}
	if rec, err := x.Record("http://a.org/7"); err != nil || rec.Rank != 1<<40-7 || rec.Range != record.Held {
		t.Errorf("a held URL: %+v, %v", rec.Row, err)
	}
	if faults := faultsOf(t, x); len(faults) > 0 {
		t.Errorf("faults: %q", faults)
	}
}
