package extract

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"urltree/internal/edges"
)

// edgesLaw checks what holds for every page: that its edges are asked for changes nothing else,
// they do not depend on whose nofollow is obeyed, and if no one's is, they are its links.
func edgesLaw(t *testing.T, f Facts, body []byte, o Options, r Result) {
	t.Helper()
	o.Edges = true
	with := Parse(f, body, o)
	list := with.Edges
	with.Edges = nil
	if with.Exhausted {
		return // text counts as work
	}
	if diff := cmp.Diff(r, with); diff != "" {
		t.Errorf("with edges the page differs:\n%s", diff)
	}
	var again Parser
	again.Parse(pageFacts, []byte("<a href=other>text of another page</a><area href=x alt=y>"), o)
	if !slices.Equal(again.Parse(f, body, o).Edges, list) {
		t.Error("edges differ in the memory of another page")
	}
	o.NoFollow = "none"
	all := Parse(f, body, o)
	if !slices.Equal(all.Edges, list) {
		t.Errorf("edges depend on nofollow:\n%s", cmp.Diff(all.Edges, list))
	}
	same := slices.EqualFunc(all.Links, list, func(l Link, e edges.Edge) bool {
		return l.URL == e.To && l.Element == e.Element && strings.HasPrefix(e.Rel, l.Rel)
	})
	if !same && !all.Cut {
		t.Errorf("edges\n%q\nlinks\n%q", list, all.Links)
	}
}

func TestEdges(t *testing.T) {
	for _, tt := range []struct {
		name, html string
		facts      Facts
		opts       Options
		want       []string // element, path, rel, text
	}{
		{"order and repeats", `<a href=b>one</a><area href=a alt=" two&nbsp; x "><a href=b rel="NoFollow Me">three</a>`, pageFacts, Options{NoFollow: "all"}, []string{
			"a|/dir/b||one", "area|/dir/a||two x", "a|/dir/b|nofollow me|three",
		}},
		{"words of rel", "<a href=b rel=' NoFollow\n\t me\r\n'></a>", pageFacts, Options{}, []string{"a|/dir/b|nofollow me|"}},
		{"text", "<a href=1> a <b>b</b><br>c<img src=x>\n<!-- d -->e</a>f<a href=2><a href=3>not closed <a href=4>", pageFacts, Options{}, []string{
			"a|/dir/1||a b c e", "a|/dir/2||", "a|/dir/3||not closed", "a|/dir/4||",
		}},
		{"images inside have none", "<a href=1>text<img src=2><iframe src=3></iframe> goes on</a>", pageFacts, Options{Assets: true}, []string{
			"a|/dir/1||text goes on", "img|/dir/2||", "iframe|/dir/3||",
		}},
		{"not closed at the end", "<a href=1>text", pageFacts, Options{}, []string{"a|/dir/1||text"}},
		{"cut", "<a href=1>" + strings.Repeat("0123456789", 11) + "</a>", pageFacts, Options{}, []string{"a|/dir/1||" + strings.Repeat("0123456789", 10)}},
		{"page says nofollow", `<meta name=robots content=nofollow><a href=1>x</a><a href=2 rel=nofollow><a href=3 rel=next>`, pageFacts, Options{}, []string{
			"a|/dir/1|nofollow|x", "a|/dir/2|nofollow|", "a|/dir/3|next nofollow|",
		}},
		{"header says nofollow", `<a href=1>`, Facts{URL: pageURL, Media: "text/html", NoFollow: true, HeaderLinks: []string{"https://example.org/h"}}, Options{}, []string{
			"header|/h|nofollow|", "a|/dir/1|nofollow|",
		}},
		{"no URLs", `<a href=mailto:a@b>x</a><a>y</a><a name=z>z</a><a href="http://[">w</a><a href=1>v</a>`, pageFacts, Options{}, []string{"a|/dir/1||v"}},
		{"feed", `<rss><channel><item><link>https://example.org/i</link></item></channel></rss>`, Facts{URL: pageURL, Media: "application/rss+xml"}, Options{}, []string{"feed|/i||"}},
		{"base behind", `<a href=1>x</a><base href=/other/>`, pageFacts, Options{}, []string{"a|/other/1||x"}},
		{"no page", "a <a href=1>", Facts{URL: pageURL, Media: "text/plain"}, Options{}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			edgesLaw(t, tt.facts, []byte(tt.html), tt.opts, Parse(tt.facts, []byte(tt.html), tt.opts))
			tt.opts.Edges = true
			var got []string
			for _, e := range Parse(tt.facts, []byte(tt.html), tt.opts).Edges {
				got = append(got, strings.Join([]string{e.Element, strings.TrimPrefix(e.To, "https://example.org"), e.Rel, e.Text}, "|"))
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestEdgesMany: beyond the most links no text goes to another link, the list of texts of the
// metadata being full takes none away, and edges end where their texts are too many.
func TestEdgesMany(t *testing.T) {
	if testing.Short() {
		t.Skip("reads pages of tens of megabytes: not with -short")
	}
	var b strings.Builder
	for i := range maxRefs {
		fmt.Fprintf(&b, "<a href=%d>t%d</a>", i, i)
	}
	b.WriteString("<a href=last>last</a><area href=last alt=last>")
	r := Parse(pageFacts, []byte(b.String()), Options{Edges: true})
	if len(r.Edges) != maxRefs || !r.Cut {
		t.Fatalf("%d edges, cut %v", len(r.Edges), r.Cut)
	}
	for i, e := range r.Edges {
		if e.Text != fmt.Sprintf("t%d", i) {
			t.Fatalf("edge %d has the text %q", i, e.Text)
		}
	}

	b.Reset()
	b.WriteString("<meta name=robots content=nofollow>") // so that no link counts
	rel := strings.Repeat("r", 64<<10)
	for i := range 600 {
		fmt.Fprintf(&b, "<a href=%d rel=%s%d>", i, rel, i)
	}
	r = Parse(pageFacts, []byte(b.String()), Options{Edges: true})
	if want := maxLinkBytes/len(rel) + 1; len(r.Edges) > want || len(r.Edges) < want-2 || r.Cut {
		t.Errorf("%d edges, about %d are wanted; cut %v", len(r.Edges), want, r.Cut)
	}
}
