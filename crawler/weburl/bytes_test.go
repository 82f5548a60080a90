package weburl

import (
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// TestEscapeBytes: what is UTF-8 stays, each other byte becomes its escape.
func TestEscapeBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := ""
		got := EscapeBytes(func() (ref string) {
			for _, part := range rapid.SliceOf(rapid.SampledFrom([]string{"a", "/", "%41", "é", "\ufffd", "漢", "\xe9", "\xff"})).Draw(t, "parts") {
				ref += part
				switch part {
				case "\xe9":
					part = "%E9"
				case "\xff":
					part = "%FF"
				}
				want += part
			}
			return ref
		}())
		if got != want || !utf8.ValidString(got) {
			t.Fatalf("%q, want %q", got, want)
		}
	})
}
