package scan

import (
	"bytes"
	"regexp"
	"slices"
)

// slack is how much more than MaxToken there is of a token before it is taken for a long one: its
// end begins behind MaxToken then. No end tag of raw text is longer.
const slack = 16

// mostName is how much of a name is kept, in bytes: more than any has that is looked for.
const mostName = 32

// shorten leaves out, of a tag, comment or declaration at s.pos that does not end in src, all that
// neither says where it ends nor counts for what follows. So any length of it takes little memory.
func (s *Scanner) shorten() {
	token := s.src[s.pos:]
	var short []byte
	switch {
	case isLetter(token[1]), token[1] == '/' && isLetter(token[2]):
		short, s.shortened = shortTag(token), true
	case bytes.HasPrefix(token, []byte("<!--")):
		short = append([]byte("<!--x"), token[len(token)-len("--!"):]...)
	default:
		short = []byte{'<', token[1], '?'}
	}
	s.dropped += len(s.src) - len(short)
	s.src, s.pos = short, 0
}

// begun finds, of an attribute that has no end, what decides where that is: whether its name has
// ended, its equals sign, and the first byte of its value, which may be a quote.
var begun = regexp.MustCompile(`(?s)^.[^ \t\n\r\f/>=]*([ \t\n\r\f]?)[ \t\n\r\f]*(=?)[ \t\n\r\f]*(.?)`)

// shortTag returns a tag that goes on as this one does: with the same name, or the end of one that
// is too long for any that is looked for, and of the attributes what there is of one that has no
// end.
func shortTag(tag []byte) []byte {
	at := len("<")
	if tag[at] == '/' {
		at++
	}
	end := at
	for end < len(tag) && inName[tag[end]] != 0 {
		end++
	}
	short, name := bytes.Clone(tag[:at]), tag[at:end]
	if len(name) > mostName {
		short, name = append(short, 'x'), name[len(name)-mostName:]
	}
	short = append(short, name...)
	if end == len(tag) {
		return short
	}
	for end < len(tag) {
		if isSpace(tag[end]) || tag[end] == '/' {
			end++
			continue
		}
		var a attribute
		next := a.read(tag, end)
		if next < 0 {
			m := begun.FindSubmatch(tag[end:])
			return slices.Concat(short, []byte(" x"), m[1], m[2], m[3])
		}
		end = next
	}
	if tag[end-1] == '/' {
		return append(short, '/')
	}
	return append(short, ' ')
}
