package extract

import (
	"bytes"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tdewolff/parse/v2"
	"github.com/tdewolff/parse/v2/css"

	"urltree/internal/extract/scan"
)

// cssWindow is how much of a style sheet is in memory at a time, in bytes, unless a token is
// longer. A token of more than scan.MaxToken is left out.
const cssWindow = 64 << 10

// style takes the references of a style element or attribute.
func (p *page) style(text []byte) {
	if bytes.IndexByte(text, '(') >= 0 || bytes.IndexByte(text, '@') >= 0 {
		p.css("style", bytes.NewReader(text), min(len(text)+1, cssWindow)) // the end is found with the last byte
	}
}

// css takes what a style sheet in UTF-8 names: images, fonts and other sheets (CSS Syntax, 4; CSS
// Values, 4.5). It is read by windows of this size.
func (p *page) css(name string, in io.Reader, size int) {
	window := make([]byte, size+1) // the lexer writes a byte behind what it is given
	sheet := sheet{page: p, name: name}
	for have := 0; ; {
		n, err := io.ReadFull(in, window[have:len(window)-1])
		have += n
		done, ok := sheet.read(window[:have], err != nil)
		switch {
		case !ok || err != nil:
			return
		case done == 0 && have < scan.MaxToken:
			window = append(window, make([]byte, len(window))...)
		case done == 0:
			done = have
		}
		have = copy(window, window[done:have])
	}
}

// A sheet is a style sheet that is read.
type sheet struct {
	*page
	name  string
	rule  string // the at-rule whose prelude is read; "": none is
	depth int    // open brackets
	set   int    // depth in the image-set that is open; 0: none is
}

// read takes the tokens of text, whose last one goes on behind it unless last is set. It returns
// the bytes of those that it has taken, and false if the page is to be given up.
func (s *sheet) read(text []byte, last bool) (done int, ok bool) {
	in := parse.NewInputBytes(text)
	defer in.Restore()
	for lexer := css.NewLexer(in); ; {
		kind, token := lexer.Next()
		if kind == css.ErrorToken || !last && done+len(token) >= len(text) {
			return done, true
		}
		done += len(token)
		if !s.spend(stepsToken + stepsTag*len(token)) {
			return done, false
		}
		s.token(kind, token)
	}
}

func (s *sheet) token(kind css.TokenType, token []byte) {
	switch kind {
	case css.AtKeywordToken:
		s.rule = strings.ToLower(string(token))
	case css.SemicolonToken, css.LeftBraceToken, css.RightBraceToken:
		s.rule = ""
	case css.URLToken:
		if s.rule == "@namespace" {
			return
		}
		if s.rule == "@import" {
			s.rule = "" // what follows are conditions
		}
		_, ref, _ := bytes.Cut(token, []byte("("))
		s.refer(string(bytes.Trim(bytes.TrimSuffix(ref, []byte(")")), space)))
	case css.StringToken:
		if s.rule == "@import" || s.set > 0 && s.set == s.depth {
			s.rule = ""
			s.refer(string(token))
		}
	case css.FunctionToken, css.LeftParenthesisToken:
		s.depth++
		switch strings.ToLower(string(token)) {
		case "image-set(", "-webkit-image-set(", "src(":
			s.set = s.depth
		}
	case css.RightParenthesisToken:
		if s.set == s.depth {
			s.set = 0
		}
		s.depth = max(s.depth-1, 0)
	}
}

// refer takes a reference as a sheet has it, in quotes or not. One to an element of the page is
// none.
func (s *sheet) refer(text string) {
	if text != "" && (text[0] == '"' || text[0] == '\'') {
		text = strings.TrimSuffix(text[1:], text[:1])
	}
	if text = unescapeCSS(text); text != "" && text[0] != '#' {
		s.show(s.name, []byte(text))
	}
}

// unescapeCSS undoes escapes (CSS Syntax, 4.3.7).
func unescapeCSS(text string) string {
	if strings.IndexByte(text, '\\') < 0 {
		return text
	}
	const hex = "0123456789abcdefABCDEF"
	b := make([]byte, 0, len(text))
	for text != "" {
		before, rest, ok := strings.Cut(text, `\`)
		b = append(b, before...)
		if !ok || rest == "" {
			break
		}
		digits := 0
		for digits < min(6, len(rest)) && strings.IndexByte(hex, rest[digits]) >= 0 {
			digits++
		}
		switch {
		case digits > 0:
			c, _ := strconv.ParseUint(rest[:digits], 16, 32)
			if c == 0 || c > utf8.MaxRune {
				c = utf8.RuneError
			}
			b = utf8.AppendRune(b, rune(c))
			if rest = rest[digits:]; rest != "" && strings.IndexByte(space, rest[0]) >= 0 {
				rest = rest[1:]
			}
		case rest[0] == '\n', rest[0] == '\r', rest[0] == '\f': // in a string, a line that goes on
			rest = strings.TrimPrefix(strings.TrimPrefix(rest, "\r"), "\n")
			rest = strings.TrimPrefix(rest, "\f")
		default:
			_, n := utf8.DecodeRuneInString(rest)
			b, rest = append(b, rest[:n]...), rest[n:]
		}
		text = rest
	}
	return string(b)
}
