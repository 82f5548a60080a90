// Package scan reads the markup of a page for the few tags that matter. It is fed by extract with
// UTF-8, and gives extract tags and text.
//
// It takes tags, comments, raw text and character references for what the tokenizer of
// golang.org/x/net/html takes them for, byte by byte; its tests hold it to that. It is quicker
// since it does not look at what nobody wants: it goes from one '<' to the next, and of most tags
// it reads no more than it needs to find their end.
package scan

import "bytes"

// A Kind says what Next has found.
type Kind uint8

const (
	End    Kind = iota // nothing more
	More               // the text that is there ends before what is being read does
	Start              // a start tag
	EndTag             // an end tag
	Text               // text between tags
)

// MaxToken bounds what is held of a tag, comment, CDATA section or raw text, in bytes. A longer one
// is read past: a tag of that length counts for what follows, but is not given; of text such as a
// title the first bytes are. Ordinary text has no bound.
const MaxToken = 4 << 20

// A Scanner reads one page. What its methods give is valid until the next call of Next or Feed.
type Scanner struct {
	// Text makes Next give text too, with the exception of raw text. It may be set before any call
	// of Next.
	Text bool
	// XHTML: the page is not HTML but XHTML; it may have CDATA sections, and elements closed by a
	// slash, anywhere. In HTML only drawings have: the elements svg and math.
	XHTML bool

	names    *Names
	src      []byte
	last     bool // nothing comes behind src
	pos      int  // where Next goes on
	dropped  int  // bytes that were before src
	exceeded bool
	most     int // bytes of a token; MaxToken but for tests

	shortened bool // the tag at pos is longer than it stands there
	section   bool // the rest of a CDATA section is at pos, of which the text was given

	raw      *name       // the element whose raw text is at pos; nil: none is
	script   scriptState // of the raw text before pos
	drawings Drawings

	latest   tag
	text     span
	sections bool // the text is a CDATA section
}

// A tag is what Next has read of a start or end tag.
type tag struct {
	element *name
	closed  bool // it closes its element at once
	size    int

	attribute attribute           // the last one
	found     uint32              // a bit for each attribute that it has
	values    [maxAttributes]span // of these
}

type span struct{ start, end int }

// New returns a Scanner for a page whose text is src and, unless last is set, what is fed later.
func New(names *Names, src []byte, last bool) *Scanner {
	return &Scanner{names: names, src: src, last: last, most: MaxToken}
}

// Reset makes s what New gives, in the same memory.
func (s *Scanner) Reset(names *Names, src []byte, last bool) {
	*s = Scanner{names: names, src: src, last: last, most: MaxToken, drawings: Drawings{open: s.drawings.open[:0]}}
}

// Rest returns the text that is not read yet. After More it is to be fed again, with more.
func (s *Scanner) Rest() []byte { return s.src[s.pos:] }

// Feed adds text: src begins with what Rest returned.
func (s *Scanner) Feed(src []byte, last bool) {
	s.dropped += s.pos
	s.src, s.last, s.pos = src, last, 0
}

// Read returns the number of bytes read.
func (s *Scanner) Read() int { return s.dropped + s.pos }

// Exceeded reports whether a tag that is wanted was not given, because of MaxToken.
func (s *Scanner) Exceeded() bool { return s.exceeded }

// Element returns the place of the tag's element in the list of Names.
func (s *Scanner) Element() int { return s.latest.element.id }

// Closed reports whether a start tag closes its element at once, by a slash where that counts.
func (s *Scanner) Closed() bool { return s.latest.closed }

// InDrawing reports whether an svg or math element is open.
func (s *Scanner) InDrawing() bool { return s.drawings.Any() }

// Size returns the bytes of the tag.
func (s *Scanner) Size() int { return s.latest.size }

// hasSections reports whether CDATA sections and closing slashes count.
func (s *Scanner) hasSections() bool { return s.XHTML || s.drawings.Foreign() }

// Next goes on to the next tag or text that is wanted.
func (s *Scanner) Next() Kind {
	if s.section && !s.skipSection() {
		return s.unfinished(s.pos)
	}
	if s.raw != nil && !s.skipRaw() {
		return s.unfinished(s.pos)
	}
	src := s.src
	start := s.pos // of text
	for p := start; ; {
		if p == len(src) || src[p] != '<' { // many tags follow each other at once
			i := bytes.IndexByte(src[p:], '<')
			if i < 0 {
				return s.endOfPage(start, len(src))
			}
			p += i
		}
		if p+1 == len(src) {
			return s.endOfPage(start, p)
		}
		c := src[p+1]
		if !isLetter(c) && c != '/' && c != '!' && c != '?' {
			p++ // a '<' that is text
			continue
		}
		if s.Text && p > start {
			s.text, s.sections, s.pos = span{start, p}, false, p
			return Text
		}
		next, given := 0, End
		switch {
		case isLetter(c):
			next, given = s.tag(p, p+1, true)
		case c != '/':
			next, given = s.declaration(p)
		case p+2 == len(src):
			return s.endOfPage(p, p)
		case isLetter(src[p+2]):
			next, given = s.tag(p, p+2, false)
		default:
			next = behind(src, p+2, '>')
		}
		switch {
		case next < 0:
			return s.unfinished(p)
		case given != End:
			s.pos = next
			return given
		case s.section:
			s.pos = next
			return More
		case s.raw != nil:
			if s.pos = next; !s.skipRaw() {
				return s.unfinished(s.pos)
			}
			next = s.pos
		}
		p, start = next, next
	}
}

// endOfPage ends the text that goes on to the end of src; hold is where markup may begin in it.
func (s *Scanner) endOfPage(start, hold int) Kind {
	switch {
	case !s.last && s.Text:
		s.pos = start
		return More
	case !s.last:
		s.pos = hold
		return More
	}
	s.pos = len(s.src)
	if !s.Text || start == len(s.src) {
		return End
	}
	s.text, s.sections = span{start, len(s.src)}, false
	return Text
}

// unfinished ends what begins at p and does not end in src.
func (s *Scanner) unfinished(p int) Kind {
	s.pos = p
	switch {
	case s.last:
		s.pos, s.raw, s.section = len(s.src), nil, false
		return End
	case s.raw == nil && !s.section && len(s.src)-p >= s.most+slack:
		s.shorten()
	}
	return More
}

// behind returns the place behind the first c from p on; -1: there is none.
func behind(src []byte, p int, c byte) int {
	i := bytes.IndexByte(src[p:], c)
	if i < 0 {
		return -1
	}
	return p + i + 1
}

// tag reads the tag at p, whose name is at q. Here and below, -1 for the place behind means that
// src ends before.
func (s *Scanner) tag(p, q int, isStart bool) (next int, given Kind) {
	src, nameAt := s.src, q
	var h uint64
	for ; q < len(src); q++ {
		c := inName[src[q]]
		if c == 0 {
			break
		}
		h = h<<8 | uint64(c)
	}
	if q == len(src) {
		return -1, End
	}
	element := s.names.elements.get(h, src[nameAt:q])
	if element == nil {
		element = s.names.other
	}
	wanted := s.isWanted(element, isStart)
	s.latest.found = 0
	if next = q + 1; src[q] != '>' {
		next = s.attributes(q, wanted && isStart)
	}
	if next < 0 {
		return next, End
	}
	isLong := s.shortened || next-p >= s.most
	s.shortened = false
	if element == nil && !s.drawings.Any() {
		return next, End
	}
	s.count(element, h, src[nameAt:q], isStart, isStart && s.hasSlash(next))
	switch {
	case !wanted:
		return next, End
	case isLong:
		s.exceeded = true
		return next, End
	}
	s.latest.element, s.latest.size = element, next-p
	if isStart {
		return next, Start
	}
	return next, EndTag
}

// isWanted reports whether a tag is given.
func (s *Scanner) isWanted(element *name, isStart bool) bool {
	always, inText := Ends, EndsInText
	if isStart {
		always, inText = Starts, StartsInText
	}
	return element != nil && (element.want&always != 0 || s.Text && element.want&inText != 0)
}

// count lets a tag decide how to read on.
func (s *Scanner) count(element *name, h uint64, spelt []byte, isStart, slash bool) {
	isDrawing := element != nil && element.kind == drawing
	if !isStart {
		if s.drawings.Any() {
			s.drawings.end(h, spelt)
		}
		return
	}
	foreign := false
	if isDrawing || s.drawings.Any() || s.drawings.unsure {
		foreign = s.drawings.start(h, spelt, slash)
	}
	s.latest.closed = slash && (foreign || s.XHTML)
	if element != nil && element.kind != ordinary && !isDrawing && !foreign && !s.latest.closed {
		s.raw = element
	}
}

// An attribute is where a name and its value stand; the latter is empty if there is none.
type attribute struct {
	key, value span
	hash       uint64 // of the name in lower case
}

// attributes reads those of a tag from p on, the last one into s.latest.attribute. If keep is set,
// it notes the values of those that names has.
func (s *Scanner) attributes(p int, keep bool) (next int) {
	src, a := s.src, &s.latest.attribute
	a.value = span{}
	for {
		for p < len(src) && isSpace(src[p]) {
			p++
		}
		if p == len(src) {
			return -1
		}
		if src[p] == '>' {
			return p + 1
		}
		if src[p] == '/' {
			p++
			continue
		}
		if p = a.read(src, p); p < 0 {
			return -1
		}
		if keep {
			if n := s.names.attributes.get(a.hash, src[a.key.start:a.key.end]); n != nil && s.latest.found>>n.id&1 == 0 {
				s.latest.found |= 1 << n.id
				s.latest.values[n.id] = a.value
			}
		}
	}
}

// read reads the attribute at p, which is no white space, '/' or '>'.
func (a *attribute) read(src []byte, p int) (next int) {
	a.key.start = p
	h := uint64(inName[src[p]]) // a '=' at the start belongs to the name
	for p++; p < len(src); p++ {
		c := inKey[src[p]]
		if c == 0 {
			break
		}
		h = h<<8 | uint64(c)
	}
	a.key.end, a.hash = p, h
	a.value = span{p, p}
	for p < len(src) && isSpace(src[p]) {
		p++
	}
	if p == len(src) {
		return -1
	}
	if src[p] != '=' {
		return p
	}
	for p++; p < len(src) && isSpace(src[p]); {
		p++
	}
	if p == len(src) {
		return -1
	}
	switch c := src[p]; c {
	case '>':
		return p
	case '"', '\'':
		p++
		i := bytes.IndexByte(src[p:], c)
		if i < 0 {
			return -1
		}
		a.value = span{p, p + i}
		return p + i + 1
	}
	start := p
	for p < len(src) && src[p] != '>' && !isSpace(src[p]) {
		p++
	}
	if p == len(src) {
		return -1
	}
	a.value = span{start, p}
	return p
}

// hasSlash reports whether the tag that ends before next has a slash at its end that does not
// belong to the value of its last attribute.
func (s *Scanner) hasSlash(next int) bool {
	value := s.latest.attribute.value
	return s.src[next-2] == '/' && (value.end != next-1 || value.start == value.end)
}
