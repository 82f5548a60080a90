package rewrite

import (
	"bufio"
	"bytes"
	"io"
	"strconv"
	"strings"

	"urltree/internal/extract"
	"urltree/internal/extract/scan"
)

// Elements that are not like all others.
const (
	elementA = iota
	elementBase
	elementHead
	elementHTML
	elementMeta
	elementObject
	elementStyle
	elementOther
)

var names = scan.NewNames([]scan.Element{
	elementA:      {Name: "a", Want: scan.Starts},
	elementBase:   {Name: "base", Want: scan.Starts},
	elementHead:   {Name: "head", Want: scan.Starts},
	elementHTML:   {Name: "html", Want: scan.Starts},
	elementMeta:   {Name: "meta", Want: scan.Starts},
	elementObject: {Name: "object", Want: scan.Starts},
	elementStyle:  {Name: "style", Want: scan.Starts | scan.Ends},
	elementOther:  {Name: scan.Other, Want: scan.Starts},
}, nil)

// What an attribute holds.
type holds uint8

const (
	nothing  holds = iota
	address        // a reference
	images         // references with descriptors
	style          // declarations
	document       // HTML
	delayed        // a reference, or something else that scripts for lazy loading take
	content        // of a meta element
	data           // of an object element
	window         // the name of one
	tie            // what Detach removes
)

var attributes = func() map[string]holds {
	list := map[string]holds{"content": content, "data": data, "srcdoc": document}
	for what, keys := range map[holds]string{
		address: "href src xlink:href poster background action formaction cite longdesc lowsrc dynsrc manifest profile icon",
		images:  "srcset imagesrcset data-srcset data-lazy-srcset",
		style:   "style fill stroke filter mask clip-path cursor marker marker-start marker-mid marker-end",
		delayed: "data-src data-lazy-src data-lazy data-original data-bg data-background data-poster",
		window:  "target formtarget",
		tie:     "integrity crossorigin nonce ping attributionsrc csp",
	} {
		for key := range strings.FieldsSeq(keys) {
			list[key] = what
		}
	}
	return list
}()

const (
	chunk    = 32 << 10 // bytes of a document that are read at a time
	maxDepth = 4        // documents in documents; those below are copied as they are
)

// markup is a document that is copied.
type markup struct {
	*Document
	out     *bufio.Writer
	in      io.Reader
	scanner scan.Scanner
	text    []byte // what the scanner has
	written int    // bytes of text
	places  []scan.Place
	depth   int // documents around it
	err     error
}

func (m *markup) run() error {
	for m.err == nil {
		switch m.scanner.Next() {
		case scan.End:
			m.copyTo(len(m.text))
			return m.err
		case scan.More:
			m.feed()
		case scan.EndTag:
			m.scanner.Text = false
		case scan.Text: // of a style element in a drawing
			text, at := m.scanner.TextSource()
			m.styleText(text, at, true)
		case scan.Start:
			m.tag()
		}
	}
	return m.err
}

// feed passes more of the document to the scanner.
func (m *markup) feed() {
	rest := m.scanner.Rest()
	m.copyTo(len(m.text) - len(rest))
	text := m.text[:cap(m.text)]
	if need := max(chunk, 2*len(rest)); need > len(text) {
		text = make([]byte, need)
	}
	kept := copy(text, rest)
	n, err := io.ReadFull(m.in, text[kept:])
	m.text, m.written = text[:kept+n], max(0, m.written-len(m.text)+len(rest))
	m.scanner.Feed(m.text, err != nil)
	if err != io.EOF && err != io.ErrUnexpectedEOF && m.err == nil {
		m.err = err
	}
}

// copyTo writes what is not written before a place in text.
func (m *markup) copyTo(end int) {
	if m.err == nil && end > m.written {
		_, m.err = m.out.Write(m.text[m.written:end])
		m.written = end
	}
}

// put writes to in place of text[start:end].
func (m *markup) put(start, end int, to []byte) {
	m.copyTo(start)
	if m.err == nil {
		_, m.err = m.out.Write(to)
	}
	m.written = end
}

// tag copies a start tag, and the text of a style element.
func (m *markup) tag() {
	element := m.scanner.Element()
	end := len(m.text) - len(m.scanner.Rest())
	if m.label != "" && element != elementHTML && element != elementHead {
		m.declare(end - m.scanner.Size())
	}
	m.places = m.scanner.Places(m.places[:0])
	pragma := ""
	for _, p := range m.places {
		if element == elementMeta && strings.EqualFold(string(m.text[p.Key:p.KeyEnd]), "http-equiv") {
			pragma = strings.ToLower(string(scan.Value(m.text[p.Value:p.ValueEnd])))
		}
	}
	m.scanner.Text = false
	for _, p := range m.places {
		key := m.text[p.Key:p.KeyEnd]
		what := attributes[string(key)]
		if what == nothing {
			what = attributes[string(bytes.ToLower(key))]
		}
		switch {
		case what == nothing:
		case what == tie:
			if m.Detach {
				m.put(p.Key, p.End, nil)
			}
		case p.Assigned:
			if to, ok := m.value(element, pragma, what, m.decoded(p)); ok {
				m.put(p.Value, p.ValueEnd, m.escaped(to, p.Quoted))
			}
		}
	}
	if m.label != "" && element == elementHead {
		m.declare(end)
	}
	if element == elementStyle && !m.scanner.Closed() {
		at := len(m.text) - len(m.scanner.Rest())
		text, more := m.scanner.RawSource()
		for more && m.err == nil {
			m.feed()
			at = 0
			text, more = m.scanner.RawSource()
		}
		m.scanner.Text = text == nil
		m.styleText(text, at, m.scanner.XHTML)
	}
}

// declare adds a meta element at a place in text.
func (m *markup) declare(at int) {
	m.put(at, at, []byte(`<meta charset="`+m.label+`">`))
	m.label = ""
}

// value returns what takes the place of an attribute's value; false: it stays.
func (m *markup) value(element int, pragma string, what holds, text string) (to string, ok bool) {
	switch what {
	case content:
		switch pragma {
		case "refresh":
			if start, end, ok := extract.Refresh(text); ok {
				to, ok := m.replace(text[start:end])
				return text[:start] + to + text[end:], ok
			}
		case "content-security-policy", "content-security-policy-report-only":
			return "", m.Detach
		}
		return "", false
	case data:
		if element != elementObject {
			return "", false
		}
	case address:
		if element != elementA && m.scanner.InDrawing() && isLocal(text) {
			return "", false
		}
		if element == elementBase {
			to, ok = m.replace(text)
			if m.rebase(text); m.Detach {
				return "", text != ""
			}
			return to, ok
		}
	case images:
		return m.candidates(text)
	case delayed:
		if strings.HasPrefix(text, "url(") {
			return m.declarations(text)
		}
		if !strings.ContainsAny(text, "./") || strings.ContainsAny(text, "{}<>") {
			return "", false
		}
	case style:
		return m.declarations(text)
	case document:
		return m.inner(text)
	case window:
		return "_self", m.OneWindow && text != "" && !strings.EqualFold(text, "_self")
	}
	return m.replace(text)
}

// candidates replaces the references of a srcset attribute.
func (m *markup) candidates(text string) (string, bool) {
	var b strings.Builder
	done, changed := 0, false
	for start, end := range extract.Srcset(text) {
		if to, ok := m.replace(text[start:end]); ok {
			b.WriteString(text[done:start])
			b.WriteString(to)
			done, changed = end, true
		}
	}
	b.WriteString(text[done:])
	return b.String(), changed
}

// declarations replaces the references of a style attribute.
func (m *markup) declarations(text string) (string, bool) {
	if !strings.Contains(text, "(") {
		return "", false
	}
	var b strings.Builder
	changed, _ := m.sheet(&b, strings.NewReader(text), false)
	return b.String(), changed
}

// inner replaces the references of a document in an attribute.
func (m *markup) inner(text string) (string, bool) {
	if m.depth == maxDepth {
		return "", false
	}
	var b strings.Builder
	d := &Document{URL: m.at, Replace: m.Replace, Detach: m.Detach, OneWindow: m.OneWindow}
	i := &markup{Document: d, in: strings.NewReader(text), out: bufio.NewWriter(&b), depth: m.depth + 1}
	i.scanner.Reset(names, nil, false)
	if d.reset() != nil || i.run() != nil || i.out.Flush() != nil {
		return "", false
	}
	return b.String(), b.String() != text
}

// styleText copies the text of a style element.
func (m *markup) styleText(text []byte, at int, references bool) {
	if bytes.IndexByte(text, '(') < 0 && bytes.IndexByte(text, '@') < 0 {
		return
	}
	sheet := text
	if m.Document.text != nil && !isASCII(text) {
		sheet, _ = m.Document.text.Bytes(text)
	}
	var b bytes.Buffer
	if changed, _ := m.sheet(&b, bytes.NewReader(sheet), references); !changed {
		return
	}
	to := b.Bytes()
	if m.plain != nil && !isASCII(to) {
		var err error
		if to, err = m.plain.Bytes(to); err != nil {
			return
		}
	}
	m.put(at, at+len(text), to)
}

// decoded returns the value of an attribute, in UTF-8.
func (m *markup) decoded(p scan.Place) string {
	raw := m.text[p.Value:p.ValueEnd]
	if m.Document.text != nil && !isASCII(raw) {
		raw, _ = m.Document.text.Bytes(raw)
	}
	return string(scan.Value(raw))
}

// escaped returns the source of a value, in any encoding.
func (m *markup) escaped(value string, quoted bool) []byte {
	if value == "" && !quoted {
		return []byte(`""`)
	}
	var to []byte
	for _, c := range value {
		switch {
		case c == '&':
			to = append(to, "&amp;"...)
		case strings.ContainsRune(`<>"'`, c), c <= ' ' && !quoted, c >= 0x7f && m.plain != nil:
			to = append(strconv.AppendInt(append(to, "&#"...), int64(c), 10), ';')
		default:
			to = append(to, string(c)...)
		}
	}
	return to
}

func isASCII(b []byte) bool {
	return !bytes.ContainsFunc(b, func(c rune) bool { return c >= 0x80 })
}
