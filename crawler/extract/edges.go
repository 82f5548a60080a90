package extract

import "urltree/storage/edges"

// nameEdge gives the a or area element that was met last its text.
func (p *page) nameEdge(text string) {
	if !p.opts.Edges || text == "" || p.named >= len(p.Links) {
		return
	}
	if n := p.named + 1 - len(p.texts); n > 0 {
		p.texts = append(p.texts, make([]string, n)...)
	}
	p.texts[p.named] = text
}

// edge keeps the reference number i, whose URL is known. Where the page says nofollow of all its
// links each of them says so.
func (p *page) edge(i int, l Link, noFollow bool) {
	e := edges.Edge{To: l.URL, Element: l.Element, Rel: l.Rel}
	if noFollow && !hasWord(e.Rel, "nofollow") {
		if e.Rel != "" {
			e.Rel += " "
		}
		e.Rel += "nofollow"
	}
	if i < len(p.texts) {
		e.Text = p.texts[i]
	}
	if p.edgeBytes <= maxLinkBytes {
		p.Edges = append(p.Edges, e)
		p.edgeBytes += len(e.To) + len(e.Rel) + len(e.Text)
	}
}
