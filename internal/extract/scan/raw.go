package scan

import "bytes"

// RawText gives the text of the element whose start tag Next gave last, and which has raw text:
// title, textarea, script, style, iframe, noembed, noframes, xmp and plaintext. It is empty for
// other elements. If the element does not end, it is what there is of it. What Next gives then is
// behind it. If more is set, the text is not there yet as a whole: it is to be fed and asked for again.
func (s *Scanner) RawText() (text []byte, more bool) {
	if s.raw == nil {
		return nil, false
	}
	start, end, references := s.pos, s.endOfRaw(), s.raw.kind == rcdata
	if end < 0 {
		if s.unfinished(start) == More {
			return nil, true
		}
		end = len(s.src)
	} else if s.pos, s.raw = end, nil; s.exceeded {
		end = len(s.src)
	}
	return appendText(nil, s.src[start:min(end, start+MaxToken)], true, references), false
}

// skipRaw goes to the end tag of s.raw. It gives false if there is none, or the text is too long.
func (s *Scanner) skipRaw() bool {
	end := s.endOfRaw()
	if end < 0 || s.exceeded {
		return false
	}
	s.pos, s.raw = end, nil
	return true
}

// endOfRaw gives the place of the end tag of s.raw, whose text begins at s.pos; -1: it has none.
func (s *Scanner) endOfRaw() int {
	end := -1
	switch s.raw.kind {
	case plaintext:
	case script:
		end = endOfScript(s.src, s.pos)
	default:
		for p := s.pos; ; {
			i := bytes.IndexByte(s.src[p:], '<')
			if i < 0 {
				break
			}
			p += i + 1
			if isEndTag(s.src[p-1:], s.raw.text) {
				end = p - 1
				break
			}
		}
	}
	if end >= 0 && end-s.pos+len("</>")+len(s.raw.text) >= MaxToken {
		s.exceeded = true // the tokenizer reads the end tag as part of the text at first
	}
	return end
}

// isEndTag tells whether text begins with an end tag of this name.
func isEndTag(text []byte, name string) bool {
	const before = len("</")
	return len(text) > before+len(name) && text[1] == '/' && hasFold(text[before:], name) && inName[text[before+len(name)]] == 0
}

// endOfScript gives the place of the end tag of a script whose text begins at p; -1: it has none.
//
// A script may be hidden in a comment, and in such a comment a script tag hides the end tag that
// belongs to it. The rules are those of the tokenizer: in a comment, a '<' that begins neither
// an end tag nor a name ends the comment.
func endOfScript(src []byte, p int) int {
	const tag = "script"
	const (
		open    = iota // not in a comment
		comment        // in a comment
		hidden         // and in a script tag
	)
	state, dashes := open, 0 // dashes before p, in a comment
	for {
		if state == open {
			i := bytes.IndexByte(src[p:], '<')
			if i < 0 {
				return -1
			}
			p += i + 1
			switch {
			case isEndTag(src[p-1:], tag):
				return p - 1
			case bytes.HasPrefix(src[p:], []byte("!--")):
				state, dashes = comment, 2
				p += len("!--")
			}
			continue
		}
		if p == len(src) {
			return -1
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
				return p - 1
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
	} else if s.last || end-p >= MaxToken {
		next = end
		s.exceeded = end-p >= MaxToken
	}
	if next-p >= MaxToken {
		end = p + MaxToken
	}
	if next < 0 || !s.Text || end == body {
		return next, End
	}
	s.text, s.sections = span{body, end}, true
	return next, Text
}

// endOfComment gives the place behind a comment whose text begins at p; -1: it does not end.
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
