package extract

import (
	"bytes"
	"strings"

	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"

	"urltree/internal/extract/scan"
)

// headSize is how far a page is searched for what it says of its encoding, in bytes (HTML standard,
// "determining the character encoding").
const headSize = 1024

// marks are the byte order marks, with the label of what each says.
var marks = []struct{ mark, label string }{{"\xef\xbb\xbf", "utf-8"}, {"\xfe\xff", "utf-16be"}, {"\xff\xfe", "utf-16le"}}

// charsetOf gives the encoding of a page: by byte order mark, then the label, then a meta
// element in the first 1024 bytes, then a guess. So the name it gives, as the label, gives the
// same encoding.
func charsetOf(body []byte, label string) (encoding.Encoding, string) {
	for _, m := range marks {
		if bytes.HasPrefix(body, []byte(m.mark)) {
			return charset.Lookup(m.label)
		}
	}
	if e, name := lookup(label); e != nil {
		return e, name
	}
	head := body[:min(len(body), headSize)]
	if e, name := declared(head); e != nil {
		return e, name
	}
	e, name, _ := charset.DetermineEncoding(head, "")
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

var declarations = scan.NewNames(
	[]scan.Element{{Name: "meta", Want: scan.Starts}, {Name: "svg", Want: scan.Starts}, {Name: "math", Want: scan.Starts}},
	[]string{attrCharset: "charset", attrPragma: "http-equiv", attrPragmaContent: "content"},
)

// declared gives the encoding that the first meta element of a page's head names, where it is spelt as
// nearly all are. Anything else, which is nil here, is for charset.DetermineEncoding, which gives the
// same for these at ten times the cost; a test holds it to that.
func declared(head []byte) (encoding.Encoding, string) {
	s := scan.New(declarations, head, true)
	for s.Next() == scan.Start && !s.InDrawing() { // the library reads drawings in another way
		label, ok := s.Attr(attrCharset)
		if !ok {
			if pragma, _ := s.Attr(attrPragma); !bytes.EqualFold(pragma, []byte("content-type")) {
				continue
			}
			content, _ := s.Attr(attrPragmaContent)
			var before []byte
			if before, label, ok = bytes.Cut(content, []byte("charset=")); !ok || bytes.ContainsAny(before, "cC") {
				return nil, ""
			}
			if i := bytes.IndexByte(label, ';'); i >= 0 {
				label = label[:i]
			}
		}
		if !isLabel(label) {
			return nil, ""
		}
		e, name := lookup(string(label))
		if strings.HasPrefix(name, "utf-16") { // which this page cannot be in
			return charset.Lookup("utf-8")
		}
		return e, name
	}
	return nil, ""
}

// isLabel tells whether a label has no spaces or quotes, which may be part of it or not.
func isLabel(label []byte) bool {
	for _, c := range label {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_') {
			return false
		}
	}
	return len(label) > 0
}
