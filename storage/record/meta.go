package record

// Meta is what a stored HTML page says about itself. Each text is one line of UTF-8; an empty one
// was not there. Nothing depends on it: a page may have none.
type Meta struct {
	Title        string
	Description  string
	Language     string
	Canonical    string // canonical URL that the page gives as its own; its record is under the other
	Robots       string // directives of its meta elements, as they are written
	RobotsHeader string // those of its header
	Headings     []Heading
	LinkTexts    []string // what its links are called, each once; none is empty
}

// A Heading is the text of an element h1, h2 or h3.
type Heading struct {
	Level uint8
	Text  string
}

// levelLink stands where a heading has its level: the text is one of a link.
const levelLink = 0

func (m *Meta) fields() [6]*string {
	return [6]*string{&m.Title, &m.Description, &m.Language, &m.Canonical, &m.Robots, &m.RobotsHeader}
}

// Size returns the bytes of all texts; those of nil are none.
func (m *Meta) Size() (n int) {
	if m == nil {
		return 0
	}
	for _, s := range m.fields() {
		n += len(*s)
	}
	for _, h := range m.Headings {
		n += len(h.Text)
	}
	for _, s := range m.LinkTexts {
		n += len(s)
	}
	return n
}

// Append appends the value that stands under the record key of the page.
func (m *Meta) Append(b, key []byte) []byte {
	for _, s := range m.fields() {
		b = appendString(b, *s)
	}
	for _, h := range m.Headings {
		b = appendString(append(b, h.Level), h.Text)
	}
	for _, s := range m.LinkTexts {
		b = appendString(append(b, levelLink), s)
	}
	return Seal(b, key)
}

// DecodeMeta reads a value that Append has made.
func DecodeMeta(key, v []byte) (Meta, error) {
	var m Meta
	d := unseal(v, key)
	for _, s := range m.fields() {
		*s = d.string()
	}
	for len(d.b) > 0 {
		level, text := d.byte(), d.string()
		switch {
		case level == levelLink:
			m.LinkTexts = append(m.LinkTexts, text)
		case m.LinkTexts != nil:
			d.bad = true // headings stand before
		default:
			m.Headings = append(m.Headings, Heading{Level: level, Text: text})
		}
	}
	return m, d.end("metadata", "")
}
