package extract

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"
	"golang.org/x/net/html/charset"
	"golang.org/x/text/transform"

	"urltree/internal/extract/scan"
	"urltree/internal/testhtml"
)

// tokenizedAttributes are those that the tokenizer gives, the first of each name.
type tokenizedAttributes map[int][]byte

func (a tokenizedAttributes) Attr(i int) (value []byte, ok bool) {
	value, ok = a[i]
	return value, ok
}

// parseTokens is Parse on the tokenizer of golang.org/x/net/html instead of the scanner: what
// Parse must give, if the page does not exhaust its budget.
func parseTokens(f Facts, body []byte, o Options) Result {
	r := new(Parser)
	p := r.newPage(f, o, maxSteps)
	if xhtml, ok := isHTML(f.Media, body); ok {
		in := newSource(body, f.Charset, formatOf(xhtml))
		p.Charset, p.query, p.isMarkup = in.charset, in.query, true
		p.scanTokens(decoded(f, body, xhtml), xhtml)
	}
	return p.result(f, &r.base)
}

// decoded returns a page as UTF-8.
func decoded(f Facts, body []byte, xml bool) io.Reader {
	e, charset := charsetOf(body, f.Charset, formatOf(xml))
	if charset == "utf-8" {
		return bytes.NewReader(body)
	}
	return transform.NewReader(bytes.NewReader(body), e.NewDecoder())
}

func (p *page) scanTokens(r io.Reader, xhtml bool) {
	z := html.NewTokenizer(r)
	var drawings scan.Drawings
	defer p.endHeading()
	defer p.endLink()
	for inTitle, inStyle, rawText := false, false, false; ; {
		z.AllowCDATA(xhtml || drawings.Foreign())
		switch token := testhtml.Next(z); token {
		case html.ErrorToken:
			return
		case html.TextToken:
			switch {
			case inStyle && p.opts.Assets:
				p.style(z.Text())
			case inTitle && p.about.meta.Title == "":
				text := line{max: maxText}
				text.add(z.Text())
				p.about.meta.Title = text.take()
			case !rawText && !drawings.Any() && p.wantsText():
				p.text(z.Text())
			}
			inTitle, inStyle, rawText = false, false, false
		case html.EndTagToken:
			inTitle, inStyle, rawText = false, false, false
			name, _ := z.TagName()
			drawings.End(name)
			p.endTag(name)
		case html.StartTagToken, html.SelfClosingTagToken:
			name, more := z.TagName()
			foreign := drawings.Start(name, token == html.SelfClosingTagToken)
			closed := token == html.SelfClosingTagToken && (xhtml || foreign)
			rawText = !closed && !foreign && hasRawText(name)
			// Without scripts noscript is markup. An element closed at once has no raw text.
			if closed || foreign || string(name) == "noscript" {
				z.NextIsNotRawText()
			}
			inTitle = rawText && !drawings.Any() && string(name) == "title"
			p.startTag(name, closed)
			i := slices.IndexFunc(tags, func(t tag) bool { return string(t.name) == string(name) })
			if i < 0 {
				i = len(tags) - 1
			}
			if (tags[i].asset || tags[i].plain) && !p.opts.Assets {
				continue
			}
			inStyle = rawText && tags[i].shown == "style"
			a := tokenizedAttributes{}
			for more {
				var key, value []byte
				key, value, more = z.TagAttr()
				if i := slices.Index(attributeNames, string(key)); i >= 0 {
					a[i] = bytes.Clone(value)
				}
			}
			p.element(tags[i].shown, a)
			if closed && tags[i].shown == "a" {
				p.endLink()
			}
		}
	}
}

// hasRawText reports whether what follows a start tag is text up to its end tag, and not shown.
func hasRawText(name []byte) bool {
	switch string(name) {
	case "script", "style", "title", "textarea", "iframe", "noembed", "noframes", "xmp", "plaintext":
		return true
	}
	return false
}

// wordsOfTokens returns the words of a page by the tokenizer.
func wordsOfTokens(f Facts, body []byte, xhtml bool) (list []string) {
	w := words{fn: func(word []byte) { list = append(list, string(word)) }}
	z := html.NewTokenizer(decoded(f, body, xhtml))
	var drawings scan.Drawings
	for hidden, inDrawing := false, false; ; {
		z.AllowCDATA(xhtml || drawings.Foreign())
		switch token := testhtml.Next(z); token {
		case html.ErrorToken:
			return list
		case html.TextToken:
			if inDrawing = inDrawing && drawings.Any(); !hidden && !inDrawing {
				w.add(z.Text())
			}
			hidden = false
		case html.EndTagToken:
			hidden = false
			name, _ := z.TagName()
			inDrawing = inDrawing && string(name) != "script" && string(name) != "style"
			drawings.End(name)
		case html.StartTagToken, html.SelfClosingTagToken:
			name, _ := z.TagName()
			foreign := drawings.Start(name, token == html.SelfClosingTagToken)
			closed := foreign || token == html.SelfClosingTagToken && xhtml
			if closed || string(name) == "noscript" {
				z.NextIsNotRawText()
			}
			switch string(name) {
			case "script", "style":
				hidden = !closed
				inDrawing = drawings.Any() && !closed || foreign && token == html.StartTagToken
			case "iframe", "noembed", "noframes":
				hidden = !closed
			default:
				hidden = false
			}
		}
	}
}

// compareWithTokenizer holds Parse and Words to what the tokenizer gives, in HTML and XHTML.
func compareWithTokenizer(t *testing.T, body []byte, label string) {
	t.Helper()
	before := bytes.Clone(body)
	for i, media := range []string{"text/html", "application/xhtml+xml"} {
		f := Facts{URL: pageURL, Media: media, Charset: label}
		var got []string
		Words(f, body, func(word []byte) { got = append(got, string(word)) })
		if want := wordsOfTokens(f, bytes.Clone(body), i == 1); !slices.Equal(got, want) {
			t.Errorf("%s in %q: words differ:\n%s\n%.300q", media, label, cmp.Diff(want, got), body)
		}
		for _, o := range []Options{{Token: "kite"}, {Assets: true, NoFollow: "none"}} {
			want := parseTokens(f, bytes.Clone(body), o)
			if got := Parse(f, body, o); !cmp.Equal(want, got) {
				t.Errorf("%s in %q, assets %v: scanner and tokenizer differ:\n%s\n%.300q", media, label, o.Assets, cmp.Diff(want, got), body)
			}
		}
	}
	if !bytes.Equal(before, body) {
		t.Error("Parse has changed the body")
	}
}

// awkward are pages in which tokens are cut, nested or spelt as they should not be.
var awkward = []string{
	"<title>a&lt;\r\n<b>\x00</title><a href='x?a&amp;b&copy=1&lt'>one<p>two &am<!-- -->p; </a><a HREF=y rel='No\r\nFollow'>\x00</a>",
	"<svg><title>no</title><a xlink:href=x>A<p>B</p></a><![CDATA[<a href=no>]]></svg><h1>a<svg><p>b</svg>c<![CDATA[d]]></h1>",
	"<h1>a<script>b</script><br/>c<h2>d<title>e</title></h9>f</h2><a href=x/>g</a><a/ href=y />h<area href=z alt='i&nbsp;j'>",
	"<script><!--<script><a href=no></script>--></script><a href=1><!--><a href=2><!-- --!><a href=3></a href='>'><a href=4 href=5>",
	"<meta name=robots content='no&#105;ndex'><meta charset=big5><meta http-equiv=refresh content='0;url=&quot;x&quot;'><html lang=de><base href=//b>",
	"<img src=a srcset='b 1x,c&#32;2x'><input type=IMAGE src=d><video poster=e src=f><object data=g><link rel='icon next' href=h><image src=i>",
	"\xff\xfe<\x00a\x00 \x00h\x00r\x00e\x00f\x00=\x00x\x00>\x00\x05\x01",
	"<a href='\xb1?\xb1'>\xe9<noscript><a href=n></noscript><textarea><a href=no></textarea><a href=z",
}

func TestAwkward(t *testing.T) {
	for _, page := range awkward {
		for i := range page {
			compareWithTokenizer(t, []byte(page[:i]), "utf-8")
		}
		for _, label := range []string{"", "utf-8", "iso-8859-2", "gbk", "iso-2022-jp", "utf-16le", "replacement"} {
			compareWithTokenizer(t, []byte(page), label)
		}
	}
}

// TestWindows reads pages in other encodings that are longer than what is decoded at a time.
func TestWindows(t *testing.T) {
	for _, label := range []string{"windows-1252", "shift_jis", "utf-16be"} {
		if testing.Short() && label != "shift_jis" {
			continue
		}
		for _, length := range []int{10, 2 * window} {
			t.Run(fmt.Sprint(label, length), func(t *testing.T) {
				page := "<p>\xe9<a href='" + strings.Repeat("\xe9", min(length, 3000)) + "?x=\xe9'>\xe9" + strings.Repeat("y\xe9 ", length/3) + "</a><!--" +
					strings.Repeat("\xe9", length) + "--><title>" + strings.Repeat(" ", length) + "\xe9</title>"
				page = strings.Repeat(page, 3*window/len(page)+1)
				if label == "utf-16be" {
					page = "\x00" + strings.Join(strings.Split(page, ""), "\x00")
				}
				compareWithTokenizer(t, []byte(page), label)
			})
		}
	}
}

// TestASCII: a page in ASCII is not decoded where it need not be, and only there.
func TestASCII(t *testing.T) {
	var text []byte
	for c := range byte(utf8.RuneSelf) {
		text = append(text, c)
	}
	for _, name := range []string{
		"ibm866", "iso-8859-8-i", "koi8-u", "macintosh", "windows-1252", "x-mac-cyrillic", "gbk", "gb18030", "big5", "euc-jp", "iso-2022-jp", "shift_jis",
		"euc-kr", "replacement", "utf-16be", "utf-16le", "x-user-defined",
	} {
		e, got := charset.Lookup(name)
		if got != name {
			t.Fatalf("%s is called %q", name, got)
		}
		if decoded, err := e.NewDecoder().Bytes(text); hasASCII(name) != (err == nil && bytes.Equal(decoded, text)) {
			t.Errorf("%s: hasASCII is %v, ASCII becomes %q, %v", name, hasASCII(name), decoded, err)
		}
	}
	for i := range 100 {
		page := bytes.Repeat([]byte("x"), 100)
		if page[i] = 0x80; isASCII(page) || !isASCII(page[:i]) || !isASCII(page[i+1:]) {
			t.Errorf("isASCII is wrong about a byte at %d", i)
		}
	}
}

// TestRealTokenizer holds what people have written to the same.
func TestRealTokenizer(t *testing.T) {
	root, files := realPages(t)
	for i, file := range files {
		body, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		compareWithTokenizer(t, body, []string{"", "utf-8", "gbk"}[i%3])
	}
	t.Logf("%d pages", len(files))
}

func FuzzTokenizer(f *testing.F) {
	for i, page := range awkward {
		f.Add([]byte(page), []string{"", "utf-8", "gbk"}[i%3])
	}
	for _, tt := range hostile {
		f.Add([]byte(tt.page(500)), "")
	}
	f.Fuzz(compareWithTokenizer)
}
