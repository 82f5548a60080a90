package crawler_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"urltree/crawler"
	"urltree/internal/testweb"
	"urltree/iut"
	"urltree/storage/record"
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
	keep := func(before, next iut.Kept, err error) func(iut.Kept, []string) (iut.Kept, error) {
		return func(was iut.Kept, _ []string) (iut.Kept, error) {
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

// TestKeepLogins: Keep is told of the origins for which Seeds have a login, and of those of
// MoreSeeds before these are in the tree.
func TestKeepLogins(t *testing.T) {
	web := serve(t, testweb.Options{Kind: testweb.Linked, Hosts: 2, Pages: 3})
	opts := options(t.TempDir(), web)
	withLogin := func(host int) string { return strings.Replace(web.Seeds()[host], "://", "://me:sesame@", 1) }
	opts.Seeds = []string{withLogin(0)}
	opts.MoreSeeds = func(yield func(string, error) bool) {
		_ = yield(withLogin(0), nil) && yield(withLogin(1), nil)
	}
	var told [][]string
	opts.Keep = func(was iut.Kept, logins []string) (iut.Kept, error) {
		seeds, err := os.ReadFile(filepath.Join(opts.Tree, "seeds.txt"))
		for _, line := range strings.Fields(string(seeds)) {
			if !slices.Contains(was.Secrets, record.Origin(line)) {
				t.Errorf("%s is in the tree, and FORMAT has %q: %v", line, was.Secrets, err)
			}
		}
		told = append(told, logins)
		return iut.Kept{Secrets: logins}, nil
	}
	if _, err := crawler.Run(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	a, b := record.Origin(web.Seeds()[0]), record.Origin(web.Seeds()[1])
	both := slices.Sorted(slices.Values([]string{a, b}))
	if diff := cmp.Diff([][]string{{a}, both}, told); diff != "" {
		t.Error(diff)
	}
	if format, err := iut.ReadFormat(opts.Tree); err != nil || !slices.Equal(format.Kept.Secrets, both) {
		t.Errorf("in the end FORMAT has %q: %v", format.Kept.Secrets, err)
	}
}
