package extract

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"

	"urltree/storage/record"
)

// Bounds of Result.Meta, in bytes. What all but headings may take leaves some room for those.
const (
	maxMeta       = 4 << 10 // of all texts but those of links
	maxText       = 500     // of title and description
	maxLanguage   = 100
	maxDirectives = 300  // of page and header, each
	maxCanonical  = 2048 // a longer one is left out: cut it would be another
	maxHeading    = 200
	maxHeadings   = 20
	maxLinkText   = 100
	maxLinkTexts  = 2 << 10 // of all together, and a byte between each two
)

// A line collects text as one line of UTF-8: white space becomes single spaces, other control
// characters go, and it ends before the character that would make it longer than max.
type line struct {
	max   int
	text  []byte
	space bool // one stands before the next character
	full  bool
}

func (l *line) add(text []byte) {
	for i := 0; i < len(text) && !l.full; {
		if !l.space { // most text is words of ASCII
			end, most := i, min(len(text), i+l.max-len(l.text))
			for end < most && text[end] > ' ' && text[end] < 0x7f {
				end++
			}
			if end > i {
				l.text = append(l.text, text[i:end]...)
				i = end
				continue
			}
		}
		r, n := rune(text[i]), 1
		if r >= utf8.RuneSelf {
			r, n = utf8.DecodeRune(text[i:])
		}
		i += n
		switch {
		case unicode.IsSpace(r):
			l.space = len(l.text) > 0
		case unicode.IsControl(r):
		default:
			old := len(l.text)
			if l.space {
				l.text = append(l.text, ' ')
			}
			if l.text = utf8.AppendRune(l.text, r); len(l.text) > l.max {
				l.text, l.full = l.text[:old], true
			}
			l.space = false
		}
	}
}

// take returns the text and begins anew.
func (l *line) take() string {
	text := string(l.text)
	l.reset()
	return text
}

func (l *line) reset() { l.text, l.space, l.full = l.text[:0], false, false }

// oneLine returns text as a line of at most so many bytes.
func (p *page) oneLine(text []byte, most int) string {
	p.refs.short.max = most
	p.refs.short.add(text)
	return p.refs.short.take()
}

// item adds text as one item of a list.
func (l *line) item(text string) {
	if strings.TrimSpace(text) == "" {
		return
	}
	if len(l.text) > 0 {
		l.add([]byte(", "))
	}
	l.add([]byte(text))
}

// list returns all items, without the comma before one that did not fit.
func (l *line) list() string { return strings.TrimRight(l.take(), ", ") }

// level returns the 2 of h2; 0: it is no heading.
func level(name []byte) uint8 {
	if len(name) == 2 && name[0] == 'h' && '1' <= name[1] && name[1] <= '6' {
		return name[1] - '0'
	}
	return 0
}

func (p *page) endHeading() {
	if p.about.level == 0 {
		return
	}
	if len(p.about.heading.text) > 0 {
		p.about.headingTexts = append(p.about.headingTexts, p.about.heading.text...)
		p.about.headings = append(p.about.headings, heading{p.about.level, len(p.about.headingTexts)})
	}
	p.about.heading.reset()
	p.about.level = 0
}

// A heading is one whose text is known.
type heading struct {
	level uint8
	end   int // of its text in page.headingTexts; it begins where the one before ends
}

// takeHeadings returns the first ones whose texts have so much room, in bytes.
func (p *page) takeHeadings(room int) []record.Heading {
	n := 0
	for n < len(p.about.headings) && p.about.headings[n].end <= room {
		n++
	}
	if n == 0 {
		return nil
	}
	list, start := make([]record.Heading, n), 0
	texts := string(p.about.headingTexts[:p.about.headings[n-1].end])
	for i, h := range p.about.headings[:n] {
		list[i] = record.Heading{Level: h.level, Text: texts[start:h.end]}
		start = h.end
	}
	return list
}

// startTag sees to the texts that end with a tag, begin with it or go on.
func (p *page) startTag(name []byte, closed bool) {
	if level := level(name); level > 0 && !closed {
		p.endHeading() // of the one before, if nothing else has ended it
		if level <= 3 && len(p.about.headings) < maxHeadings {
			p.about.level = level
		}
	}
	if string(name) == "a" {
		p.endLink()
	}
	p.separate(name)
}

func (p *page) endTag(name []byte) {
	if level(name) > 0 {
		p.endHeading()
	}
	if string(name) == "a" {
		p.endLink()
	}
	p.separate(name)
}

// lineEnds are elements that begin and end a line, besides headings.
var lineEnds = []string{"br", "div", "p", "li", "dd", "dt", "td"}

// separate adds a space to open texts at a tag that begins or ends a line.
func (p *page) separate(name []byte) {
	if p.about.level == 0 && !p.called.open {
		return
	}
	if level(name) > 0 || slices.Contains(lineEnds, string(name)) {
		p.text([]byte{' '})
	}
}

// wantsText reports whether text that follows belongs to a heading or link.
func (p *page) wantsText() bool {
	return p.about.level > 0 && !p.about.heading.full || p.called.open && !p.called.text.full
}

func (p *page) text(text []byte) {
	if p.about.level > 0 {
		p.about.heading.add(text)
	}
	if p.called.open {
		p.called.text.add(text)
	}
}

// startLink begins the text of an a element, and keeps that of an area element. place is that of
// its link, unless there are too many.
func (p *page) startLink(name string, a attributes, place int) {
	p.texts.named = place
	if name == "a" {
		p.called.open = !p.called.full || p.opts.Edges
		return
	}
	alt, _ := a.Attr(attrAlt)
	text := []byte(p.oneLine(alt, maxLinkText))
	p.keepLinkText(text)
	p.nameEdge(text)
}

// endLink keeps the text of the element a that is open.
func (p *page) endLink() {
	if p.called.open {
		p.keepLinkText(p.called.text.text)
		p.nameEdge(p.called.text.text)
		p.called.text.reset()
		p.called.open = false
	}
}

// keepLinkText keeps a text once. The first that is too long for what is left ends the list.
func (p *page) keepLinkText(text []byte) {
	if len(text) == 0 || p.called.full {
		return
	}
	if p.called.full = len(p.called.all)+len(text) > maxLinkTexts; p.called.full {
		return
	}
	hash := xxhash.Sum64(text)
	if slices.Contains(p.called.hashes, hash) {
		return
	}
	if cap(p.called.all) == 0 {
		p.called.all, p.called.hashes = make([]byte, 0, maxLinkTexts+1), make([]uint64, 0, maxLinkTexts/16)
	}
	p.called.all, p.called.hashes = append(append(p.called.all, text...), '\n'), append(p.called.hashes, hash)
}

// describe takes what a meta element says about the page.
func (p *page) describe(name, property string, content []byte) {
	switch {
	case name == "description" && p.about.meta.Description == "":
		p.about.meta.Description = p.oneLine(content, maxText)
	case (name == "og:description" || property == "og:description") && p.about.ogDescription == "":
		p.about.ogDescription = p.oneLine(content, maxText)
	}
}

// finish returns the metadata, with what the header says; nil if there are none.
func (p *page) finish(f Facts) *record.Meta {
	m := p.about.meta // a copy: the page does not stay in memory
	if m.Description == "" {
		m.Description = p.about.ogDescription
	}
	// A header that names several languages tells for whom the page is, not what it is written in.
	if m.Language == "" && f.Language != "" && !strings.Contains(f.Language, ",") {
		m.Language = p.oneLine([]byte(f.Language), maxLanguage)
	}
	m.Robots = p.about.robots.list()
	for _, value := range f.Robots {
		p.about.robots.item(value)
	}
	m.RobotsHeader = p.about.robots.list()
	m.Headings = p.takeHeadings(maxMeta - m.Size())
	if n := len(p.called.all); n > 0 {
		m.LinkTexts = strings.Split(string(p.called.all[:n-1]), "\n")
	}
	if m.Size() == 0 {
		return nil
	}
	return &m
}
