package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"urltree/crawler"
	"urltree/crawler/scope"
)

// TestKeptBySet: what a run of the command is set to while it goes on, a later one has, as if it
// had been given; and what the command keeps, a program that uses the library has where it says
// nothing.
func TestKeptBySet(t *testing.T) {
	dir := t.TempDir()
	tree := filepath.Join(dir, "iut")
	first, _ := settle(t, tree, "-delay", "90m", "-limit-rate", "1.5k", "-budget-host", "0", "-max-depth", "0", "-include", "a", "-sitemaps=false")
	first.Seeds, first.AllowPrivate, first.Tree, first.Output, first.NoSync = []string{"http://127.0.0.1:1/"}, true, tree, filepath.Join(dir, "res.txt"), true
	first.Keep = nil // settle has kept them

	library := crawler.Options{Tree: tree, Output: first.Output}
	for _, o := range []crawler.Options{first, library} {
		c, err := crawler.New(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		s := c.Settings()
		if s.Delay != 90*time.Minute || s.LimitRate != 1536 || s.Next.Budgets.Host != -1 || s.Next.MaxDepth != 0 || !s.Next.SeedsOnly || len(s.Next.Include) != 1 {
			t.Errorf("%+v", s)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}

	c, err := crawler.New(t.Context(), first)
	if err != nil {
		t.Fatal(err)
	}
	s := c.Settings()
	s.Delay, s.PerHost, s.LimitRate = 0, 3, 2<<20
	s.Next.Scope, s.Next.MaxDepth, s.Next.SeedsOnly, s.Next.Include, s.Next.Budgets.Repeat = scope.Prefix, 7, false, nil, -1
	s.Next.Exclude = []*regexp.Regexp{regexp.MustCompile(`a b`), regexp.MustCompile("\x00\n\"")}
	if err := c.Set(s); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	want, _ := settle(t, t.TempDir(), "-per-host", "3", "-limit-rate", "2MiB", "-budget-host", "0", "-budget-repeat", "0", "-sitemaps=false",
		"-scope", "prefix", "-max-depth", "7", "-exclude", "a b", "-exclude", "\x00\n\"")
	got, said := settle(t, tree)
	if diff := diffOptions(want, got); diff != "" || said != "" {
		t.Errorf("%s%s", diff, said)
	}
	if _, said := settle(t, tree, "-per-host", "4"); !strings.Contains(said, "-per-host 4 from now on, was 3") {
		t.Errorf("it says %q", said)
	}
}
