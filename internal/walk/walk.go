// Package walk follows all links of one host, one page after the other, and shares no code with
// the crawler: what it finds is what a complete crawl of that host must find.
package walk

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"
	neturl "net/url"
	"slices"
	"strings"

	whatwg "github.com/nlnwa/whatwg-url/url"
	"golang.org/x/net/html"
	"golang.org/x/net/html/charset"
)

// A Result is what can be reached from a URL on its host.
type Result struct {
	Pages []string // that a crawl without other options stores, sorted
	URLs  int      // that a crawl knows, pages among them
}

// Host walks from a seed until nothing is left. It asks no robots.txt and reads no sitemap, and
// it ends at the first request that gets no answer.
func Host(ctx context.Context, seed string) (Result, error) {
	u, err := neturl.Parse(seed)
	if err != nil {
		return Result{}, err
	}
	w := &walk{host: u.Hostname(), known: map[string]bool{}, client: &http.Client{
		Transport:     &http.Transport{},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	defer w.client.CloseIdleConnections()
	w.found(seed)
	for len(w.todo) > 0 {
		next := w.todo[0]
		w.todo = w.todo[1:]
		if err := w.visit(ctx, next); err != nil {
			return Result{}, err
		}
	}
	slices.Sort(w.pages)
	return Result{Pages: w.pages, URLs: len(w.known)}, nil
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

func (w *walk) visit(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil // a percent sign that escapes nothing: the server cannot be asked for it
	}
	res, err := w.client.Do(req)
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
			return fmt.Errorf("walk: %s: %w", url, err)
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

// attribute returns the value of href for xlink:href too.
func attribute(n *html.Node, key string) (value string, ok bool) {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val, true
		}
	}
	return "", false
}
