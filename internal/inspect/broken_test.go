package inspect

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"urltree/internal/edges"
	"urltree/storage/record"
)

// brokenOf takes an answer to "broken" apart: URL, state, reason, status, end and source of the
// targets, and the links, sorted.
func brokenOf(t *testing.T, i *Inspector, prefix string, words int) (sum BrokenSum, targets, links []string) {
	t.Helper()
	var out bytes.Buffer
	w := bufio.NewWriter(&out)
	if err := i.broken(t.Context(), Question{URL: prefix}, words, w); err != nil {
		t.Fatal(err)
	}
	w.Flush()
	_, err := ReadBroken(func(l BrokenLine) error {
		switch {
		case l.Sum != nil:
			sum = *l.Sum
		case l.Link != nil:
			if targets != nil {
				t.Error("a link behind a target")
			}
			links = append(links, fmt.Sprint(l.Link.Page, " ", l.Link.To, " ", l.Link.Element, " ", l.Link.Text))
		case l.Target != nil:
			b := l.Target
			targets = append(targets, fmt.Sprint(b.URL, " ", b.State, " ", b.Reason, " ", b.Status, " ", b.End, " ", b.How, " ", b.Source))
		}
		return nil
	}).Write(out.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(links)
	return sum, targets, links
}

// brokenTree has a URL of each kind that is broken or nearly so.
func brokenTree(t *testing.T) *Inspector {
	i := open(t)
	const home = "http://a.org/"
	named := func(url, source, via string) record.Link {
		return record.Link{URL: url, Source: source, Via: via, Depth: 1}
	}
	commit(t, i, &record.Outcome{Links: []record.Link{
		named(home, record.Seed, ""), named("http://a.org/seed", record.Seed, ""),
		named("http://a.org/gone", home, ""), named("http://a.org/refused", home, ""), named("http://a.org/waits", home, ""),
		named("http://a.org/ours", home, ""), named("http://a.org/held", home, ""), named("http://a.org/far", home, ""),
		named("http://far.org/x", home, ""), named("http://far.org/tls", home, ""), named("http://busy.org/", home, ""),
		named("http://a.org/chain", home, ""), named("http://a.org/chain2", home, "http://a.org/chain"),
		named("http://a.org/end", home, "http://a.org/chain2"), named("http://a.org/good", home, ""),
		named("http://a.org/round", home, ""), named("http://a.org/out", home, ""),
		named("http://a.org/sub/page", home, ""),
	}})
	outcome := func(url string, state record.State, reason string, status uint16, to string) {
		t.Helper()
		commit(t, i, &record.Outcome{Row: record.Row{URL: url}, State: state, Reason: reason, Page: record.Page{Time: 1, Status: status, HeaderLinks: to}})
	}
	held := func(url, reason string) {
		t.Helper()
		commit(t, i, &record.Outcome{Row: record.Row{URL: url}, State: record.Pending, Next: record.Row{Range: record.Held, Reason: reason}})
	}
	outcome(home, record.Stored, "", 200, "")
	outcome("http://a.org/seed", record.Failed, "http-5xx", 500, "")
	outcome("http://a.org/gone", record.Failed, "http-4xx", 410, "")
	outcome("http://a.org/refused", record.Refused, "robots", 0, "")
	outcome("http://a.org/sub/page", record.Refused, "noindex", 200, "")
	outcome("http://a.org/ours", record.Failed, "panic", 200, "")
	held("http://a.org/held", "depth")
	held("http://a.org/far", "host given up")
	held("http://far.org/x", "robots-unreachable:dns")
	held("http://far.org/tls", "robots-unreachable:tls-expired")
	held("http://busy.org/", "refused:http-5xx")
	outcome("http://a.org/chain", record.Redirected, "", 301, "http://a.org/chain2")
	outcome("http://a.org/chain2", record.Redirected, "", 302, "http://a.org/end")
	outcome("http://a.org/end", record.Failed, "http-4xx", 404, "")
	outcome("http://a.org/good", record.Redirected, "", 301, home)
	outcome("http://a.org/round", record.Redirected, "", 301, "http://a.org/round")
	outcome("http://a.org/out", record.Redirected, "scope", 301, "http://unknown.org/")
	i.Edges = func(_ context.Context, fn func(edges.Page) error) error {
		for _, p := range []edges.Page{
			{URL: home, Edges: []edges.Edge{
				{To: "http://a.org/gone", Element: "a", Text: "gone\x1b"},
				{To: "http://a.org/good", Element: "a"},
				{To: "http://a.org/chain", Element: "link"},
				{To: "http://far.org/x", Element: "a", Rel: "nofollow"},
				{To: "http://unknown.org/", Element: "a"},
				{To: "http://a.org/held", Element: "a"},
			}},
			{URL: "http://a.org/sub/page", Edges: []edges.Edge{{To: "http://a.org/gone", Element: "area"}, {To: "http://a.org/end", Element: "a"}}},
			{URL: "http://a.org/chain2", Edges: []edges.Edge{{To: "http://a.org/end", Element: "redirect"}}},
		} {
			if err := fn(p); err != nil {
				return err
			}
		}
		return nil
	}
	return i
}

// TestBroken: what failed is broken, and so is what leads to it and what no host answers for; what
// was refused, waits or failed by us is not.
func TestBroken(t *testing.T) {
	i := brokenTree(t)
	wantTargets := []string{
		"http://far.org/tls unreachable tls-expired 0  link http://a.org/",
		"http://far.org/x unreachable dns 0  link http://a.org/",
		"http://a.org/chain redirected http-4xx 404 http://a.org/end link http://a.org/",
		"http://a.org/chain2 redirected http-4xx 404 http://a.org/end  ",
		"http://a.org/end failed http-4xx 404   ",
		"http://a.org/gone failed http-4xx 410  link http://a.org/",
		"http://a.org/round redirected redirect-loop 301 http://a.org/round link http://a.org/",
		"http://a.org/seed failed http-5xx 500  seed ",
	}
	wantLinks := []string{
		"http://a.org/ http://a.org/chain link ",
		"http://a.org/ http://a.org/gone a gone?",
		"http://a.org/ http://far.org/x a ",
		"http://a.org/sub/page http://a.org/end a ",
		"http://a.org/sub/page http://a.org/gone area ",
	}
	slices.Sort(wantTargets)
	// However few marks there are, each link comes once, and those beside them lead to no target.
	for _, words := range []int{markWords, 1} {
		sum, targets, links := brokenOf(t, i, "", words)
		keys := make([]string, len(targets))
		for k, target := range targets {
			url, _, _ := strings.Cut(target, " ")
			key, err := record.Key(url)
			if err != nil {
				t.Fatal(err)
			}
			keys[k] = string(key)
		}
		if !slices.IsSorted(keys) {
			t.Errorf("the targets are not in the order of the tree: %q", targets)
		}
		slices.Sort(targets)
		links = slices.DeleteFunc(links, func(link string) bool {
			to := strings.Fields(link)[1]
			return !slices.ContainsFunc(targets, func(target string) bool { return strings.HasPrefix(target, to+" ") })
		})
		if diff := cmp.Diff(wantTargets, targets); diff != "" {
			t.Errorf("targets, %d words: %s", words, diff)
		}
		if diff := cmp.Diff(wantLinks, links); diff != "" {
			t.Errorf("links, %d words: %s", words, diff)
		}
		if want := (BrokenSum{Pages: 1, Reread: 1, Waiting: 4}); sum != want {
			t.Errorf("%+v, want %+v", sum, want)
		}
	}

	_, targets, links := brokenOf(t, i, "http://a.org/sub", markWords)
	if diff := cmp.Diff(wantLinks[3:], links); diff != "" {
		t.Errorf("below a folder: %s", diff)
	}
	for _, target := range targets {
		if strings.Contains(target, " link ") || strings.Contains(target, " seed ") {
			t.Errorf("its source is not below the folder: %s", target)
		}
	}
}

// TestBrokenLines: a line that is none is an error.
func TestBrokenLines(t *testing.T) {
	for _, line := range []string{"", "x", "{}", "[]", `{"Sum":3}`, `{"Read":"x"}`, `{"Link":{"Page":1}}`, `{"Read":1`, `{"Other":1}`} {
		if _, err := ReadBroken(func(BrokenLine) error { return nil }).Write([]byte(line + "\n")); err == nil {
			t.Errorf("%q was taken", line)
		}
	}
}
