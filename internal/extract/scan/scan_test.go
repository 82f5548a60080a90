package scan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"

	"urltree/internal/testhtml"
	"urltree/internal/testseed"
)

var testElements = []Element{
	{"a", Starts | Ends},
	{"title", Starts},
	{"h1", Starts | Ends},
	{"p", StartsInText | EndsInText},
	{"br", StartsInText},
	{"svg", Starts | Ends},
	{"script", Starts | Ends},
	{"textarea", Starts},
	{"iframe", EndsInText},
	{"blockquote", Starts | Ends},
	{"noscript", Starts},
	{"meta", Starts},
}

var (
	testAttributes = []string{"href", "xlink:href", "content", "rel", "http-equiv", "a"}
	testNames      = NewNames(testElements, testAttributes)
)

// A mode says what is asked of the scanner.
type mode struct {
	xhtml  bool
	text   bool // all text
	inText bool // that of links and headings
	raw    bool // that of raw text elements
}

var modes = []mode{{}, {text: true, raw: true}, {inText: true}, {xhtml: true, text: true}, {xhtml: true, raw: true, inText: true}}

// wants keeps what decides whether text is asked for.
type wants struct {
	mode
	open bool
}

func (w *wants) tag(name string, start bool) {
	if name == "a" || name == "h1" {
		w.open = start
	}
}

func (w *wants) text() bool { return w.mode.text || w.inText && w.open }

// scanned returns what the scanner sees, as lines. It is fed by pieces of these sizes, in turn.
func scanned(page []byte, m mode, pieces ...int) (events []string) {
	events, _ = scan(page, m, MaxToken, pieces...)
	return events
}

// scan does the same with tokens of so many bytes at most.
func scan(page []byte, m mode, most int, pieces ...int) (events []string, exceeded bool) {
	s, rest := New(testNames, page, true), []byte(nil)
	if len(pieces) > 0 {
		s, rest = New(testNames, nil, false), page
	}
	s.XHTML, s.most = m.xhtml, most
	turn := 0
	feed := func() {
		n := min(len(rest), pieces[turn%len(pieces)])
		turn++
		s.Feed(append(bytes.Clone(s.Rest()), rest[:n]...), n == len(rest))
		rest = rest[n:]
	}
	w := wants{mode: m}
	for {
		s.Text = w.text()
		switch s.Next() {
		case End:
			return events, s.Exceeded()
		case More:
			feed()
		case Start:
			name := testElements[s.Element()].Name
			event := fmt.Sprintf("<%s closed %v drawing %v", name, s.Closed(), s.InDrawing())
			for i, key := range testAttributes {
				if value, ok := s.Attr(i); ok {
					event += fmt.Sprintf(" %s=%q", key, value)
				}
			}
			events = append(events, event)
			w.tag(name, true)
			for m.raw {
				text, more := s.RawText()
				if !more {
					if len(text) > 0 {
						events = append(events, fmt.Sprintf("raw %q", text))
					}
					break
				}
				feed()
			}
		case EndTag:
			name := testElements[s.Element()].Name
			events = append(events, "</"+name)
			w.tag(name, false)
		case Text:
			events = append(events, fmt.Sprintf("text %q", s.AppendText(nil)))
		}
	}
}

// tokenized returns the same of the tokenizer.
func tokenized(page []byte, m mode, most int) (events []string, exceeded bool) {
	z := html.NewTokenizer(bytes.NewReader(page))
	var drawings Drawings
	w := wants{mode: m}
	raw, rawWanted, references := false, false, false
	for {
		z.AllowCDATA(m.xhtml || drawings.Foreign())
		switch token := testhtml.Next(z); token {
		case html.ErrorToken:
			return events, exceeded
		case html.TextToken:
			spelt := bytes.Clone(z.Raw())
			isSection := !raw && (m.xhtml || drawings.Foreign()) && bytes.HasPrefix(spelt, []byte("<![CDATA["))
			if isSection {
				spelt = bytes.TrimSuffix(spelt, []byte("]]>"))
			}
			spelt = spelt[:min(len(spelt), most)]
			text := z.Text()
			if isSection {
				text = appendText(nil, spelt[len("<![CDATA["):], true, true)
			}
			switch {
			case raw && rawWanted && len(text) > 0:
				events = append(events, fmt.Sprintf("raw %q", appendText(nil, spelt, true, references)))
			case len(text) == 0:
			case !raw && w.text():
				events = append(events, fmt.Sprintf("text %q", text))
			}
			raw = false
		case html.EndTagToken:
			raw = false
			size := len(z.Raw())
			tag, _ := z.TagName()
			name := string(tag)
			drawings.End(tag)
			if wanted(name, Ends, EndsInText, w.text()) {
				if size >= most {
					exceeded = true
					continue
				}
				events = append(events, "</"+name)
				w.tag(name, false)
			}
		case html.StartTagToken, html.SelfClosingTagToken:
			size := len(z.Raw())
			tag, more := z.TagName()
			name := string(tag)
			foreign := drawings.Start(tag, token == html.SelfClosingTagToken)
			closed := token == html.SelfClosingTagToken && (m.xhtml || foreign)
			if closed || foreign || name == "noscript" {
				z.NextIsNotRawText()
			}
			kind := special[name]
			raw = !closed && !foreign && kind != ordinary && kind != drawing
			rawWanted, references = false, kind == rcdata
			if !wanted(name, Starts, StartsInText, w.text()) {
				continue
			}
			if size >= most {
				exceeded = true
				continue
			}
			event := fmt.Sprintf("<%s closed %v drawing %v", name, closed, drawings.Any())
			values := map[string]string{}
			for more {
				var key, value []byte
				key, value, more = z.TagAttr()
				values[string(key)] = fmt.Sprintf(" %s=%q", key, value)
			}
			for _, key := range testAttributes {
				event += values[key]
			}
			events = append(events, event)
			w.tag(name, true)
			rawWanted = m.raw
		}
	}
}

func wanted(name string, always, inText Want, text bool) bool {
	i := slices.IndexFunc(testElements, func(e Element) bool { return e.Name == name })
	return i >= 0 && (testElements[i].Want&always != 0 || text && testElements[i].Want&inText != 0)
}

// tiny is a bound for tokens that most of them reach.
const tiny = 20

// compare holds the scanner to the tokenizer, in all modes; a small page in pieces too, and with
// tokens over the bound.
func compare(t *testing.T, page []byte) {
	t.Helper()
	compareIn(t, page, []int{1}, []int{2, 5, 3}, []int{7, 64})
}

func compareIn(t *testing.T, page []byte, sizes ...[]int) {
	t.Helper()
	before := bytes.Clone(page)
	for _, m := range modes {
		want, wantExceeded := tokenized(page, m, MaxToken)
		got, exceeded := scan(page, m, MaxToken)
		if exceeded != wantExceeded || !slices.Equal(got, want) {
			t.Fatalf("%+v: exceeded %v, want %v\n%s\npage %.1000q", m, exceeded, wantExceeded, cmp.Diff(want, got), page)
		}
		if len(page) > 2000 {
			continue
		}
		for _, pieces := range sizes {
			if inPieces := scanned(page, m, pieces...); !slices.Equal(inPieces, want) {
				t.Fatalf("%+v in pieces of %v:\n%s\npage %.1000q", m, pieces, cmp.Diff(want, inPieces), page)
			}
		}
		want, wantExceeded = tokenized(page, m, tiny)
		for _, pieces := range append(sizes, nil) {
			if got, exceeded := scan(page, m, tiny, pieces...); exceeded != wantExceeded || !slices.Equal(got, want) {
				t.Fatalf("%+v, long tokens, in pieces of %v: exceeded %v, want %v\n%s\npage %.1000q", m, pieces, exceeded, wantExceeded, cmp.Diff(want, got), page)
			}
		}
	}
	if !bytes.Equal(before, page) {
		t.Error("the page has been changed")
	}
}

// nasty are pages in which something looks like something else. The pieces of all of them, in
// any order, are pages too.
var nasty = []struct{ name, page string }{
	{"comments", `<!--><a href=1><!---><a href=2><!-- > -> <a> --><!-- --!><a><!----!><a><!--a--!b--><!----><a><!-----><a><!--!><a>-->`},
	{"comment with a late exclamation mark", `<!-- --!- --!-> <a> --!--><a><!-- --!!> <a> --><a><!--x--`},
	{"declarations", `<!><a><!x><a><!doctype html "a>b"><a><!DOCTYP><a><?xml a='>'?><a></ a='>'><a></><a><!-><a><!--`},
	{"declaration at the end", `<a><!DOCTYPE`},
	{"section at the end", `<svg><![CDATA`},
	{"sections", `<svg><![CDATA[<a>&lt;]]]><a></svg><![CDATA[<a>]]><a><math><![cdata[<a>]]><![CDATA[]]><a></math></svg><![CDATA[ x`},
	{"text around", "a<b>&amp<!-- -->;\r\n&lt\r\x00&#x80;&notit; &notin; <p>\r</p>\nx< y <3 <<a></a>a<"},
	{"end tags", `<a></a href=">"></A/></a ></b c='></a>'></`},
	{"unfinished end", `x</a`},
	{"quotes", `<a href="'>" rel='">'><a href=a"b'c><a href= "x"y="z"><a href='a'b><a "href=x"><a 'x'>`},
	{"equals signs", `<a =href=x><a href==x><a href= =x><a = x><a href =x><a href = 'x' rel><a href=><a href= >`},
	{"slashes", `<a/href=x><a / href=x/><a href/=x><a/><a href='x'/><svg/><svg a=/><a><svg a a=/><svg a=b a=/ /><svg b=/ a=/><a/>`},
	{"slash in an unquoted value of a repeated attribute", "<title <a <a =/>x</title><svg><svg A=x a=/><svg\x00=1 \x00=/><svg \xff=1 \x00=/><a/></svg></svg><a/>"},
	{"names", "<A\x00 href=1><a\x00><aa><a/b><A HREF=x XLink:Href=y hREF=z><h\x11><h1><H1/><BLOCKQUOTE a><blockquot\xe9><blockquote\x00></BlockQuote><plaintexu>"},
	{"keys", "<a \x00href=1 href\x00=2 HTTP-EQUIV=x httq-equiv=y http-equi\x16=z a><a a=1 A=2 &a=3 href><a hre\x06=x>"},
	{"white space", "<a\nhref\t=\r\n'a\r\nb\r\rc'\f><a\vhref=x><a href=a\vb><\na><a href='\r'>"},
	{"references", `<a href="&amp;&amp&lt;&ltx&lt=&lt;=&#65;&#x41&#x110000;&#0;&#128;&#xD800;&#;&#x;&#xg&" rel='&notit;&notin;&not;&not&copy&copyx&semi;&semi&fjlig;&&amp;'>`},
	{"more references", `<a href="&#1114111;&#99999999999999999999;&ThickSpace;&bne;&CounterClockwiseContourIntegral;&acE;&amp" a=&Aacute content=&AMP;&AMP=x&sup1=&sup1>`},
	{"NULs", "<a href='\x00\x00&am\x00p;'>\x00<title>\x00&lt;\r\n\r</title>\x00&lt;<script>\x00&lt;</script>"},
	{"raw text", `<title><a></tit</titlex</title ><a><textarea></ textarea></TEXTAREA/><a><style></style x><a><xmp></xmp<a></xmp><a><iframe><a></iframe>`},
	{"more raw text", `<noembed><a></noembed><noframes><a></noframes><noscript><a></noscript><plaintext><a></plaintext>`},
	{"raw text in drawings", `<svg><title/><a><title><a></title><script/><a><style/><a></svg><title/><a></title><a>`},
	{"title that does not end", `<title><a>&lt;</titl`},
	{"title without text", `<title></title><title>`},
	{"scripts", `<script><a></script x><a><script><!--<a></script><a><script><!-- <script> </script> <a> --></script><a>`},
	{"scripts in comments", `<script><!--<script></script ><a></script><a><script><!--<script/--></script><a><script><!-- < <script></script><a>`},
	{"half scripts", `<script><!-<script></script><a><script><!--><script></script><a><script><!---<script ></script/-></script><a><script><!--<scriptx></script><a>`},
	{"dashes in scripts", `<script><!-- - -- --- -- > -></script><a><script><!--<script>- -- --</script>--></script><a><script><!--<script --<--></script><a>`},
	{"script that does not end", `<script><!--<script></script`},
	{"unfinished", `<a href="x`},
	{"unfinished without quotes", `<a href=x`},
	{"unfinished key", `<a href`},
	{"unfinished key and space", `<a href `},
	{"unfinished value", `<a href= `},
	{"unfinished name", `<a`},
	{"unfinished space", `<a `},
	{"unfinished slash", `<a /`},
	{"raw text in drawings is markup", `<svg><title><a></title><style><a><script><a></script><foreignObject><title><a></title><svg><title><a></svg></foreignObject><title/><a></svg><title><a></title>`},
	{"drawings that do not end", `<svg><g><path><p><title><a></title><a><math><mi><style><a></style></mi><style><a></style><div><style><a></style>`},
	{"ends around drawings", `<div><svg><style><a></div><style><a></style></svg><p><svg><title></p><title><a></title><math><svg></svg></math><a>`},
	{"drawings", `<svg><math></svg><![CDATA[<a>]]></math></math><![CDATA[<a>]]><a><p>text<svg>no<p>text</svg>`},
	{"byte order mark", "\xef\xbb\xbf<a>"},
	{"no UTF-8", "<\xe9><a \xe9=x href=\xff>\xff<\xc3>"},
}

func TestNasty(t *testing.T) {
	for _, tt := range nasty {
		t.Run(tt.name, func(t *testing.T) { compare(t, []byte(tt.page)) })
	}
}

// TestCut ends all those pages at every place, with -short at every third.
func TestCut(t *testing.T) {
	step := 1
	if testing.Short() {
		step = 3
	}
	for _, tt := range nasty {
		t.Run(tt.name, func(t *testing.T) {
			for i := 0; i < len(tt.page); i += step {
				compareIn(t, []byte(tt.page[:i]))
				compareIn(t, []byte(tt.page[i:]))
			}
		})
	}
}

// randomPage joins what may begin or end something.
func randomPage(r *rand.Rand, tokens []string) []byte {
	var b []byte
	for range r.IntN(25) {
		b = append(b, tokens[r.IntN(len(tokens))]...)
	}
	return b
}

var (
	longTokens = strings.Split(`<a |<svg |<title |<a href="|<script>|<!--|</a |<![CDATA[|<style>|</style>|</script>|-->|]]>|--!>|"|'|>|/>|/|=|==|<|xxxxxxxxxxxxxxxxx|yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy|        |<script|-`, "|")
	tagTokens  = strings.Split(`<a|<svg|<title|<p|</a|</svg|>|/|=|'|"| |a|A|href|b|x|&amp|&lt;|;|#x3|<|</|`+"\x00|\r|\n|\xff|<h1|<br|</h1>", "|")
	rawTokens  = strings.Split(`<script|<script>|</script|</script>|<!--|-->|-|--|!|>|<|/|script|<title>|</title>|</title|x| |<style>|</style>|<svg>|</svg>|<![CDATA[|]]>|]|<a>|</a>|`+
		`<textarea>|</textarea>|<plaintext>|<math>|</math>|<noscript>|<iframe>|</iframe>|<?|<!|&not|;`, "|")
)

func TestRandom(t *testing.T) {
	n := 1500
	if os.Getenv("TEST_URLTREE_FULL") != "" {
		n = 2_000_000
	} else if testing.Short() {
		n = 500
	}
	seed := testseed.Draw(t)
	r := rand.New(rand.NewPCG(seed, 0))
	for range n / 2 {
		compare(t, randomPage(r, tagTokens))
		compare(t, randomPage(r, rawTokens))
		compare(t, randomPage(r, longTokens))
	}
}

// TestLong: what is longer than the bound is read past, and what stands behind it is found, whether
// the page is there as a whole or comes in pieces. With -short the bound is a smaller one. In
// compare short tokens are long ones.
func TestLong(t *testing.T) {
	most := MaxToken
	if testing.Short() {
		most = 64 << 10
	}
	for _, tt := range []struct{ name, before, after string }{
		{"comment", "<a><!--", "--><a>"},
		{"attribute", "<a><p href='", "'><a>"},
		{"script", "<a><script>", "</script><a>"},
		{"title", "<a><title>", "</title><a>"},
	} {
		// It is longer by several pieces, and has what would be a link elsewhere.
		page := []byte(tt.before + strings.Repeat("x", most+most/16) + "><a class=no>" + tt.after)
		for _, pieces := range [][]int{nil, {most / 64}} {
			got, exceeded := scan(page, mode{}, most, pieces...)
			links := slices.DeleteFunc(got, func(event string) bool { return !strings.HasPrefix(event, "<a ") })
			if exceeded || len(links) != 2 || links[0] != links[1] {
				t.Errorf("%s in pieces of %v: %.100q, exceeded %v", tt.name, pieces, links, exceeded)
			}
		}
	}
}

// TestDeep: however many elements follow each other or stand in each other, the stack stays small.
func TestDeep(t *testing.T) {
	defer debug.SetMaxStack(debug.SetMaxStack(1 << 20))
	for _, unit := range []string{"<style></style>", "<svg>", "<!---->", "<p>", "</a>", "<svg a=/>", "<script/>"} {
		page := []byte(strings.Repeat(unit, 30_000) + "<a>")
		if got := scanned(page, mode{}); len(got) == 0 {
			t.Errorf("%s: nothing found", unit)
		}
	}
}

// sharedPages returns what the shared conformance data has of HTML.
func sharedPages(tb testing.TB) (pages [][]byte) {
	dir := os.Getenv("SHARED")
	if dir == "" {
		dir = "../../../../shared"
	}
	var links []struct{ HTML string }
	var encodings []struct {
		Data []byte `json:"data_b64"`
	}
	for name, into := range map[string]any{"links/link_cases.json": &links, "encoding/html5lib_cases.json": &encodings} {
		data, err := os.ReadFile(filepath.Join(dir, "conformance", name))
		if errors.Is(err, fs.ErrNotExist) {
			tb.Logf("no shared conformance data: %v", err)
			continue
		}
		if err == nil {
			err = json.Unmarshal(data, into)
		}
		if err != nil {
			tb.Fatal(err)
		}
	}
	for _, c := range links {
		pages = append(pages, []byte(c.HTML))
	}
	for _, c := range encodings {
		pages = append(pages, c.Data)
	}
	cases, err := filepath.Glob(filepath.Join(dir, "hostileweb", "cases", "*.json"))
	if err != nil {
		tb.Fatal(err)
	}
	for _, file := range cases {
		data, err := os.ReadFile(file)
		if err != nil {
			tb.Fatal(err)
		}
		var c any
		if err := json.Unmarshal(data, &c); err != nil {
			tb.Fatalf("%s: %v", file, err)
		}
		pages = append(pages, markup(c)...)
	}
	return pages
}

// markup returns the strings with tags in any value of JSON.
func markup(v any) (pages [][]byte) {
	switch v := v.(type) {
	case string:
		if strings.Contains(v, "<") {
			pages = append(pages, []byte(v))
		}
	case []any:
		for _, e := range v {
			pages = append(pages, markup(e)...)
		}
	case map[string]any:
		for _, e := range v {
			pages = append(pages, markup(e)...)
		}
	}
	return pages
}

// FuzzScan starts from the nasty pages and the shared ones; without -fuzz it compares these alone.
func FuzzScan(f *testing.F) {
	for _, tt := range nasty {
		f.Add([]byte(tt.page))
	}
	for _, page := range sharedPages(f) {
		f.Add(page)
	}
	f.Fuzz(func(t *testing.T, page []byte) { compare(t, page) })
}
