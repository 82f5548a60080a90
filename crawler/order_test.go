package crawler_test

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"urltree/crawler"
	"urltree/internal/rank"
	"urltree/internal/score"
	"urltree/internal/testweb"
	"urltree/storage"
)

// letters serves a web whose pages are letters and keeps the order in which they are asked for.
type letters struct {
	web   map[string]string // page: the pages that it names
	mu    sync.Mutex
	asked string // guarded by mu
}

func (l *letters) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	page := strings.TrimPrefix(r.URL.Path, "/")
	if len(page) != 1 { // robots.txt, sitemap.xml
		http.NotFound(w, r)
		return
	}
	l.mu.Lock()
	l.asked += page
	l.mu.Unlock()
	w.Header().Set("Content-Type", "text/html")
	for _, name := range l.web[page] {
		fmt.Fprintf(w, "<a href=/%c>%c</a>\n", name, name)
	}
}

// oneByOne are the options of a crawl in which one page is asked for at a time, and committed
// before the next but one.
func oneByOne(t *testing.T, web http.Handler) (opts crawler.Options, seed string) {
	server := httptest.NewServer(web)
	t.Cleanup(server.Close)
	dir := t.TempDir()
	seed = server.URL + "/s"
	return crawler.Options{
		Tree:       filepath.Join(dir, "iut"),
		Output:     filepath.Join(dir, "res.txt"),
		Seeds:      []string{seed},
		Politeness: crawler.Politeness{Delay: -1},
		Storage:    crawler.Storage{NoSync: true},
		Resources:  crawler.Resources{Crawlers: 1, Downloads: 1, Buffers: 1, BufferSize: 1},
		Ordering:   crawler.Ordering{Order: "priority", Pick: "single"},
	}, seed
}

// TestScores: the scores under which URLs were found are those worked out by hand.
func TestScores(t *testing.T) {
	// b's score is what a and c hand to it, for it is asked for after both.
	web := map[string]string{"s": "acef", "a": "b", "c": "b", "b": "dg"}
	for _, tt := range []struct {
		by   crawler.ScoreBy
		want map[string]float64
	}{
		{"opic", map[string]float64{"a": .25, "c": .25, "e": .25, "f": .25, "b": .25, "d": .25, "g": .25}},
		{"inlinks", map[string]float64{"a": 1, "c": 1, "e": 1, "f": 1, "b": 1, "d": 1, "g": 1}},
		{"depth", nil},
	} {
		t.Run(string(tt.by), func(t *testing.T) {
			opts, seed := oneByOne(t, &letters{web: web})
			opts.ScoreBy = tt.by
			if _, err := crawler.Run(t.Context(), opts); err != nil {
				t.Fatal(err)
			}
			index, err := storage.Open(filepath.Join(opts.Tree, "index.db"), storage.Options{ReadOnly: true})
			if err != nil {
				t.Fatal(err)
			}
			defer index.Close()
			for page := range strings.SplitSeq("s a b c d e f g", " ") {
				r, err := index.Record(strings.TrimSuffix(seed, "s") + page)
				if err != nil {
					t.Fatalf("%s: %v", page, err)
				}
				got, scored := score.Of(r.Rank)
				want, has := tt.want[page]
				if scored != has || math.Abs(got-want) > 1e-6 || !has && r.Rank != uint64(r.Depth) {
					t.Errorf("%s has rank %d, score %v; want %v", page, r.Rank, got, want)
				}
			}
		})
	}
}

// TestScoreRank: what waits is asked for in the order of the ranks that were computed between two
// runs, what is found then by what its page hands on.
func TestScoreRank(t *testing.T) {
	web := &letters{web: map[string]string{"s": "abcde", "a": "ed", "b": "e", "e": "f", "d": "g", "c": "h"}}
	opts, seed := oneByOne(t, web)
	opts.Order, opts.MaxPages = "breadth", 3
	if _, err := crawler.Run(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	opts.Order, opts.ScoreBy, opts.MaxPages = "priority", "rank", 0
	if _, err := crawler.Run(t.Context(), opts); !errors.Is(err, crawler.ErrOptions) {
		t.Fatalf("without ranks: %v, want ErrOptions", err)
	}
	ranks := map[string]float64{}
	withGraph(t, opts.Tree, func(source rank.Source, _ *storage.Index) {
		g, err := rank.Read(t.Context(), source)
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		r, err := g.Rank(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Save(opts.Tree); err != nil {
			t.Fatal(err)
		}
		best, err := r.Best(t.Context(), source, g.Nodes())
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range best {
			if page := strings.TrimPrefix(b.URL, strings.TrimSuffix(seed, "s")); strings.Contains("cde", page) {
				ranks[page] = b.Rank * float64(g.Nodes())
			}
		}
	})
	if _, err := crawler.Run(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	// e has 1.81 times the mean and hands it to f, which is known once the page behind e is taken:
	// d, with 1.13.
	got := strings.Map(func(page rune) rune {
		if page == 'f' || page == 'g' || page == 'h' {
			return -1
		}
		return page
	}, web.asked)
	if got != "sabedc" || strings.Index(web.asked, "f") > strings.Index(web.asked, "c") {
		t.Errorf("asked for %s, want s, a, b, e, d, c and f before c; ranks %v", web.asked, ranks)
	}
	index, err := storage.Open(filepath.Join(opts.Tree, "index.db"), storage.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer index.Close()
	for page, want := range ranks {
		r, err := index.Record(strings.TrimSuffix(seed, "s") + page)
		if got, ok := score.Of(r.Rank); err != nil || !ok || math.Abs(got-want) > 1e-9 {
			t.Errorf("%s has the score %v, want %v; %v", page, got, want, err)
		}
	}
}

// TestScoreFunction: URLs are asked for in the order of any function, from both queues.
func TestScoreFunction(t *testing.T) {
	const names = "kdaxwuqgfzmhpcyotlvebrnji"
	for _, queue := range crawler.Queues {
		t.Run(string(queue), func(t *testing.T) {
			web := &letters{web: map[string]string{"s": names}}
			opts, seed := oneByOne(t, web)
			opts.Queue = queue
			opts.Score = func(c crawler.Candidate) float64 {
				if c.Source != seed || c.Depth != 1 {
					t.Errorf("%s: found on %s at depth %d", c.URL, c.Source, c.Depth)
				}
				return -float64(c.URL[len(c.URL)-1])
			}
			if _, err := crawler.Run(t.Context(), opts); err != nil {
				t.Fatal(err)
			}
			sorted := []byte(names)
			slices.Sort(sorted)
			if want := "s" + string(sorted); web.asked != want {
				t.Errorf("asked for %s, want %s", web.asked, want)
			}
		})
	}
}

// TestOrderKnownAnswer: whatever the order and however crawlers pick, the same pages are stored,
// each asked for once, also when windows and sums have hardly any memory.
func TestOrderKnownAnswer(t *testing.T) {
	t.Parallel()
	pages := sized(400, 80)
	if os.Getenv("TEST_URLTREE_FULL") != "" {
		pages = 20_000
	}
	for i, tt := range []crawler.Options{
		{Ordering: crawler.Ordering{ScoreBy: "opic", Queue: "cbt"}},
		{Ordering: crawler.Ordering{ScoreBy: "opic", Queue: "quickheap", Queues: 3}, Resources: crawler.Resources{FrontierBytes: 64 << 10}},
		{Ordering: crawler.Ordering{ScoreBy: "inlinks", Queue: "quickheap", Pick: "batch"}},
		{Ordering: crawler.Ordering{ScoreBy: "inlinks", Queue: "cbt", Queues: 2}, Resources: crawler.Resources{FrontierBytes: 64 << 10}, Bounds: crawler.Bounds{MaxDepth: 1000}},
		{Ordering: crawler.Ordering{ScoreBy: "depth", Queue: "cbt", Pick: "single"}},
		{Score: func(c crawler.Candidate) float64 { return float64(len(c.URL)) }, Ordering: crawler.Ordering{Queue: "quickheap"}, Resources: crawler.Resources{FrontierBytes: 64 << 10}},
	} {
		t.Run(fmt.Sprintf("%s, %s x %d, %s", tt.ScoreBy, tt.Queue, tt.Queues, tt.Pick), func(t *testing.T) {
			web := serve(t, testweb.Options{
				Kind: testweb.Linked, Hosts: 10, Pages: pages, Seed: uint64(i), MinSize: 300, MaxSize: 900,
				Redirects: .03, Texts: .02, Images: .02, NoIndex: .02, Private: .02,
			})
			dir := t.TempDir()
			opts := options(dir, web)
			opts.Order, opts.ScoreBy, opts.Score, opts.Queue, opts.Queues = "priority", tt.ScoreBy, tt.Score, tt.Queue, tt.Queues
			opts.Pick, opts.FrontierBytes, opts.MaxDepth, opts.NoSync = tt.Pick, tt.FrontierBytes, tt.MaxDepth, true
			if _, err := crawler.Run(t.Context(), opts); err != nil {
				t.Fatal(err)
			}
			requireSame(t, crawled(t, filepath.Join(dir, "res.txt")), web.Answer().Stored)
			for url, n := range web.Requests() {
				// With a limit of depth, what only names links is asked again when a shorter way is
				// found.
				if n > 1 && !(tt.MaxDepth > 0 && web.Answer().Refused[url] == "noindex") {
					t.Errorf("%s was asked %d times", url, n)
				}
			}
			requireChecked(t, dir)
			text, err := os.ReadFile(filepath.Join(dir, "statistics.txt"))
			if want := "  priority by "; err != nil || !strings.Contains(string(text), want) || !strings.Contains(string(text), string(tt.Queue)+" x "+strconv.Itoa(max(tt.Queues, 1))) {
				t.Errorf("statistics.txt does not tell of the order: %v", err)
			}
		})
	}
}

// TestOrderChanges: a later run in another order takes over what is pending.
func TestOrderChanges(t *testing.T) {
	t.Parallel()
	web := serve(t, testweb.Options{Kind: testweb.Linked, Hosts: 5, Pages: sized(300, 120), Seed: 3, MinSize: 300, MaxSize: 900})
	most := int64(sized(60, 25))
	dir := t.TempDir()
	for _, order := range []crawler.Options{
		{Ordering: crawler.Ordering{Order: "priority"}, Limits: crawler.Limits{MaxPages: most}}, {Ordering: crawler.Ordering{Order: "breadth"}, Limits: crawler.Limits{MaxPages: most}}, {Ordering: crawler.Ordering{Order: "priority", ScoreBy: "inlinks"}, Limits: crawler.Limits{MaxPages: most}}, {},
	} {
		opts := options(dir, web)
		opts.Order, opts.ScoreBy, opts.MaxPages, opts.NoSync = order.Order, order.ScoreBy, order.MaxPages, true
		if _, err := crawler.Run(t.Context(), opts); err != nil {
			t.Fatal(err)
		}
		requireChecked(t, dir)
	}
	requireSame(t, crawled(t, filepath.Join(dir, "res.txt")), web.Answer().Stored)
}

func TestOrderRejects(t *testing.T) {
	for _, opts := range []crawler.Options{{Ordering: crawler.Ordering{Order: "best"}}, {Ordering: crawler.Ordering{ScoreBy: "best"}}, {Ordering: crawler.Ordering{Queue: "heap"}}, {Ordering: crawler.Ordering{Pick: "nolock"}}, {Ordering: crawler.Ordering{Queues: -1}}} {
		opts.Tree = t.TempDir()
		if _, err := crawler.Run(t.Context(), opts); err == nil {
			t.Errorf("%+v is taken", opts)
		}
	}
}
