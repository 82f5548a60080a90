package article

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/net/html"

	"urltree/internal/extract"
)

const most = 1 << 20

var page = extract.Facts{Media: "text/html", Charset: "utf-8"}

func main(body string) string { return string(AppendText(nil, page, []byte(body), most)) }

func plain(body string) string { return string(extract.AppendText(nil, page, []byte(body), most)) }

// sentences are of an article: long enough, more than 140 bytes each, and with commas, by which it
// is found.
func sentences(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "<p>In the year %d, as far as is known, the lighthouse burnt for <b>%d</b> nights, and no ship was lost on the rocks before the coast, as old men of the village say.</p>\n", 1700+i, 100+i)
	}
	return b.String()
}

const (
	before = `<!doctype html><html lang=en><title>Of ships and rocks</title><body><div class=menu><ul><li><a href=/>Home</a><li><a href=/all>All</a><li><a href=/new>News of the week</a></ul></div>
<div id=sidebar class=sidebar><p>Buy postcards, mugs, and lamps.</p></div><div class=content><h1>The lighthouse</h1>`
	behind = `</div><div class=footer><p>Copyright, all rights kept, <a href=/law>law</a></p></div><script>var a = "script"</script>`
)

// TestMainText: the main text is the article without what surrounds it, in lines as all of the text
// has them.
func TestMainText(t *testing.T) {
	article := sentences(12)
	want := plain("<h1>The lighthouse</h1>" + article)
	body := before + article + behind
	if got := main(body); got != want {
		t.Errorf("%q\nwant %q", got, want)
	}
	if all := plain(body); !strings.Contains(all, "postcards") || !strings.Contains(all, "Home") {
		t.Errorf("all of the text: %q", all)
	}
	if got := string(AppendText([]byte("x"), page, []byte(body), 20)); got != "x"+want[:20] {
		t.Errorf("%q", got)
	}
}

// TestProgram: the comments of a program are part of the article, unlike those of readers.
func TestProgram(t *testing.T) {
	program := `<pre><code><span class="comment">// twice a night</span>
light()</code></pre>`
	readers := `<div class="comment"><p>Nice, very nice, says a reader of this page.</p></div>`
	got := main(before + sentences(12) + program + readers + behind)
	if !strings.Contains(got, "// twice a night\nlight()") || strings.Contains(got, "Nice") {
		t.Errorf("%q", got)
	}
}

// TestAnchors: what follows an anchor that XHTML closes and HTML does not is no link.
func TestAnchors(t *testing.T) {
	sections := sentences(12)
	for i := range 3 {
		sections += fmt.Sprintf(`<div class="section"><h2><a id="part%d"/>Part %d</h2>%s</div>`, i, i, sentences(2))
	}
	want := plain("<h1>The lighthouse</h1>" + sections)
	if got := main(before + sections + behind); got != want {
		t.Errorf("%q\nwant %q", got, want)
	}
}

// TestCharset: a page is read in its own encoding.
func TestCharset(t *testing.T) {
	body := strings.ReplaceAll(before+sentences(12)+behind, "lighthouse", "ph\xe9re")
	for _, f := range []extract.Facts{{Media: "Text/HTML", Charset: "iso-8859-1"}, {Media: "text/html"}} {
		if got := string(AppendText(nil, f, []byte(body), most)); !strings.HasPrefix(got, "The phére\n") || strings.Contains(got, "postcards") {
			t.Errorf("%v: %q", f, got)
		}
	}
}

// TestAllOfTheText: where no article is found, the main text is all of it.
func TestAllOfTheText(t *testing.T) {
	article := sentences(12)
	for name, tt := range map[string]struct {
		media, body string
	}{
		"plain text":      {"text/plain", before + article},
		"XHTML":           {"application/xhtml+xml", before + article + behind},
		"another type":    {"application/pdf", before + article},
		"nothing":         {"text/html", ""},
		"a page of links": {"text/html", `<h1>Parts of the manual</h1>` + strings.Repeat(`<p><a href=/a>One part</a>, where it begins`, 40) + `<div class=footer>Copyright, all rights kept, by the authors of the manual, who may be asked, under the terms of the licence that comes with it.</div>`},
		"only a menu":     {"text/html", `<ul><li><a href=/>Home</a><li><a href=/all>All</a></ul>`},
		"deep":            {"text/html", before + strings.Repeat("<div>", 600) + article},
		"large":           {"text/html", before + article + behind + "<!--" + strings.Repeat("x", mostBody) + "-->"},
		"dear":            {"text/html", before + strings.Repeat("<div>", 400) + article + strings.Repeat("<p>more, and more", 10_000)},
		"frames":          {"text/html", "<frameset><frame src=a><noframes>none</noframes></frameset>"},
	} {
		f := extract.Facts{Media: tt.media, Charset: "utf-8"}
		got := string(AppendText(nil, f, []byte(tt.body), most))
		if want := string(extract.AppendText(nil, f, []byte(tt.body), most)); got != want {
			t.Errorf("%s: %.200q\nwant %.200q", name, got, want)
		}
	}
}

// TestBounds: no page makes the parser open elements again in each paragraph, compare the
// attributes of html elements with each other, or compare headings with a long title.
func TestBounds(t *testing.T) {
	var elements, roots strings.Builder
	for n := range 400 {
		fmt.Fprintf(&elements, "<%s a=%d>", []string{"b", "FONT", "i\n", "small"}[n%4], n)
		if n < 100 {
			fmt.Fprintf(&roots, "<html a%d><body\tb%d>", n, n)
		}
	}
	for name, tt := range map[string]struct {
		body string
		most int // nodes
	}{
		"formatting":                  {elements.String() + strings.Repeat("<p>x", 1000), 4000},
		"formatting in a drawing":     {"<svg><title>" + elements.String() + "</title></svg>" + strings.Repeat("<p>x", 1000), 4000},
		"formatting behind a comment": {"<!-->" + elements.String() + strings.Repeat("<p>x", 1000), 4000},
		"roots":                       {roots.String(), 4000},
	} {
		root, err := html.Parse(bytes.NewReader(calmed([]byte(tt.body))))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		nodes := 0
		for n := range root.Descendants() {
			nodes++
			if (n.Data == "html" || n.Data == "body") && len(n.Attr) > mostRoots {
				t.Errorf("%s: %d attributes", name, len(n.Attr))
			}
		}
		if nodes > tt.most {
			t.Errorf("%s: %d nodes of %d bytes", name, nodes, len(tt.body))
		}
	}
	long := strings.Repeat("word ", 1000)
	root, err := html.Parse(strings.NewReader("<title>" + long + "</title><meta property=og:title content='" + long + "'>" + before))
	if err != nil {
		t.Fatal(err)
	}
	if !affordable(root) {
		t.Error("a small page costs too much")
	}
	for n := range root.Descendants() {
		if n.Type == html.TextNode && len(n.Data) > mostTitle || len(n.Attr) > 1 && len(n.Attr[1].Val) > mostTitle {
			t.Errorf("a title of %d bytes", len(n.Data))
		}
	}
	if root, err = html.Parse(strings.NewReader(before + strings.Repeat("<h2>a</h2>", 10_000))); err != nil || affordable(root) {
		t.Errorf("ten thousand headings do not cost too much: %v", err)
	}
}

// TestCalmed: nothing but the names of elements that count for nothing is changed.
func TestCalmed(t *testing.T) {
	for _, tt := range [][2]string{
		{"", ""},
		{"<", "<"},
		{"a<b>c</B>d", "a<span>c</span>d"},
		{"<b", "<b"}, // no tag
		{"<strong\nclass=a>x</strong >", "<span\nclass=a>x</span >"},
		{"<br><base><body><u/><ul><bdi></><//b>", "<br><base><body><span/><ul><bdi></><//b>"},
		{"<<i>", "<<span>"},
		{"<CODE class=a>x</code>", "<x-code class=a>x</x-code>"},
		{strings.Repeat("<html>", mostRoots+1), strings.Repeat("<html>", mostRoots) + "<span>"},
		{"</body><HTML lang=en>", "</body><HTML lang=en>"},
	} {
		if got := string(calmed([]byte(tt[0]))); got != tt[1] {
			t.Errorf("%q: %q, want %q", tt[0], got, tt[1])
		}
	}
}

func TestLanguage(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "12345 67 890": "", "ok": "",
		"The old lighthouse stands on a rock before the coast, and nobody has lived in it for a long time.":    "en",
		"Der alte Leuchtturm steht auf einem Felsen vor der Küste, und seit langem wohnt niemand mehr darin.":  "de",
		"Le vieux phare se dresse sur un rocher devant la côte, et personne n'y habite plus depuis longtemps.": "fr",
		"Старый маяк стоит на скале у берега, и в нём уже давно никто не живёт, только чайки летают над водой, да рыбаки заходят сюда в плохую погоду, чтобы переждать бурю.": "ru",
		"古い灯台は海岸の前の岩の上に立っています。":         "ja",
		"古老的灯塔矗立在海岸前的岩石上。":              "zh",
		strings.Repeat("ä", mostSample): "",
	} {
		if got := Language(text); got != want {
			t.Errorf("%.40q: %q, want %q", text, got, want)
		}
	}
}

// FuzzAppendText: no page makes it panic, and a text is clean and within its bound.
func FuzzAppendText(f *testing.F) {
	f.Add(before+sentences(8)+behind, 100)
	f.Add("<table><b><tr><p>x</b><title>y", 5)
	f.Fuzz(func(t *testing.T, body string, most int) {
		most = min(max(most, 0), 10_000)
		text := AppendText(nil, page, []byte(body), most)
		if len(text) > most || !utf8.Valid(text) || bytes.Contains(text, []byte("\n\n")) {
			t.Errorf("%q", text)
		}
		_ = Language(string(text))
	})
}

func BenchmarkAppendText(b *testing.B) {
	body := []byte(before + sentences(200) + behind)
	for name, fn := range map[string]func([]byte, extract.Facts, []byte, int) []byte{"plain": extract.AppendText, "main": AppendText} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			var text []byte
			for b.Loop() {
				text = fn(text[:0], page, body, most)
			}
		})
	}
	b.Run("language", func(b *testing.B) {
		text := plain(string(body))
		for b.Loop() {
			Language(text)
		}
	})
}
