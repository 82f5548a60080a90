package crawler_test

import (
	"compress/gzip"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"urltree/crawler"
)

// A shape is a web that is made to take memory: each of its pages asks for as much as a page can.
type shape struct {
	name   string
	first  bool     // one of those that are crawled without TEST_URLTREE_FULL too
	robots bool     // answers for robots.txt as well
	args   []string // beside those of all
	answer http.HandlerFunc
}

// longSegment is nearly as long as a URL may be.
var longSegment = strings.Repeat("long-", 1400)

// linesOf answers with a page that begins with first and goes on with n lines that line makes. It
// is made once: its links are relative, so that those of each page are different ones.
func linesOf(first string, n int, line func(page []byte, i int) []byte) http.HandlerFunc {
	page := sync.OnceValue(func() []byte {
		b := []byte("<!DOCTYPE html><meta charset=utf-8>" + first)
		for i := range n {
			b = line(b, i)
		}
		return b
	})
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write(page())
	}
}

// manyLinks answers with so many links, each with tail behind what tells it from others.
func manyLinks(n int, tail string) http.HandlerFunc {
	return linesOf("", n, func(b []byte, i int) []byte { return fmt.Appendf(b, "<a href='%d/%s'>x</a>\n", i, tail) })
}

// largePage answers with 16 MiB that are nothing but links.
var largePage = linesOf("", 16<<20/32, func(b []byte, i int) []byte { return fmt.Appendf(b, "<a href=%d>x</a>           ", i) })

// bySite answers for robots.txt in one way and for pages in another.
func bySite(robots, pages http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			robots(w, r)
			return
		}
		pages(w, r)
	}
}

var shapes = []shape{
	{name: "long links", first: true, answer: manyLinks(1000, longSegment)},
	{name: "two long links, repeated", answer: linesOf("", 500, func(b []byte, _ int) []byte {
		return fmt.Appendf(b, "<a href='a/%s'>x</a> <a href='b/%s'>x</a>\n", longSegment, longSegment)
	})},
	{name: "absolute long links", answer: linesOf("", 2000, func(b []byte, i int) []byte {
		return fmt.Appendf(b, "<a href='http://127.0.3.%d/%d/%s'>x</a>\n", i%255, i, longSegment)
	})},
	{name: "links", first: true, answer: manyLinks(100_000, "")},
	{name: "links below a long base", answer: linesOf("<base href='/"+longSegment+"/'>", 1000, func(b []byte, i int) []byte {
		return fmt.Appendf(b, "<a href=%d>", i)
	})},
	{name: "links of a large page", args: []string{"-max-depth", "1"}, answer: largePage},
	{name: "links of a large page, scored", args: []string{"-order", "priority", "-max-depth", "1"}, answer: largePage},
	{name: "links of a large page, kept as edges", args: []string{"-edges", "-max-depth", "1"}, answer: largePage},
	{name: "deep links", answer: manyLinks(10_000, strings.Repeat("d/", 90))},
	{name: "deep and long links", answer: manyLinks(1000, strings.Repeat(longSegment[:30]+"/", 240))},
	{name: "long texts of links", args: []string{"-edges"}, answer: linesOf("", 1000, func(b []byte, i int) []byte {
		return fmt.Appendf(b, "<a href='%d/%s'>%s</a>\n", i, longSegment[:2000], longSegment)
	})},
	{name: "headers", answer: func(w http.ResponseWriter, r *http.Request) {
		for i := range 8 {
			w.Header().Add("Link", fmt.Sprintf("<%d/%s>; rel=next", i, longSegment))
		}
		w.Header().Set("Content-Type", "text/html")
	}},
	{name: "redirects", answer: func(w http.ResponseWriter, r *http.Request) {
		page, hops, _ := strings.Cut(r.URL.Path[1:], "/")
		if strings.Contains(page, "-") && len(hops) < 30 {
			http.Redirect(w, r, "/"+page+"/"+hops+"x", http.StatusFound)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		for i := range 500 {
			fmt.Fprintf(w, "<a href='/%s-%d/%s'>", page[:min(len(page), 2000)], i, longSegment[:5000])
		}
	}},
	{name: "robots.txt", first: true, robots: true, answer: bySite(func(w http.ResponseWriter, r *http.Request) {
		for i := range 400 { // what counts of it is 500 KiB
			fmt.Fprintf(w, "User-agent: *\nDisallow: /%d/%s\nSitemap: http://%s/sitemap-%d-%s\n", i, longSegment[:1000], r.Host, i, longSegment[:1000])
		}
	}, manyLinks(20, ""))},
	{name: "short rules", robots: true, answer: bySite(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "User-agent: *\n%s%s", strings.Repeat("Allow:*a*b*c\n", 15_000), strings.Repeat("Sitemap:/a\n", 20_000))
	}, manyLinks(20, ""))},
	{name: "sitemaps", robots: true, answer: bySite(func(w http.ResponseWriter, r *http.Request) {
		for i := range 20 {
			fmt.Fprintf(w, "Sitemap: http://%s/sitemap-%d.gz\n", r.Host, i)
		}
	}, func(w http.ResponseWriter, r *http.Request) {
		z := gzip.NewWriter(w)
		for i := range 20_000 {
			fmt.Fprintf(z, "http://%s%s/%d/%s\n", r.Host, r.URL.Path, i, longSegment[:2000])
		}
		_ = z.Close()
	})},
}

// TestMemoryOfHostileShapes crawls webs that are made to take memory, with little of it given: own
// memory stays below its bound.
func TestMemoryOfHostileShapes(t *testing.T) {
	cmd := buildCommand(t)
	hosts, most := 40, 3*time.Second
	if full() {
		most = time.Minute
	}
	for _, s := range shapes {
		if !s.first && !full() {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			opts := crawler.Options{
				Resources: crawler.Resources{Buffers: 6, MemoryBodies: 1 << 20, BufferBytes: 1 << 20, FrontierBytes: 1 << 20, SeenBytes: 1 << 20},
			}
			var requests int64
			crawl := func() int64 {
				var asked atomic.Int64
				enough := make(chan time.Time)
				var addresses []string
				for n := range hosts {
					addresses = append(addresses, fmt.Sprintf("127.0.3.%d", n+1))
				}
				port := listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if asked.Add(1) == int64(hosts)+4 { // all have been asked for robots.txt, and some for more
						time.AfterFunc(most, func() { close(enough) })
					}
					if r.URL.Path == "/robots.txt" && !s.robots {
						http.NotFound(w, r)
						return
					}
					s.answer(w, r)
				}), addresses...)
				dir := t.TempDir()
				var seeds strings.Builder
				for _, address := range addresses {
					fmt.Fprintf(&seeds, "http://%s:%d/\n", address, port)
				}
				if err := os.WriteFile(filepath.Join(dir, "seed.txt"), []byte(seeds.String()), 0o666); err != nil {
					t.Fatal(err)
				}
				peak := cmd.watch(t, dir, enough, append(s.args, "-input", "seed.txt", "-sync", "none",
					"-memory-bodies", "1MiB", "-buffer-bytes", "1MiB", "-frontier-memory", "1MiB", "-seen-memory", "1MiB")...)
				requests = asked.Load()
				return peak
			}
			peak := crawl()
			for range 2 {
				if limit := opts.Memory(); peak <= limit || peak > limit+limit/5 {
					break
				}
				t.Logf("peak %s: once more, for a machine that is too busy for the collector", crawler.Bytes(peak))
				peak = crawl()
			}
			requireMemory(t, peak, opts)
			if requests < int64(hosts) {
				t.Errorf("%d requests: too few to say anything", requests)
			}
		})
	}
}
