package extract

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"urltree/storage/record"
)

// metaLaw checks what holds for all metadata: nothing is too long, and each text is one clean line.
func metaLaw(t *testing.T, m *record.Meta) {
	t.Helper()
	if m == nil {
		return
	}
	texts := 0
	for i, text := range m.LinkTexts {
		texts += len(text)
		if text == "" || slices.Contains(m.LinkTexts[:i], text) {
			t.Errorf("link text %d: %q is empty or a repeat", i, text)
		}
	}
	if m.Size() == 0 || m.Size()-texts > maxMeta || texts > maxLinkTexts || len(m.Headings) > maxHeadings {
		t.Errorf("%d bytes, %d of links, %d headings", m.Size(), texts, len(m.Headings))
	}
	check := func(what, text string, most int) {
		t.Helper()
		if len(text) > most || new(page).oneLine([]byte(text), most) != text || text != strings.TrimSpace(text) {
			t.Errorf("%s: %q", what, text)
		}
	}
	check("title", m.Title, maxText)
	check("description", m.Description, maxText)
	check("language", m.Language, maxLanguage)
	check("canonical", m.Canonical, maxCanonical)
	check("robots", m.Robots, maxDirectives)
	check("robots header", m.RobotsHeader, maxDirectives)
	for _, h := range m.Headings {
		check("heading", h.Text, maxHeading)
		if h.Text == "" || h.Level < 1 || h.Level > 3 {
			t.Errorf("heading %+v", h)
		}
	}
	for _, text := range m.LinkTexts {
		check("link text", text, maxLinkText)
	}
}

func TestMeta(t *testing.T) {
	h := func(level uint8, text string) record.Heading { return record.Heading{Level: level, Text: text} }
	headings := func(list ...record.Heading) record.Meta { return record.Meta{Headings: list} }
	links := func(texts ...string) record.Meta { return record.Meta{LinkTexts: texts} }
	html := Facts{URL: pageURL, Media: "text/html", Charset: "utf-8"}
	with := func(change func(*Facts)) Facts {
		f := html
		change(&f)
		return f
	}
	for _, tt := range []struct {
		name  string
		facts Facts
		html  string
		want  record.Meta
	}{
		{"nothing", html, `<p>text<title> </title><h1></h1><meta name=description><meta name=robots content=" , ">`, record.Meta{}},
		{
			"everything", html, `<html lang=en-GB><title>T</title><meta name=Description content=D><meta name=robots content="noarchive, max-snippet:9">` +
				`<link rel=canonical href=/c><h1>A</h1><h2>B</h2><h3>C</h3><h4>no</h4>`,
			record.Meta{
				Title: "T", Description: "D", Language: "en-GB", Canonical: "https://example.org/c", Robots: "noarchive, max-snippet:9",
				Headings: []record.Heading{h(1, "A"), h(2, "B"), h(3, "C")},
			},
		},
		{"not HTML", with(func(f *Facts) { f.Media, f.Language = "text/plain", "de" }), `<title>T</title>`, record.Meta{}},
		{"XHTML", with(func(f *Facts) { f.Media = "application/xhtml+xml" }), `<html xml:lang="de"><title/><h1/>x<h2>A<script/>B</h2>`, record.Meta{Language: "de", Headings: []record.Heading{h(2, "AB")}}},

		{"white space and control characters", html, "<title>\n a\t\u00a0\u2028b\x07\u0085 c\u009b\n</title>", record.Meta{Title: "a b c"}},
		{"character references", html, "<title>&lt;&auml;&#x1f600;&#27;&#0;</title><h1>&amp;amp;</h1><meta name=description content='&quot;'>", record.Meta{Title: "<ä😀\ufffd", Description: `"`, Headings: []record.Heading{h(1, "&amp;")}}},
		{"charset", with(func(f *Facts) { f.Charset = "koi8-r" }), "<title>\xf4</title><h1>\xf4</h1><meta name=description content=\xf4>", record.Meta{Title: "Т", Description: "Т", Headings: []record.Heading{h(1, "Т")}}},
		{"not UTF-8 after all", html, "<title>a\xffb</title>", record.Meta{Title: "a\ufffdb"}},

		{"first title that has text", html, `<svg><title>no</title></svg><title> </title><title>A<b></title><title>B</title>`, record.Meta{Title: "A<b>"}},
		{"first description", html, `<meta name=description content=" "><meta name=description content=A><meta name=description content=B>`, record.Meta{Description: "A"}},
		{"og:description", html, `<meta property=og:description content=O>`, record.Meta{Description: "O"}},
		{"og:description as name", html, `<meta name=OG:description content=O>`, record.Meta{Description: "O"}},
		{"description before og:description", html, `<meta property=og:description content=O><meta name=description content=D>`, record.Meta{Description: "D"}},

		{"language of the page first", with(func(f *Facts) { f.Language = "de" }), `<html lang=en><html lang=fr>`, record.Meta{Language: "en"}},
		{"language of the header", with(func(f *Facts) { f.Language = " de " }), `<html lang="">`, record.Meta{Language: "de"}},
		{"several languages", with(func(f *Facts) { f.Language = "de, en" }), `<title>T</title>`, record.Meta{Title: "T"}},

		{
			"robots of page and header", with(func(f *Facts) { f.Robots = []string{"googlebot: none", "", "noarchive"} }), `<meta name=robots content=all><meta name=Kite content=nosnippet><meta name=googlebot content=none>`,
			record.Meta{Robots: "all, nosnippet", RobotsHeader: "googlebot: none, noarchive"},
		},
		{"canonical of a base behind it", html, `<link rel=canonical href=c><base href=/b/><link rel=canonical href=d>`, record.Meta{Canonical: "https://example.org/b/c"}},
		{"canonical that is no URL", html, `<link rel=canonical href=mailto:x><link rel=canonical href=d>`, record.Meta{Canonical: "https://example.org/dir/d"}},
		{"canonical too long", html, `<link rel=canonical href=` + strings.Repeat("c", maxCanonical) + `>`, record.Meta{}},

		{"markup in a heading", html, "<h1 id=x>A <i href=y>b<em>c</em></i><!-- no -->\n<img alt=no>d<br>e<p>f</h1>g", headings(h(1, "A bc d e f"))},
		{"scripts and styles", html, `<h1>A<script>no</script><style>no</style><textarea>no</textarea><svg><title>no</title><text>no</text></svg>B<script></script>C</h1>`, headings(h(1, "ABC"))},
		{"title in a heading", html, `<h1>A<title>T</title>B</h1>`, record.Meta{Title: "T", Headings: []record.Heading{h(1, "AB")}}},
		{"headings not ended", html, `<h1>A<h2>B<h3> <h2>C</h1>no<h4>no<h1>D`, headings(h(1, "A"), h(2, "B"), h(2, "C"), h(1, "D"))},
		{"other names", html, `<h0>no</h0><h7>no</h7><hr>no<header>no</header><hx>no</hx>`, record.Meta{}},
		{"link texts", html, "<p>no<a href=x>\n A&amp; <b>b</b>\u00a0<!-- no -->c </a>no<a href>D</a>", links("A& b c", "D")},
		{"link text in a heading", html, "<h1>A <a href=x>b</a> c</h1>", record.Meta{Headings: []record.Heading{h(1, "A b c")}, LinkTexts: []string{"b"}}},
		{"each link text once", html, "<a href=x>A</a><a href=y>A b</a><a href=y> A</a><a href=z>b</a><a href=z>A  b</a>", links("A", "A b", "b")},
		{"links that are none", html, "<a>no</a><a name=x>no</a><area alt=no><img alt=no><a href=x></a><a href=x> <img alt=no></a>", record.Meta{}},
		{"links not ended", html, "<a href=x>A<a href=y>B<a name=z>no<a href=z>C", links("A", "B", "C")},
		{"lines of a link text", html, "<a href=x><h4>A</h4><p>b<br>c<div>d</div><li>e</li>f<td>g</a>", links("A b c d e f g")},
		{"no text of a link", html, "<a href=x>A<script>no</script><style>no</style><title> </title><textarea>no</textarea><svg><text>no</text></svg>B</a>", links("AB")},
		{"areas", html, "<area href=x alt=' A\nb'><a href=y>C<area href=z alt=D>E</a><area href=z><area href=z alt=' '>", links("A b", "D", "CE")},
		{"link by xlink:href", html, "<a xlink:href=x>A</a>", links("A")},
		{"links not followed", html, "<a href=mailto:x>A</a><a href=y rel=nofollow>B</a>", links("A", "B")},
		{"empty element a", with(func(f *Facts) { f.Media = "application/xhtml+xml" }), `<a href="x"/>no<a href="y">A<br/>b</a>`, links("A b")},
		{"in comments and scripts", html, `<!--<h1>no</h1>--><script>"<h1>no</h1>"</script>`, record.Meta{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := Parse(tt.facts, []byte(tt.html), Options{Token: "kite", NoFollow: "none"})
			var got record.Meta
			if r.Meta != nil {
				got = *r.Meta
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			law(t, tt.facts, []byte(tt.html), Options{Token: "kite", NoFollow: "none"}, r)
		})
	}
}

// However much a page says, what is kept is bounded, cut between characters, and costs no more
// than the page.
func TestMetaBounds(t *testing.T) {
	const n = 50_000
	much := strings.Repeat("äß ", n)
	for _, tt := range []struct {
		name, html string
		size       int
		headings   int
	}{
		{"title", "<title>" + much + "</title>", 499, 0}, // of 500 the last would be half a character
		{"description", "<meta name=description content='" + much + "'>", 499, 0},
		{"language", "<html lang='" + much + "'>", 99, 0},
		{"robots", "<meta name=robots content='" + much + "'>", 299, 0},
		{"robots, many", strings.Repeat("<meta name=robots content=x>", n), 298, 0},
		{"heading", "<h1>" + much, 199, 1},
		{"heading in parts", "<h1>" + strings.Repeat("x<b>", n), maxHeading, 1},
		{"headings", strings.Repeat("<h1>x", n), maxHeadings, maxHeadings},
		{"long headings", strings.Repeat("<h2>"+strings.Repeat("x", maxHeading), n/100), 20 * maxHeading, maxHeadings},
		{"white space", "<h1>" + strings.Repeat(" \x07", n) + "x", 1, 1},
		{"link text", "<a href=x>" + much, 99, 0},
		{"link text in parts", "<a href=x>" + strings.Repeat("x<b>", n), maxLinkText, 0},
		{"link texts, counted with what parts them", numbered(n / 10), 1507, 0},
		{"the same link text", strings.Repeat("<a href=x>A", n), 1, 0},
		{"area", "<area href=x alt='" + much + "'>", 99, 0},
		{
			"all at once", "<html lang='" + much + "'><title>" + much + "</title><meta name=description content='" + much + "'>" +
				"<meta name=robots content='" + much + "'><link rel=canonical href=/" + strings.Repeat("c", maxCanonical-20) + ">" +
				strings.Repeat("<h1>"+strings.Repeat("x", maxHeading), maxHeadings), 499 + 499 + 99 + 299 + 2048 + 600, 3,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := Facts{URL: pageURL, Media: "text/html", Charset: "utf-8"}
			r := Parse(f, []byte(tt.html), Options{})
			if r.Meta == nil || r.Meta.Size() != tt.size || len(r.Meta.Headings) != tt.headings {
				t.Errorf("%d bytes, %d headings; want %d, %d", r.Meta.Size(), len(r.Meta.Headings), tt.size, tt.headings)
			}
			metaLaw(t, r.Meta)
		})
	}
}

// FuzzMeta: whatever a page and its header say, the metadata are bounded and clean, and the same
// whichever of its links count.
func FuzzMeta(f *testing.F) {
	f.Add([]byte("<html lang=' a\x85b'><title>A<b></title><h1>c <br>d<script>x</script><h2>e\x00\xff</h3><a href=x>f <p>g<a href>h"), "utf-8", "de", "all, none", false)
	f.Add([]byte(`<meta name=description content="&#7; &nbsp;d"><meta property=og:description content=e><area href=x alt="a b"><a href="x"/>y`), "", "", "x: y", true)
	f.Add([]byte(`<svg><a xlink:href=x>A<title>B</title></a></svg><a href=x>C<svg><a/></svg>D</a><link rel=canonical href=c>`), "koi8-r", "a,b", "", true)
	f.Fuzz(func(t *testing.T, body []byte, label, language, robots string, xhtml bool) {
		facts := Facts{URL: pageURL, Media: "text/html", Charset: label, Language: language, Robots: []string{robots, robots}}
		if xhtml {
			facts.Media = "application/xhtml+xml"
		}
		navigation := Parse(facts, body, Options{NoFollow: "all"})
		assets := Parse(facts, body, Options{Assets: true, NoFollow: "none"})
		metaLaw(t, navigation.Meta)
		metaLaw(t, assets.Meta)
		for _, r := range []*Result{&navigation, &assets} {
			r.Links, r.NotFollowed = nil, nil
			if r.Meta != nil {
				r.Meta.Canonical = "" // of a link that is an asset too
				if r.Meta.Size() == 0 {
					r.Meta = nil
				}
			}
		}
		if diff := cmp.Diff(navigation, assets); diff != "" {
			t.Errorf("with assets:\n%s", diff)
		}
	})
}

// numbered makes n links of which each has a text of its own.
func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "<a href=x>%d", i)
	}
	return b.String()
}

// BenchmarkParseMeta reads a page with all that metadata come from.
func BenchmarkParseMeta(b *testing.B) {
	var page strings.Builder
	page.WriteString(`<!DOCTYPE html><html lang=en><head><title>A page &amp; its title</title><meta name=description content="What it is about.">` +
		`<meta name=robots content="index, follow"><link rel=canonical href="/page"></head><body><h1>Page</h1>`)
	for i := range 20 {
		fmt.Fprintf(&page, "<h2 id=s%d>Section <a href=#s%d>%d</a></h2>\n<p>%s\n", i, i, i, strings.Repeat("text ", 200))
	}
	body := []byte(page.String())
	b.SetBytes(int64(len(body)))
	f := pageFacts
	f.Charset = "utf-8"
	for b.Loop() {
		Parse(f, body, Options{})
	}
}
