// Package article finds the text that a page is about: that of its article, without the menus, side
// bars and other parts that a reader view of a browser leaves out.
package article

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	readability "codeberg.org/readeck/go-readability/v2"
	"golang.org/x/net/html"

	"urltree/internal/extract"
)

var errNone = errors.New("no article")

// AppendText appends the main text of a page to a slice, as [extract.AppendText] appends all of its
// text. It is all of the text where no article is found: in what is no HTML, in a page of which a
// browser offers no reader view, since it has no paragraphs of some length, in one that costs too
// much, see [affordable], and in one that has more than 512 elements open at a place, of which no
// tree is made.
func AppendText(to []byte, f extract.Facts, body []byte, most int) []byte {
	if article, err := find(f, body); err == nil {
		text := extract.AppendText(to, extract.Facts{Media: "text/html", Charset: "utf-8"}, article, most)
		if len(text) > len(to) {
			return text
		}
	}
	return extract.AppendText(to, f, body, most)
}

// find returns the article of a page as HTML in UTF-8.
func find(f extract.Facts, body []byte) (article []byte, err error) {
	defer func() {
		if p := recover(); p != nil { // neither parser was made for this page
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	if !strings.EqualFold(f.Media, "text/html") || len(body) > mostBody {
		return nil, errNone
	}
	root, err := html.Parse(bytes.NewReader(calmed(extract.InUTF8(f, body))))
	if err != nil {
		return nil, err
	}
	if !affordable(root) {
		return nil, errNone
	}
	restore(root)
	parser := readability.NewParser()
	parser.DisableJSONLD = true // it has metadata alone
	if !parser.CheckDocument(root) {
		return nil, errNone // of a list of links the article would be the footer
	}
	found, err := parser.ParseAndMutate(root, nil)
	if err != nil {
		return nil, err
	}
	if found.Node == nil {
		return nil, errNone
	}
	var b bytes.Buffer
	if err := html.Render(&b, found.Node); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// Bounds of what a page may cost: two megabytes may take a quarter of a gigabyte of memory. Steps
// of work take some ten nanoseconds each; a large page of documentation takes some millions.
const (
	mostBody = 2 << 20 // bytes
	mostWork = 64 << 20
	workNode = 16
	// mostTitle bounds what may be compared with each heading: the title, and attributes of a meta
	// element that names another one, in bytes.
	mostTitle = 512
)

// affordable reports whether the work for an article is bounded: each text is read anew for all the
// elements around it, and each heading is compared with the title. It cuts long titles.
func affordable(root *html.Node) bool {
	work, depth := 0, 0
	for n := root; n != nil && work <= mostWork; {
		work += (workNode + len(n.Data)) * (depth + 1)
		switch n.Data {
		case "title":
			if text := n.FirstChild; text != nil {
				text.Data = text.Data[:min(len(text.Data), mostTitle)]
			}
		case "meta":
			for i := range n.Attr {
				n.Attr[i].Val = n.Attr[i].Val[:min(len(n.Attr[i].Val), mostTitle)]
			}
		case "h1", "h2":
			work += 16 * mostTitle
		}
		next := n.FirstChild
		if next != nil {
			depth++
		}
		for ; next == nil && n != nil; n = n.Parent {
			if next = n.NextSibling; next == nil {
				depth--
			}
		}
		n = next
	}
	return work <= mostWork
}
