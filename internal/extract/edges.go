package extract

import "urltree/internal/edges"

// An edgeText is the text of a link.
type edgeText struct {
	link int // its place in Links
	end  int // of the text in page.texts; it begins where the one before ends
}

// nameEdge sets the text of the a or area element that was met last.
func (p *page) nameEdge(text []byte) {
	if !p.opts.Edges || len(text) == 0 || p.texts.named >= len(p.Links) {
		return
	}
	p.texts.all = append(p.texts.all, text...)
	p.texts.of = append(p.texts.of, edgeText{p.texts.named, len(p.texts.all)})
}

// edge keeps the reference number i, whose URL is known; texts are all of page.texts. Where the
// page says nofollow of all its links each of them says so.
func (p *page) edge(i int, l Link, texts string, noFollow bool) {
	if p.texts.bytes > maxLinkBytes {
		return
	}
	e := edges.Edge{To: l.URL, Element: l.Element, Rel: l.Rel}
	if noFollow && !hasWord(e.Rel, "nofollow") {
		if e.Rel != "" {
			e.Rel += " "
		}
		e.Rel += "nofollow"
	}
	for p.texts.next < len(p.texts.of) && p.texts.of[p.texts.next].link < i { // of links that have no URL
		p.texts.next++
	}
	if p.texts.next < len(p.texts.of) && p.texts.of[p.texts.next].link == i {
		start := 0
		if p.texts.next > 0 {
			start = p.texts.of[p.texts.next-1].end
		}
		e.Text = texts[start:p.texts.of[p.texts.next].end]
	}
	p.Edges = append(p.Edges, e)
	p.texts.bytes += len(e.To) + len(e.Rel) + len(e.Text)
}
