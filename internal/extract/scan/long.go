package scan

import "bytes"

// A long is a token of more than MaxToken bytes of which the beginning is not there any more. It is
// read past, and then counts for what follows as a shorter one does.
type long struct {
	kind   longKind
	script scriptState // of the text of a script

	element *name  // of a tag that Names have; nil: another one
	name    []byte // of a tag
	isStart bool
	at      place // in a tag
	quote   byte  // that ends the value
	slash   bool  // the byte before is a slash that belongs to no value
}

type longKind uint8

const (
	noLong          longKind = iota
	longTag                  // of any name
	longComment              //
	longDeclaration          // up to the next '>'
	longSection              // CDATA
	longRaw                  // the text of Scanner.raw
)

// A place is one in a tag.
type place uint8

const (
	inTagName place = iota
	beforeKey
	inKeyName
	behindKey
	beforeValue
	quoted
	unquoted
)

// slack is how much more than MaxToken there is of a token before it is taken for a long one: its
// end begins behind MaxToken then.
const slack = 16

// begin begins to read past the token at s.pos, which does not end in src.
func (s *Scanner) begin() {
	l := &s.long
	*l = long{}
	src, p := s.src, s.pos
	switch {
	case s.raw != nil:
		l.kind = longRaw
	case src[p+1] == '/' && isLetter(src[p+2]), isLetter(src[p+1]):
		l.kind, l.isStart = longTag, src[p+1] != '/'
		s.pos++
		if !l.isStart {
			s.pos++
		}
		end := s.pos
		for end < len(src) && inName[src[end]] != 0 {
			end++
		}
		if end < len(src) {
			l.name, l.at = bytes.Clone(src[s.pos:end]), beforeKey
			if l.element = s.names.elements.get(foldedHash(l.name), l.name); l.element == nil {
				l.element = s.names.other
			}
		}
		s.pos = end
	case bytes.HasPrefix(src[p:], []byte("<!--")):
		l.kind = longComment
		s.pos += len("<!--")
	default:
		l.kind = longDeclaration
	}
	s.readPast()
}

// readPast goes on to the end of the long token. It is false if that is not there yet.
func (s *Scanner) readPast() bool {
	var ended bool
	switch l := &s.long; l.kind {
	case longTag:
		ended = s.passTag()
	case longComment:
		ended = s.pass("--", []byte(">"), []byte("!>"))
	case longSection:
		ended = s.pass("]]", []byte(">"))
	case longDeclaration:
		ended = s.pass("", []byte(">"))
	case longRaw:
		ended = s.passRaw()
	}
	if ended || s.last {
		s.long.kind = noLong
	}
	if !ended && s.last {
		s.pos, s.raw = len(s.src), nil
	}
	return ended
}

// pass goes on behind the first place with before and then one of the ends.
func (s *Scanner) pass(before string, ends ...[]byte) bool {
	for p := s.pos; ; {
		i := bytes.IndexByte(s.src[p:], '>')
		if i < 0 {
			// The end may have begun.
			s.pos = max(s.pos, len(s.src)-len(before)-len("!"))
			return false
		}
		p += i + 1
		for _, end := range ends {
			if text, ok := bytes.CutSuffix(s.src[s.pos:p], end); ok && bytes.HasSuffix(text, []byte(before)) {
				s.pos = p
				return true
			}
		}
	}
}

// passRaw goes on to the end tag of raw text.
func (s *Scanner) passRaw() bool {
	limit := len(s.src)
	if !s.last { // an end tag that has begun is there as a whole then
		limit = max(s.pos, limit-slack)
	}
	end, at := s.endOfRaw(&s.long.script, limit)
	s.pos = at
	if end >= 0 {
		s.raw = nil
	}
	return end >= 0
}

// passTag goes on behind a tag, byte by byte as [Scanner.attributes] does.
func (s *Scanner) passTag() bool {
	l := &s.long
	for ; s.pos < len(s.src); s.pos++ {
		c := s.src[s.pos]
		switch l.at {
		case quoted:
			i := bytes.IndexByte(s.src[s.pos:], l.quote)
			if i < 0 {
				s.pos = len(s.src)
				return false
			}
			s.pos += i
			l.at, l.slash = beforeKey, false
			continue
		case beforeValue:
			switch {
			case isSpace(c):
				continue
			case c == '"', c == '\'':
				l.at, l.quote = quoted, c
				continue
			case c != '>':
				l.at = unquoted
				continue
			}
		case unquoted:
			if isSpace(c) {
				l.at = beforeKey
			}
		case behindKey, inKeyName:
			switch {
			case c == '=':
				l.at = beforeValue
				continue
			case isSpace(c) && l.at == inKeyName:
				l.at = behindKey
			}
		}
		if c == '>' {
			s.pos++
			s.passed()
			return true
		}
		l.step(c)
	}
	return false
}

// step goes on by a byte that ends neither the tag nor, in a value, that.
func (l *long) step(c byte) {
	if l.at == unquoted {
		return
	}
	l.slash = c == '/'
	switch {
	case l.slash:
		l.at = beforeKey
	case isSpace(c):
		if l.at == inTagName {
			l.at = beforeKey
		}
	case l.at != inTagName:
		l.at = inKeyName
	}
}

// passed lets a long tag count.
func (s *Scanner) passed() {
	l := &s.long
	s.count(l.element, foldedHash(l.name), l.name, l.isStart, l.slash)
	s.exceeded = s.exceeded || s.isWanted(l.element, l.isStart)
}
