package extract

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"
	"golang.org/x/net/html/charset"

	"urltree/crawler/weburl"
	"urltree/internal/extract/scan"
	"urltree/storage/record"
)

const pageURL = "https://example.org/dir/page.html"

var pageFacts = Facts{URL: pageURL, Media: "text/html"}

// law checks what holds for every page.
func law(t *testing.T, f Facts, body []byte, o Options, r Result) {
	t.Helper()
	for _, l := range r.Links {
		if again, err := weburl.Canonical(l.URL); l.Element != "header" && (again != l.URL || err != nil) {
			t.Errorf("%q is not canonical: %q, %v", l.URL, again, err)
		}
	}
	metaLaw(t, r.Meta)
	if f.Charset = r.Charset; r.Charset != "" {
		if diff := cmp.Diff(r, Parse(f, body, o)); diff != "" {
			t.Errorf("with its charset %q given back the page differs:\n%s", r.Charset, diff)
		}
	}
}

func show(links []Link) (s []string) {
	for _, l := range links {
		s = append(s, strings.TrimSpace(l.Element+" "+strings.TrimPrefix(l.URL, "https://example.org")+" "+l.Rel))
	}
	return s
}

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		name, html string
		opts       Options
		want       []string
	}{
		{"order and repeats", `<a href=b>b</a><area href=a><a href=b rel=NoFollow>`, Options{}, []string{"a /dir/b", "area /dir/a", "a /dir/b nofollow"}},
		{"empty references", `<a href><iframe src=""></iframe><link rel=next href>`, Options{}, []string{"a /dir/page.html"}},
		{
			"link element", `<link rel="NEXT" href=2><link rel="alternate x" href=f><link rel=canonical href=c><link rel=prev href=0><link href=n>`,
			Options{},
			[]string{"link /dir/2 next", "link /dir/f alternate x", "link /dir/c canonical"},
		},
		{"styles are assets", `<link rel=stylesheet href=s><link rel="alternate stylesheet" href=t><link rel="shortcut icon" href=i>`, Options{}, nil},
		{
			"assets", `<link rel="alternate stylesheet" href=s><img src=i srcset="j 1x, k 2x"><image src=l><script src=m></script>` +
				`<video src=v poster=p><source src=w></video><object data=o></object><input type=image src=x><input src=y>`,
			Options{Assets: true},
			[]string{
				"link /dir/s alternate stylesheet", "img /dir/i", "img /dir/j", "img /dir/k", "img /dir/l", "script /dir/m",
				"video /dir/v", "video /dir/p", "source /dir/w", "object /dir/o", "input /dir/x",
			},
		},
		{"assets not asked for", `<img src=i srcset=j><script src=m></script><video src=v poster=p>`, Options{}, nil},
		{"character references", `<a href="?a=1&amp;b=2&copy=3&#x2f;">`, Options{}, []string{"a /dir/page.html?a=1&b=2&copy=3/"}},
		{"noscript and template", `<noscript><a href=n></noscript><template><a href=t></template>`, Options{}, []string{"a /dir/n", "a /dir/t"}},
		{
			"raw text", `<!-- <a href=1> --><script>"<a href=2>"</script><style><a href=3></style><title><a href=4></title>` +
				`<textarea><a href=5></textarea><iframe><a href=6></iframe><a href=7>`, Options{}, []string{"a /dir/7"},
		},
		{"title of a drawing", `<svg><title/><style/></svg><a href=x>`, Options{}, []string{"a /dir/x"}},
		{"text in a drawing", `<svg><![CDATA[<a href=no>]]></svg><a href=x>`, Options{}, []string{"a /dir/x"}},
		{"base on another host", `<a href=x><base target=t><base href="//other.example/b/c"><base href=/no/>`, Options{}, []string{"a https://other.example/b/x"}},
		{"base with another scheme", `<base href="data:,x"><base href=/no/><a href=x>`, Options{}, []string{"a /dir/x"}},
		{"refresh", `<meta http-equiv=Refresh content="1;URL='x y'">`, Options{}, []string{"meta /dir/x%20y"}},
		{"page nofollow", `<a href=x><meta name=ROBOTS content="index,NoFollow">`, Options{}, nil},
		{"page nofollow for us", `<a href=x><meta name=Kite content=none>`, Options{Token: "kite"}, nil},
		{"page nofollow for others", `<a href=x><meta name=kite content=none>`, Options{}, []string{"a /dir/x"}},
		{"page nofollow not obeyed", `<a href=x rel=nofollow><meta name=robots content=nofollow>`, Options{NoFollow: "none"}, []string{"a /dir/x nofollow"}},
		{"link nofollow obeyed", `<a href=x rel="a nofollow"><a href=y rel=nofollowing>`, Options{NoFollow: "all"}, []string{"a /dir/y nofollowing"}},
		{"unfinished tag", `<a href=x><a href=y`, Options{}, []string{"a /dir/x"}},
		{"NUL", "<a href='x\x00y'>", Options{}, []string{"a /dir/x%EF%BF%BDy"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := Parse(pageFacts, []byte(tt.html), tt.opts)
			if diff := cmp.Diff(tt.want, show(r.Links)); diff != "" {
				t.Error(diff)
			}
			law(t, pageFacts, []byte(tt.html), tt.opts, r)
			edgesLaw(t, pageFacts, []byte(tt.html), tt.opts, r)
		})
	}
}

func TestFacts(t *testing.T) {
	const body = `<title> A
		<b> &amp; C</title><title>D</title><link rel=canonical href=c><link rel=canonical href=d>
		<meta name=robots content=noindex><a href=mailto:a@b><a href="http://[">` + "<a href=x>"
	meta := &record.Meta{Title: "A <b> & C", Canonical: "https://example.org/dir/c", Robots: "noindex"}
	header := []string{"https://example.org/h"}
	long := strings.ReplaceAll(body, "href=x", "href="+strings.Repeat("y", 10_000))
	for _, tt := range []struct {
		name  string
		facts Facts
		body  string
		want  Result
	}{
		{"all", Facts{URL: pageURL, Media: "Text/HTML", HeaderLinks: header}, body, Result{
			Links: []Link{
				{header[0], "header", ""},
				{"https://example.org/dir/c", "link", "canonical"},
				{"https://example.org/dir/d", "link", "canonical"},
				{"https://example.org/dir/x", "a", ""},
			},
			Charset: "windows-1252", Meta: meta, NoIndex: true,
			NotFollowed: map[string]int{"scheme": 1, "syntax": 1},
		}},
		{"too long", pageFacts, long, Result{
			Links:   []Link{{"https://example.org/dir/c", "link", "canonical"}, {"https://example.org/dir/d", "link", "canonical"}},
			Charset: "windows-1252", Meta: meta, NoIndex: true,
			NotFollowed: map[string]int{"scheme": 1, "syntax": 1, "length": 1},
		}},
		{"nofollow header", Facts{URL: pageURL, Media: "text/html", HeaderLinks: header, NoFollow: true}, body, Result{
			Charset: "windows-1252", Meta: meta, NoIndex: true,
			NotFollowed: map[string]int{"scheme": 1, "syntax": 1, "nofollow": 4},
		}},
		{"not HTML", Facts{URL: pageURL, Media: "text/plain", HeaderLinks: header}, body, Result{Links: []Link{{header[0], "header", ""}}}},
		{"XHTML", Facts{URL: pageURL, Media: "application/xhtml+xml"}, `<title/><script src="s"/><![CDATA[<a href="no">]]><a href="x"/>`, Result{
			Links: []Link{{"https://example.org/dir/x", "a", ""}}, Charset: "utf-8",
		}},
		{"long script", Facts{URL: pageURL, Media: "text/html", Charset: "UTF-8"}, `<a href=x><script>` + strings.Repeat("x", scan.MaxToken) + `</script><a href=y>`, Result{
			Links: []Link{{"https://example.org/dir/x", "a", ""}, {"https://example.org/dir/y", "a", ""}}, Charset: "utf-8",
		}},
		{"long script of another encoding", Facts{URL: pageURL, Media: "text/html", Charset: "gbk"}, "<a href=x><script>\xb0\xa1" + strings.Repeat("x", scan.MaxToken) + `</script><a href=y>`, Result{
			Links: []Link{{"https://example.org/dir/x", "a", ""}, {"https://example.org/dir/y", "a", ""}}, Charset: "gbk",
		}},
		{"long tag", Facts{URL: pageURL, Media: "text/html", Charset: "UTF-8"}, `<a href=x><img src="` + strings.Repeat("x", scan.MaxToken) + `"><a title='` + strings.Repeat("x", scan.MaxToken) + `' href=z><a href=y>`, Result{
			Links: []Link{{"https://example.org/dir/x", "a", ""}, {"https://example.org/dir/y", "a", ""}}, Charset: "utf-8", Cut: true,
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := Parse(tt.facts, []byte(tt.body), Options{})
			if diff := cmp.Diff(tt.want, r); diff != "" {
				t.Error(diff)
			}
			law(t, tt.facts, []byte(tt.body), Options{}, r)
			edgesLaw(t, tt.facts, []byte(tt.body), Options{}, r)
		})
	}
}

func TestCharset(t *testing.T) {
	utf16 := func(s string) string { // little endian
		var b strings.Builder
		for _, r := range s {
			b.WriteByte(byte(r))
			b.WriteByte(byte(r >> 8))
		}
		return b.String()
	}
	for _, tt := range []struct{ name, label, body, charset, path string }{
		{"header", "ISO-8859-2", "<a href=\xb1>", "iso-8859-2", "%C4%85"},
		{"header before meta", "utf-8", "<meta charset=koi8-r><a href=\xc4\x85>", "utf-8", "%C4%85"},
		{"mark before header", "koi8-r", "\xef\xbb\xbf<a href=\xc4\x85>", "utf-8", "%C4%85"},
		{"unknown header", "x-nonsense", "<meta charset=iso-8859-2><a href=\xb1>", "iso-8859-2", "%C4%85"},
		{"meta", "", `<meta http-equiv=Content-Type content="text/html; charset=iso-8859-2">` + "<a href=\xb1>", "iso-8859-2", "%C4%85"},
		{"looks like UTF-8", "", "<a href=\xc4\x85>", "utf-8", "%C4%85"},
		{"looks like none", "", "<a href=\xe4>", "windows-1252", "%C3%A4"},
		{"not UTF-8 after all", "utf-8", "<a href=\xe4>", "utf-8", "%EF%BF%BD"},
		{"query in the page's encoding", "iso-8859-2", "<a href='\xb1?\xb1=1#\xb1'>", "iso-8859-2", "%C4%85?%B1=1"},
		{"character that the encoding lacks", "iso-8859-2", "<a href='?&euro;&auml;'>", "iso-8859-2", "page.html?%26%238364%3B%E4"},
		{"UTF-16", "", "\xff\xfe" + utf16("<a href=ą?ą>"), "utf-16le", "%C4%85?%C4%85"},
		{"UTF-16 by header", "utf-16le", utf16("<a href=ą?ą>"), "utf-16le", "%C4%85?%C4%85"},
		{"double bytes", "gb2312", "<a href='\xc4\xe3?\xc4\xe3'>", "gbk", "%E4%BD%A0?%C4%E3"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := pageFacts
			f.Charset = tt.label
			r := Parse(f, []byte(tt.body), Options{})
			if want := "https://example.org/dir/" + tt.path; r.Charset != tt.charset || len(r.Links) != 1 || r.Links[0].URL != want {
				t.Fatalf("charset %q, links %v; want %q, %s", r.Charset, r.Links, tt.charset, want)
			}
			law(t, f, []byte(tt.body), Options{}, r)
			edgesLaw(t, f, []byte(tt.body), Options{}, r)
		})
	}
}

// TestHostile reads pages made to cost much.
func TestHostile(t *testing.T) {
	const n, many = 20_000, 200_000
	for _, tt := range []struct {
		name, html string
		links      int
	}{
		{"links", strings.Repeat("<a href=x>", many), many},
		{"late base", strings.Repeat("<a href=x>", n) + "<base href=/b/>", n},
		{"nesting", strings.Repeat("<div><svg><table>", n) + "<a href=x>", 1},
		{"attributes", "<a " + strings.Repeat("href=x ", n) + "><a href=y>", 2},
		{"huge attribute", "<a href='" + strings.Repeat("x", 200_000) + "'><a href=y>", 1},
		{"huge name", "<" + strings.Repeat("x", 200_000) + "><a href=y>", 1},
		{"srcset", "<img srcset='" + strings.Repeat("x(,", n) + "'><a href=y>", 1},
		{"NULs", strings.Repeat("\x00<a\x00 href=x>\x00", n) + "<a href=y>", 1},
		{"slashes", strings.Repeat("<a href='é"+strings.Repeat("/", 4000)+"'>", 100), 0},
		{"unfinished", strings.Repeat("<a href='", n), 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := Parse(pageFacts, []byte(tt.html), Options{})
			if len(r.Links) != tt.links || r.Cut {
				t.Errorf("%d links, cut %v; want %d", len(r.Links), r.Cut, tt.links)
			}
		})
	}
}

func TestDirectives(t *testing.T) {
	for _, tt := range []struct {
		values            string // separated by bars
		noindex, nofollow bool
	}{
		{"", false, false},
		{"noindex", true, false},
		{" NoFollow ,noarchive", false, true},
		{"none", true, true},
		{"all|noindex", true, false},
		{"KITE: nofollow", false, true},
		{"other: noindex, nofollow", false, false},
		{"other: noindex, kite: nofollow", false, true},
		{"kite: nofollow, other: noindex", false, true},
		{"*: noindex", true, false},
		{"other: none|nofollow", false, true},
		{"unavailable_after: Wed, 25 Jun 2031 15:00:00 GMT, noindex", true, false},
		{"max-snippet: 20, nofollow", false, true},
		{"noindexing", false, false},
	} {
		noindex, nofollow := Directives(strings.Split(tt.values, "|"), "kite")
		if noindex != tt.noindex || nofollow != tt.nofollow {
			t.Errorf("%q: noindex %v, nofollow %v", tt.values, noindex, nofollow)
		}
	}
}

func TestHeaderLinks(t *testing.T) {
	for _, tt := range []struct {
		name, values string // separated by bars
		want         []string
	}{
		{"none", "", nil},
		{"next", "<b>; rel=next", []string{"/dir/b"}},
		{"several", `</a>;rel="prev NEXT" , <b,c>; title="x, <y>; rel=next\""; rel=canonical|<d>; rel=alternate; type=x`, []string{"/a", "/dir/b,c", "/dir/d"}},
		{"other rel", "<a>; rel=duplicate, <b>; REL = \"next\"", []string{"/dir/b"}},
		{"assets", "<a>; rel=preload; as=style, <b>; rel=\"alternate stylesheet\"", []string{"asset:/dir/a", "asset:/dir/b"}},
		{"declared types", "<a>; rel=alternate; type=\"application/JSON; x\", <b>; rel=\"alternate next\"; type=a/b, <c>; rel=alternate; type=\"a /b\"", []string{"application/json:/dir/a", "/dir/b", "/dir/c"}},
		{"first rel counts", "<a>; rel=prev; rel=next", nil},
		{"no rel", "<a>, <b>", nil},
		{"other context", "<a>; rel=next; anchor=/x, <b>; rel=next", []string{"/dir/b"}},
		{"not web", "<mailto:a>; rel=next, <http://[>; rel=next, <b>; rel=next", []string{"/dir/b"}},
		{"unfinished", "<a>; rel=next, <b", []string{"/dir/a"}},
		{"unfinished quote", `<a>; rel="next`, []string{"/dir/a"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, link := range HeaderLinks(pageURL, http.Header{"Link": strings.Split(tt.values, "|")}) {
				if link.Kept != "" {
					got = append(got, strings.Replace(link.Kept, "https://example.org", "", 1))
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRefresh(t *testing.T) {
	for in, want := range map[string]string{
		"0; url=x": "x", "5,x": "x", " 0.5 ;URL = 'x;y' z": "x;y", "1 x": "x", `0;url="x`: "x", "0; urlx": "urlx", ".5;x": "x",
		"0; url": "url", "30": "-", "": "-", "x": "-", "0;": "-", "-1; x": "-", "0x": "-", "0;url=": "",
	} {
		got, ok := refresh(in)
		if !ok {
			got = "-"
		}
		if got != want {
			t.Errorf("refresh(%q) = %q, want %q", in, got, want)
		}
	}
}

var linkTags = []string{
	"a", "area", "audio", "embed", "frame", "iframe", "img", "link", "meta", "object", "script", "source", "track", "video",
}

// knownFailures, by identifier, of all sets.
var knownFailures = []string{
	// A meta element made by a script.
	"E-tests1-55", "E-tests1-56", "E-tests1-57",
	// Tables of the encodings; iso-2022-jp has states, and queries are encoded by the character.
	"iso-2022-jp \x0eA", "iso-2022-jp ‾\\", "gb18030 \ue5e5", "shift_jis −",
}

func TestLinkCases(t *testing.T) {
	var cases []struct {
		ID, Name, Base, HTML string
		Links                []struct{ Tag, URL, Rel string }
		Tags                 []string
		PageRobots           string `json:"page_robots"`
	}
	readShared(t, "links/link_cases.json", &cases)
	for _, c := range cases {
		f := Facts{URL: c.Base, Media: "text/html"}
		r := Parse(f, []byte(c.HTML), Options{Assets: true, NoFollow: "none"})
		var want, got []string
		for _, l := range c.Links {
			if slices.Contains(linkTags, l.Tag) {
				want = append(want, l.Tag+" "+l.URL)
			}
		}
		for _, l := range r.Links {
			got = append(got, l.Element+" "+l.URL)
		}
		if slices.Contains(c.Tags, "free") {
			continue
		}
		diff := cmp.Diff(want, got)
		if known := slices.Contains(knownFailures, c.ID); known == (diff == "") {
			t.Errorf("%s %s: known failure %v\n%s", c.ID, c.Name, known, diff)
		}
		if noindex, nofollow := Directives([]string{c.PageRobots}, ""); r.NoIndex != noindex || r.NoFollow != nofollow {
			t.Errorf("%s %s: noindex %v, nofollow %v", c.ID, c.Name, r.NoIndex, r.NoFollow)
		}
		law(t, f, []byte(c.HTML), Options{Assets: true, NoFollow: "none"}, r)
		edgesLaw(t, f, []byte(c.HTML), Options{Assets: true, NoFollow: "none"}, r)
	}
}

func TestSrcsetCases(t *testing.T) {
	var cases []struct {
		ID, Srcset string
		Candidates []string
	}
	readShared(t, "srcset/srcset_cases.json", &cases)
	for _, c := range cases {
		ok := slices.Equal(srcset(c.Srcset), c.Candidates)
		if known := slices.Contains(knownFailures, c.ID); ok == known {
			t.Errorf("%s: srcset(%q) = %q, want %q; known failure %v", c.ID, c.Srcset, srcset(c.Srcset), c.Candidates, known)
		}
	}
}

func TestEncodingCases(t *testing.T) {
	var cases []struct {
		ID, Encoding string
		Data         string `json:"data_b64"`
		Tags         []string
	}
	readShared(t, "encoding/html5lib_cases.json", &cases)
	for _, c := range cases {
		body, err := base64.StdEncoding.DecodeString(c.Data)
		if err != nil {
			t.Fatal(err)
		}
		r := Parse(pageFacts, body, Options{})
		law(t, pageFacts, body, Options{}, r)
		edgesLaw(t, pageFacts, body, Options{}, r)
		_, want := charset.Lookup(c.Encoding)
		known := slices.Contains(knownFailures, c.ID)
		if known && len(c.Tags) == 0 {
			t.Errorf("%s must pass: it has none of the two tags", c.ID)
		}
		if ok := r.Charset == want; ok == known {
			t.Errorf("%s %v: charset %q, want %q; known failure %v", c.ID, c.Tags, r.Charset, want, known)
		}
	}
}

func TestEncodingLabels(t *testing.T) {
	var groups []struct {
		Encodings []struct {
			Name   string
			Labels []string
		}
	}
	readShared(t, "encoding/whatwg-encodings.json", &groups)
	for _, g := range groups {
		for _, e := range g.Encodings {
			for _, label := range e.Labels {
				f := pageFacts
				f.Charset = label
				body := []byte("<a href=x><a href='\xe4\xc4\x85?\xe4\xc4\x85'>")
				r := Parse(f, body, Options{})
				if !strings.EqualFold(r.Charset, e.Name) {
					t.Errorf("label %q gives %q, want %q", label, r.Charset, e.Name)
				}
				law(t, f, body, Options{}, r)
				edgesLaw(t, f, body, Options{}, r)
			}
		}
	}
}

// pageWithQuery makes a page in ASCII with one link that has this query.
func pageWithQuery(query string) []byte {
	page := "<a href='?"
	for _, r := range query {
		page += fmt.Sprintf("&#%d;", r)
	}
	return []byte(page + "'>")
}

func TestQueryCases(t *testing.T) {
	var cases []struct {
		Input  string
		Output map[string]string
	}
	readShared(t, "url/percent-encoding.json", &cases)
	n := 0
	for _, c := range cases {
		for label, want := range c.Output {
			n++
			r := Parse(Facts{URL: "http://example.org/", Media: "text/html", Charset: label}, pageWithQuery(c.Input), Options{})
			ok := len(r.Links) == 1 && r.Links[0].URL == "http://example.org/?"+want
			if known := slices.Contains(knownFailures, label+" "+c.Input); ok == known {
				t.Errorf("%q in %s: %s, want %s; known failure %v", c.Input, label, r.Links, want, known)
			}
		}
	}
	if n < 7 {
		t.Errorf("only %d cases", n)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`<title>x</title><base href=/b/><a href="x?y=é">`), "", true, "all")
	f.Add([]byte("\xff\xfe<\x00a\x00 \x00"), "utf-16be", false, "none")
	f.Add([]byte(`<svg><a xlink:href=x><meta http-equiv=refresh content="0;x"><img srcset="a 1x,b"><meta charset=big5>`), "gbk", true, "page")
	f.Add([]byte("<html lang=' a\x85b'><h1>a <br>b<script>x</script><h2>c\x00\xff</h3><meta property=og:description content='&#7; &nbsp;d'>"), "utf-8", false, "")
	f.Add([]byte("<noscript><plaintext><![CDATA[<meta name=robots content=none>"), "replacement", true, "")
	f.Fuzz(func(t *testing.T, body []byte, label string, assets bool, nofollow string) {
		o := Options{Token: "kite", Assets: assets, NoFollow: nofollow}
		for _, media := range []string{"text/html", "application/xhtml+xml"} {
			facts := Facts{URL: pageURL, Media: media, Charset: label}
			r := Parse(facts, body, o)
			if diff := cmp.Diff(r, Parse(facts, body, o)); diff != "" {
				t.Errorf("a second time:\n%s", diff)
			}
			law(t, facts, body, o, r)
			edgesLaw(t, facts, body, o, r)
		}
		for _, link := range HeaderLinks(pageURL, http.Header{"Link": {string(body)}, "Refresh": {label}}) {
			url := link.URL
			if again, err := weburl.Canonical(url); again != url || err != nil {
				t.Errorf("header link %q is not canonical", url)
			}
		}
		Directives([]string{string(body)}, label)
	})
}

func FuzzSrcset(f *testing.F) {
	f.Add("a 1x, b 2x")
	f.Add(",a,b (1x, 2x) , c 5w 4h,\td -0.1e+2x,,e,f")
	f.Fuzz(func(t *testing.T, s string) {
		refs := srcset(s)
		for _, ref := range refs {
			if ref == "" || strings.ContainsAny(ref, space) || strings.Trim(ref, ",") != ref || !strings.Contains(s, ref) {
				t.Errorf("srcset(%q) has %q", s, ref)
			}
		}
		if again := srcset(strings.Join(refs, " , ")); !slices.Equal(again, refs) {
			t.Errorf("srcset(%q) = %q, of these %q", s, refs, again)
		}
		r := Parse(pageFacts, fmt.Appendf(nil, "<img srcset='%s'>", html.EscapeString(s)), Options{Assets: true})
		if n := r.NotFollowed; len(r.Links)+n["scheme"]+n["syntax"]+n["length"] < len(srcset(strings.ToValidUTF8(s, "\ufffd"))) && !strings.ContainsAny(s, "\r\x00") {
			t.Errorf("srcset %q: %d links of %d", s, len(r.Links), len(refs))
		}
	})
}

func BenchmarkParse(b *testing.B) {
	var page strings.Builder
	page.WriteString("<title>x</title>")
	for i := range 90 {
		fmt.Fprintf(&page, "<li class=item><a class='link' href=\"../wiki/Page_%d?action=view#top\" title='Page'>Page %d</a> %s\n", i, i, strings.Repeat("text ", 40))
	}
	body := []byte(page.String())
	b.SetBytes(int64(len(body)))
	f := pageFacts
	f.Charset = "utf-8"
	for b.Loop() {
		Parse(f, body, Options{})
	}
}

func readShared(t *testing.T, name string, into any) {
	t.Helper()
	dir := os.Getenv("SHARED")
	if dir == "" {
		dir = "../../../shared"
	}
	data, err := os.ReadFile(filepath.Join(dir, "conformance", name))
	if errors.Is(err, os.ErrNotExist) {
		t.Skipf("no shared conformance data: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatal(err)
	}
}

// TestManyLinks: of a page with more links than memory may hold the first ones count, by number
// or by bytes, and the page says so. What counts depends on the page alone.
func TestManyLinks(t *testing.T) {
	if testing.Short() {
		t.Skip("a page with too many links: not with -short")
	}
	var b bytes.Buffer
	for i := range maxRefs + 10 {
		fmt.Fprintf(&b, "<a href=%d>", i)
	}
	for _, tt := range []struct {
		name, url string
		most      int
	}{
		{"number", "http://a.org/", maxRefs},
		{"bytes", "http://a.org/" + strings.Repeat("x", 2000) + "/", maxLinkBytes/2000 + 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := Parse(Facts{URL: tt.url, Media: "text/html"}, b.Bytes(), Options{})
			if !r.Cut || len(r.Links) > tt.most || len(r.Links) < tt.most*9/10 {
				t.Errorf("%d links, cut %v; want at most %d", len(r.Links), r.Cut, tt.most)
			}
		})
	}
	whole := b.Bytes()[:bytes.LastIndexByte(b.Bytes()[:b.Len()-200], '<')]
	if r := Parse(Facts{URL: "http://a.org/", Media: "text/html"}, whole, Options{}); r.Cut || len(r.Links) > maxRefs {
		t.Errorf("%d links, cut %v: none too many", len(r.Links), r.Cut)
	}
}

// TestFeed: the links of a feed are those of its items, whatever XML media type it has; other
// XML and JSON has none.
func TestFeed(t *testing.T) {
	const rss = `<rss><channel><link>/no</link><item><link>/a</link></item><item><link>mailto:x</link></item></channel></rss>`
	for _, tt := range []struct {
		name, media, body string
		f                 Facts
		want              string
	}{
		{"RSS", "application/rss+xml", rss, Facts{}, "header:https://h.test/h feed:https://h.test/a"},
		{"RSS as XML", "Text/XML", rss, Facts{}, "header:https://h.test/h feed:https://h.test/a"},
		{"RSS as text", "text/plain", rss, Facts{}, "header:https://h.test/h"},
		{"Atom", "application/atom+xml", `<feed><entry><link href="../b"/></entry></feed>`, Facts{}, "header:https://h.test/h feed:https://h.test/b"},
		{"JSON", "application/json", `{"version":"https://jsonfeed.org/version/1","items":[{"url":"c"}]}`, Facts{}, "header:https://h.test/h feed:https://h.test/f/c"},
		{"nofollow", "application/rss+xml", rss, Facts{NoFollow: true}, ""},
		{"sitemap", "application/xml", `<urlset><url><loc>/a</loc></url></urlset>`, Facts{}, "header:https://h.test/h"},
		{"other JSON", "application/json", `{"items":[{"url":"c"}]}`, Facts{}, "header:https://h.test/h"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.f.URL, tt.f.Media, tt.f.HeaderLinks = "https://h.test/f/x.xml", tt.media, []string{"https://h.test/h"}
			res := Parse(tt.f, []byte(tt.body), Options{})
			var got []string
			for _, l := range res.Links {
				got = append(got, l.Element+":"+l.URL)
			}
			if strings.Join(got, " ") != tt.want || res.Cut || res.Charset != "" || res.Meta != nil {
				t.Errorf("%q, %+v; want %s", got, res, tt.want)
			}
			if again := Parse(tt.f, []byte(tt.body), Options{}); !reflect.DeepEqual(again, res) {
				t.Errorf("a second time %+v, first %+v", again, res)
			}
		})
	}
}

// full reports whether tests that take long run too.
func full() bool { return os.Getenv("TEST_URLTREE_FULL") != "" }
