package scan

// A Place is where an attribute of a tag stands in the text that the Scanner was given last.
type Place struct {
	Key, KeyEnd     int  // its name
	Value, ValueEnd int  // its value without quotes; behind the name if there is none
	End             int  // behind its value and quotes
	Assigned        bool // it has a value, though that may be empty
	Quoted          bool // the value has quotes
}

// Places appends the places of the attributes of the start tag that Next returned last, in the
// order of the page, repeats included. It must be called before the methods that read on.
func (s *Scanner) Places(to []Place) []Place {
	p := s.pos - s.latest.size + len("<")
	for inName[s.src[p]] != 0 {
		p++
	}
	for {
		for isSpace(s.src[p]) || s.src[p] == '/' {
			p++
		}
		if s.src[p] == '>' {
			return to
		}
		var a attribute
		p = a.read(s.src, p)
		v := a.value
		place := Place{Key: a.key.start, KeyEnd: a.key.end, Value: v.start, ValueEnd: v.end, End: v.end, Assigned: v.start > a.key.end}
		if c := s.src[v.start-1]; place.Assigned && (c == '"' || c == '\'') {
			place.Quoted = true
			place.End++
		}
		to = append(to, place)
	}
}

// TextSource returns the text that Next returned as the page has it, and where it begins in the
// text that the Scanner was given last.
func (s *Scanner) TextSource() (text []byte, at int) {
	return s.src[s.text.start:s.text.end], s.text.start
}

// Value returns what the source of an attribute's value stands for. The result may be part of raw.
func Value(raw []byte) []byte {
	if isPlain(raw) {
		return raw
	}
	return unescape(make([]byte, 0, len(raw)), newlines(replaceNUL(raw)), true)
}
