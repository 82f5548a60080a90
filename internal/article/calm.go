package article

import (
	"bytes"
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// formatting are the elements that a parser of HTML opens again in each paragraph behind the one
// that did not close them (HTML standard, "reconstruct the active formatting elements"): some
// kilobytes of them make it fill the memory. Their names do not count for what is an article, but
// for code: see [restore].
var formatting = [...]string{"b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u"}

// mostRoots is how often a page may begin html, and body. Each time the parser compares all their
// attributes. Pages do so several times in comments that old browsers read.
const mostRoots = 16

// calmCode is the name of code elements while the page is parsed.
const calmCode = "x-code"

// calmed returns a copy of a page in which code elements have another name, other formatting
// elements are named span, and so is each html and body element beyond the first ones. It looks at
// bytes, not at markup, so that none is left, however the parser reads them.
func calmed(text []byte) []byte {
	var b bytes.Buffer
	b.Grow(len(text) + len(text)/8)
	roots := map[string]int{}
	for {
		i := bytes.IndexByte(text, '<') + 1
		if i == 0 {
			b.Write(text)
			return b.Bytes()
		}
		if i < len(text) && text[i] == '/' {
			i++
		}
		b.Write(text[:i])
		text = text[i:]
		end := bytes.IndexAny(text[:min(len(text), 8)], " \t\n\f\r/>")
		if end < 0 {
			continue
		}
		name := strings.ToLower(string(text[:end]))
		isRoot := name == "html" || name == "body"
		if isRoot {
			roots[name]++
		}
		switch {
		case name == "code":
			b.WriteString(calmCode)
		case isRoot && roots[name] > mostRoots, slices.Contains(formatting[:], name):
			b.WriteString("span")
		default:
			continue
		}
		text = text[end:]
	}
}

// restore renames the code elements of a parsed page as they were. In them an article keeps what is
// elsewhere taken for the comments of readers, such as the comments of a program.
//
// It also renames anchors without a link. In XHTML served as HTML, <a id="x"/> stays open, and all
// that follows would count as the text of links, which is no text of an article.
func restore(root *html.Node) {
	for n := range root.Descendants() {
		switch {
		case n.Type == html.ElementNode && n.Data == calmCode:
			n.Data, n.DataAtom = "code", atom.Code
		case n.DataAtom == atom.A && !isLink(n):
			n.Data, n.DataAtom = "span", atom.Span
		}
	}
}

func isLink(n *html.Node) bool {
	return slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == "href" })
}
