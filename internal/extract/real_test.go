package extract

import (
	"bytes"
	"fmt"
	"io/fs"
	neturl "net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	whatwg "github.com/nlnwa/whatwg-url/url"
	"golang.org/x/net/html"
	"golang.org/x/net/html/charset"
	"golang.org/x/sync/errgroup"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/htmlindex"
)

// usualPages is how many real pages are read, evenly chosen, unless TEST_URLTREE_FULL is set.
const usualPages = 2500

// realPages returns the HTML files below TEST_URLTREE_CORPUS by their paths from there.
func realPages(tb testing.TB) (root string, files []string) {
	root = os.Getenv("TEST_URLTREE_CORPUS")
	if root == "" {
		tb.Skip("TEST_URLTREE_CORPUS names no folder of real pages; see make test-real")
	}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if ext := filepath.Ext(path); err == nil && d.Type().IsRegular() && (ext == ".html" || ext == ".htm" || ext == ".xhtml") {
			rel, _ := filepath.Rel(root, path)
			files = append(files, rel)
		}
		return err
	})
	if err != nil || len(files) == 0 {
		tb.Fatalf("%d pages in %s, %v", len(files), root, err)
	}
	if every := (len(files) + usualPages - 1) / usualPages; every > 1 && !full() {
		var some []string
		for i := 0; i < len(files); i += every {
			some = append(some, files[i])
		}
		files = some
	}
	return root, files
}

func realURL(file string) string {
	return (&neturl.URL{Scheme: "http", Host: "corpus.example", Path: "/" + filepath.ToSlash(file)}).String()
}

// TestRealPages compares the links of pages that people have written, page by page and in their
// order, with those of the tree that html.Parse makes, resolved by the URL parser itself.
func TestRealPages(t *testing.T) {
	root, files := realPages(t)
	var links, moved atomic.Int64
	var mu sync.Mutex // for t
	var group errgroup.Group
	group.SetLimit(2)
	for _, file := range files {
		group.Go(func() error {
			body, err := os.ReadFile(filepath.Join(root, file))
			if err != nil {
				return err
			}
			f := Facts{URL: realURL(file), Media: "text/html"}
			doc, base, err := tree(f.URL, body)
			if err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			for _, assets := range []bool{false, true} {
				want := treeLinks(doc, base, assets)
				r := Parse(f, body, Options{Assets: assets, NoFollow: "none"})
				got := make([]string, 0, len(r.Links))
				for _, l := range r.Links {
					got = append(got, l.Element+" "+l.URL)
				}
				links.Add(int64(len(got)))
				same, diff := slices.Equal(got, want), ""
				if !same {
					// The tree has some elements in another place, or twice, where tags are not
					// well nested.
					moved.Add(1)
					diff = cmp.Diff(sorted(want), sorted(got))
				}
				if diff != "" || r.Cut || r.Exhausted {
					mu.Lock()
					t.Errorf("%s, assets %v: cut %v, exhausted %v\n%s", file, assets, r.Cut, r.Exhausted, diff)
					mu.Unlock()
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d pages with %d links, assets apart; %d in another order", len(files), links.Load(), moved.Load())
	if links.Load() < int64(len(files)) {
		t.Error("too few links for real pages")
	}
}

func sorted(list []string) []string { return slices.Compact(slices.Sorted(slices.Values(list))) }

// escaping is the change of the URL standard that weburl follows too.
var escaping = whatwg.WithPathPercentEncodeSet(whatwg.PathPercentEncodeSet.Set('^'))

var delay = regexp.MustCompile(`(?i)^\s*[0-9.]+\s*[;,]?\s*(?:url\s*=\s*)?['"]?([^'"]*)`)

// tree returns a page as html.Parse sees it, and the URL that its references are resolved against.
func tree(url string, body []byte) (doc *html.Node, base *whatwg.Url, err error) {
	e, name, _ := charset.DetermineEncoding(body, "text/html")
	text, err := e.NewDecoder().Bytes(body)
	if err != nil {
		return nil, nil, err
	}
	if doc, err = html.ParseWithOptions(bytes.NewReader(text), html.ParseOptionEnableScripting(false)); err != nil {
		return nil, nil, err
	}
	options := []whatwg.ParserOption{escaping}
	if index, err := htmlindex.Get(name); err == nil {
		if cm, ok := index.(*charmap.Charmap); ok {
			options = append(options, whatwg.WithEncodingOverride(cm))
		}
	}
	if base, err = whatwg.NewParser(options...).Parse(url); err != nil {
		return nil, nil, err
	}
	for n := range doc.Descendants() {
		if href, ok := attributeOfNode(n, "href"); ok && n.Data == "base" {
			base, err = base.Parse(href)
			break
		}
	}
	return doc, base, err
}

// treeLinks returns the links of a tree in its order.
func treeLinks(doc *html.Node, base *whatwg.Url, assets bool) (links []string) {
	for n := range doc.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		for _, ref := range nodeRefs(n, assets) {
			u, err := base.Parse(ref)
			if err != nil || u.Scheme() != "http" && u.Scheme() != "https" {
				continue
			}
			u.SetUsername("")
			u.SetPassword("")
			links = append(links, n.Data+" "+u.Href(true))
		}
	}
	return links
}

// nodeRefs returns the references of one element.
func nodeRefs(n *html.Node, assets bool) (refs []string) {
	add := func(key string) {
		if value, _ := attributeOfNode(n, key); value != "" {
			refs = append(refs, value)
		}
	}
	rel, _ := attributeOfNode(n, "rel")
	words := strings.Fields(strings.ToLower(rel))
	shown := slices.Contains(words, "stylesheet") || slices.Contains(words, "icon")
	switch n.Data {
	case "a", "area":
		if href, ok := attributeOfNode(n, "href"); ok {
			refs = append(refs, href)
		}
	case "link":
		if shown && assets || !shown && slices.ContainsFunc([]string{"next", "canonical", "alternate"}, func(w string) bool { return slices.Contains(words, w) }) {
			add("href")
		}
	case "iframe", "frame":
		add("src")
	case "meta":
		content, _ := attributeOfNode(n, "content")
		equiv, _ := attributeOfNode(n, "http-equiv")
		if to := delay.FindStringSubmatch(content); to != nil && strings.EqualFold(equiv, "refresh") && to[1] != "" {
			refs = append(refs, to[1])
		}
	}
	if !assets {
		return refs
	}
	kind, _ := attributeOfNode(n, "type")
	switch n.Data {
	case "object":
		add("data")
	case "img", "source", "script", "audio", "video", "embed", "track":
		add("src")
		if n.Data == "img" || n.Data == "source" {
			set, _ := attributeOfNode(n, "srcset")
			for candidate := range strings.SplitSeq(set, ",") {
				if words := strings.Fields(candidate); len(words) > 0 {
					refs = append(refs, words[0])
				}
			}
		}
		if n.Data == "video" {
			add("poster")
		}
	case "input":
		if strings.EqualFold(kind, "image") {
			add("src")
		}
	}
	return refs
}

// attributeOfNode returns an attribute; for href that of xlink if there is no other.
func attributeOfNode(n *html.Node, key string) (value string, ok bool) {
	for _, a := range n.Attr {
		if a.Key == key && (a.Namespace == "" || !ok) {
			value, ok = a.Val, true
		}
	}
	return value, ok
}

// BenchmarkRealPages reads pages that people have written, one after the other.
func BenchmarkRealPages(b *testing.B) {
	root, files := realPages(b)
	var pages []Facts
	var bodies [][]byte
	size := 0
	for _, file := range files {
		body, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			b.Fatal(err)
		}
		pages, bodies = append(pages, Facts{URL: realURL(file), Media: "text/html", Charset: "utf-8"}), append(bodies, body)
		if size += len(body); size > 64<<20 {
			break
		}
	}
	b.SetBytes(int64(size / len(pages)))
	links, i := 0, 0
	for b.Loop() {
		links += len(Parse(pages[i], bodies[i], Options{}).Links)
		i = (i + 1) % len(pages)
	}
	b.ReportMetric(float64(links)/float64(b.N), "links/op")
}
