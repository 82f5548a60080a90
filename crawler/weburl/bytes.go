package weburl

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// EscapeBytes returns a reference of a header, or of another text whose encoding nobody names, with
// each byte that is no part of UTF-8 as an escape: the server gets the byte that it sent.
func EscapeBytes(ref string) string {
	if utf8.ValidString(ref) {
		return ref
	}
	var b strings.Builder
	for i, c := range ref { // c is the replacement character where a byte is wrong, and where it is written
		if n := utf8.RuneLen(c); c != utf8.RuneError || strings.HasPrefix(ref[i:], string(c)) {
			b.WriteString(ref[i : i+n])
		} else {
			fmt.Fprintf(&b, "%%%02X", ref[i])
		}
	}
	return b.String()
}
