package main

import (
	"bytes"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"urltree/crawler"
	"urltree/iut"
)

// TestKinds: of each flag of the crawl it is decided what becomes of it after the run, and those
// that may be secret are never kept.
func TestKinds(t *testing.T) {
	for _, o := range newFlags().all {
		_, storable := o.value.(keptValue)
		switch kind := o.kind; {
		case kind == ofCrawl && !storable:
			t.Errorf("-%s is kept, and its value has no texts", o.name)
		case kind == ofCrawl && len(keptCases[o.name]) != 2:
			t.Errorf("-%s is kept, and TestKept has no two values of it", o.name)
		}
	}
	for name := range keptCases {
		if newFlags().kindOf(name) != ofCrawl {
			t.Errorf("-%s is not kept", name)
		}
	}
}

// keptCases has two ways to give each option that the tree keeps, neither of which is its default.
var keptCases = map[string][]string{
	"scope":            {"host", "prefix"},
	"include":          {"^https://a b/'", `\.html$`},
	"exclude":          {"/cal/", "\x00\n\""},
	"max-depth":        {"0", "3"},
	"accept":           {"text/html,image/*", "*/*"},
	"assets":           {"true", "1"},
	"nofollow":         {"all", "none"},
	"robots":           {"ignore", "ignore"},
	"sitemaps":         {"false", "0"},
	"max-size":         {"1.5k", "20MiB"},
	"oversize":         {"cut", "cut"},
	"max-url-length":   {"100", "8192"},
	"skip-duplicates":  {"true", "t"},
	"edges":            {"true", "true"},
	"allow-private":    {"true", "TRUE"},
	"budget-domain":    {"0", "3"},
	"budget-host":      {"0", "3"},
	"budget-prefix":    {"0", "3"},
	"budget-query":     {"0", "4"},
	"budget-repeat":    {"0", "4"},
	"budget-depth":     {"0", "3"},
	"max-held":         {"0", "3"},
	"order":            {"priority", "tree"},
	"score":            {"rank", "depth"},
	"user-agent":       {"me (+http://a/?x=1)", "you"},
	"delay":            {"0", "1m30s"},
	"per-host":         {"2", "3"},
	"per-ip":           {"2", "1"},
	"limit-rate":       {"1.5k", "20MiB"},
	"warc-size":        {"1.5k", "20MiB"},
	"warc-compression": {"none", "none"},
	"warc-revisit":     {"false", "0"},
	"warc-all":         {"true", "1"},
	"operator":         {"me", "you"},
	"recrawl":          {"auto", "1h"},
	"recrawl-min":      {"1h", "2d"},
	"recrawl-max":      {"90d", "40d"},
	"recrawl-share":    {"30%", "100"},
	"versions":         {"3", "all"},
	"bsp":              {"10", "1000"},
	"bsp-step":         {"1m", "90s"},
}

// keptWith has the other option that some of these need.
var keptWith = map[string][]string{
	"score":       {"-order", "priority"},
	"recrawl-min": {"-recrawl", "auto"},
	"recrawl-max": {"-recrawl", "auto"},
	"bsp-step":    {"-bsp", "5"},
}

// settle parses a command line as a crawl does and returns the options of its engine. It does with
// the tree what the engine would do with Keep.
func settle(t *testing.T, dir string, args ...string) (opts crawler.Options, notices string) {
	t.Helper()
	var errs bytes.Buffer
	c := newCommand(append([]string{"crawler", "-tree", dir}, args...))
	c.stderr = newOutlet(&errs)
	_, _, err := c.parse(os.Environ())
	if err == nil {
		opts, err = c.crawlOptions()
	}
	if err == nil {
		err = engineKeeps(dir, opts)
	}
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return opts, errs.String()
}

func engineKeeps(dir string, opts crawler.Options) error {
	tree, err := iut.Open(dir, iut.Options{Identity: &iut.Identity{Canonical: "1", Strip: opts.Strip.String(), Partition: "host"}})
	if err != nil {
		return err
	}
	kept, err := opts.Keep(tree.Format().Kept, nil)
	if err == nil {
		err = tree.Keep(kept)
	}
	return errors.Join(err, tree.Close())
}

// diffOptions compares options of the engine but for the function that keeps them.
func diffOptions(a, b crawler.Options) string {
	return cmp.Diff(a, b, cmpopts.IgnoreFields(crawler.Options{}, "Keep", "Started", "Tree"), cmpopts.IgnoreUnexported(crawler.Options{}),
		cmp.Comparer(func(a, b *regexp.Regexp) bool { return a.String() == b.String() }),
		cmp.Comparer(func(a, b netip.Addr) bool { return a == b }))
}

// TestKept sets each option that the tree keeps in one run and checks that the next one has it. A
// variable comes before what is kept, a flag before that, and an option that was reset has its
// default.
func TestKept(t *testing.T) {
	if testing.Short() {
		t.Skip("calls the command 300 times: TestKeptTogether does it once with -short")
	}
	usual, _ := settle(t, t.TempDir())
	for name, values := range keptCases {
		t.Run(name, func(t *testing.T) {
			var none []string
			with := keptWith[name]
			first, second := append(slices.Clip(with), "-"+name+"="+values[0]), append(slices.Clip(with), "-"+name+"="+values[1])
			wantFirst, said := settle(t, t.TempDir(), first...)
			if said != "" {
				t.Errorf("the first run says %q", said)
			}
			wantSecond, _ := settle(t, t.TempDir(), second...)
			if diffOptions(usual, wantFirst) == "" || diffOptions(usual, wantSecond) == "" {
				t.Fatalf("%q are not other options than the default", values)
			}
			require := func(what string, got, want crawler.Options) {
				t.Helper()
				if diff := diffOptions(want, got); diff != "" {
					t.Errorf("%s:\n%s", what, diff)
				}
			}
			dir := filepath.Join(t.TempDir(), "iut")
			settle(t, dir, first...)
			for range 2 {
				got, said := settle(t, dir, none...)
				require("a later run without it", got, wantFirst)
				if dangerous := name == "robots" || name == "allow-private"; dangerous != strings.Contains(said, "kept from an earlier run: -"+name) {
					t.Errorf("it says %q", said)
				}
			}
			if _, said := settle(t, dir, first...); said != "" {
				t.Errorf("the same value again: it says %q", said)
			}
			got, said := settle(t, dir, second...)
			require("another value", got, wantSecond)
			if changed := diffOptions(wantFirst, wantSecond) != ""; changed != strings.Contains(said, "crawler: -"+name+" ") || strings.Count(said, "\n") > 1 {
				t.Errorf("another value: it says %q", said)
			}
			got, _ = settle(t, dir, none...)
			require("a run after that", got, wantSecond)

			t.Setenv(envOf(name), values[0])
			if with == nil && values[0] != "\x00\n\"" {
				got, _ = settle(t, dir, none...)
				require("a variable", got, wantFirst)
				got, _ = settle(t, dir, second...)
				require("a flag and a variable", got, wantSecond)
			}
			os.Unsetenv(envOf(name))
			must(t, filepath.Dir(dir), "options", "-reset", name)
			if with != nil {
				must(t, filepath.Dir(dir), "options", "-reset", with[0])
			}
			got, said = settle(t, dir, none...)
			require("a run after -reset", got, usual)
			if said != "" {
				t.Errorf("after -reset it says %q", said)
			}
			if _, said = settle(t, dir, first...); !strings.Contains(said, "crawler: -"+name+" ") || !strings.Contains(said, " from now on, was ") || strings.Contains(said, "was \n") {
				t.Errorf("the first value on a tree that has the default: it says %q", said)
			}
		})
	}
}

// TestKeptTogether sets all options of the crawl at once that go together, and those that are
// fixed.
func TestKeptTogether(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "iut")
	args := []string{"-strip-www", "-strip-params", "utm_*,sid", "-exclude", "a", "-exclude", "b c", "-time", "3s", "-max-pages", "7"}
	for name, values := range keptCases {
		if !slices.Contains([]string{"order", "exclude", "bsp", "bsp-step"}, name) {
			args = append(args, "-"+name+"="+values[0])
		}
	}
	want, _ := settle(t, dir, append(args, "-order", "priority")...)
	want.Time, want.MaxPages = 0, 0
	got, said := settle(t, dir)
	if diff := diffOptions(want, got); diff != "" {
		t.Error(diff)
	}
	if said != "crawler: kept from an earlier run: -robots ignore -allow-private; crawler options -reset NAME forgets it\n" {
		t.Errorf("it says %q", said)
	}
	// A list replaces the one that is kept, and an empty value removes it.
	got, said = settle(t, dir, "-exclude", "z", "-accept", "", "-include=", "-max-depth", "")
	want.SeedsOnly, want.Exclude, want.Include, want.Accept = false, []*regexp.Regexp{regexp.MustCompile("z")}, nil, nil
	if diff := diffOptions(want, got); diff != "" {
		t.Error(diff)
	}
	for _, line := range []string{"-max-depth no limit from now on, was 0\n", "-exclude z from now on, was a 'b c'\n", "-include none from now on, was ", "-accept text/html,application/xhtml+xml,text/plain from now on, was 'text/html,image/*'\n"} {
		if !strings.Contains(said, line) {
			t.Errorf("it says %q, and not %q", said, line)
		}
	}
	got, _ = settle(t, dir)
	if diff := diffOptions(want, got); diff != "" {
		t.Error(diff)
	}
	// A score that is kept waits for its order, and a share for one that leaves it.
	want.Order, want.ScoreBy, want.Queue, want.Queues, want.RecrawlShare = "tree", "", "", 0, 0
	got, _ = settle(t, dir, "-order", "tree")
	if diff := diffOptions(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestSecretsAreNotKept checks that no secret of a run is in the tree, and that a later run without
// them names those that it lacks.
func TestSecretsAreNotKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "iut")
	cookies := filepath.Join(t.TempDir(), "sesame.txt")
	if err := os.WriteFile(cookies, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	values := map[string]string{
		"user": "sesame", "password": "sesame", "header": "X-Key: sesame", "cookies": cookies,
		"proxy": "http://sesame:sesame@127.0.0.1:1", "bind": "127.1.2.3",
	}
	var args, names []string
	for _, o := range newFlags().all {
		if o.kind == ofSecret {
			args, names = append(args, "-"+o.name, values[o.name]), append(names, "-"+o.name)
		}
	}
	if _, said := settle(t, dir, args...); said != "" {
		t.Errorf("the first run says %q", said)
	}
	text, err := os.ReadFile(filepath.Join(dir, "FORMAT"))
	if err != nil || bytes.Contains(text, []byte("sesame")) || bytes.Contains(text, []byte("127.1.2.3")) {
		t.Errorf("FORMAT has a secret: %v\n%s", err, text)
	}
	for range 2 {
		if _, said := settle(t, dir); !strings.Contains(said, "an earlier run had "+strings.Join(names, " ")+", which") || strings.Count(said, "\n") != 1 {
			t.Errorf("a run without them says %q", said)
		}
	}
	if _, said := settle(t, dir, slices.DeleteFunc(args, func(a string) bool { return a == "-bind" || a == "127.1.2.3" })...); !strings.Contains(said, "had -bind, which") {
		t.Errorf("a run without one of them says %q", said)
	}
}

// TestKeptMeanwhile: options that another process has changed since they were read are not put
// back.
func TestKeptMeanwhile(t *testing.T) {
	dir := t.TempDir()
	old, _ := settle(t, dir, "-scope", "host")
	settle(t, dir, "-scope", "prefix")
	if err := engineKeeps(dir, old); !errors.Is(err, iut.ErrBusy) {
		t.Errorf("%v, want ErrBusy", err)
	}
	if format, err := iut.ReadFormat(dir); err != nil || !slices.Equal(format.Kept.Options, []string{"scope=prefix"}) {
		t.Errorf("FORMAT keeps %q: %v", format.Kept.Options, err)
	}
}
