package scan

import (
	"bytes"

	"golang.org/x/net/html"
)

// Attr returns the value of the start tag's attribute with this place in the list of Names. Of
// several with one name the first counts. The value may be part of the page: it must not be
// changed.
func (s *Scanner) Attr(id int) (value []byte, ok bool) {
	if s.latest.found>>id&1 == 0 {
		return nil, false
	}
	v := s.latest.values[id]
	return Value(s.src[v.start:v.end]), true
}

// AppendText appends the text that Next gave.
func (s *Scanner) AppendText(to []byte) []byte {
	return appendText(to, s.src[s.text.start:s.text.end], s.sections, true)
}

// isPlain reports whether a value or text stands for itself.
func isPlain(b []byte) bool {
	return bytes.IndexByte(b, '&') < 0 && bytes.IndexByte(b, '\r') < 0 && bytes.IndexByte(b, 0) < 0
}

// appendText appends text with its line ends as they count, and if asked for with NULs replaced
// and character references undone.
func appendText(to, raw []byte, nul, references bool) []byte {
	if isPlain(raw) {
		return append(to, raw...)
	}
	if raw = newlines(raw); nul {
		raw = replaceNUL(raw)
	}
	if references {
		return unescape(to, raw, false)
	}
	return append(to, raw...)
}

func replaceNUL(b []byte) []byte {
	if bytes.IndexByte(b, 0) < 0 {
		return b
	}
	return bytes.ReplaceAll(b, []byte{0}, []byte("\ufffd"))
}

// newlines makes "\r" and "\r\n" to "\n".
func newlines(b []byte) []byte {
	if bytes.IndexByte(b, '\r') < 0 {
		return b
	}
	b = bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n"))
	return bytes.ReplaceAll(b, []byte("\r"), []byte("\n"))
}

// unescape appends b with its character references undone. Unlike in text, in an attribute a name
// counts only as a whole, and one without semicolon not before a '='.
func unescape(to, b []byte, attribute bool) []byte {
	for {
		i := bytes.IndexByte(b, '&')
		if i < 0 {
			return append(to, b...)
		}
		to = append(to, b[:i]...)
		b = b[i:]
		n := reference(b)
		if attribute {
			to = append(to, resolve(string(b[:n]), b[n:])...)
		} else {
			to = append(to, html.UnescapeString(string(b[:n]))...)
		}
		b = b[n:]
	}
}

// reference returns the length of what may be a character reference at the start of b, at least
// that of its '&'.
func reference(b []byte) int {
	n := 1
	if n < len(b) && b[n] == '#' {
		n++
	}
	for n < len(b) && (isLetter(b[n]) || '0' <= b[n] && b[n] <= '9') {
		n++
	}
	if n < len(b) && b[n] == ';' {
		n++
	}
	return n
}

// resolve returns what a reference stands for, or itself; rest follows it.
func resolve(ref string, rest []byte) string {
	last := ref[len(ref)-1]
	if len(ref) > 1 && ref[1] == '#' {
		return html.UnescapeString(ref)
	}
	if last != ';' && len(rest) > 0 && rest[0] == '=' {
		return ref
	}
	// UnescapeString takes the beginning of a name for a name too. Then the end is left, and no
	// name but one stands for its own last character.
	if text := html.UnescapeString(ref); text[len(text)-1] != last || ref == "&semi;" {
		return text
	}
	return ref
}
