package extract

import (
	"unicode"
	"unicode/utf8"
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
	showText(f, body, inWords, &words{fn: fn})
}

// words cuts text into words.
type words struct {
	fn   func([]byte)
	word []byte
}

func (w *words) tag(int, bool) {} // each ends a text anyway

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
