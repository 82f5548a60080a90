package extract

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestLinkLines: the format of source C, read as its sample code reads it.
func TestLinkLines(t *testing.T) {
	facts := Facts{URL: pageURL, Media: LinkLines}
	for _, tt := range []struct {
		name, body string
		want       []string
	}{
		{"none", "links: a\nlink\n:b\n", nil},
		{"empty", "", nil},
		{"in page order, with repeats", "link: b\ntext\nlink:a\nlink:\t b", []string{"line /dir/b", "line /dir/a", "line /dir/b"}},
		{"anywhere in a line", "see link: http://other.example/x y \r\n", []string{"line http://other.example/x%20y"}},
		{"one a line", "link: a link: b\n", []string{"line /dir/a%20link:%20b"}},
		{"the page itself", "link:\nlink: #top\n", []string{"line " + "/dir/page.html", "line /dir/page.html"}},
		{"no web address", "link: mailto:a@b.example\nlink: /c\n", []string{"line /c"}},
		{"markup is text", "<!-- link: a&amp;b -->\n", []string{"line /dir/a&amp;b%20--%3E"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := Parse(facts, []byte(tt.body), Options{})
			if diff := cmp.Diff(tt.want, show(r.Links)); diff != "" {
				t.Error(diff)
			}
			if r.Meta != nil || r.Charset != "" || r.Cut {
				t.Errorf("got %+v", r)
			}
		})
	}
}
