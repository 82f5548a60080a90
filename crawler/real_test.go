package crawler_test

import (
	"bytes"
	"fmt"
	"io"
	"mime"
	"net/http"
	neturl "net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	whatwg "github.com/nlnwa/whatwg-url/url"
	"golang.org/x/net/html"
	"golang.org/x/net/html/charset"

	"urltree/crawler"
	"urltree/crawler/scope"
)

// TestRealPages crawls documentation that people have written, and compares what is stored with
// an exhaustive walk over the links that shares no code with the crawler. URLTREE_CORPUS names
// the document root; make test-real fills one.
func TestRealPages(t *testing.T) {
	root := os.Getenv("URLTREE_CORPUS")
	if root == "" {
		t.Skip("URLTREE_CORPUS names no folder of real pages; see make test-real")
	}
	if _, err := os.Stat(filepath.Join(root, "index.html")); err != nil {
		t.Fatal(err)
	}
	// An address that no page names by chance.
	const host = "127.10.20.30"
	seed := fmt.Sprintf("http://%s:%d/", host, listen(t, http.FileServer(http.Dir(root)), host))
	w := &walk{host: host, known: map[string]bool{}, client: &http.Client{
		Transport:     &http.Transport{},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	defer w.client.CloseIdleConnections()
	w.found(seed)
	for len(w.todo) > 0 {
		next := w.todo[0]
		w.todo = w.todo[1:]
		if err := w.visit(next); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(w.pages)
	if len(w.pages) < 10 {
		t.Errorf("the walk has met %d pages only", len(w.pages))
	}

	dir := t.TempDir()
	result, err := crawler.Run(t.Context(), crawler.Options{
		Tree: filepath.Join(dir, "iut"), Output: filepath.Join(dir, "res.txt"), Seeds: []string{seed},
		Scope: scope.Host, Delay: -1, PerHost: 4, Retries: -1,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d pages stored, %d URLs in all; the walk knows %d", result.Total.Stored, result.Total.Records(), len(w.known))
	requireSame(t, crawled(t, filepath.Join(dir, "res.txt")), w.pages)
	if result.Total.Records() != int64(len(w.known)) {
		t.Errorf("%d URLs in the index, the walk knows %d", result.Total.Records(), len(w.known))
	}
	requireChecked(t, dir)
}

// A walk follows all links on one host.
type walk struct {
	host   string
	client *http.Client
	known  map[string]bool
	todo   []string
	pages  []string // that a crawl would store
}

func (w *walk) found(url string) {
	if !w.known[url] {
		w.known[url] = true
		w.todo = append(w.todo, url)
	}
}

// refer resolves a reference and keeps it if it stays on the host.
func (w *walk) refer(base, ref string) {
	u, err := whatwg.ParseRef(base, ref)
	if err != nil || u.Hostname() != w.host || u.Scheme() != "http" && u.Scheme() != "https" {
		return
	}
	u.SetUsername("")
	u.SetPassword("")
	w.found(u.Href(true))
}

func (w *walk) visit(url string) error {
	if _, err := neturl.Parse(url); err != nil {
		return nil // a percent sign that escapes nothing: the server cannot be asked for it
	}
	res, err := w.client.Get(url)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if location := res.Header.Get("Location"); res.StatusCode/100 == 3 && location != "" {
		w.refer(url, location)
		return nil
	}
	media, _, err := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if err != nil || res.StatusCode != http.StatusOK {
		return nil
	}
	switch media {
	case "text/plain":
		w.pages = append(w.pages, url)
	case "text/html", "application/xhtml+xml":
		r, err := charset.NewReader(bytes.NewReader(body), res.Header.Get("Content-Type"))
		if err != nil {
			return err
		}
		doc, err := html.ParseWithOptions(r, html.ParseOptionEnableScripting(false))
		if err != nil {
			return fmt.Errorf("%s: %w", url, err)
		}
		if !w.links(url, doc) {
			w.pages = append(w.pages, url)
		}
	}
	return nil
}

// links takes the links of a document, and tells whether it wants not to be kept.
func (w *walk) links(base string, doc *html.Node) (noindex bool) {
	var refs []string
	hasBase, nofollow := false, false
	for n := range doc.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		href, hasHref := attribute(n, "href")
		rel, _ := attribute(n, "rel")
		words := strings.Fields(strings.ToLower(rel))
		switch n.Data {
		case "a", "area":
			if hasHref {
				refs = append(refs, href)
			}
		case "link":
			if href != "" && !slices.Contains(words, "stylesheet") && !slices.Contains(words, "icon") &&
				(slices.Contains(words, "next") || slices.Contains(words, "canonical") || slices.Contains(words, "alternate")) {
				refs = append(refs, href)
			}
		case "iframe", "frame":
			if src, _ := attribute(n, "src"); src != "" {
				refs = append(refs, src)
			}
		case "base":
			if hasHref && !hasBase {
				hasBase = true
				if u, err := whatwg.ParseRef(base, href); err == nil {
					base = u.Href(true)
				}
			}
		case "meta":
			content, _ := attribute(n, "content")
			equiv, _ := attribute(n, "http-equiv")
			if _, to, ok := strings.Cut(content, "="); ok && strings.EqualFold(equiv, "refresh") {
				refs = append(refs, strings.Trim(strings.TrimSpace(to), `'"`))
			}
			if name, _ := attribute(n, "name"); strings.EqualFold(name, "robots") {
				noindex = noindex || strings.Contains(content, "noindex")
				nofollow = nofollow || strings.Contains(content, "nofollow")
			}
		}
	}
	if !nofollow {
		for _, ref := range refs {
			w.refer(base, ref)
		}
	}
	return noindex
}

// attribute gives the value of href for xlink:href too.
func attribute(n *html.Node, key string) (value string, ok bool) {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val, true
		}
	}
	return "", false
}
