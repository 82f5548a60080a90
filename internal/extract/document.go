package extract

import (
	"urltree/crawler/weburl"
	"urltree/internal/extract/scan"
)

// A document is the page, or one in the srcdoc attribute of an iframe (HTML standard, "srcdoc"):
// its links are those of the page, its metadata are not.
type document struct {
	around   int    // the document that it stands in
	hasBase  bool   // a base element with href has come
	base     string // href of the first base element that has one
	noFollow bool   // it says so by meta robots, for itself; of the page Result.NoFollow does
	url      string // what its references are resolved against, once that is known; "": nothing
}

// A part is where links of another document begin.
type part struct{ from, document int }

// maxDepth is how deep documents may stand in each other; those below are not read.
const maxDepth = 4

// srcdoc reads a document in an iframe.
func (p *page) srcdoc(text []byte) {
	if p.docs.depth == maxDepth {
		p.Cut = true
		return
	}
	around, links := p.docs.at, len(p.Links)
	documents, parts := len(p.docs.list), len(p.docs.parts)
	p.docs.list = append(p.docs.list, document{around: around})
	p.docs.at, p.docs.depth = documents, p.docs.depth+1
	p.docs.parts = append(p.docs.parts, part{links, p.docs.at})
	var s scan.Scanner
	p.markup(&s, &source{text: text}, false)
	p.docs.at, p.docs.depth = around, p.docs.depth-1
	if len(p.Links) == links {
		p.docs.list, p.docs.parts = p.docs.list[:documents], p.docs.parts[:parts]
		return
	}
	p.docs.parts = append(p.docs.parts, part{len(p.Links), around})
}

// enter makes base that of a document, whose documents around have been entered before. It returns
// nil where absolute references alone count.
func (p *page) enter(i int, pageURL string, base *weburl.Base) *weburl.Base {
	d := &p.docs.list[i]
	if d.url == "" {
		around := pageURL
		if i > 0 {
			around = p.docs.list[d.around].url
		}
		d.url = around
		if base.Reset(around) == nil && d.hasBase {
			ref := d.base
			if i == 0 {
				ref = p.reference(ref)
			}
			// A base that is no web address, such as javascript:, leaves the one around.
			if url, err := base.Resolve(ref); err == nil {
				d.url = url
			}
		}
	}
	if base.Reset(d.url) != nil {
		return nil
	}
	return base
}

// countUsers counts references that were resolved without the user name in them.
func (p *page) countUsers(base *weburl.Base) {
	for range base.Users() {
		p.skip("userinfo (followed without it)")
	}
}
