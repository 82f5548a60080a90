package crawler_test

import (
	"errors"
	"testing"

	"urltree/crawler"
	"urltree/internal/testweb"
	"urltree/iut"
)

// TestKeep: FORMAT has what the caller keeps before the first seed is read, and has it until the
// caller keeps something else. Without Keep a run leaves it as it is.
func TestKeep(t *testing.T) {
	web := serve(t, testweb.Options{Kind: testweb.Linked, Hosts: 1, Pages: 3})
	opts := options(t.TempDir(), web)
	first, second := iut.Kept{Options: []string{"scope=host"}, Secrets: []string{"user"}}, iut.Kept{Options: []string{"delay=0s"}}
	failed := errors.New("no more seeds")
	require := func(what string, want iut.Kept) {
		t.Helper()
		if format, err := iut.ReadFormat(opts.Tree); err != nil || !format.Kept.Equal(want) {
			t.Errorf("%s: FORMAT keeps %+v, want %+v: %v", what, format.Kept, want, err)
		}
	}
	keep := func(before, next iut.Kept, err error) func(iut.Kept) (iut.Kept, error) {
		return func(was iut.Kept) (iut.Kept, error) {
			if !was.Equal(before) {
				t.Errorf("Keep is passed %+v, want %+v", was, before)
			}
			return next, err
		}
	}

	cut := opts
	cut.Seeds, cut.Keep = nil, keep(iut.Kept{}, first, nil)
	cut.MoreSeeds = func(yield func(string, error) bool) {
		require("at the first seed", first)
		yield("", failed)
	}
	if _, err := crawler.Run(t.Context(), cut); !errors.Is(err, failed) {
		t.Fatalf("%v, want %v", err, failed)
	}
	opts.Keep = keep(first, second, failed)
	if _, err := crawler.Run(t.Context(), opts); !errors.Is(err, failed) {
		t.Fatalf("%v, want %v", err, failed)
	}
	require("after an error of Keep", first)
	opts.Keep = nil
	if _, err := crawler.Run(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	require("after a run without Keep", first)
	opts.Keep = keep(first, second, nil)
	if _, err := crawler.Run(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	require("in the end", second)
}
