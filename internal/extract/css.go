package extract

import (
	"bytes"
	"io"
	"regexp"
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

// css takes what a style sheet in UTF-8 names: images, fonts and other sheets. It is read by
// windows of this size. A reference to an element of the page is none.
func (p *page) css(name string, in io.Reader, size int) {
	_ = sheet(in, size, func(token []byte, ref string) bool {
		if !p.spend(stepsToken + stepsTag*len(token)) {
			return false
		}
		if ref != "" && ref[0] != '#' {
			p.show(name, []byte(ref))
		}
		return true
	})
}

// Sheet reads a style sheet in UTF-8 and calls fn with each of its tokens in order, as the sheet
// has them: ref is what the token refers to (CSS Syntax, 4; CSS Values, 4.5), "" if it does not. It
// ends when fn returns false. The error is that of in.
func Sheet(in io.Reader, fn func(token []byte, ref string) bool) error {
	size := cssWindow
	if short, ok := in.(interface{ Len() int }); ok { // a reader of bytes or a string
		size = min(short.Len()+1, size) // the end is found with the last byte
	}
	return sheet(in, size, fn)
}

func sheet(in io.Reader, size int, fn func(token []byte, ref string) bool) error {
	window := make([]byte, size+1) // the lexer writes a byte behind what it is given
	r := sheetReader{fn: fn}
	for have := 0; ; {
		n, err := io.ReadFull(in, window[have:len(window)-1])
		have += n
		done, ok := r.read(window[:have], err != nil)
		switch {
		case !ok:
			return nil
		case err == io.EOF, err == io.ErrUnexpectedEOF:
			if done < have {
				fn(window[done:have], "")
			}
			return nil
		case err != nil:
			return err
		case done == 0 && have < scan.MaxToken:
			window = append(window, make([]byte, len(window))...)
		case done == 0:
			if done = have; !fn(window[:have], "") {
				return nil
			}
		}
		have = copy(window, window[done:have])
	}
}

// A sheetReader follows the tokens of a style sheet.
type sheetReader struct {
	fn    func(token []byte, ref string) bool
	rule  string // the at-rule whose prelude is read; "": none is
	depth int    // open brackets
	set   int    // depth in the image-set that is open; 0: none is
}

// read takes the tokens of text, whose last one goes on behind it unless last is set. It returns
// the bytes of those that it has taken, and false if the sheet is to be given up.
func (s *sheetReader) read(text []byte, last bool) (done int, ok bool) {
	in := parse.NewInputBytes(text)
	defer in.Restore()
	for lexer := css.NewLexer(in); ; {
		kind, token := lexer.Next()
		if kind == css.ErrorToken || !last && done+len(token) >= len(text) {
			return done, true
		}
		done += len(token)
		if !s.fn(token, s.reference(kind, token)) {
			return done, false
		}
	}
}

// reference returns what a token refers to.
func (s *sheetReader) reference(kind css.TokenType, token []byte) string {
	switch kind {
	case css.AtKeywordToken:
		s.rule = strings.ToLower(string(token))
	case css.SemicolonToken, css.LeftBraceToken, css.RightBraceToken:
		s.rule = ""
	case css.URLToken:
		if s.rule == "@namespace" {
			return ""
		}
		if s.rule == "@import" {
			s.rule = "" // what follows are conditions
		}
		_, ref, _ := bytes.Cut(token, []byte("("))
		return unquoteCSS(string(bytes.Trim(bytes.TrimSuffix(ref, []byte(")")), space)))
	case css.StringToken:
		if s.rule == "@import" || s.set > 0 && s.set == s.depth {
			s.rule = ""
			return unquoteCSS(string(token))
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
	return ""
}

// unquoteCSS returns the reference that a sheet has in quotes or not.
func unquoteCSS(text string) string {
	if text != "" && (text[0] == '"' || text[0] == '\'') {
		text = strings.TrimSuffix(text[1:], text[:1])
	}
	return unescapeCSS(text)
}

// unescapeCSS undoes escapes (CSS Syntax, 4.3.7).
func unescapeCSS(text string) string {
	return escapesCSS.ReplaceAllStringFunc(text, func(escape string) string {
		escape = escape[len(`\`):]
		c, err := strconv.ParseUint(strings.TrimRight(escape, space), 16, 32)
		switch {
		case strings.Trim(escape, "\r\n\f") == "": // in a string, a line that goes on
			return ""
		case err != nil:
			return escape
		case c == 0:
			return string(utf8.RuneError)
		}
		return string(rune(min(c, utf8.MaxRune+1))) // U+FFFD of what is no character
	})
}

var escapesCSS = regexp.MustCompile(`(?s)\\([0-9a-fA-F]{1,6}[ \t\n\f\r]?|\r\n?\f?|\n\f?|\f|.|$)`)
