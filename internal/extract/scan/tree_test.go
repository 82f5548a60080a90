package scan

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"golang.org/x/net/html"
)

// built returns the addresses of the links that the standard's tree builder sees.
func built(page []byte) map[string]bool {
	doc, err := html.Parse(bytes.NewReader(page))
	if err != nil {
		return nil // nested too deep
	}
	links := map[string]bool{}
	for n := range doc.Descendants() {
		for _, a := range n.Attr {
			if n.Type == html.ElementNode && n.Data == "a" && a.Key == "href" && a.Namespace == "" {
				links[a.Val] = true
			}
		}
	}
	return links
}

// hidden returns the links that the tree builder sees and the scanner does not.
func hidden(page []byte) (list []string) {
	seen := map[string]bool{}
	s := New(testNames, page, true)
	for kind := s.Next(); kind != End; kind = s.Next() {
		if kind == Start && testElements[s.Element()].Name == "a" {
			value, _ := s.Attr(0)
			seen[string(value)] = true
		}
	}
	for link := range built(page) {
		if !seen[link] {
			list = append(list, link)
		}
	}
	return list
}

// drawnPage writes a page of elements in each other with links between them. Those of drawings and
// formulas are closed, but for one.
type drawnPage struct {
	bytes.Buffer
	*rand.Rand
	links int
	torn  bool   // an element has no end tag
	stray string // an end tag that is in drawings, and may close an element around them
}

// contents are the elements in each other: of HTML, of a drawing and of a formula.
var contents = map[string][]string{
	"html": {"p", "div", "section", "span", "svg", "svg", "math", "style", "script", "textarea", "title"},
	"svg":  {"p", "div", "svg", "math", "g", "path", "title", "style", "script", "desc", "foreignObject", "textarea", "xmp"},
	"math": {"p", "span", "math", "mi", "mrow", "mtext", "style", "script", "title", "svg"},
}

func (p *drawnPage) nodes(around string, depth int) {
	for range 1 + p.IntN(4) {
		fmt.Fprintf(p, "<a href=%d>x</a>", p.links)
		p.links++
		if around == "svg" && p.stray != "" && p.IntN(4) == 0 {
			fmt.Fprintf(p, "</%s>", p.stray)
		}
		name := contents[around][p.IntN(len(contents[around]))]
		if p.stray != "" && (name == "script" || name == "xmp" || name == "textarea") {
			continue // they are read as HTML has them
		}
		within := around
		if around == "html" && special[name] != ordinary && special[name] != drawing {
			fmt.Fprintf(p, "<%s><a href=no></a></%s>", name, name)
			continue
		}
		switch name {
		case "p", "div", "section", "span", "desc", "foreignObject", "mi", "mtext":
			within = "html"
		case "svg", "math":
			if around == "html" {
				within = name
			}
		case "title":
			if around == "svg" {
				within = "html"
			}
		}
		if around != "html" && p.IntN(4) == 0 && within == around {
			fmt.Fprintf(p, "<%s/>", name)
			continue
		}
		fmt.Fprintf(p, "<%s>", name)
		if depth > 0 {
			p.nodes(within, depth-1)
		}
		if around != "html" && !p.torn && p.IntN(4) == 0 {
			p.torn = true
			continue
		}
		fmt.Fprintf(p, "</%s>", name)
	}
}

// TestTree: no link that the tree builder sees is hidden, in drawings and around them, closed or
// not. The pages are always the same: where HTML around a drawing is broken as well, the scanner
// can err, for it does not know what is open there.
func TestTree(t *testing.T) {
	for _, page := range []string{
		"<svg><title><a href=1></a></svg><a href=2></a>", "<svg><style><a href=1></a></svg><a href=2></a>",
		"<p><svg><path></p><style></style><a href=1></a>", "<svg><desc><title>x</title><a href=1></a></desc><style/><a href=2></a></svg>",
		"<p><svg><path></p><![CDATA[><a href=1></a>]]>", "<svg><path><p><![CDATA[><a href=1></a>]]>",
		"<svg></div><title><a href=1></a>", "<div><svg></span><style><a href=1></a></div><a href=2></a>", "<math></p><svg></b><title><a href=1></a>",
	} {
		if list := hidden([]byte(page)); len(list) > 0 {
			t.Errorf("links %q are hidden in %s", list, page)
		}
	}
	r, found := rand.New(rand.NewPCG(1, 2)), 0
	n := 5000
	if testing.Short() {
		n = 1000
	}
	for range n {
		p := &drawnPage{Rand: r, stray: []string{"", "section", "b", "table"}[r.IntN(4)]}
		p.nodes("html", 2)
		if list := hidden(p.Bytes()); len(list) > 0 {
			t.Fatalf("links %q are hidden in\n%s", list, p.Bytes())
		}
		found += p.links
	}
	if found < n {
		t.Errorf("%d links in %d pages", found, n)
	}
}
