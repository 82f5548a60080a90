package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"urltree/internal/testseed"
)

// A plannedPage is a page of a web in one round.
type plannedPage struct {
	status int    // 200, 404, 410, 403 or 301
	target string // of a redirect
	words  int    // which text it has
	hidden int    // in a comment, so that only the bytes differ
	links  []int  // numbers of pages
}

// A planned is a web whose pages change by a plan, which a random source draws.
type planned struct {
	rng   *rand.Rand
	pages []plannedPage
}

func (w *planned) next() {
	w.pages = slices.Clone(w.pages)
	for i := range w.pages {
		p := &w.pages[i]
		switch w.rng.IntN(12) {
		case 0:
			p.status = 404
		case 1:
			p.status = 410
		case 2:
			p.status, p.target = 301, fmt.Sprintf("/moved/%d/%d", i, w.rng.IntN(3))
		case 3:
			p.status = 403
		case 4:
			p.hidden++
		case 5, 6:
			p.words++
		case 7:
			p.links = w.rng.Perm(len(w.pages))[:w.rng.IntN(len(w.pages))]
		case 8:
			p.status = 200
		}
	}
	w.pages = append(w.pages, plannedPage{status: 200})
}

func (w *planned) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	rw.Header().Set("Content-Type", "text/html; charset=utf-8")
	var n int
	switch _, err := fmt.Sscanf(r.URL.Path, "/%d", &n); {
	case r.URL.Path == "/":
		for i := range w.pages {
			fmt.Fprintf(rw, "<a href=/%d></a>", i)
		}
	case err != nil || n >= len(w.pages):
		http.NotFound(rw, r)
	case w.pages[n].status == http.StatusMovedPermanently:
		http.Redirect(rw, r, w.pages[n].target, http.StatusMovedPermanently)
	case w.pages[n].status != http.StatusOK:
		http.Error(rw, "none", w.pages[n].status)
	default:
		p := &w.pages[n]
		fmt.Fprintf(rw, "<title>%s</title><!-- %d --><p>", strings.ReplaceAll(hostile[n%len(hostile)], "<", "&lt;"), p.hidden)
		for i := range 12 {
			fmt.Fprintf(rw, " w%d-%d-%d", n, p.words, i)
		}
		for _, to := range p.links {
			fmt.Fprintf(rw, "<a href=/%d></a>", to)
		}
	}
}

// lines returns what changes is to say after a round, each URL that was there before having been
// found by the last look or not. A line has the word, the path and, of a change, its measure.
func (w *planned) lines(before map[int]plannedPage, missed map[int]string) (want []string) {
	for n, now := range w.pages {
		was, known := before[n]
		line := func(what, more string) {
			want = append(want, strings.TrimSpace(fmt.Sprintf("%s /%d %s", what, n, more)))
		}
		if !known && now.status != http.StatusOK {
			continue // it is no stored page
		}
		kind := map[int]string{404: "gone", 410: "gone", 301: "moved", 403: "failing", 200: ""}[now.status]
		switch {
		case !known:
			line("new", "")
		case kind == "" && missed[n] != "":
			line("back", "")
		case kind == "moved" && missed[n] != kind:
			line(kind, now.target)
		case kind != "" && missed[n] != kind:
			line(kind, "")
		}
		missed[n] = kind
		if kind != "" {
			continue
		}
		if known && (was.words != now.words || was.hidden != now.hidden || !slices.Equal(was.links, now.links)) {
			without := func(a, b []int) (n int) {
				for _, x := range a {
					if !slices.Contains(b, x) {
						n++
					}
				}
				return n
			}
			text := "same"
			if was.words != now.words {
				text = "other"
			}
			line("changed", fmt.Sprintf("text %s +%d -%d", text, without(now.links, was.links), without(was.links, now.links)))
		}
		before[n] = now
	}
	slices.Sort(want)
	return want
}

// TestChangesFollowPlan: after each round of a web that changes by a plan, changes says what the
// plan has done, and nothing else, in each form. A feed reader that is not ours reads the feed, of
// which titles and URLs are hostile.
func TestChangesFollowPlan(t *testing.T) {
	t.Parallel()
	seed := testseed.Draw(t)
	for i, store := range []string{"folders", "warc"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			rounds := 10
			if testing.Short() {
				rounds = 4
			}
			web := &planned{rng: rand.New(rand.NewPCG(seed, uint64(i)))}
			for range 20 {
				web.pages = append(web.pages, plannedPage{status: http.StatusOK})
			}
			var current atomic.Pointer[planned] // of the round
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { current.Load().ServeHTTP(w, r) }))
			defer server.Close()
			dir, before, missed, ids := t.TempDir(), map[int]plannedPage{}, map[int]string{}, map[string]string{}
			for round := range rounds {
				if round > 0 {
					web.next()
				}
				copied := *web
				current.Store(&copied)
				crawl := []string{"-quiet", "-delay", "0", "-scope", "host", "-retries", "0"}
				if round == 0 {
					must(t, dir, append(crawl, "-store", store, server.URL+"/")...)
				} else {
					must(t, dir, append(crawl, "-recrawl", "0s")...)
				}
				want := web.lines(before, missed)
				var said []map[string]any
				for line := range strings.Lines(must(t, dir, "changes", "-format", "jsonl")) {
					var c map[string]any
					if err := json.Unmarshal([]byte(line), &c); err != nil {
						t.Fatal(err)
					}
					said = append(said, c)
				}
				if diff := cmp.Diff(want, plannedLines(t, server.URL, said)); diff != "" {
					t.Fatalf("round %d: what the plan has (-), what changes says (+): %s", round, diff)
				}
				feed := must(t, dir, "changes", "-format", "atom")
				requireFeed(t, feed, said, ids)
				if again := must(t, dir, "changes", "-format", "atom"); again != feed {
					t.Errorf("a feed is another one the second time: %s", cmp.Diff(feed, again))
				}
			}
			must(t, dir, "check", "-links")
		})
	}
}

// plannedLines returns what changes says as planned.lines has it, but for the page with the links,
// which changes whenever one is added.
func plannedLines(t *testing.T, origin string, said []map[string]any) (lines []string) {
	for _, c := range said {
		line := fmt.Sprint(c["change"], " ", strings.TrimPrefix(c["url"].(string), origin))
		switch c["change"] {
		case "moved":
			line += " " + strings.TrimPrefix(c["target"].(string), origin)
		case "changed":
			distance, ok := c["distance"].(float64)
			text := "same"
			if distance > 0 {
				text = "other"
			}
			if !ok {
				text = "unknown"
			}
			line += fmt.Sprintf(" text %s +%v -%v", text, c["links_added"], c["links_removed"])
		}
		if _, lasts := c["for_s"]; c["reason"] == nil && lasts {
			t.Errorf("%v is found, and has not been for a time", c)
		}
		if c["url"] != origin+"/" {
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	return lines
}

// pythonAtom reads a feed with feedparser, where that is installed, after the parser of Python
// itself and by what RFC 4287 asks of one.
const pythonAtom = `
import json, sys, xml.etree.ElementTree as ET
from datetime import datetime
text = sys.stdin.buffer.read()
A = '{http://www.w3.org/2005/Atom}'
feed = ET.fromstring(text)
def one(of, name):
    found = of.findall(A + name)
    assert len(found) == 1, (name, len(found))
    return found[0]
assert feed.tag == A + 'feed'
for of in [feed] + feed.findall(A + 'entry'):
    assert one(of, 'id').text.startswith('urn:uuid:') and one(of, 'title').text
    datetime.strptime(one(of, 'updated').text, '%Y-%m-%dT%H:%M:%SZ')
assert one(one(feed, 'author'), 'name').text
entries = [{'id': one(e, 'id').text, 'title': one(e, 'title').text, 'updated': one(e, 'updated').text,
    'link': one(e, 'link').get('href'), 'term': one(e, 'category').get('term')} for e in feed.findall(A + 'entry')]
assert one(feed, 'updated').text >= max([e['updated'] for e in entries], default='')
try:
    import feedparser
except ImportError:
    pass
else:
    read = feedparser.parse(text, sanitize_html=False)
    assert not read.bozo and read.version == 'atom10', read
    again = [{'id': e.id, 'title': e.title, 'updated': e.updated, 'link': e.link, 'term': e.tags[0].term} for e in read.entries]
    assert [e['id'] for e in again] == [e['id'] for e in entries]
    assert [e['link'] for e in again] == [e['link'] for e in entries]
print(json.dumps({'id': one(feed, 'id').text, 'entries': entries}))
`

// requireFeed requires that a feed has the changes that were said, the latest first, each with an
// id of its own, which all feeds so far have used for nothing else; ids has them.
func requireFeed(t *testing.T, text string, said []map[string]any, ids map[string]string) {
	t.Helper()
	var feed struct {
		ID      string              `json:"id"`
		Entries []map[string]string `json:"entries"`
	}
	python(t, pythonAtom, text, &feed)
	if was := ids[""]; was != "" && was != feed.ID {
		t.Errorf("the feed was %s, and is %s", was, feed.ID)
	}
	ids[""] = feed.ID
	var want, got []string
	for _, c := range said {
		want = append(want, fmt.Sprint(c["change"], " ", c["url"], " ", c["time"]))
	}
	for i, e := range feed.Entries {
		key := fmt.Sprint(e["term"], " ", e["link"], " ", e["updated"])
		got = append(got, key)
		if was := ids[e["id"]]; was != "" && was != key {
			t.Errorf("%s was %q, and is %q", e["id"], was, key)
		}
		ids[e["id"]] = key
		if i > 0 && e["updated"] > feed.Entries[i-1]["updated"] {
			t.Errorf("%s comes after %s", e["updated"], feed.Entries[i-1]["updated"])
		}
		if !strings.HasPrefix(e["title"], e["term"]+": ") {
			t.Errorf("title %q of a page that is %s", e["title"], e["term"])
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("said (-), in the feed (+): %s", diff)
	}
}
