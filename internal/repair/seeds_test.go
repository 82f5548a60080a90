package repair

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"urltree/internal/testsite"
	"urltree/storage/record"
)

// TestEnterSeeds takes in what the index lacks and no more, in transactions of bounded size, and
// all again when the scope is another one or seeds.txt has changed.
func TestEnterSeeds(t *testing.T) {
	s := testsite.New(t, filepath.Join(t.TempDir(), "iut"))
	t.Cleanup(s.Close)
	ctx := context.Background()
	p := &testsite.Parser{Hosts: map[string]bool{}}
	enter := func(scope string, made int, transactions uint64) {
		t.Helper()
		before, err := s.Index.Transaction()
		if err != nil {
			t.Fatal(err)
		}
		got, some, err := EnterSeeds(ctx, s.Tree, s.Index, p, scope, slog.New(slog.DiscardHandler))
		if err != nil || got != made || !some {
			t.Errorf("%d records, %v, %v; want %d records", got, some, err, made)
		}
		after, err := s.Index.Transaction()
		if err != nil || after-before != transactions {
			t.Errorf("%d transactions, want %d: %v", after-before, transactions, err)
		}
	}
	has := func(host string, want bool) {
		t.Helper()
		if got, err := s.Index.Seeds().HasArea(host); err != nil || got != want {
			t.Errorf("HasArea(%s) = %v, %v", host, got, err)
		}
	}
	var urls []string
	long := strings.Repeat("x", 8000)
	for n := range 2*setSeedBytes/8000 + 10 {
		urls = append(urls, fmt.Sprintf("http://h%d.org/%s", n, long))
	}
	if err := testsite.AddSeeds(s.Tree, urls); err != nil {
		t.Fatal(err)
	}
	enter("host", len(urls), 4) // one forgets what was entered before
	enter("host", 0, 0)
	has("h200.org", true)
	if err := testsite.AddSeeds(s.Tree, []string{"http://new.org/"}); err != nil {
		t.Fatal(err)
	}
	enter("host", 1, 1)
	has("new.org", true)
	enter("domain", 0, 4)
	has("new.org", true)

	// The target of a seed's redirect stays, a seed that is no longer in the list does not.
	s.Fail("http://h1.org/"+long, record.Redirected, "", record.Link{
		URL: "http://target.org/", Source: record.Seed, Via: "http://h1.org/" + long, Hops: 1, Areas: []string{"target.org"},
	})
	if err := os.WriteFile(s.Path("seeds.txt"), []byte(urls[1]+"\n"+urls[3]+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	enter("domain", 0, 3)
	has("target.org", true)
	has("h1.org", true)
	has("h2.org", false)
	if report := noFaults(t, s, CheckOptions{}, p); report.Seeds != 0 {
		t.Errorf("%+v", report)
	}
}

// TestCheckSeeds: what the index should have kept of a seed and has not is a fault.
func TestCheckSeeds(t *testing.T) {
	s := testsite.Small(t)
	p := &testsite.Parser{Hosts: map[string]bool{}}
	if _, _, err := EnterSeeds(t.Context(), s.Tree, s.Index, p, "", slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	noFaults(t, s, CheckOptions{}, p)
	seeds, err := s.Index.Seeds().Read()
	if err == nil {
		err = s.Index.Seeds().Forget()
	}
	if err != nil {
		t.Fatal(err)
	}
	s.Commit(&record.Outcome{Seeds: &seeds, Links: []record.Link{
		{URL: "http://a.org/", Source: record.Seed, Areas: p.Areas("http://a.org/")},
		{URL: "http://b.org/", Source: record.Seed},
	}})
	var faults []string
	if _, err := Check(t.Context(), s.Tree, s.Index, p, CheckOptions{}, func(f string) { faults = append(faults, f) }); err != nil {
		t.Fatal(err)
	}
	want := []string{"seeds.txt: the index has not kept the origin and the scope of http://b.org/"}
	if !slices.Equal(faults, want) {
		t.Errorf("faults %q, want %q", faults, want)
	}
}
