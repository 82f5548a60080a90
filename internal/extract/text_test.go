package extract

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func wordsOf(f Facts, body string) (words []string) {
	Words(f, []byte(body), func(w []byte) { words = append(words, string(w)) })
	return words
}

func TestWords(t *testing.T) {
	for _, tt := range []struct{ name, media, charset, body, want string }{
		{"title and text", "text/html", "utf-8", "<title>A B</title><p>Some <b>bold</b> text.", "a b some bold text"},
		{"not shown", "text/html", "utf-8", "a<script>b</script>c<style>d</style><!-- e -->f<iframe>g</iframe><noframes>h</noframes>", "a c f"},
		{"shown", "text/html", "utf-8", "<noscript>a <b>b</b></noscript><textarea>c<b></textarea><template>d</template>", "a b c b d"},
		{"script in svg that does not end", "text/html", "utf-8", "<svg><script>a</svg>b", "b"},
		{"script in svg", "text/html", "utf-8", "<svg><script/>a<style>b</style></svg>c", "a c"},
		{"attributes", "text/html", "utf-8", `<img alt=no title="no no">yes`, "yes"},
		{"tags end words", "text/html", "utf-8", "one<br>two<i>three</i>", "one two three"},
		{"references", "text/html", "utf-8", "caf&eacute;&nbsp;bar&lt;b&gt;", "café bar b"},
		{"letters and digits", "text/html", "utf-8", "Don't 3.5 x_y ÄRGER", "don t 3 5 x y ärger"},
		{"charset", "text/html", "iso-8859-1", "caf\xe9", "café"},
		{"charset of the page", "text/html", "", "<meta charset=koi8-r>\xd0\xd2", "пр"},
		{"byte order mark", "text/html", "iso-8859-1", "\xef\xbb\xbfcaf\xc3\xa9", "café"},
		{"without spaces", "text/html", "utf-8", "日本語abcの", "日 本 語 abc の"},
		{"XHTML", "application/xhtml+xml", "utf-8", "<script/>a<![CDATA[b c]]>", "a b c"},
		{"plain text", "text/plain", "utf-8", "a <b> c", "a b c"},
		{"plain text in UTF-16", "text/plain", "utf-16le", "\xff\xfea\x00 \x00b\x00", "a b"},
		{"no text", "image/png", "", "a b c", ""},
		{"empty", "text/html", "utf-8", "", ""},
		{"only markup", "text/html", "utf-8", "<p><b></b> &nbsp; - </p>", ""},
		{"long", "text/plain", "utf-8", strings.Repeat("a", 300), strings.Repeat("a", 253) + " " + strings.Repeat("a", 47)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := strings.Join(wordsOf(Facts{Media: tt.media, Charset: tt.charset}, tt.body), " ")
			if got != tt.want {
				t.Fatalf("%q, want %q", got, tt.want)
			}
			// Words alone are a plain text of the same words.
			if again := strings.Join(wordsOf(Facts{Media: "text/plain", Charset: "utf-8"}, got), " "); again != got {
				t.Errorf("the words %q are read as %q", got, again)
			}
		})
	}
}

func FuzzWords(f *testing.F) {
	f.Add("text/html", "utf-8", "<title>a</title><script>b</script>c\xff&amp;<svg><![CDATA[d]]>")
	f.Add("text/plain", "utf-16le", "a\x00b")
	f.Fuzz(func(t *testing.T, media, charset, body string) {
		words := wordsOf(Facts{Media: media, Charset: charset}, body)
		for _, w := range words {
			if w == "" || len(w) > maxWord || !utf8.ValidString(w) || strings.ContainsAny(w, " <>&\n") {
				t.Fatalf("word %q", w)
			}
		}
		if again := wordsOf(Facts{Media: media, Charset: charset}, body); !slices.Equal(words, again) {
			t.Fatalf("%q, then %q", words, again)
		}
	})
}

func BenchmarkWords(b *testing.B) {
	body := []byte("<title>t</title>" + strings.Repeat(`<p class=x>Some words of <a href="/a">a page</a>, and more.</p>`, 400))
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		Words(Facts{Media: "text/html", Charset: "utf-8"}, body, func([]byte) {})
	}
}
