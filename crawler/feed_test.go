package crawler_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"urltree/crawler"
	"urltree/crawler/scope"
)

// TestFeeds: the items of feeds are links, whether the feed is stored or not; from its folder it
// gives the same links.
func TestFeeds(t *testing.T) {
	t.Parallel()
	texts := func() map[string]string {
		return map[string]string{
			"/":       `<link rel=alternate href=/f.rss><link rel=alternate href=/f.atom><a href=/f.json>x</a><a href=/f.xml>x</a><a href=/other.xml>x</a>`,
			"/f.rss":  "<rss><channel><item><link>/a</link></item></channel></rss>",
			"/f.atom": `<feed xmlns="http://www.w3.org/2005/Atom"><entry><link href="/b"/></entry></feed>`,
			"/f.json": `{"version":"https://jsonfeed.org/version/1","items":[{"url":"/c"}]}`,
			"/f.xml":  "<rss><channel><item><link>/d</link></item></channel></rss>", "/other.xml": urlset("/e"),
			"/a": "a", "/b": "b", "/c": "c", "/d": "d", "/e": "e",
		}
	}
	t.Run("refused", func(t *testing.T) {
		s := newSite(t, texts())
		dir := t.TempDir()
		pages, result := s.crawl(dir, nil)
		if want := strings.Fields("/ /a /b /c /d"); !slices.Equal(pages, want) {
			t.Errorf("pages %q, want %q", pages, want)
		}
		if n := result.Run.Outcomes["refused type"]; n != 5 {
			t.Errorf("outcomes %v, want 5 refused by type", result.Run.Outcomes)
		}
		requireChecked(t, dir)
	})
	t.Run("refused, and with a wider scope later", func(t *testing.T) {
		other := newSiteAt(t, "127.0.0.2", map[string]string{"/x": "x"})
		s := newSite(t, map[string]string{
			"/": "<a href=/f.rss>x</a>", "/f.rss": "<rss><channel><item><link>" + other.addr + "/x</link></item></channel></rss>",
		})
		dir := t.TempDir()
		if pages, _ := s.crawl(dir, func(o *crawler.Options) { o.Scope = scope.Host }); len(pages) != 1 {
			t.Errorf("pages %q, want the home page", pages)
		}
		if pages, _ := s.crawl(dir, nil); !slices.Contains(pages, other.addr+"/x") {
			t.Errorf("pages %q, want what the feed names elsewhere", pages)
		}
		requireChecked(t, dir)
	})
	t.Run("stored", func(t *testing.T) {
		s := newSite(t, texts())
		dir := t.TempDir()
		all := func(o *crawler.Options) { o.Accept = []string{"*/*"} }
		pages, _ := s.crawl(dir, all)
		want := strings.Fields("/ /a /b /c /d /f.atom /f.json /f.rss /f.xml /other.xml")
		if !slices.Equal(pages, want) {
			t.Errorf("pages %q, want %q", pages, want)
		}
		requireChecked(t, dir)
		if err := os.Remove(filepath.Join(dir, "iut", "index.db")); err != nil {
			t.Fatal(err)
		}
		if again, _ := s.crawl(dir, all); !slices.Equal(again, want) {
			t.Errorf("from the folders: pages %q, want %q", again, want)
		}
		requireChecked(t, dir)
	})
}
