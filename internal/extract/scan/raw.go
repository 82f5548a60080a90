package scan

import "bytes"

// RawText returns the text of the element whose start tag Next returned last, and which has raw
// text: title, textarea, script, style, iframe, noembed, noframes, xmp and plaintext. It is empty
// for other elements. If the element does not end, it is what there is of it. What Next gives then
// is behind it. If more is set, the text is not there yet as a whole: it is to be fed and asked for
// again.
func (s *Scanner) RawText() (text []byte, more bool) {
	if s.raw == nil {
		return nil, false
	}
	references := s.raw.kind == rcdata
	if text, more = s.RawSource(); more {
		return nil, true
	}
	return appendText(nil, text, true, references), false
}

// RawSource is like RawText, but returns the text as the page has it. It begins where Rest did.
func (s *Scanner) RawSource() (text []byte, more bool) {
	if s.raw == nil {
		return nil, false
	}
	start := s.pos
	end, _ := s.endOfRaw(new(scriptState), len(s.src))
	if end < 0 {
		if end = len(s.src); !s.last {
			if end-start < s.most+slack {
				return nil, true
			}
			return s.src[start : start+s.most], false // Next skips it
		}
	}
	s.pos, s.raw = end, nil
	return s.src[start:min(end, start+s.most)], false
}

// skipRaw goes to the end tag of s.raw. It gives false, and goes on as far as it can, if that is
// not there.
func (s *Scanner) skipRaw() bool {
	limit := len(s.src)
	if !s.last { // an end tag that has begun is there as a whole then
		limit = max(s.pos, limit-slack)
	}
	end, at := s.endOfRaw(&s.script, limit)
	if s.pos = at; end >= 0 {
		s.raw, s.script = nil, scriptState{}
	}
	return end >= 0
}

// skipSection does the same for the end of a CDATA section.
func (s *Scanner) skipSection() bool {
	const end = "]]>"
	i := bytes.Index(s.src[s.pos:], []byte(end))
	if i < 0 {
		s.pos = max(s.pos, len(s.src)-len(end)+1)
		return false
	}
	s.pos, s.section = s.pos+i+len(end), false
	return true
}

// endOfRaw returns the place of the end tag of s.raw, of whose text s.pos is the beginning or where
// an earlier call came to; -1: it has none that begins before limit. at is where to go on then.
func (s *Scanner) endOfRaw(state *scriptState, limit int) (end, at int) {
	switch s.raw.kind {
	case plaintext:
		return -1, limit
	case script:
		return state.end(s.src, s.pos, limit)
	}
	for p := s.pos; ; p++ {
		i := bytes.IndexByte(s.src[p:limit], '<')
		if i < 0 {
			return -1, limit
		}
		if p += i; isEndTag(s.src[p:], s.raw.text) {
			return p, p
		}
	}
}

// isEndTag reports whether text begins with an end tag of this name.
func isEndTag(text []byte, name string) bool {
	const before = len("</")
	return len(text) > before+len(name) && text[1] == '/' && hasFold(text[before:], name) && inName[text[before+len(name)]] == 0
}

// A scriptState is how far the text of a script has been read: not in a comment, in one, or there
// in a script tag; and the dashes before, in a comment.
type scriptState struct{ state, dashes int }

// end returns the place of the end tag of a script whose text goes on at p; -1: none begins before
// limit, and at is where to go on.
//
// A script may be hidden in a comment, and in such a comment a script tag hides the end tag that
// belongs to it. The rules are those of the tokenizer: in a comment, a '<' that begins neither
// an end tag nor a name ends the comment.
func (s *scriptState) end(src []byte, p, limit int) (end, at int) {
	const tag = "script"
	const (
		open    = iota // not in a comment
		comment        // in a comment
		hidden         // and in a script tag
	)
	state, dashes := s.state, s.dashes
	defer func() { s.state, s.dashes = state, dashes }()
	for {
		if p >= limit {
			return -1, p
		}
		if state == open {
			i := bytes.IndexByte(src[p:limit], '<')
			if i < 0 {
				return -1, limit
			}
			p += i + 1
			switch {
			case isEndTag(src[p-1:], tag):
				return p - 1, p - 1
			case bytes.HasPrefix(src[p:], []byte("!--")):
				state, dashes = comment, 2
				p += len("!--")
			}
			continue
		}
		c := src[p]
		p++
		switch {
		case c == '-':
			dashes++
			continue
		case c == '>' && dashes >= 2:
			state = open
		case c != '<' || p == len(src):
		case src[p] == '/':
			switch isEnd := isEndTag(src[p-1:], tag); {
			case isEnd && state == comment:
				return p - 1, p - 1
			case isEnd:
				state = comment
				p += len("/script>")
			default:
				p++
			}
		case state == hidden:
		case !isLetter(src[p]):
			state = open
		case hasFold(src[p:], tag) && p+len(tag) < len(src) && inName[src[p+len(tag)]] == 0:
			state = hidden
			p += len(tag) + 1
		}
		dashes = 0
	}
}

// declaration reads what begins with "<!" or "<?" at p: a comment, a doctype, a CDATA section,
// or something that ends at the next '>'. Only the section is given, as text.
func (s *Scanner) declaration(p int) (next int, given Kind) {
	src, body := s.src, p+len("<!")
	const section = "[CDATA["
	switch {
	case src[p+1] == '?':
		return behind(src, body, '>'), End
	case bytes.HasPrefix(src[body:], []byte("--")):
		return endOfComment(src, body+len("--")), End
	case !s.hasSections() || !bytes.HasPrefix(src[body:], []byte(section)):
		if !s.last && len(src)-body < len(section) {
			return -1, End // it may become a comment or section
		}
		return behind(src, body, '>'), End
	}
	body += len(section)
	end := len(src)
	next = -1
	if i := bytes.Index(src[body:], []byte("]]>")); i >= 0 {
		end = body + i
		next = end + len("]]>")
	} else if s.last {
		next = end
	} else if end-p >= s.most+slack {
		s.section = true
		next = end - len("]]")
	}
	end = min(end, p+s.most)
	if next < 0 || !s.Text || end <= body {
		return next, End
	}
	s.text, s.sections = span{body, end}, true
	return next, Text
}

// endOfComment returns the place behind a comment whose text begins at p; -1: it does not end.
func endOfComment(src []byte, start int) int {
	for p := start; ; {
		if p = behind(src, p, '>'); p < 0 {
			return -1
		}
		text := src[start : p-1]
		if bytes.HasSuffix(text, []byte("--")) || bytes.HasSuffix(text, []byte("--!")) || len(text) == 0 || len(text) == 1 && text[0] == '-' {
			return p
		}
	}
}
