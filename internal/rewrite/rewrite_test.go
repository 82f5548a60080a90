package rewrite

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"golang.org/x/net/html/charset"

	"urltree/internal/extract/scan"
)

const home = "http://h.example/dir/page.html"

// mark shows what was asked for each reference.
func mark(r Reference) string {
	if r.URL == "" {
		return r.Text
	}
	return "/!" + strings.TrimPrefix(r.URL, "http://h.example") + r.Fragment
}

const same = "the same"

// copied returns what Copy writes, the document being read in pieces of all sizes.
func copied(t testing.TB, d Document, text string) string {
	t.Helper()
	if d.URL == "" {
		d.URL = home
	}
	if d.Media == "" {
		d.Media = "text/html"
	}
	if d.Replace == nil {
		d.Replace = mark
	}
	var b, slow bytes.Buffer
	if err := d.Copy(&b, strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	if err := d.Copy(&slow, iotest.OneByteReader(strings.NewReader(text))); err != nil || slow.String() != b.String() {
		t.Fatalf("byte by byte: %v, %q, want %q", err, &slow, &b)
	}
	return b.String()
}

func TestReferences(t *testing.T) {
	for _, tt := range []struct{ from, to string }{
		{`<a href="x">`, `<a href="/!/dir/x">`},
		{`<A  HREF = 'x?a=1&amp;b=2#c'  class=k>`, `<A  HREF = '/!/dir/x?a=1&amp;b=2#c'  class=k>`},
		{`<a href=x>`, `<a href=/!/dir/x>`},
		{`<a href=x/>`, `<a href=/!/dir/x/>`},
		{`<a href= "  http://o.example/a b ">`, `<a href= "/!http://o.example/a%20b">`},
		{`<a href="#there">`, `<a href="#there">`},
		{`<a href="">`, `<a href="">`},
		{`<a href>`, `<a href>`},
		{`<a href="mailto:x@y">`, `<a href="mailto:x@y">`},
		{`<a href="javascript:f('x')">`, `<a href="javascript:f('x')">`},
		{`<a href="x#a b'c">`, `<a href="/!/dir/x#a b&#39;c">`},
		{`<a href=x#a'c>`, `<a href=/!/dir/x#a&#39;c>`},
		{`<!-- <a href=x> --><script>"<a href=x>"</script><textarea><a href=x></textarea><title><a href=x></title>`, same},
		{`<script type=application/json>{"a":"x.png"}</script><template><img src=x></template>`, `<script type=application/json>{"a":"x.png"}</script><template><img src=/!/dir/x></template>`},
		{`<noscript><img src=x></noscript>`, `<noscript><img src=/!/dir/x></noscript>`},
		{`<img src=a srcset="b 1x, c?x=,y 2x" alt="src=a">`, `<img src=/!/dir/a srcset="/!/dir/b 1x, /!/dir/c?x=,y 2x" alt="src=a">`},
		{`<img srcset="a 1q, b">`, `<img srcset="a 1q, /!/dir/b">`},
		{`<video poster=/p src=//o.example/v>`, `<video poster=/!/p src=/!http://o.example/v>`},
		{`<body background=b.gif><form action=f method=post><button formaction=g><blockquote cite=q>`, `<body background=/!/dir/b.gif><form action=/!/dir/f method=post><button formaction=/!/dir/g><blockquote cite=/!/dir/q>`},
		{`<object data=x></object><a data=x>`, `<object data=/!/dir/x></object><a data=x>`},
		{`<link rel=icon href=i imagesrcset="j 2x">`, `<link rel=icon href=/!/dir/i imagesrcset="/!/dir/j 2x">`},
		{`<meta http-equiv=Refresh content="3; URL='x'"><meta name=x content="3;url=x">`, `<meta http-equiv=Refresh content="3; URL=&#39;/!/dir/x&#39;"><meta name=x content="3;url=x">`},
		{`<meta content='0;x' http-equiv="refresh">`, `<meta content='0;/!/dir/x' http-equiv="refresh">`},
		{`<p style="background:url(&quot;x&quot;) url(y)">`, `<p style="background:url(/!/dir/x) url(/!/dir/y)">`},
		{`<p style='content:"url(x)"; fill:url(#f)'>`, same},
		{`<style>@import "x"; @import url(y?a&b); a{b:url( z );c:image-set("i" 1x);d:"s"}</style>`, `<style>@import "/!/dir/x"; @import url(/!/dir/y?a\26 b); a{b:url(/!/dir/z);c:image-set("/!/dir/i" 1x);d:"s"}</style>`},
		{`<style></style><style>a{b:c}</style><a href=x>`, `<style></style><style>a{b:c}</style><a href=/!/dir/x>`},
		{`<svg><use xlink:href="x#y"/><image href=z /><style>a{b:url(x)}</style><a fill="url(p.svg#g)"></svg>url(x)`, `<svg><use xlink:href="/!/dir/x#y"/><image href=/!/dir/z /><style>a{b:url(/!/dir/x)}</style><a fill="url(/!/dir/p.svg#g)"></svg>url(x)`},
		{`<iframe srcdoc="<a href='x?a&amp;amp;b'><a href=#c>"></iframe>`, `<iframe srcdoc="&#60;a href=&#39;/!/dir/x?a&amp;amp;b&#39;&#62;&#60;a href=#c&#62;"></iframe>`},
		{`<iframe srcdoc="<p>plain"></iframe>`, same},
		{`<img data-src="x.png" data-bg="url(x)" data-lazy="true" data-original="{a.b}">`, `<img data-src="/!/dir/x.png" data-bg="url(/!/dir/x)" data-lazy="true" data-original="{a.b}">`},
		{`<img src=early><base href="/other/"><a href=x><a href="#y"><a href="">`, `<img src=/!/dir/early><base href="/!/other/"><a href=/!/other/x><a href="/!/other/#y"><a href="/!/other/">`},
		{`<base href=/a/><svg><use href=#b /><a href=#b /><rect fill=url(#b) /></svg><p style='c:url(#b)'><a href=#b>`, `<base href=/!/a/><svg><use href=#b /><a href=/!/a/#b /><rect fill=url(#b) /></svg><p style='c:url(#b)'><a href=/!/a/#b>`},
		{`<base target=x><base href=/a/><base href=/b/><img src=x>`, `<base target=x><base href=/!/a/><base href=/!/b/><img src=/!/a/x>`},
		{`<a href=x integrity=y crossorigin nonce target=_blank ping=/p>`, `<a href=/!/dir/x integrity=y crossorigin nonce target=_blank ping=/p>`},
		{`<a href="x`, same},
	} {
		if tt.to == same {
			tt.to = tt.from
		}
		if got := copied(t, Document{}, tt.from); got != tt.to {
			t.Errorf("%s\nbecame %s\nwant   %s", tt.from, got, tt.to)
		}
	}
}

// TestDetach: what binds a document to its place is gone, and links to other windows stay in one.
func TestDetach(t *testing.T) {
	for _, tt := range []struct{ from, to string }{
		{`<script src=x integrity="sha256-y" crossorigin></script>`, `<script src=/!/dir/x  ></script>`},
		{`<link href=x crossorigin='anonymous'nonce=n>`, `<link href=/!/dir/x >`},
		{`<a ping="http://o.example/" href=x target=_blank><form target="other"><base target=_TOP><a target=_Self><a target="">`, `<a  href=/!/dir/x target=_self><form target="_self"><base target=_self><a target=_Self><a target="">`},
		{`<meta http-equiv="Content-Security-Policy" content="default-src https:"><meta name=a content=b>`, `<meta http-equiv="Content-Security-Policy" content=""><meta name=a content=b>`},
		{`<base href=/a/ target=_self><img src=x>`, `<base href="" target=_self><img src=/!/a/x>`},
	} {
		if got := copied(t, Document{Detach: true, OneWindow: true}, tt.from); got != tt.to {
			t.Errorf("%s\nbecame %s\nwant   %s", tt.from, got, tt.to)
		}
	}
}

// TestDeclare: a page that does not say its encoding does so in its copy, and nothing else changes.
func TestDeclare(t *testing.T) {
	const added = `<meta charset="windows-1251">`
	far := "<!--" + strings.Repeat("x", 2000) + "-->"
	for _, tt := range []struct{ charset, from, to string }{
		{"cp1251", `<!DOCTYPE html><html lang=ru><head profile=p><title>`, `<!DOCTYPE html><html lang=ru><head profile=/!/dir/p>` + added + `<title>`},
		{"cp1251", `<!DOCTYPE html><!-- <head> --><title>`, `<!DOCTYPE html><!-- <head> -->` + added + `<title>`},
		{"cp1251", "<html><body><p>\xe0<head>", "<html>" + added + "<body><p>\xe0<head>"},
		{"cp1251", "\xe0 <a href=x>", "\xe0 " + added + "<a href=/!/dir/x>"},
		{"cp1251", `<head><meta charset=windows-1251>`, same},
		{"cp1251", `<head><meta http-equiv=content-type content="text/html; charset=cp1251">`, same},
		{"cp1251", `<head><meta charset=utf-8>`, `<head>` + added + `<meta charset=utf-8>`},
		{"cp1251", far + `<head><meta charset=cp1251>`, far + `<head>` + added + `<meta charset=cp1251>`},
		{"utf-8", `<title>é</title>`, `<meta charset="utf-8"><title>é</title>`},
		{"utf-8", "\ufeff<title>é</title>", same},
		{"unknown", `<title></title>`, same},
		{"", `<title></title>`, same},
		{"utf-8", `text`, same},
		{"utf-16le", "<\x00a\x00>\x00", "\xff\xfe<\x00a\x00>\x00"},
		{"utf-16be", "\xfe\xff\x00<\x00a\x00>", same},
		{"iso-2022-jp", "<p>\x1b$B<~\x1b(B", "<meta charset=\"iso-2022-jp\"><p>\x1b$B<~\x1b(B"},
		{"utf-8", `<iframe srcdoc="<p>">`, `<meta charset="utf-8"><iframe srcdoc="<p>">`},
	} {
		if tt.to == same {
			tt.to = tt.from
		}
		if got := copied(t, Document{Charset: tt.charset, Declare: true}, tt.from); got != tt.to {
			t.Errorf("%s: %q\nbecame %q\nwant   %q", tt.charset, tt.from, got, tt.to)
		}
		if got := copied(t, Document{Charset: tt.charset, Media: "application/xhtml+xml", Declare: true}, tt.from); strings.Count(got, "charset") != strings.Count(tt.from, "charset") {
			t.Errorf("%q as XHTML became %q", tt.from, got)
		}
	}
}

// TestDeclareSheet: a style sheet that is not of ASCII says its encoding in its copy.
func TestDeclareSheet(t *testing.T) {
	long := strings.Repeat("a { b: c }\n", shortSheet/8)
	for _, tt := range []struct{ charset, from, to string }{
		{"utf-8", "a::after { content: 'é' }", "@charset \"utf-8\";a::after { content: 'é' }"},
		{"cp1251", "a { content: '\xe0'; b: url(x) }", "@charset \"windows-1251\";a { content: '\xe0'; b: url(/!/dir/x) }"},
		{"utf-8", "a { content: 'e' }", same},
		{"", "é", same},
		{"unknown", "é", same},
		{"utf-8", "\ufeffé", same},
		{"utf-8", `@charset "utf-8";é`, same},
		{"cp1251", "@charset \"utf-8\";\xe0", "@charset \"windows-1251\";@charset \"utf-8\";\xe0"},
		{"shift_jis", "a { content: '\x83\x5c' }", "@charset \"shift_jis\";a { content: '\x83\x5c' }"},
		{"iso-2022-jp", "a { content: '\x1b$B<~\x1b(B' }", "@charset \"iso-2022-jp\";a { content: '\x1b$B<~\x1b(B' }"},
		{"utf-16le", "a\x00", "\xff\xfea\x00"},
		{"utf-16be", "\xfe\xff\x00a", same},
		{"utf-8", long + "é", `@charset "utf-8";` + long + "é"},
	} {
		if tt.to == same {
			tt.to = tt.from
		}
		if got := copied(t, Document{Charset: tt.charset, Media: "text/css", Declare: true}, tt.from); got != tt.to {
			t.Errorf("%s: %.100q\nbecame %.100q\nwant   %.100q", tt.charset, tt.from, got, tt.to)
		}
		if got := copied(t, Document{Charset: tt.charset, Media: "text/css"}, tt.from); strings.HasPrefix(got, "@charset") != strings.HasPrefix(tt.from, "@charset") {
			t.Errorf("without Declare %.100q became %.100q", tt.from, got)
		}
	}
}

// TestText: plain text in another encoding is copied in UTF-8, and other text as it is.
func TestText(t *testing.T) {
	for _, tt := range []struct{ charset, from, to string }{
		{"cp1251", "\xcf\xf0\xe8\xe2\xe5\xf2, a", "Привет, a"},
		{"iso-8859-15", "\xa4 5", "€ 5"},
		{"euc-jp", "\xc6\xfc\xcb\xdc\xff", "日本\ufffd"},
		{"utf-16le", "a\x00\xe9\x00", "aé"},
		{"utf-16le", "\xff\xfea\x00", same},
		{"cp1251", "\ufeffé", same},
		{"utf-8", "é \xff", same},
		{"", "\xe9", same},
		{"unknown", "\xe9", same},
		{"cp1251", "", same},
	} {
		if tt.to == same {
			tt.to = tt.from
		}
		var b strings.Builder
		if err := Text(&b, strings.NewReader(tt.from), tt.charset); err != nil || b.String() != tt.to {
			t.Errorf("%s: %q became %q, want %q: %v", tt.charset, tt.from, &b, tt.to, err)
		}
	}
}

// TestMedia: style sheets, XHTML, and SVG have references; scripts, data and text have none.
func TestMedia(t *testing.T) {
	for _, tt := range []struct{ media, from, to string }{
		{"text/css", `@charset "utf-8"; @import 'a' screen; b{c:url("d e.png");f:url(g\)h)} /* url(x) */`, `@charset "utf-8"; @import '/!/dir/a' screen; b{c:url(/!/dir/d%20e.png);f:url(/!/dir/g\29 h)} /* url(x) */`},
		{"TEXT/CSS", `a{b:url(x)`, `a{b:url(/!/dir/x)`},
		{"image/svg+xml", `<?xml version="1.0"?><svg xmlns:xlink="x"><image xlink:href="a.png"/><style><![CDATA[a{b:url(c)}]]></style></svg>`, `<?xml version="1.0"?><svg xmlns:xlink="x"><image xlink:href="/!/dir/a.png"/><style><![CDATA[a{b:url(/!/dir/c)}]]></style></svg>`},
		{"application/xhtml+xml", `<style>a{b:url(x?c&amp;d)}</style><title/><a href="x"/>`, `<style>a{b:url(/!/dir/x?c\26 d)}</style><title/><a href="/!/dir/x"/>`},
		{"text/javascript", `"<a href=x>"`, ""},
		{"application/json", `{"a":"<a href=x>"}`, ""},
		{"text/plain", `<a href=x>`, ""},
		{"", `<a href=x>`, ""},
	} {
		if Applies(tt.media) != (tt.to != "") {
			t.Errorf("%s: applies: %t", tt.media, Applies(tt.media))
		}
		if tt.to == "" {
			tt.to = tt.from
		}
		d := Document{Media: tt.media, URL: home, Replace: mark}
		var b strings.Builder
		if err := d.Copy(&b, strings.NewReader(tt.from)); err != nil {
			t.Fatal(err)
		}
		if b.String() != tt.to {
			t.Errorf("%s: %s\nbecame %s\nwant   %s", tt.media, tt.from, &b, tt.to)
		}
	}
}

// TestCharsets: a document keeps its encoding, and its references are those of the crawl: a path in
// UTF-8, a query in the encoding of the document.
func TestCharsets(t *testing.T) {
	for _, tt := range []struct{ label, path, query string }{
		{"utf-8", "ソ", "表"},
		{"", "ソ", "表"},
		{"shift_jis", "ソ", "表"},
		{"gbk", "ソ", "表"},
		{"big5", "ソ", "表"},
		{"euc-jp", "ソ", "表"},
		{"iso-2022-jp", "ソ", "表"},
		{"utf-16le", "ソ", "表"},
		{"utf-16be", "ソ", "表"},
		{"windows-1252", "é", "à"},
		{"koi8-r", "Ж", "ж"},
	} {
		encode := func(s string) string { return s }
		if e, name := charset.Lookup(tt.label); e != nil && name != "utf-8" {
			encode = func(s string) string {
				b, err := e.NewEncoder().String(s)
				if err != nil {
					t.Fatalf("%s: %v", tt.label, err)
				}
				return b
			}
		}
		inQuery := encode(tt.query)
		if strings.HasPrefix(tt.label, "utf-16") {
			inQuery = tt.query
		}
		for media, text := range map[string]string{
			"text/html": `<p title="PQ">PQ<a href="REF">P</a><style>a{font-family:"P";b:url(x)}</style><p style="font-family:'P'">`,
			"text/css":  `a{font-family:"PQ";b:url(x)}`,
		} {
			text = strings.NewReplacer("P", tt.path, "Q", tt.query).Replace(text)
			from := strings.ReplaceAll(text, "REF", "/"+tt.path+"?"+tt.query+"=")
			to := strings.NewReplacer("REF", "/!/"+hexed(tt.path)+"?"+hexed(inQuery)+"=", "url(x)", "url(/!/dir/x)").Replace(text)
			if got := copied(t, Document{Media: media, Charset: tt.label}, encode(from)); got != encode(to) {
				t.Errorf("%s, %s: became %q\nwant %q", tt.label, media, got, encode(to))
			}
		}
	}
}

// hexed returns text with the escapes that the URL standard has for a query.
func hexed(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		if c <= ' ' || c > '~' || strings.IndexByte("\"#'<>", c) >= 0 {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// TestLarge: a document of any size goes through a buffer of some size.
func TestLarge(t *testing.T) {
	const n = 200_000
	in := &repeated{text: `<p style="a:url(x)"><a href="y">text</a>` + "\n", left: n}
	want := int64(n * len(`<p style="a:url(/!/dir/x)"><a href="/!/dir/y">text</a>`+"\n"))
	d := Document{URL: home, Media: "text/html", Replace: mark}
	var before runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var out counted
	if err := d.Copy(&out, in); err != nil || out.n != want {
		t.Fatalf("%d bytes, %v; want %d", out.n, err, want)
	}
	if grown := int64(out.heap) - int64(before.HeapAlloc); grown > 4<<20 {
		t.Errorf("the heap has grown by %d bytes for a document of %d", grown, want)
	}
	// A tag that is too long for memory stays as it is.
	long := `<a href="` + strings.Repeat("x", scan.MaxToken+1<<20) + `"><a href=y>`
	var b strings.Builder
	if err := d.Copy(&b, strings.NewReader(long)); err != nil || b.String() != strings.TrimSuffix(long, "y>")+"/!/dir/y>" {
		t.Errorf("a long tag: %v, %d bytes, end %q", err, b.Len(), b.String()[max(0, b.Len()-40):])
	}
}

// repeated is a text so many times.
type repeated struct {
	text string
	left int
	rest string
}

func (r *repeated) Read(b []byte) (int, error) {
	if r.rest == "" {
		if r.left == 0 {
			return 0, io.EOF
		}
		r.rest = r.text
		r.left--
	}
	n := copy(b, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// counted counts what is written to it, and looks at the heap now and then.
type counted struct {
	n    int64
	heap uint64 // bytes, at most
	tick int
}

func (c *counted) Write(b []byte) (int, error) {
	if c.tick++; c.tick%2000 == 0 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		c.heap = max(c.heap, m.HeapAlloc)
	}
	c.n += int64(len(b))
	return len(b), nil
}

// TestErrors: an error of either side comes back.
func TestErrors(t *testing.T) {
	broken := errors.New("broken")
	for _, media := range []string{"text/html", "text/css", "image/png"} {
		d := Document{URL: home, Media: media, Replace: mark}
		if err := d.Copy(io.Discard, iotest.ErrReader(broken)); !errors.Is(err, broken) {
			t.Errorf("%s: reading: %v", media, err)
		}
		if err := d.Copy(failing{broken}, strings.NewReader(strings.Repeat("<a href=x>url(x) ", 10_000))); !errors.Is(err, broken) {
			t.Errorf("%s: writing: %v", media, err)
		}
	}
	if err := (&Document{URL: "nothing", Media: "text/html"}).Copy(io.Discard, strings.NewReader("")); err == nil {
		t.Error("no URL: no error")
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// FuzzCopy: nothing changes while no reference does, whatever the bytes are and however they come;
// and what takes the place of a reference is read as such: it leaves no other one.
func FuzzCopy(f *testing.F) {
	for _, text := range []string{
		"<a href=x>", "<style>@import 'a'; b{c:url(d)}</style>", "<svg><style>a{b:url(c)}</style></svg>", "<p style='a:url(b)'", "\xff\xfe<\x00a\x00",
		"<iframe srcdoc='<img src=x>'>", "<base href=/x><img srcset='a 1x, b'>", "a{b:url(\"c\\\"", "<![CDATA[<a href=x>]]>", "<meta http-equiv=refresh content='1;x'>",
	} {
		for media := range 3 {
			f.Add([]byte(text), uint8(media), uint8(0))
		}
	}
	f.Fuzz(func(t *testing.T, text []byte, media, label uint8) {
		d := Document{
			URL: home, Media: []string{"text/html", "text/css", "image/svg+xml"}[media%3],
			Charset: []string{"utf-8", "shift_jis", "windows-1252", "gbk", ""}[label%5],
		}
		if d.Media == "text/css" && hidesASCII(d.Charset, inCSS) {
			return // bytes that are no character of the encoding are not kept
		}
		d.Replace = func(r Reference) string { return r.Text }
		if got := copied(t, d, string(text)); got != string(text) {
			t.Fatalf("%+v: %q became %q", d, text, got)
		}
		d.Replace = func(Reference) string { return "/it" }
		once := copied(t, d, string(text))
		d.Replace = func(r Reference) string {
			if r.Text != "/it" {
				t.Fatalf("%q became %q, which still has %q", text, once, r.Text)
			}
			return r.Text
		}
		copied(t, d, once)
	})
}
