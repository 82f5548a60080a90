package scan

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// drain reads a page for its links, and gives the bytes of their addresses.
func drain(page []byte) (n int) {
	s := New(testNames, page, true)
	for {
		switch s.Next() {
		case End:
			return n
		case Start:
			if s.Element() == 0 {
				value, _ := s.Attr(0)
				n += len(value)
			}
		}
	}
}

// drainTokens does the same by the tokenizer.
func drainTokens(page []byte) (n int) {
	z := html.NewTokenizer(bytes.NewReader(page))
	for {
		switch z.Next() {
		case html.ErrorToken:
			return n
		case html.StartTagToken, html.SelfClosingTagToken:
			name, more := z.TagName()
			if string(name) == "noscript" {
				z.NextIsNotRawText()
			}
			for isLink := string(name) == "a"; isLink && more; {
				var key, value []byte
				if key, value, more = z.TagAttr(); string(key) == "href" {
					n += len(value)
				}
			}
		}
	}
}

// usualPage makes a page of 24 KiB and 90 links, such as a handbook has.
func usualPage() []byte {
	var b strings.Builder
	b.WriteString("<!DOCTYPE html><html lang=\"en\"><head><title>A page</title><style>p > a { color: red }</style><script>if (a < b) { c() }</script></head><body>\n")
	for i := range 90 {
		fmt.Fprintf(&b, "<div class=\"section\" id=\"s%d\"><p>Some words of <em>text</em> and <code class=\"literal\"><span class=\"pre\">code</span></code>,\n"+
			"then <a class=\"reference internal\" href=\"../chapter/page%d.html#s%d\" title=\"Page\">a link</a>. And more words &amp; signs<br/> to the end.</p></div><!-- %d -->\n", i, i, i, i)
	}
	return []byte(b.String())
}

// realPages returns the HTML files below TEST_URLTREE_CORPUS, up to 64 MiB of them.
func realPages(tb testing.TB) (pages [][]byte) {
	root := os.Getenv("TEST_URLTREE_CORPUS")
	if root == "" {
		tb.Skip("TEST_URLTREE_CORPUS names no folder of real pages; see make test-real")
	}
	size := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || !strings.Contains(filepath.Ext(path), "htm") || size > 64<<20 && os.Getenv("TEST_URLTREE_FULL") == "" {
			return err
		}
		page, err := os.ReadFile(path)
		pages, size = append(pages, page), size+len(page)
		return err
	})
	if err != nil || len(pages) == 0 {
		tb.Fatalf("%d pages in %s, %v", len(pages), root, err)
	}
	return pages
}

func TestRealPages(t *testing.T) {
	pages := realPages(t)
	for _, page := range pages {
		compare(t, page)
	}
	t.Logf("%d pages", len(pages))
}

func BenchmarkScan(b *testing.B) {
	pages := [][]byte{usualPage()}
	if os.Getenv("TEST_URLTREE_CORPUS") != "" {
		pages = realPages(b)
	}
	size := 0
	for _, page := range pages {
		size += len(page)
	}
	for name, read := range map[string]func([]byte) int{"scanner": drain, "tokenizer": drainTokens} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(size))
			for b.Loop() {
				for _, page := range pages {
					read(page)
				}
			}
		})
	}
}
