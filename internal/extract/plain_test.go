package extract

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func textOf(f Facts, body string, most int) string {
	return string(AppendText(nil, f, []byte(body), most))
}

func TestAppendText(t *testing.T) {
	for _, tt := range []struct{ name, media, charset, body, want string }{
		{"blocks", "text/html", "utf-8", "<title>no</title><h1>A</h1><p>b\n <b>c</b>d<div>e</div>f<br>g", "A\nb cd\ne\nf\ng"},
		{"nested blocks", "text/html", "utf-8", "<div> <div><p>a</p></div>\n</div><p></p>b", "a\nb"},
		{"lists and tables", "text/html", "utf-8", "<ul><li>a<li>b</ul><table><tr><td>c</td><td>d</td></tr><tr><th>e</table>", "a\nb\nc d\ne"},
		{"white space", "text/html", "utf-8", " a \t\r\n b&nbsp;&#8195;c\u2028d ", "a b c d"},
		{"not shown", "text/html", "utf-8", "a<script>b</script>c<style>d</style><!-- e -->f<iframe>g</iframe><noframes>h</noframes>", "acf"},
		{"shown", "text/html", "utf-8", "<noscript>a</noscript> <textarea>b\n<i></textarea> <xmp>c</xmp>", "a\nb\n<i>\nc"},
		{"lines of pre", "text/html", "utf-8", "<pre>a\n  b\r\nc\n\n\nd</pre>e\nf", "a\nb\nc\nd\ne f"},
		{"pre that does not begin", "text/html", "utf-8", "</pre>a\nb", "a b"},
		{"plaintext", "text/html", "utf-8", "a<plaintext>b\n</plaintext>", "a\nb\n</plaintext>"},
		{"script in svg", "text/html", "utf-8", "<svg><script/>a<style>b</style></svg>c", "ac"},
		{"attributes", "text/html", "utf-8", `<img alt=no title="no no">yes`, "yes"},
		{"references", "text/html", "utf-8", "caf&eacute;&lt;b&gt;&#0;&#7;&#x200d;", "café<b>\ufffd\u200d"},
		{"charset", "text/html", "iso-8859-1", "caf\xe9", "café"},
		{"charset of the page", "text/html", "", "<meta charset=koi8-r>\xd0\xd2", "пр"},
		{"not UTF-8", "text/html", "utf-8", "a\xffb", "a\ufffdb"},
		{"XHTML", "application/xhtml+xml", "utf-8", "<script/>a<p/>b<![CDATA[<c>]]><pre/>d\ne", "a\nb<c>\nd e"},
		{"plain text", "text/plain", "utf-8", "a  <b>\r\n\r\n c", "a <b>\nc"},
		{"plain text in UTF-16", "text/plain", "utf-16le", "\xff\xfea\x00\n\x00b\x00", "a\nb"},
		{"no text", "image/png", "", "a b c", ""},
		{"empty", "text/html", "utf-8", "", ""},
		{"only markup", "text/html", "utf-8", "<p><b></b> &nbsp; </p>", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := textOf(Facts{Media: tt.media, Charset: tt.charset}, tt.body, 1000)
			if got != tt.want {
				t.Fatalf("%q, want %q", got, tt.want)
			}
			if again := textOf(Facts{Media: "text/plain", Charset: "utf-8"}, got, 1000); again != got {
				t.Errorf("the text %q is read as %q", got, again)
			}
		})
	}
}

// TestTextBound: what is too long is the beginning of the text, whole characters of it, and what
// stood in the slice before is left alone.
func TestTextBound(t *testing.T) {
	const body = "<p>ab cé<p>日本"
	f := Facts{Media: "text/html", Charset: "utf-8"}
	whole := textOf(f, body, 100)
	for most := range len(whole) + 2 {
		got := string(AppendText([]byte("x"), f, []byte(body), most))
		end := min(most, len(whole))
		for end < len(whole) && !utf8.RuneStart(whole[end]) {
			end--
		}
		if want := "x" + strings.TrimSpace(whole[:end]); got != want {
			t.Errorf("at most %d bytes: %q, want %q", most, got, want)
		}
	}
	if whole != "ab cé\n日本" {
		t.Errorf("%q", whole)
	}
}

// FuzzAppendText: a text is clean and the beginning of the whole one, and that of plain text has
// its letters.
func FuzzAppendText(f *testing.F) {
	f.Add("text/html", "utf-8", "<p>a<script>b</script>c\xff&amp;<svg><![CDATA[d]]><pre>e\nf", 5)
	f.Add("text/plain", "utf-16le", "a\x00b", 2)
	f.Fuzz(func(t *testing.T, media, charset, body string, most int) {
		facts := Facts{Media: media, Charset: charset}
		whole := textOf(facts, body, 4*len(body)+100)
		bad := func(r rune) bool { return r != '\n' && r != ' ' && (unicode.IsSpace(r) || unicode.IsControl(r)) }
		for _, twice := range []string{"  ", " \n", "\n ", "\n\n"} {
			if strings.Contains(whole, twice) {
				t.Fatalf("%q", whole)
			}
		}
		if !utf8.ValidString(whole) || strings.ContainsFunc(whole, bad) || strings.TrimSpace(whole) != whole {
			t.Fatalf("%q", whole)
		}
		most = max(0, most)
		if part := textOf(facts, body, most); !strings.HasPrefix(whole, part) || len(part) > most {
			t.Fatalf("at most %d bytes: %q of %q", most, part, whole)
		}
		if strings.EqualFold(media, "text/plain") {
			plain := strings.Join(wordsOf(Facts{Media: "text/plain", Charset: "utf-8"}, whole), "")
			if words := strings.Join(wordsOf(facts, body), ""); words != plain {
				t.Fatalf("words %q, of the text %q", words, plain)
			}
		}
	})
}

func BenchmarkAppendText(b *testing.B) {
	body := []byte("<title>t</title>" + strings.Repeat(`<p class=x>Some words of <a href="/a">a page</a>, and more.</p>`, 400))
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	var text []byte
	for b.Loop() {
		text = AppendText(text[:0], Facts{Media: "text/html", Charset: "utf-8"}, body, 1<<20)
	}
}

func FuzzInUTF8(f *testing.F) {
	f.Add("text/html", "utf-8", "<p>a\xff\x00\xc3")
	f.Add("application/xhtml+xml", "utf-16le", "a\x00b")
	f.Fuzz(func(t *testing.T, media, charset, body string) {
		got := string(InUTF8(Facts{Media: media, Charset: charset}, []byte(body)))
		if !utf8.ValidString(got) || strings.ContainsRune(got, 0) {
			t.Fatalf("%q", got)
		}
		if again := string(InUTF8(Facts{Media: media, Charset: "utf-8"}, []byte(got))); again != strings.TrimPrefix(got, "\ufeff") {
			t.Fatalf("%q, then %q", got, again)
		}
	})
}

// TestInUTF8: a page is as it was, in UTF-8 and nothing else.
func TestInUTF8(t *testing.T) {
	for _, tt := range []struct{ name, media, charset, body, want string }{
		{"as it is", "text/html", "utf-8", "<p>ü\r\n\t\x1b</p>", "<p>ü\r\n\t\x1b</p>"},
		{"large letters", "TEXT/HTML", "UTF-8", "x", "x"},
		{"by the header", "text/html", "iso-8859-2", "<p>\xb1", "<p>ą"},
		{"by meta", "text/html", "", "<meta charset=windows-1251>\xcf", "<meta charset=windows-1251>П"},
		{"XHTML by its declaration", "application/xhtml+xml", "", "<?xml version='1.0' encoding='iso-8859-1'?>\xe9", "<?xml version='1.0' encoding='iso-8859-1'?>é"},
		{"UTF-16 with a mark", "text/html", "", "\xff\xfea\x00\xfc\x00", "aü"},
		{"half a character of UTF-16", "text/html", "utf-16le", "a\x00b", "a\ufffd"},
		{"UTF-8 with a mark", "text/html", "", "\xef\xbb\xbf<p>", "<p>"},
		{"invalid", "text/html", "utf-8", "a\xff\xc3b\xf0\x9f\x98<", "a\ufffd\ufffdb\ufffd<"},
		{"cut", "text/html", "utf-8", "a\xe2\x82", "a\ufffd"},
		{"no character", "text/html", "utf-8", "a\x00b", "a\ufffdb"},
		{"Shift_JIS, invalid", "text/html", "shift_jis", "\x82\xa0\xff", "あ\ufffd"},
		{"plain text", "text/plain", "utf-8", "x", ""},
		{"an image", "image/png", "", "\x89PNG", ""},
		{"empty", "text/html", "", "", ""},
	} {
		got := InUTF8(Facts{Media: tt.media, Charset: tt.charset}, []byte(tt.body))
		if string(got) != tt.want || !utf8.Valid(got) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
