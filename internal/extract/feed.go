package extract

import (
	"bytes"
	"strings"

	"urltree/internal/sitemap"
)

// feeds are the media types that feeds have.
var feeds = map[string]bool{
	"application/rss+xml": true, "application/atom+xml": true, "application/rdf+xml": true,
	"application/xml": true, "text/xml": true,
	"application/feed+json": true, "application/json": true,
}

// IsFeed reports whether an answer of a media type may be an RSS, Atom or JSON feed. What it is its
// first bytes tell.
func IsFeed(media string) bool { return feeds[strings.ToLower(media)] }

// feed takes the links of a feed's items. Other XML and JSON has none, sitemaps among them: those
// are read where a robots.txt names them.
func (p *page) feed(f Facts, body []byte) {
	if !sitemap.Detect(body).Feed() {
		return
	}
	res, err := sitemap.Read(f.URL, bytes.NewReader(body), sitemap.Options{}, func(loc string) error {
		p.Links, p.refs.ends = append(p.Links, Link{URL: loc, Element: "feed"}), append(p.refs.ends, 0)
		return nil
	})
	p.Cut = err == nil && res.Cut
	for range res.Skipped {
		p.skip("syntax")
	}
}
