package sitemap

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"urltree/crawler/weburl"
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
				if url := resolved(t, base, ref); url != "" && ref != "" {
					base = url
				}
			}
			for _, ref := range []string{"d", "/d", "../d", "?d", "#d", "https://p.test/d"} {
				want := resolved(t, base, ref)
				atom := "<feed" + attribute(outer) + "><entry" + attribute(inner) + "><link href='" + ref + "'/></entry></feed>"
				if got, _ := read(t, here, []byte(atom), Options{}); !slices.Equal(got, []string{want}) {
					t.Errorf("%s: %q, want %s", atom, got, want)
				}
				rss := "<rss" + attribute(outer) + "><channel" + attribute(inner) + "><item><link>" + ref + "</link></item></channel></rss>"
				if got, _ := read(t, here, []byte(rss), Options{}); !slices.Equal(got, []string{want}) {
					t.Errorf("%s: %q, want %s", rss, got, want)
				}
			}
		}
	}
}

// resolved returns the URL of a reference on a page with this base, "" if it has none.
func resolved(t *testing.T, base, ref string) string {
	t.Helper()
	b, err := weburl.NewBase(base)
	if err != nil {
		t.Fatal(err)
	}
	url, err := b.Resolve(strings.TrimSpace(ref))
	if err != nil {
		return ""
	}
	return url
}
