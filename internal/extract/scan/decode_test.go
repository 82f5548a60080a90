package scan

import (
	"fmt"
	"testing"

	"golang.org/x/net/html"
)

// TestReferences: character references of text mean what the tokenizer's package takes them for,
// whatever stands around them.
func TestReferences(t *testing.T) {
	var refs []string
	for c := range 0x400 {
		refs = append(refs, fmt.Sprintf("&#%d;", c), fmt.Sprintf("&#%d", c), fmt.Sprintf("&#x%x;", c))
	}
	for _, c := range []int{0x200b, 0xd7ff, 0xd800, 0xdfff, 0xe000, 0xfffd, 0xffff, 0x10000, 0x10ffff, 0x110000, 1 << 40} {
		refs = append(refs, fmt.Sprintf("&#%d;", c), fmt.Sprintf("&#0%d;", c), fmt.Sprintf("&#x%X;", c))
	}
	for _, name := range []string{"amp", "lt", "gt", "quot", "nbsp", "copy", "notit", "not", "semi", "NotEqualTilde", "ampx", "LT", "Nbsp", "x", "", "#", "#x", "#-1"} {
		refs = append(refs, "&"+name+";", "&"+name)
	}
	for _, ref := range refs {
		for _, around := range []string{"%s", "a%s", "%sb", "%s=b", "a%s1;", "&%s&", "%[1]s%[1]s", "é%s;"} {
			text := fmt.Sprintf(around, ref)
			if got, want := string(unescape(nil, []byte(text), false)), html.UnescapeString(text); got != want {
				t.Fatalf("%q becomes %q, want %q", text, got, want)
			}
		}
	}
}
