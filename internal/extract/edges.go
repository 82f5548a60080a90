package extract

import "urltree/internal/edges"

// An edgeText is the text of a link.
type edgeText struct {
	link int // its place in Links
	end  int // of the text in page.texts; it begins where the one before ends
}

// nameEdge sets the text of the a or area element that was met last.
func (p *page) nameEdge(text []byte) {
	if !p.opts.Edges || len(text) == 0 || p.named >= len(p.Links) {
		return
	}
	p.texts = append(p.texts, text...)
	p.textsOf = append(p.textsOf, edgeText{p.named, len(p.texts)})
}

// edge keeps the reference number i, whose URL is known; texts are all of page.texts. Where the
// page says nofollow of all its links each of them says so.
func (p *page) edge(i int, l Link, texts string, noFollow bool) {
	if p.edgeBytes > maxLinkBytes {
		return
	}
	e := edges.Edge{To: l.URL, Element: l.Element, Rel: l.Rel}
	if noFollow && !hasWord(e.Rel, "nofollow") {
		if e.Rel != "" {
			e.Rel += " "
		}
		e.Rel += "nofollow"
	}
	for p.textAt < len(p.textsOf) && p.textsOf[p.textAt].link < i { // of links that have no URL
		p.textAt++
	}
	if p.textAt < len(p.textsOf) && p.textsOf[p.textAt].link == i {
		start := 0
		if p.textAt > 0 {
			start = p.textsOf[p.textAt-1].end
		}
		e.Text = texts[start:p.textsOf[p.textAt].end]
	}
	p.Edges = append(p.Edges, e)
	p.edgeBytes += len(e.To) + len(e.Rel) + len(e.Text)
}
