package extract

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"urltree/internal/extract/scan"
)

// sheets are style sheets, and what each names.
var sheets = []struct{ name, css, want string }{
	{"urls", `a{b:url(1);c:url("2") no-repeat,URL( '3' )}`, "1 2 3"},
	{"imports", `@import "1";@IMPORT url(2) screen and (x:"no");@import '3' layer("no");x{y:"no"}`, "1 2 3"},
	{"no import", `@charset "no";@namespace url(no);@namespace x "no";@media print{a{b:url(1)}}`, "1"},
	{"image sets", `a{b:image-set("1" 1x, "2" type("no") 2x, url(3) 3x)}c{d:-webkit-image-set('4' 1x);content:"no"}e{f:image-set(calc("no"))}`, "1 2 3 4"},
	{"comments and strings", `/* url(no) */a{b:"url(no)";c:url(1)/*x*/}"url(no)`, "1"},
	{"escapes", `a{b:url(\31);c:url("\32 x\)\\");d:url(3\)4);e:"\"";f:u\rl(5)}`, "1 2x)/ 3)4 5"},
	{"a string over lines", "a{b:url(\"1\\\n2\")}", "12"},
	{"bad urls", `a{b:url(no"x);c:url(1)}d{e:url(no no);f:url(2)}`, "1 2"},
	{"a string cut by its line", "a{b:\"x\nc:url(1)}", "1"},
	{"parts of the page and data", `a{b:url(#no);c:url("data:image/gif;base64,AA");d:url();e:url(1)}`, "1"},
	{"fonts", `@font-face{src:local("no"),url(1)format("no"),src("2")}`, "1 2"},
	{"not ended", `a{b:url(1);c:url(2`, "1 2"},
	{"comment not ended", `a{b:url(1)}/* url(no)`, "1"},
	{"custom properties", `a{--x:url(1);--y:{b:url(2)}}`, "1 2"},
}

func named(css string, window int) (p *page) {
	p = new(Parser).newPage(pageFacts, Options{Assets: true}, maxSteps)
	p.css("style", iotest.OneByteReader(strings.NewReader(css)), window)
	return p
}

// TestSheets reads style sheets, by windows of all sizes: what they name does not depend on these.
func TestSheets(t *testing.T) {
	for _, tt := range sheets {
		for _, window := range []int{cssWindow, 1, 2, 3, 7, 20} {
			p := named(tt.css, window)
			p.resolve(pageFacts, &new(Parser).base)
			var got []string
			for _, l := range p.Links {
				got = append(got, strings.TrimPrefix(l.URL, "https://example.org/dir/"))
			}
			if strings.Join(got, " ") != tt.want {
				t.Errorf("%s, windows of %d: %q, want %q", tt.name, window, got, tt.want)
			}
		}
	}
}

// TestLongTokenOfSheet: a token over the bound is left out, and what stands behind it is found.
func TestLongTokenOfSheet(t *testing.T) {
	css := `a{b:url("x` + strings.Repeat("A", scan.MaxToken+cssWindow) + `")}/*` + strings.Repeat("x", 2*scan.MaxToken) + `*/c{d:url(1)}`
	p := new(Parser).newPage(pageFacts, Options{Assets: true}, maxSteps)
	p.css("style", bytes.NewReader([]byte(css)), cssWindow)
	if !bytes.HasSuffix(p.refs.written, []byte("1")) || len(p.Links) > 2 {
		t.Errorf("%d references, the last %q", len(p.Links), p.refs.written[max(0, len(p.refs.written)-20):])
	}
}

func FuzzSheets(f *testing.F) {
	for _, tt := range sheets {
		f.Add(tt.css, 3)
	}
	f.Fuzz(func(t *testing.T, css string, window int) {
		if window < 1 || window > cssWindow || len(css) > cssWindow-1 {
			return
		}
		whole, parts := named(css, cssWindow), named(css, window)
		if !bytes.Equal(whole.refs.written, parts.refs.written) || !slices.Equal(whole.refs.ends, parts.refs.ends) {
			t.Errorf("%q as a whole, %q by windows of %d, of %q", whole.refs.written, parts.refs.written, window, css)
		}
	})
}

// TestAssetsOfElements: what elements name to be shown, in attributes of HTML and those that
// scripts for lazy loading have in common.
func TestAssetsOfElements(t *testing.T) {
	for _, tt := range []struct{ html, want string }{
		{`<img src="data:x" data-src=1. data-srcset="2 1x, 3 2x" data-lazy-src=/4 data-lazy-srcset="5 1x">`, "img /dir/1. img /dir/2 img /dir/3 img /4 img /dir/5"},
		{`<div data-bg="url(1)"></div><p data-background=/2></p><b data-lazy=/3></b><video data-poster=/4></video><i data-original=/5></i>`, "style /dir/1 other /2 other /3 video /4 other /5"},
		{`<b data-lazy=true data-background=classic data-src='{"a":"/b"}'>`, ""},
		{`<table background=1><td background=2><textarea style="a:url(3)"></textarea><h1 style="a:url(4)">`, "other /dir/1 other /dir/2 style /dir/3 style /dir/4"},
		{`<svg><image href=1 /><image xlink:href=2 /><use href=3#a /><use href=#a /><feImage href=4 /></svg>`, "image /dir/1 image /dir/2 use /dir/3 feimage /dir/4"},
		{`<link rel=apple-touch-icon href=1><link rel=manifest href=2><link rel=preload href=3 imagesrcset="4 2x"><link rel=mask-icon href=5>`, "link /dir/1 apple-touch-icon link /dir/2 manifest link /dir/4 link /dir/3 preload link /dir/5 mask-icon"},
		{`<a href=1 style="b:url(2)">x</a><style>@import "3"</style><iframe src=4 data-src=/5></iframe>`, "a /dir/1 style /dir/2 style /dir/3 iframe /dir/4 iframe /5"},
	} {
		if got := strings.Join(show(Parse(pageFacts, []byte(tt.html), Options{Assets: true}).Links), " "); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.html, got, tt.want)
		}
		for _, l := range Parse(pageFacts, []byte(tt.html), Options{}).Links {
			if l.Element != "a" && l.Element != "iframe" || strings.HasSuffix(l.URL, "5") {
				t.Errorf("%s: %v without assets", tt.html, l)
			}
		}
	}
}
