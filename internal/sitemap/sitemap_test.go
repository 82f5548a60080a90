package sitemap

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"urltree/crawler/weburl"
)

const here = "https://site.test/sitemap.xml"

// read returns all that Read finds.
func read(t testing.TB, url string, body []byte, o Options) ([]string, Result) {
	t.Helper()
	var locs []string
	res, err := Read(url, bytes.NewReader(body), o, func(loc string) error {
		locs = append(locs, loc)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if res.Locs != len(locs) {
		t.Errorf("%d locs counted, %d given", res.Locs, len(locs))
	}
	if kind := Detect(body); kind != res.Kind {
		t.Errorf("Detect says %v, Read %v", kind, res.Kind)
	}
	for _, loc := range locs {
		if again, err := weburl.Canonical(loc); again != loc {
			t.Errorf("%q is not canonical: %q, %v", loc, again, err)
		}
	}
	return locs, res
}

func pack(t testing.TB, body string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, body); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestConformance holds all shared sitemaps, feeds and look-alikes against what they must give.
func TestConformance(t *testing.T) {
	root := os.Getenv("SHARED")
	if root == "" {
		root = filepath.Join("..", "..", "..", "shared")
	}
	dir := filepath.Join(root, "conformance", "sitemaps")
	text, err := os.ReadFile(filepath.Join(dir, "expected.json"))
	if err != nil {
		t.Skip("needs shared test data: ", err)
	}
	var cases []struct {
		File         string
		Kind         string
		FetchedFrom  string `json:"fetched_from"`
		Locs         []string
		FirstLocFree bool `json:"first_loc_free"`
	}
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.File, func(t *testing.T) {
			body, err := os.ReadFile(filepath.Join(dir, c.File))
			if err != nil {
				t.Fatal(err)
			}
			got, res := read(t, c.FetchedFrom, body, Options{})
			if res.Kind.String() != c.Kind {
				t.Errorf("kind %v, want %s", res.Kind, c.Kind)
			}
			var want []string
			for _, loc := range c.Locs {
				loc, err := weburl.Canonical(loc)
				if err != nil {
					t.Fatal(err)
				}
				want = append(want, loc)
			}
			got = slices.Compact(got)
			if c.FirstLocFree && len(got) == len(want)+1 {
				got = got[1:]
			}
			if !slices.Equal(got, want) {
				t.Error(cmp.Diff(want, got))
			}
			if res.Cut {
				t.Error("cut")
			}
		})
	}
}

func TestRead(t *testing.T) {
	const set = `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">`
	for _, tt := range []struct {
		name, body string
		kind       Kind
		want       string // paths at site.test, or whole URLs
		skipped    int
		cut        bool
	}{
		{"nothing", "", None, "", 0, false},
		{"white space", " \n\t", None, "", 0, false},
		{"page", "<!DOCTYPE html><html><body><urlset><url><loc>/a</loc></url></urlset>", None, "", 0, false},
		{"text that is no list", "Not found.\nhttps://site.test/a\n", None, "", 0, false},
		{"empty set", set + "</urlset>", URLSet, "", 0, false},
		{"set that ends at once", "<urlset/>", URLSet, "", 0, false},
		{"capitals", "<URLSET><URL><LOC>/a</LOC></URL></URLSET>", URLSet, "/a", 0, false},
		{"index in another prefix", `<s:sitemapindex><s:sitemap><s:loc>/s</s:loc><x:loc>/x</x:loc></s:sitemap></s:sitemapindex>`, Index, "/s", 0, false},
		{"no entry around", set + "<loc>/a</loc><loc>/b</loc>", URLSet, "/a /b", 0, false},
		{"second loc of an entry", set + "<url><loc>/a</loc><loc>/b</loc></url><url><loc>/c</loc></url>", URLSet, "/a /c", 0, false},
		{"ends missing", set + "<url><loc>/a<url><loc>/b</url><url><loc>/c", URLSet, "/a /b", 0, false},
		{"comment in a loc", set + "<url><loc>/a<!-- x -->b</loc></url>", URLSet, "/ab", 0, false},
		{"CDATA beside text", set + "<url><loc>/a?<![CDATA[x&copy=1&amp;]]>&amp;y</loc></url>", URLSet, "/a?x&copy=1&amp;&y", 0, false},
		{"references", set + "<url><loc>/a?b&copy=1&amp;c=&#x41;&#66;&unknown;&amp</loc></url>", URLSet, "/a?b&copy=1&c=AB&unknown;&amp", 0, false},
		{"raw text elements", set + "<title><url><loc>/a</loc></url></title><script><url><loc>/b</loc></url>", URLSet, "/a /b", 0, false},
		{"not for crawlers", set + "<url><loc>mailto:a@b</loc></url><url><loc>https://[</loc></url><url><loc>/a</loc></url>", URLSet, "/a", 2, false},
		{"long loc", set + "<url><loc>/" + strings.Repeat("a", maxLoc+9) + "</loc></url><url><loc>/b</loc></url>", URLSet, "/b", 1, false},
		{"long token", set + "<url><loc>/a</loc></url><!--" + strings.Repeat("-x", maxToken) + "--><url><loc>/b</loc></url>", URLSet, "/a", 0, true},
		{"fragment", set + "<url><loc>https://site.test/a#b</loc></url>", URLSet, "/a", 0, false},
		{"warning before", "Warning: out of date\n" + set + "<url><loc>/a</loc></url>", URLSet, "/a", 0, false},
		{"UTF-16 without a mark", utf16(set + "<url><loc>/a</loc></url></urlset>"), URLSet, "/a", 0, false},
		{"declared UTF-16 and is not", `<?xml version="1.0" encoding="utf-16"?>` + set + "<url><loc>/\u00e9</loc></url>", URLSet, "/%C3%A9", 0, false},
		{"unknown encoding", `<?xml version="1.0" encoding="what"?>` + set + "<url><loc>/\u00e9</loc></url>", URLSet, "/%C3%A9", 0, false},
		{"not UTF-8", set + "<url><loc>/\xe9</loc></url><url><loc>/a</loc></url>", URLSet, "/a", 1, false},

		{"one line", "https://site.test/a", Text, "/a", 0, false},
		{"lines", "HTTP://Site.test/a\r\nhttps://site.test/x\ry\n\nhttps://site.test/b\r\n/c\nhttps://site.test/d e\n ftp://x/\n https://site.test/f", Text, "http://site.test/a /b /f", 4, false},
		{"long line", "https://site.test/a\nhttps://site.test/" + strings.Repeat("b", 100_000) + "\nhttps://site.test/c", Text, "/a /c", 1, false},

		{"packed", pack(t, set+"<url><loc>/a</loc></url>"), URLSet, "/a", 0, false},
		{"packed list", pack(t, "https://site.test/a\n"), Text, "/a", 0, false},
		{"packed page", pack(t, "<html>"), None, "", 0, false},
		{"only the magic", "\x1f\x8b", None, "", 0, false},
		{"packed, checksum missing", strings.TrimSuffix(pack(t, set+"<url><loc>/a</loc></url>"), "\x00\x00"), URLSet, "/a", 0, false},
		{"packed, junk behind", pack(t, set+"<url><loc>/a</loc></url>") + "junk", URLSet, "/a", 0, false},

		{"RSS", `<rss><channel><link>/no</link><image><link>/no</link></image><item><link>/a?x&amp;y</link><atom:link href="/no"/><source url="/no"/></item></channel></rss>`, RSS, "/a?x&y", 0, false},
		{"RSS link in CDATA", "<rss><channel><item><link> <![CDATA[/a?b&c]]> </link></item></channel></rss>", RSS, "/a?b&c", 0, false},
		{"RSS guid", `<rss><channel><item><guid>https://site.test/a</guid></item><item><guid isPermaLink="false">https://site.test/no</guid></item><item><guid>17</guid></item></channel></rss>`, RSS, "/a", 0, false},
		{"RSS guid beside link", `<rss><channel><item><guid>https://site.test/no</guid><link>/a</link></item></channel></rss>`, RSS, "/a", 0, false},
		{"RSS 1.0", `<rdf:RDF xmlns="http://purl.org/rss/1.0/"><channel><link>/no</link></channel><item rdf:about="/no"><link>/a</link></item></rdf:RDF>`, RSS, "/a", 0, false},
		{"RSS torn", "<rss><channel><item><link>/a</link></item><item><link>/b</link><title>", RSS, "/a", 0, false},
		{"RSS of odd nesting", "<rss><channel><item><link>/a</link><description><p>x<br>y</description></item><item><link>/b</link><title>t<item><link>/c</link></item>", RSS, "/a /b /c", 0, false},
		{"RSS with bytes that XML forbids", "<rss><channel><item><link>/a\x01\xff</link></item><item><link>/b</link></item></channel></rss>", RSS, "/a%EF%BF%BD /b", 0, false},
		{"RSS deep", "<rss><channel>" + strings.Repeat("<x:a>", 200_000) + "</channel></rss>", RSS, "", 0, false},
		{"RSS twice", "<rss><channel><item><link>/a</link></item></channel></rss><rss><channel><item><link>/b</link></item></channel></rss>", RSS, "/a /b", 0, false},
		{"Atom", `<feed xmlns="http://www.w3.org/2005/Atom"><link href="/no"/><entry><link rel="self" href="/no"/><link href="/a"/><link rel="alternate" href="/b"></link><source><link href="/no"/></source><content type="xhtml"><div><link href="/no"/></div></content></entry></feed>`, Atom, "/a /b", 0, false},
		{"Atom with a prefix", `<a:feed xmlns:a="http://www.w3.org/2005/Atom"><a:entry><a:link href="/a"/><link href="/no"/></a:entry></a:feed>`, Atom, "/a", 0, false},
		{"Atom with bases", `<feed xml:base="/b/index.xml?x"><entry xml:base="c/"><link href="d"/></entry><entry xml:base="https://other.test"><link href="e"/></entry></feed>`, Atom, "/b/c/d https://other.test/e", 0, false},
		{"Atom with a base that climbs", `<feed xml:base="x/y/"><entry xml:base="../z/"><link href="d"/></entry><entry><link xml:base="//o.test/p/q" href="r"/><link href="e"/></entry></feed>`, Atom, "/x/z/d https://o.test/p/r /x/y/e", 0, false},
		{"Atom with a base that is none", `<feed xml:base="mailto:x"><entry xml:base="?q"><link href="d"/></entry></feed>`, Atom, "/d", 0, false},
		{"RSS with a relative base", `<rss xml:base="../up/"><channel xml:base="b/"><item><link>c</link></item></channel></rss>`, RSS, "/up/b/c", 0, false},
		{"Atom id that looks relative", `<feed><entry><id>urn:x</id></entry><entry><id>a</id><link href="?q"/></entry></feed>`, Atom, "/sitemap.xml?q", 0, false},
		{"JSON", `{"version":"https://jsonfeed.org/version/1.1","x":{"items":[{"url":"/no"}]},"items":[{"id":1,"url":"/a"},{"url":2,"external_url":"https://other.test/"},7,{},{"url":"/b"}],"next_url":"/no"}`, JSON, "/a https://other.test/ /b", 0, false},
		{"JSON torn", `{"version":"https:\/\/jsonfeed.org\/version\/1","items":[{"url":"/a"},{"url":"/b`, JSON, "/a", 0, false},
		{"JSON of another sort", `{"items":[{"url":"/a"}]}`, None, "", 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, res := read(t, here, []byte(tt.body), Options{})
			for i := range got {
				got[i] = strings.TrimPrefix(got[i], "https://site.test")
			}
			if strings.Join(got, " ") != tt.want || res.Kind != tt.kind || res.Skipped != tt.skipped || res.Cut != tt.cut {
				t.Errorf("got %.200q, %+v; want %q, %v, %d skipped, cut: %v", got, res, tt.want, tt.kind, tt.skipped, tt.cut)
			}
		})
	}
}

// TestDamaged: a document that ends before its end is told from one that is whole, and from one
// that is over a limit.
func TestDamaged(t *testing.T) {
	for kind, whole := range documents(20) {
		torn := whole[:len(whole)*2/3]
		for _, tt := range []struct {
			name, body string
			o          Options
			want       bool
		}{
			{name: "whole", body: whole},
			{name: "whole, packed", body: pack(t, whole)},
			{name: "packing torn", body: pack(t, whole)[:len(pack(t, whole))-9], want: true},
			{name: "torn", body: torn, want: kind != Text}, // which ends anywhere
			{name: "not received to its end", body: torn, o: Options{Torn: true}, want: true},
			{name: "over the bytes", body: whole, o: Options{Bytes: int64(len(torn))}},
			{name: "over the locs", body: whole, o: Options{Locs: 3}},
		} {
			locs, res := read(t, here, []byte(tt.body), tt.o)
			if res.Damaged != tt.want || res.Cut != (tt.o.Bytes+int64(tt.o.Locs) > 0) || len(locs) < 3 {
				t.Errorf("%v, %s: %+v, %d locs; want damaged: %v", kind, tt.name, res, len(locs), tt.want)
			}
		}
	}
	locs, res := read(t, here, []byte("https://site.test/a\nhttps://site.test/b"), Options{Torn: true})
	if len(locs) != 1 || !res.Damaged {
		t.Errorf("%q of a list whose last line is torn", locs)
	}
	if _, res := read(t, here, []byte("<urlset/>"), Options{}); res.Damaged {
		t.Error("an element that is closed at once is damaged")
	}
}

func utf16(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		b.Write([]byte{c, 0})
	}
	return b.String()
}

// documents returns one document of each kind with so many locs.
func documents(n int) map[Kind]string {
	all := func(before, format, after string) string {
		var b strings.Builder
		b.WriteString(before)
		for i := range n {
			fmt.Fprintf(&b, format, fmt.Sprintf("https://site.test/%d", i))
		}
		return b.String() + after
	}
	return map[Kind]string{
		URLSet: all("<urlset>", "<url><loc>%s</loc></url>\n", "</urlset>"),
		Index:  all("<sitemapindex>", "<sitemap><loc>%s</loc></sitemap>\n", "</sitemapindex>"),
		Text:   all("", "%s\n", ""),
		RSS:    all("<rss><channel>", "<item><title>t</title><link>%s</link></item>\n", "</channel></rss>"),
		Atom:   all("<feed>", `<entry><link href="%s"/></entry>`, "</feed>"),
		JSON:   all(`{"version":"https://jsonfeed.org/version/1","items":[{}`, `,{"url":"%s"}`, "]}"),
	}
}

// TestLimits: the first locs count, up to the limits; all of them where there are as many.
func TestLimits(t *testing.T) {
	const n = 1201 // more than one block of a reader
	for kind, body := range documents(n) {
		t.Run(kind.String(), func(t *testing.T) {
			for _, tt := range []struct {
				o           Options
				least, most int
				cut         bool
			}{
				{Options{}, n, n, false},
				{Options{Locs: n}, n, n, false},
				{Options{Locs: n - 1}, n - 1, n - 1, true},
				{Options{Locs: 3}, 3, 3, true},
				{Options{Bytes: int64(len(body))}, n, n, false},
				{Options{Bytes: int64(len(body) / 2)}, n / 3, n * 2 / 3, true},
			} {
				bodies := []string{body, pack(t, body)}
				if testing.Short() {
					bodies = bodies[1:]
				}
				for _, b := range bodies {
					locs, res := read(t, here, []byte(b), tt.o)
					if res.Kind != kind || len(locs) < tt.least || len(locs) > tt.most || res.Cut != tt.cut {
						t.Errorf("%+v: %+v; want %d to %d locs, cut: %v", tt.o, res, tt.least, tt.most, tt.cut)
					}
					for i, loc := range locs {
						if want := fmt.Sprintf("https://site.test/%d", i); loc != want {
							t.Fatalf("loc %d is %s", i, loc)
						}
					}
				}
			}
		})
	}
	long := strings.Repeat("https://site.test/\n", MaxLocs+1)
	if _, res := read(t, here, []byte(long), Options{}); res.Locs != MaxLocs || !res.Cut {
		t.Errorf("more than the protocol allows: %+v", res)
	}
}

// TestStop: what yield says ends the reading.
func TestStop(t *testing.T) {
	stop := errors.New("stop")
	for kind, body := range documents(2000) {
		n := 0
		_, err := Read(here, strings.NewReader(body), Options{}, func(string) error {
			if n++; n == 700 {
				return stop
			}
			return nil
		})
		if !errors.Is(err, stop) || n != 700 {
			t.Errorf("%v: %v after %d", kind, err, n)
		}
	}
	if _, err := Read("no url", strings.NewReader("<urlset/>"), Options{}, nil); !errors.Is(err, weburl.ErrSyntax) {
		t.Errorf("a sitemap without an address: %v", err)
	}
}

func FuzzRead(f *testing.F) {
	for _, body := range documents(2) {
		f.Add([]byte(body), uint8(1))
		f.Add([]byte(pack(f, body)), uint8(9))
	}
	f.Add([]byte(`<feed xml:base="//x/y?"><entry><link rel=alternate href=a>`), uint8(3))
	f.Add([]byte("<rss><channel><item><guid>http://a/<item><link>b<![CDATA[c"), uint8(3))
	f.Fuzz(func(t *testing.T, body []byte, most uint8) {
		o := Options{Locs: int(most) + 1, Bytes: 1 << 16}
		locs, res := read(t, here, body, o)
		if len(locs) > o.Locs || res.Kind == None && len(locs) > 0 {
			t.Fatalf("%d locs of at most %d, %+v", len(locs), o.Locs, res)
		}
		all, more := read(t, here, body, Options{Bytes: o.Bytes})
		if len(all) < len(locs) || !slices.Equal(all[:len(locs)], locs) {
			t.Fatalf("with a limit of %d: %q, without: %q", o.Locs, locs, all)
		}
		if len(all) == len(locs) && more.Cut != res.Cut {
			t.Fatalf("%+v with a limit that does not matter, %+v without", res, more)
		}
	})
}
