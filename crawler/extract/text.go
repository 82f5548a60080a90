package extract

import (
	"bytes"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/text/transform"
)

// maxWord is where a word is cut, in bytes. What is longer is hardly text.
const maxWord = 256

// Words calls fn for each word that a page shows, in page order: of HTML and XHTML those of the
// title and of the text outside scripts, styles and comments; of plain text all. Other media
// types have none. A word is of letters and digits, in lower case, at most 256 bytes of UTF-8; every
// tag ends one. A character of a script that is written without spaces is a word by itself.
//
// f.Media and f.Charset alone count, as for [Parse]. The bytes are fn's only until it returns.
func Words(f Facts, body []byte, fn func(word []byte)) {
	xhtml := strings.EqualFold(f.Media, "application/xhtml+xml")
	markup := xhtml || strings.EqualFold(f.Media, "text/html")
	if !markup && !strings.EqualFold(f.Media, "text/plain") {
		return
	}
	var r io.Reader = bytes.NewReader(body)
	if e, name := charsetOf(body, f.Charset); name != "utf-8" {
		r = transform.NewReader(r, e.NewDecoder())
	}
	w := words{fn: fn}
	if markup {
		w.scan(r, xhtml)
		return
	}
	text, _ := io.ReadAll(r) // of damaged text what can be decoded
	w.add(text)
}

// words cuts text into words.
type words struct {
	fn   func([]byte)
	word []byte
}

// scan takes the text of a page.
func (w *words) scan(r io.Reader, xhtml bool) {
	z := html.NewTokenizer(r)
	z.SetMaxBuf(maxToken)
	foreign := 0 // open svg and math elements
	for hidden := false; ; {
		z.AllowCDATA(xhtml || foreign > 0)
		switch token := z.Next(); token {
		case html.ErrorToken:
			return
		case html.TextToken:
			if !hidden {
				w.add(z.Text())
			}
			hidden = false
		case html.EndTagToken:
			hidden = false
			if name, _ := z.TagName(); isForeign(name) && foreign > 0 {
				foreign--
			}
		case html.StartTagToken, html.SelfClosingTagToken:
			name, _ := z.TagName()
			closed := token == html.SelfClosingTagToken && (xhtml || foreign > 0)
			// As scan of a page does.
			if closed || string(name) == "noscript" {
				z.NextIsNotRawText()
			}
			if isForeign(name) && !closed {
				foreign++
			}
			hidden = !closed && isHidden(name)
		}
	}
}

// isHidden tells whether the raw text of an element is not shown.
func isHidden(name []byte) bool {
	switch string(name) {
	case "script", "style", "iframe", "noembed", "noframes":
		return true
	}
	return false
}

// add takes text, whose end ends a word.
func (w *words) add(text []byte) {
	for i := 0; i < len(text); {
		c := text[i]
		if c < utf8.RuneSelf {
			i++
			switch {
			case 'a' <= c && c <= 'z', '0' <= c && c <= '9':
				w.word = append(w.word, c)
			case 'A' <= c && c <= 'Z':
				w.word = append(w.word, c+('a'-'A'))
			default:
				w.end()
				continue
			}
		} else {
			r, n := utf8.DecodeRune(text[i:])
			i += n
			switch {
			case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar):
				w.end()
				w.word = utf8.AppendRune(w.word, r)
				w.end()
			case unicode.IsLetter(r), unicode.IsDigit(r), unicode.IsMark(r):
				w.word = utf8.AppendRune(w.word, unicode.ToLower(r))
			default:
				w.end()
			}
		}
		if len(w.word) > maxWord-utf8.UTFMax {
			w.end()
		}
	}
	w.end()
}

func (w *words) end() {
	if len(w.word) > 0 {
		w.fn(w.word)
		w.word = w.word[:0]
	}
}
