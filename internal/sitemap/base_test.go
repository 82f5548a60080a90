package sitemap

import (
	"fmt"
	"slices"
	"testing"
)

// TestBases resolves the links of feeds whose elements have bases, relative ones too, which XML
// Base relates to the one around them, and that to the document.
func TestBases(t *testing.T) {
	bases := []string{"", "/b/", "b/", "../b/", "//o.test/b/", "https://o.test", "b", "/b/x.xml", "?q", ".", " /b/ ", "mailto:x"}
	attribute := func(base string) string {
		if base == "" {
			return ""
		}
		return fmt.Sprintf(" xml:base=%q", base)
	}
	for _, outer := range bases {
		for _, inner := range bases {
			base := here
			for _, ref := range []string{outer, inner} {
				if url, ok := resolve(base, ref); ok && ref != "" {
					base = url
				}
			}
			for _, ref := range []string{"d", "/d", "../d", "?d", "#d", "https://p.test/d"} {
				want, _ := resolve(base, ref)
				atom := "<feed" + attribute(outer) + "><entry" + attribute(inner) + "><link href='" + ref + "'/></entry></feed>"
				if got, _ := read(t, here, []byte(atom), Options{}); !slices.Equal(got, []string{want}) {
					t.Errorf("%s: %q, want %s", atom, got, want)
				}
				if ref[0] == '?' || ref[0] == '#' { // of a text gofeed knows the folder of the base alone
					continue
				}
				rss := "<rss" + attribute(outer) + "><channel" + attribute(inner) + "><item><link>" + ref + "</link></item></channel></rss>"
				if got, _ := read(t, here, []byte(rss), Options{}); !slices.Equal(got, []string{want}) {
					t.Errorf("%s: %q, want %s", rss, got, want)
				}
			}
		}
	}
}
