package storage

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"urltree/storage/record"
)

// TestFirst: of the stored pages with a SHA-256 the one answered first, then the one whose URL
// sorts first.
func TestFirst(t *testing.T) {
	x, _ := newIndex(t, 0)
	digest := func(n byte) (d [32]byte) {
		d[0], d[31] = 7, n // pages that differ may begin alike
		return d
	}
	require := func(n byte, want string) {
		t.Helper()
		r, err := x.First(t.Context(), digest(n))
		if r.URL != want || (want == "") != errors.Is(err, ErrNotFound) || want != "" && err != nil {
			t.Fatalf("first of %d: %q, %v; want %q", n, r.URL, err, want)
		}
		if want == "" {
			return
		}
		// It is a stored page of the index, and its record whole.
		if kept, err := x.Record(want); err != nil || kept != r || kept.Digest != digest(n) || kept.State != record.Stored {
			t.Fatalf("record %+v, %v; want %+v", kept, err, r)
		}
	}
	commit := func(url string, state record.State, time int64, n byte) {
		t.Helper()
		reason := ""
		if state == record.Refused {
			reason = record.Duplicate
		}
		o := &record.Outcome{
			Row: record.Row{URL: url, Source: record.Seed}, State: state, Reason: reason,
			Page: record.Page{Time: time, Status: 200, Bytes: 9, Digest: digest(n)},
		}
		if _, err := x.Commit([]*record.Outcome{o}); err != nil {
			t.Fatal(err)
		}
	}
	require(1, "")
	commit("http://a.org/refused", record.Refused, 1, 1)
	commit("http://a.org/failed", record.Failed, 1, 1)
	require(1, "")
	commit("http://m.org/", record.Stored, 20, 1)
	require(1, "http://m.org/")
	commit("http://a.org/later", record.Stored, 30, 1)
	commit("http://a.org/another", record.Stored, 1, 2)
	require(1, "http://m.org/")
	require(2, "http://a.org/another")
	commit("http://z.org/", record.Stored, 20, 1)
	require(1, "http://m.org/")
	commit("http://b.org/", record.Stored, 20, 1)
	require(1, "http://b.org/")
	commit("http://z.org/first", record.Stored, 10, 1)
	require(1, "http://z.org/first")

	// A page that is no longer stored leaves no trace: the next takes its place.
	n, err := x.Reopen(t.Context(), nil, func(r *record.Record) bool { return r.URL == "http://z.org/first" }, nil)
	if n != 1 || err != nil {
		t.Fatal(n, err)
	}
	require(1, "http://b.org/")

	refused, err := x.Record("http://a.org/refused")
	if err != nil || refused.Digest != digest(1) {
		t.Errorf("the refused duplicate: %+v, %v", refused, err)
	}
	if faults := faultsOf(t, x); len(faults) > 0 {
		t.Error(faults)
	}
	seen := map[byte]int{}
	if err := x.Digests(t.Context(), func(d [32]byte) { seen[d[31]]++ }); err != nil || seen[1] != 4 || seen[2] != 1 || len(seen) != 2 {
		t.Errorf("digests: %v, %v", seen, err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	cancel(enough)
	if _, err := x.First(ctx, digest(1)); !errors.Is(err, enough) {
		t.Errorf("after the end of its context: %v", err)
	}
}

func BenchmarkFirst(b *testing.B) {
	path := b.TempDir() + "/index.db"
	if err := Create(path); err != nil {
		b.Fatal(err)
	}
	x, err := Open(path, Options{NoSync: true})
	if err != nil {
		b.Fatal(err)
	}
	defer x.Close()
	var set []*record.Outcome
	for n := range 20_000 {
		set = append(set, &record.Outcome{
			Row: record.Row{URL: fmt.Sprintf("http://host%d.org/folder/page%d.html", n%50, n), Source: record.Seed}, State: record.Stored,
			Page: record.Page{Time: int64(n), Status: 200, Bytes: 1, Media: "text/html", Digest: [32]byte{1, byte(n), byte(n >> 8)}},
		})
	}
	if _, err := x.Commit(set); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if r, err := x.First(b.Context(), set[7].Page.Digest); err != nil || r.Time != 7 {
			b.Fatal(r, err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(set)), "ns/record")
}
