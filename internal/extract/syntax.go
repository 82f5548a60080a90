package extract

import (
	"bytes"
	"iter"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
)

const space = " \t\n\f\r"

// srcset returns the addresses of a srcset attribute in order, without those whose descriptors
// are wrong.
func srcset(s string) (refs []string) {
	for start, end := range Srcset(s) {
		refs = append(refs, s[start:end])
	}
	return refs
}

// Srcset yields where the addresses of a srcset attribute begin and end, in order, without those
// whose descriptors are wrong (HTML standard, "parse a srcset attribute").
func Srcset(s string) iter.Seq2[int, int] {
	return func(yield func(int, int) bool) {
		for at := 0; ; {
			at = len(s) - len(strings.TrimLeft(s[at:], space+","))
			if at == len(s) {
				return
			}
			start, end := at, len(s)
			if i := strings.IndexAny(s[at:], space); i >= 0 {
				end = at + i
			}
			at = end
			end = start + len(strings.TrimRight(s[start:end], ","))
			if end == at { // no comma: descriptors follow, up to a comma outside brackets
				inBrackets := false
				for at = end; at < len(s) && (s[at] != ',' || inBrackets); at++ {
					inBrackets = s[at] == '(' || inBrackets && s[at] != ')'
				}
				if !validDescriptors(s[end:at]) {
					continue
				}
			}
			if !yield(start, end) {
				return
			}
		}
	}
}

var (
	integer = regexp.MustCompile(`^[0-9]*[1-9][0-9]*$`)
	density = regexp.MustCompile(`^(-0+(\.0+)?|[0-9]+(\.[0-9]+)?|\.[0-9]+)([eE][-+]?[0-9]+)?$`)
)

// validDescriptors reports whether an image candidate counts: one width such as 100w, with one
// height such as 50h or without, or one density such as 1.5x, or nothing.
func validDescriptors(s string) bool {
	var w, h, x int
	for d := range strings.FieldsSeq(s) {
		number, unit := d[:len(d)-1], d[len(d)-1]
		switch {
		case unit == 'w' && integer.MatchString(number):
			w++
		case unit == 'h' && integer.MatchString(number):
			h++
		case unit == 'x' && density.MatchString(number):
			x++
		default:
			return false
		}
	}
	return w <= 1 && h <= w && (x == 0 || x == 1 && w+h == 0)
}

// refresh returns the address in the content of a meta refresh, such as "5; url=/x".
func refresh(s string) (ref string, ok bool) {
	start, end, ok := Refresh(s)
	return s[start:end], ok
}

// Refresh returns where the address in the content of a meta refresh begins and ends (HTML
// standard, "shared declarative refresh steps").
func Refresh(content string) (start, end int, ok bool) {
	s := strings.TrimLeft(content, space)
	after := strings.TrimLeft(s, "0123456789")
	if len(after) == len(s) && !strings.HasPrefix(s, ".") {
		return 0, 0, false
	}
	after = strings.TrimLeft(after, "0123456789.")
	s = strings.TrimLeft(after, space)
	if s == after && s != "" && s[0] != ';' && s[0] != ',' {
		return 0, 0, false
	}
	if s != "" && (s[0] == ';' || s[0] == ',') {
		s = strings.TrimLeft(s[1:], space)
	}
	if s == "" {
		return 0, 0, false
	}
	if len(s) > 3 && strings.EqualFold(s[:3], "url") {
		if value, ok := strings.CutPrefix(strings.TrimLeft(s[3:], space), "="); ok {
			s = strings.TrimLeft(value, space)
		}
	}
	rest := 0
	if s != "" && (s[0] == '"' || s[0] == '\'') {
		value, behind, _ := strings.Cut(s[1:], s[:1])
		if s = s[1:]; len(value) < len(s) {
			rest = 1 + len(behind)
		}
	}
	return len(content) - len(s), len(content) - rest, true
}

// Directives returns what X-Robots-Tag headers say to the crawler with this product token. A name
// and a colon make what follows in the same header count for that crawler only.
func Directives(values []string, token string) (noindex, nofollow bool) {
	for _, value := range values {
		mine := true
		for word := range strings.SplitSeq(value, ",") {
			word = strings.ToLower(strings.TrimSpace(word))
			if name, after, ok := strings.Cut(word, ":"); ok {
				name = strings.TrimSpace(name)
				if !isAgent(name) {
					continue // a directive with a value
				}
				mine = name == "*" || name == "robots" || strings.EqualFold(name, token)
				word = strings.TrimSpace(after)
			}
			if !mine {
				continue
			}
			switch word {
			case "none":
				noindex, nofollow = true, true
			case "noindex":
				noindex = true
			case "nofollow":
				nofollow = true
			}
		}
	}
	return noindex, nofollow
}

// isAgent reports whether the text before a colon names a crawler. Dates have colons too.
func isAgent(name string) bool {
	switch name {
	case "", "unavailable_after", "max-snippet", "max-image-preview", "max-video-preview":
		return false
	}
	return name == "*" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz-_") == ""
}

// EncodeQuery writes the characters of a reference's query that are not ASCII in an encoding
// other than UTF-8. One that it lacks becomes a character reference.
func EncodeQuery(ref string, e *encoding.Encoder) string {
	end := strings.IndexByte(ref, '#')
	if end < 0 {
		end = len(ref)
	}
	start := strings.IndexByte(ref[:end], '?')
	if start < 0 || !hasWide(ref[start:end]) {
		return ref
	}
	b := append(make([]byte, 0, 2*len(ref)), ref[:start]...)
	var one [utf8.UTFMax]byte
	var encoded [32]byte
	for _, r := range ref[start:end] {
		if r < utf8.RuneSelf {
			b = append(b, byte(r))
			continue
		}
		e.Reset()
		n, _, err := e.Transform(encoded[:], utf8.AppendRune(one[:0], r), true)
		if err != nil || bytes.HasPrefix(encoded[:n], []byte("&#")) {
			b = append(strconv.AppendInt(append(b, "%26%23"...), int64(r), 10), "%3B"...)
			continue
		}
		for _, c := range encoded[:n] {
			if c <= ' ' || c > '~' || strings.IndexByte("\"#'<>", c) >= 0 {
				b = append(b, '%', upperHex[c>>4], upperHex[c&15])
			} else {
				b = append(b, c)
			}
		}
	}
	return string(append(b, ref[end:]...))
}

const upperHex = "0123456789ABCDEF"

// hasWide reports whether s has a byte beyond ASCII.
func hasWide(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r >= utf8.RuneSelf })
}
