package extract

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"

	"urltree/internal/extract/scan"
)

// headSize is how much of a page that names no encoding decides if there are faults behind it, and
// how long an XML declaration may be, in bytes.
const headSize = 1024

// marks are the byte order marks, with the label of what each says.
var marks = []struct{ mark, label string }{{"\xef\xbb\xbf", "utf-8"}, {"\xfe\xff", "utf-16be"}, {"\xff\xfe", "utf-16le"}}

// starts are XML declarations in an encoding that only its first bytes tell.
var starts = []struct{ start, label string }{{"<\x00?\x00x\x00", "utf-16le"}, {"\x00<\x00?\x00x", "utf-16be"}}

// A format says how a text tells its encoding.
type format uint8

const (
	inHTML format = iota
	inXML
	inCSS
)

func formatOf(xhtml bool) format {
	if xhtml {
		return inXML
	}
	return inHTML
}

// charsetOf returns the encoding of a page, and its standard name, which as the label gives the
// same encoding. What comes first counts: a byte order mark; the label; in XML its declaration,
// else UTF-8 (XML, 4.3.3); in HTML the first meta element that names one, wherever it stands (HTML
// standard, "prescan a byte stream" and "changing the encoding while parsing"), an XML declaration,
// and last a guess; in CSS an @charset rule, else UTF-8.
func charsetOf(body []byte, label string, f format) (encoding.Encoding, string) {
	for _, m := range marks {
		if bytes.HasPrefix(body, []byte(m.mark)) {
			return lookup(m.label)
		}
	}
	if e, name := lookup(label); e != nil {
		return e, name
	}
	for _, s := range starts {
		if bytes.HasPrefix(body, []byte(s.start)) {
			return lookup(s.label)
		}
	}
	if f == inCSS {
		if e, name := inRule(body); e != nil {
			return e, name
		}
		return lookup("utf-8")
	}
	if f == inHTML {
		if e, name := declared(body); e != nil {
			return e, name
		}
	}
	if e, name := inDeclaration(body); e != nil {
		return e, name
	}
	if f == inXML || isUTF8(body) || isUTF8(body[:min(len(body), headSize)]) {
		return lookup("utf-8")
	}
	return lookup("windows-1252")
}

// isUTF8 reports whether a page that names no encoding is in UTF-8: it has characters beyond ASCII,
// and no byte that is none of UTF-8, but for a last character that may be cut.
func isUTF8(body []byte) bool {
	for i := 1; i < utf8.UTFMax && i <= len(body); i++ {
		if last := body[len(body)-i:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				body = body[:len(body)-i]
			}
			break
		}
	}
	return !isASCII(body) && utf8.Valid(body)
}

// inDeclaration returns the encoding that an XML declaration names (HTML standard, "get an XML
// encoding").
func inDeclaration(body []byte) (encoding.Encoding, string) {
	text, ok := bytes.CutPrefix(body[:min(len(body), headSize)], []byte("<?xml"))
	if !ok {
		return nil, ""
	}
	text, _, ok = bytes.Cut(text, []byte(">"))
	if !ok {
		return nil, ""
	}
	isSpace := func(c rune) bool { return c <= ' ' }
	_, text, _ = bytes.Cut(text, []byte("encoding"))
	text, ok = bytes.CutPrefix(bytes.TrimLeftFunc(text, isSpace), []byte("="))
	text = bytes.TrimLeftFunc(text, isSpace)
	if !ok || len(text) == 0 || text[0] != '"' && text[0] != '\'' {
		return nil, ""
	}
	name, _, ok := bytes.Cut(text[1:], text[:1])
	if !ok || bytes.ContainsFunc(name, isSpace) {
		return nil, ""
	}
	return asBytes(lookup(string(name)))
}

// inRule returns the encoding that the @charset rule of a style sheet names (CSS Syntax, 3.2).
func inRule(body []byte) (encoding.Encoding, string) {
	rule, ok := bytes.CutPrefix(body[:min(len(body), headSize)], []byte(`@charset "`))
	if !ok {
		return nil, ""
	}
	label, _, ok := bytes.Cut(rule, []byte(`";`))
	if !ok {
		return nil, ""
	}
	return asBytes(lookup(string(label)))
}

// asBytes returns UTF-8 in place of an encoding that a page cannot be in which was read as ASCII.
func asBytes(e encoding.Encoding, name string) (encoding.Encoding, string) {
	if strings.HasPrefix(name, "utf-16") {
		return lookup("utf-8")
	}
	return e, name
}

// inUTF8 is the encoding that most pages are in.
var inUTF8, _ = charset.Lookup("utf-8")

// lookup is charset.Lookup, which takes some time for the label that most pages have.
func lookup(label string) (encoding.Encoding, string) {
	if strings.EqualFold(label, "utf-8") {
		return inUTF8, "utf-8"
	}
	return charset.Lookup(label)
}

// Attributes that declared looks at.
const (
	attrCharset = iota
	attrPragma
	attrPragmaContent
)

var declarations = scan.NewNames([]scan.Element{{Name: "meta", Want: scan.Starts}},
	[]string{attrCharset: "charset", attrPragma: "http-equiv", attrPragmaContent: "content"})

// Declared returns the standard name of the encoding that the beginning of an HTML page says it is
// in, by a byte order mark or a meta element; "": it does not say.
func Declared(head []byte) string {
	for _, m := range marks {
		if bytes.HasPrefix(head, []byte(m.mark)) {
			return m.label
		}
	}
	_, name := declared(head)
	return name
}

// DeclaredSheet is [Declared] for a style sheet, which has an @charset rule in place of the
// element.
func DeclaredSheet(head []byte) string {
	for _, m := range marks {
		if bytes.HasPrefix(head, []byte(m.mark)) {
			return m.label
		}
	}
	_, name := inRule(head)
	return name
}

// declared returns the encoding that the first meta element which names one does.
func declared(body []byte) (encoding.Encoding, string) {
	s := scan.New(declarations, body, true)
	for {
		switch s.Next() {
		case scan.End:
			return nil, ""
		case scan.Start:
			label, ok := s.Attr(attrCharset)
			if !ok {
				if pragma, _ := s.Attr(attrPragma); !bytes.EqualFold(pragma, []byte("content-type")) {
					continue
				}
				content, _ := s.Attr(attrPragmaContent)
				label = inContent(content)
			}
			if e, name := asBytes(lookup(string(label))); e != nil {
				return e, name
			}
		}
	}
}

// inContent returns the label in a content attribute (HTML standard, "extracting a character
// encoding from a meta element"); nil: there is none.
func inContent(content []byte) []byte {
	const word = "charset"
	for i := 0; i+len(word) < len(content); i++ {
		if !bytes.EqualFold(content[i:i+len(word)], []byte(word)) {
			continue
		}
		label, ok := bytes.CutPrefix(bytes.TrimLeft(content[i+len(word):], space), []byte("="))
		if !ok {
			continue
		}
		label = bytes.TrimLeft(label, space)
		if len(label) > 0 && (label[0] == '"' || label[0] == '\'') {
			label, _, ok = bytes.Cut(label[1:], label[:1])
			if !ok {
				return nil
			}
			return label
		}
		if end := bytes.IndexAny(label, ";"+space); end >= 0 {
			label = label[:end]
		}
		return label
	}
	return nil
}
