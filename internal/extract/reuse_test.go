package extract

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestReuse: of each page a parser that has read others finds what a fresh one does.
func TestReuse(t *testing.T) {
	bodies := []string{
		`<html lang=" en "><title>One &amp; more</title><meta name=description content="first"><a rel="NoFollow x" href=a>A</a><a href=/b?c#d>B</a>`,
		`<title>Two</title><h1>Head</h1><a rel="NoFollow x" href=a>A</a><a href=//h.example/>H</a><img alt=x><a href=../up>&lt;up&gt;</a>`,
		`<html><a rel="" href=a>A</a><a href=a>A</a><a href="http://o.example/x">O</a><area href=a alt=" area  text ">`,
		`<base href=/other/><a rel=NoFollow href=a>A</a><a rel="` + strings.Repeat("long ", 100) + `" href="a?\xe9">A</a>`,
		`<a rel="` + strings.Repeat("long ", 100) + `" href=a>B</a><a href="javascript:x">J</a>`,
		"\xef\xbb\xbf<a href='\xc3\xa9'>e</a><html lang=fr>",
		``,
		`<a rel="Up  Me" href=a>A</a>`,
	}
	labels := []string{"utf-8", "UTF-8", "", "iso-8859-1", "utf-16le", "none"}
	pages := []string{"http://a.example/", "http://a.example/x/y", "http://a.example/x/z?q", "https://b.example/x/y", "no URL"}
	var parser Parser
	links := 0
	for i := range 5 * len(bodies) * len(labels) * len(pages) {
		f := Facts{URL: pages[i%len(pages)], Media: "text/html", Charset: labels[i%len(labels)], Language: "de"}
		body := []byte(bodies[i/3%len(bodies)])
		o := Options{Assets: i%2 == 0, Edges: i%4 == 0, Token: "urltree"}
		got := parser.Parse(f, body, o)
		if diff := cmp.Diff(Parse(f, body, o), got); diff != "" {
			t.Fatalf("page %d, %+v, %q:\n%s", i, f, body, diff)
		}
		links += len(got.Links)
	}
	if links < 1000 {
		t.Errorf("%d links", links)
	}
}
