package tree_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"urltree/crawler"
	"urltree/crawler/tree"
	"urltree/iut"
)

const host = "https://example.org"

// body is a page of a web in which page n names 2n+1 and 2n+2, of so many.
func body(n, of int) string {
	var links strings.Builder
	for _, to := range []int{2*n + 1, 2*n + 2} {
		if to < of {
			fmt.Fprintf(&links, `<p><a href="/%d/%d" rel="Next nofollow">to %d</a>`, to%3, to, to)
		}
	}
	return fmt.Sprintf(`<html lang="en"><title>Page %d</title><h1>&Uuml;ber %d</h1>%s<img src="/i.png"></html>`, n, n, links.String())
}

func address(n int) string { return fmt.Sprintf("%s/%d/%d", host, n%3, n) }

// fetch serves that web, with errors for all else.
func fetch(of int) func(context.Context, string) (crawler.Content, error) {
	return func(_ context.Context, url string) (crawler.Content, error) {
		var area, n int
		if _, err := fmt.Sscanf(url, host+"/%d/%d", &area, &n); err != nil || n >= of {
			return crawler.Content{Status: 404}, nil
		}
		return crawler.Content{Status: 200, Media: "text/html", Body: []byte(body(n, of))}, nil
	}
}

func options(t *testing.T, store crawler.Store, pages int) crawler.Options {
	t.Helper()
	dir := t.TempDir()
	return crawler.Options{
		Tree:    filepath.Join(dir, "iut"),
		Output:  filepath.Join(dir, "res.txt"),
		Storage: crawler.Storage{Store: store, NoSync: true},
		Seeds:   []string{address(0)},
		Fetch:   fetch(pages),
		Bounds:  crawler.Bounds{NoFollow: "none"},
	}
}

func crawl(t *testing.T, opts crawler.Options) {
	t.Helper()
	if r, err := crawler.Run(t.Context(), opts); err != nil {
		t.Fatalf("crawl: %v, %+v", err, r)
	}
}

func open(t *testing.T, dir string) *tree.Tree {
	t.Helper()
	tr, err := tree.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
	})
	return tr
}

// urls returns the URLs of pages, sorted; each once.
func urls(t *testing.T, tr *tree.Tree, q tree.Query) (list []string) {
	t.Helper()
	for p, err := range tr.Pages(t.Context(), q) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, p.URL)
	}
	slices.Sort(list)
	if n := len(list); n != len(slices.Compact(slices.Clone(list))) {
		t.Errorf("%d pages, some more than once", n)
	}
	return list
}

// TestPages: pages are read back as they were fetched, from both stores.
func TestPages(t *testing.T) {
	const pages = 40
	for _, store := range crawler.Stores {
		t.Run(string(store), func(t *testing.T) {
			opts := options(t, store, pages)
			before := time.Now().Truncate(time.Second)
			crawl(t, opts)
			tr := open(t, opts.Tree)
			seen := 0
			for p, err := range tr.Pages(t.Context(), tree.Query{}) {
				if err != nil {
					t.Fatal(err)
				}
				var area, n int
				if _, err := fmt.Sscanf(p.URL, host+"/%d/%d", &area, &n); err != nil {
					t.Fatal(err)
				}
				seen++
				want := body(n, pages)
				got, err := p.Body()
				if err != nil || string(got) != want || p.Bytes != int64(len(want)) || p.SHA256 != sha256.Sum256(got) {
					t.Errorf("%s: body %q, %v; want %q", p.URL, got, err, want)
				}
				source, depth := tree.Seed, 0
				for up := n; up > 0; up = (up - 1) / 2 {
					depth++
				}
				if n > 0 {
					source = address((n - 1) / 2)
				}
				if p.Source != source || p.Depth != depth || p.Status != 200 || p.Media != "text/html" || p.Time.Before(before) || p.Found.Before(before) ||
					p.Meta.Title != fmt.Sprintf("Page %d", n) || p.Meta.Language != "en" {
					t.Errorf("%+v", p)
				}
				text, err := p.Text()
				if !strings.HasPrefix(text, fmt.Sprintf("Über %d", n)) || err != nil {
					t.Errorf("%s: text %q, %v", p.URL, text, err)
				}
				if main, err := p.MainText(); !strings.Contains(main, fmt.Sprintf("Über %d", n)) || err != nil {
					t.Errorf("%s: main text %q, %v", p.URL, main, err)
				}
				links, err := p.Links()
				var to []tree.Link
				for _, m := range []int{2*n + 1, 2*n + 2} {
					if m < pages {
						to = append(to, tree.Link{URL: address(m), Element: "a", Rel: "next nofollow", Text: fmt.Sprintf("to %d", m)})
					}
				}
				to = append(to, tree.Link{URL: host + "/i.png", Element: "img"})
				if !slices.Equal(links, to) || err != nil {
					t.Errorf("%s: links %v, %v; want %v", p.URL, links, err, to)
				}
			}
			if seen != pages {
				t.Errorf("%d pages, want %d", seen, pages)
			}
		})
	}
}

// TestQuery: prefixes and times choose pages; one page is found by any spelling of its URL.
func TestQuery(t *testing.T) {
	opts := options(t, crawler.StoreFolders, 40)
	crawl(t, opts)
	tr := open(t, opts.Tree)
	now := time.Now()
	for _, tt := range []struct {
		name string
		q    tree.Query
		want int
	}{
		{"all", tree.Query{}, 40},
		{"scheme", tree.Query{Prefix: "http://"}, 0},
		{"host", tree.Query{Prefix: host}, 40},
		{"folder", tree.Query{Prefix: host + "/1/"}, 13},
		{"page", tree.Query{Prefix: host + "/1/1"}, 1},
		{"since", tree.Query{Since: now.Add(time.Hour)}, 0},
		{"until", tree.Query{Until: now.Add(time.Hour)}, 40},
	} {
		if got := len(urls(t, tr, tt.q)); got != tt.want {
			t.Errorf("%s: %d pages, want %d", tt.name, got, tt.want)
		}
	}
	if p, err := tr.Page(t.Context(), "HTTPS://EXAMPLE.org:443/x/../1/1#top"); err != nil || p.URL != host+"/1/1" {
		t.Errorf("Page: %+v, %v", p, err)
	}
	if _, err := tr.Page(t.Context(), host+"/none"); !errors.Is(err, tree.ErrNotFound) {
		t.Errorf("a page that is not there: %v", err)
	}
	for _, err := range tr.Pages(t.Context(), tree.Query{Prefix: "ftp://x"}) {
		if !errors.Is(err, tree.ErrQuery) {
			t.Errorf("a prefix that is none: %v", err)
		}
	}
	if _, err := tree.Open(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no tree: %v", err)
	}
}

// TestNoLock: while a caller looks at a page, a crawl with the same tree begins and ends.
func TestNoLock(t *testing.T) {
	const pages = 2100 // more than two parts
	opts := options(t, crawler.StoreFolders, pages)
	opts.MaxPages = 1100
	crawl(t, opts)
	tr := open(t, opts.Tree)
	n := 0
	for _, err := range tr.Pages(t.Context(), tree.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 1 {
			opts.MaxPages = 0
			crawl(t, opts)
		}
	}
	if n < 1100 {
		t.Errorf("%d pages, want those of the first run at least", n)
	}
	if got := len(urls(t, tr, tree.Query{})); got != pages {
		t.Errorf("%d pages after the second run, want %d", got, pages)
	}
	for range tr.Pages(t.Context(), tree.Query{}) {
		break // leaves nothing behind
	}
}

// TestBesideCrawl: pages are read while a crawl fills the tree, from its beginning to its end, and
// each that was seen once is seen again.
func TestBesideCrawl(t *testing.T) {
	const pages = 1200
	for _, store := range crawler.Stores {
		t.Run(string(store), func(t *testing.T) {
			opts := options(t, store, pages)
			var fetched atomic.Int64
			looked := make(chan struct{})
			from := opts.Fetch
			opts.Fetch = func(ctx context.Context, url string) (crawler.Content, error) {
				if fetched.Add(1) == pages/2 {
					<-looked // the crawl does not end before the tree was read once
				}
				return from(ctx, url)
			}
			started := make(chan struct{})
			opts.Started = func() { close(started) }
			ended := make(chan error, 1)
			go func() {
				_, err := crawler.Run(t.Context(), opts)
				ended <- err
			}()
			<-started
			tr := open(t, opts.Tree)
			seen, looks := []string(nil), 0
			for running := true; running; looks++ {
				select {
				case err := <-ended:
					if err != nil {
						t.Error(err)
					}
					running = false
				default:
				}
				now := urls(t, tr, tree.Query{})
				for _, url := range seen {
					if _, ok := slices.BinarySearch(now, url); !ok {
						t.Fatalf("%s was seen before, and is not now", url)
					}
				}
				seen = now
				if looks == 1 {
					close(looked)
				}
			}
			if len(seen) != pages || looks < 2 {
				t.Errorf("%d pages at the end, want %d; %d looks", len(seen), pages, looks)
			}
		})
	}
}

// TestBusy: a tree that something else than a crawl has is waited for, as long as the caller wants.
func TestBusy(t *testing.T) {
	opts := options(t, crawler.StoreFolders, 3)
	crawl(t, opts)
	tr := open(t, opts.Tree)
	owner, err := iut.Open(opts.Tree, iut.Options{})
	if err != nil {
		t.Fatal(err)
	}
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(50*time.Millisecond, func() { cancel(enough) })
	for p, err := range tr.Pages(ctx, tree.Query{}) {
		if p != nil || err != enough {
			t.Errorf("page %v, error %v, want the cause of ctx", p, err)
		}
	}
	time.AfterFunc(50*time.Millisecond, func() {
		if err := owner.Close(); err != nil {
			t.Error(err)
		}
	})
	if got := urls(t, tr, tree.Query{}); len(got) != 3 {
		t.Errorf("%d pages once the tree is free, want 3", len(got))
	}
}

// TestGone: the body of a page whose folder was removed is not there, and nothing else fails.
func TestGone(t *testing.T) {
	opts := options(t, crawler.StoreFolders, 3)
	crawl(t, opts)
	tr := open(t, opts.Tree)
	p, err := tr.Page(t.Context(), address(1))
	if err != nil {
		t.Fatal(err)
	}
	folder, err := p.Where()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(opts.Tree, folder)); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Body(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Body: %v", err)
	}
	if _, err := p.Text(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Text: %v", err)
	}
	if _, err := p.Links(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Links: %v", err)
	}
}
