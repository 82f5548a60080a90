package extract

import "bytes"

// LinkLines is the media type of pages in the format of source C: a line that has "link:" in it
// links to what stands behind the first one, to the end of the line. The rest is plain text.
const LinkLines = "text/x-link-lines"

// lines takes the links of a page of LinkLines. They are UTF-8.
func (p *page) lines(body []byte) {
	mark := []byte("link:")
	for line := range bytes.Lines(body) {
		if !p.spend(stepsToken + len(line)) {
			return
		}
		if _, ref, ok := bytes.Cut(line, mark); ok {
			p.refer("line", "", bytes.TrimSpace(ref))
		}
	}
}
