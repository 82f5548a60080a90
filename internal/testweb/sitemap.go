package testweb

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"html"
	"net/http"
	"strings"
)

// serveSitemap answers a request for a sitemap of a host. robots.txt names /maps.xml, an index of
// /maps.xml.gz, which has every second of the hidden pages; /sitemap.xml has the others. A web
// without hidden pages has neither.
func (w *Web) serveSitemap(rw http.ResponseWriter, path string, h int) {
	w.mu.Lock()
	w.maps[w.origin(h)+path]++
	w.mu.Unlock()
	var body []byte
	switch {
	case w.opts.Hidden == 0:
	case path == "/maps.xml":
		body = fmt.Appendf(nil, "<sitemapindex><sitemap><loc>%s/maps.xml.gz</loc></sitemap></sitemapindex>", w.origin(h))
	case path == "/maps.xml.gz":
		var b bytes.Buffer
		zip := gzip.NewWriter(&b)
		_, _ = zip.Write(w.urlset(h, 0))
		_ = zip.Close()
		body = b.Bytes()
	case path == "/sitemap.xml":
		body = w.urlset(h, 1)
	}
	if body == nil {
		http.Error(rw, "no such sitemap", http.StatusNotFound)
		return
	}
	w.send(rw, "application/xml", body)
}

// urlset names every second hidden page of a host.
func (w *Web) urlset(h, from int) []byte {
	var b strings.Builder
	b.WriteString(`<?xml version="1.0" encoding="UTF-8"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">`)
	for i, n := range w.unlinked[h] {
		if i%2 == from {
			fmt.Fprintf(&b, "<url><loc>%s</loc></url>\n", html.EscapeString(w.url(int(n))))
		}
	}
	return []byte(b.String() + "</urlset>")
}
