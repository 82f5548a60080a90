package extract

import (
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"urltree/internal/extract/scan"
)

// maxWord is where a word is cut, in bytes. What is longer is hardly text.
const maxWord = 256

// Words calls fn for each word that a page shows, in page order: of HTML and XHTML those of the
// title and of the text outside scripts, styles and comments; of plain text all. Other media
// types have none. A word is of letters and digits, in lower case, at most 256 bytes of UTF-8;
// every tag ends one. A character of a script that is written without spaces is a word by itself.
//
// f.Media and f.Charset alone count, as for [Parse]. The bytes are fn's only until it returns.
func Words(f Facts, body []byte, fn func(word []byte)) {
	xhtml := strings.EqualFold(f.Media, "application/xhtml+xml")
	markup := xhtml || strings.EqualFold(f.Media, "text/html")
	if !markup && !strings.EqualFold(f.Media, "text/plain") {
		return
	}
	in := newSource(body, f.Charset, formatOf(xhtml))
	w := words{fn: fn}
	if markup {
		w.scan(in, xhtml)
		return
	}
	text := in.text
	if in.rest != nil {
		text, _ = io.ReadAll(in.rest) // of damaged text what can be decoded
	}
	w.add(text)
}

// words cuts text into words.
type words struct {
	fn   func([]byte)
	word []byte
}

// shown are the elements whose raw text is shown, behind those that are not shown in drawings,
// where their text is no raw text.
var shown = scan.NewNames([]scan.Element{
	{Name: "script", Want: scan.Starts | scan.Ends},
	{Name: "style", Want: scan.Starts | scan.Ends},
	{Name: "title", Want: scan.Starts},
	{Name: "textarea", Want: scan.Starts},
	{Name: "xmp", Want: scan.Starts},
	{Name: "plaintext", Want: scan.Starts},
}, nil)

// scan takes the text of a page.
func (w *words) scan(in *source, xhtml bool) {
	var s scan.Scanner
	in.start(&s, shown)
	s.XHTML, s.Text = xhtml, true
	const hiding = 2 // elements that are not shown
	hidden := false
	var text []byte
	for {
		switch s.Next() {
		case scan.End:
			return
		case scan.More:
			in.feed(&s)
		case scan.Text:
			if hidden = hidden && s.InDrawing(); !hidden {
				text = s.AppendText(text[:0])
				w.add(text)
			}
		case scan.Start:
			if s.Element() < hiding {
				hidden = s.InDrawing() && !s.Closed()
			} else {
				w.add(in.rawText(&s))
			}
		case scan.EndTag:
			hidden = false
		}
	}
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
