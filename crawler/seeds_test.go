package crawler_test

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/text/encoding/unicode"

	"urltree/crawler"
)

// TestSeedsInUTF16: a seed file may be in any encoding whose byte order mark it begins with, as Windows
// programs write it. Without a mark it is UTF-8.
func TestSeedsInUTF16(t *testing.T) {
	const text = "http://a.test/one\r\n# no\r\n\r\nhttp://a.test/zwei-\u00e4\r\nmailto:x\r\n"
	want := []string{"http://a.test/one", "http://a.test/zwei-%C3%A4"}
	for name, encode := range map[string]func(string) (string, error){
		"UTF-8":                func(s string) (string, error) { return s, nil },
		"UTF-8 with a mark":    unicode.UTF8BOM.NewEncoder().String,
		"UTF-16, little first": unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewEncoder().String,
		"UTF-16, big first":    unicode.UTF16(unicode.BigEndian, unicode.UseBOM).NewEncoder().String,
	} {
		file, err := encode(text)
		if err != nil {
			t.Fatal(err)
		}
		bad := 0
		got, err := crawler.ReadSeeds(strings.NewReader(file), func(line int, text string, _ error) {
			if bad = line; text != "mailto:x" {
				t.Errorf("%s: line %d left out: %q", name, line, text)
			}
		})
		if err != nil || !slices.Equal(got, want) || bad != 5 {
			t.Errorf("%s: %q, line %d left out, %v; want %q", name, got, bad, err, want)
		}
	}
}
