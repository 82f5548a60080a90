// Package rewrite copies documents and replaces the references in them: HTML, XHTML, SVG and other
// XML, and style sheets. All bytes but those of the values that change stay as they are, in the
// encoding of the document. Scripts and data are not looked into.
//
// Documents of any size are copied in bounded memory. A tag or a style element of more than
// [scan.MaxToken] bytes is copied as it is.
package rewrite

import (
	"bufio"
	"errors"
	"io"
	"slices"
	"strings"

	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"
	"golang.org/x/text/transform"

	"urltree/crawler/weburl"
	"urltree/internal/extract"
	"urltree/internal/extract/scan"
)

// A Reference is one that stands in a document.
type Reference struct {
	Text     string // as it stands there, character references and escapes undone
	URL      string // the canonical URL; "": it is not an http(s) URL
	Fragment string // of Text, with its '#'; "": there is none
}

// A Document says how a document is copied. It is not for concurrent use.
type Document struct {
	URL     string // canonical, of the document
	Media   string // type
	Charset string // name of its encoding; "" or an unknown one: UTF-8
	// Replace returns what takes the place of a reference; Reference.Text: it stays. It is not called
	// for references to a place in the same document.
	Replace func(Reference) string
	// Detach removes what binds a document to where it came from: the address of base, attributes
	// such as integrity, crossorigin and ping, and a Content-Security-Policy in meta elements.
	Detach bool
	// OneWindow lets links and forms that name another window or frame open in their own.
	OneWindow bool
	// Declare lets HTML and style sheets say their encoding, where their first bytes do not, or
	// say another one: in a meta element at the beginning of the head, by an @charset rule or,
	// in UTF-16, by a byte order mark. A short style sheet of ASCII alone is the same in all.
	Declare bool

	label string // of the meta element that Declare adds; "": there is none, or it has been added
	base  weburl.Base
	at    string // URL of base
	based bool   // a base element has come
	query *encoding.Encoder
	text  *encoding.Decoder // nil: the text that is scanned is UTF-8
	plain *encoding.Encoder // the inverse of text
}

// headSize is where browsers look for the encoding of a page, in bytes.
const headSize = 1024

// shortSheet is how much of a style sheet is looked at for what is not ASCII, in bytes.
const shortSheet = 64 << 10

type form uint8

const (
	none form = iota
	inHTML
	inXML
	inCSS
)

func formOf(media string) form {
	switch media = strings.ToLower(media); {
	case media == "text/html":
		return inHTML
	case media == "text/css":
		return inCSS
	case media == "text/xml", media == "application/xml", strings.HasSuffix(media, "+xml"):
		return inXML
	}
	return none
}

// Copy writes the document whose bytes in returns. Errors are those of w, in and the URL.
func (d *Document) Copy(w io.Writer, in io.Reader) error {
	kind := formOf(d.Media)
	e, name := charset.Lookup(d.Charset)
	if kind == none || name == "replacement" {
		_, err := io.Copy(w, in)
		return err
	}
	if err := d.reset(); err != nil {
		return err
	}
	if d.Declare && e != nil {
		in = d.declare(kind, in, name)
	}
	if e != nil && name != "utf-8" {
		if d.query = e.NewEncoder(); strings.HasPrefix(name, "utf-16") {
			d.query = nil
		}
		if hidesASCII(name, kind) {
			out := transform.NewWriter(w, encoding.ReplaceUnsupported(e.NewEncoder()))
			return errors.Join(d.copy(kind, out, transform.NewReader(in, e.NewDecoder())), out.Close())
		}
		d.text, d.plain = e.NewDecoder(), e.NewEncoder()
	}
	return d.copy(kind, w, in)
}

// declare sees whether a document has to say its encoding.
func (d *Document) declare(kind form, in io.Reader, name string) io.Reader {
	var says string
	size := map[form]int{inHTML: headSize, inCSS: shortSheet}[kind]
	head := bufio.NewReaderSize(in, size)
	first, err := head.Peek(size) // an error comes again
	switch {
	case kind == inHTML:
		says = extract.Declared(first)
	case kind == inCSS && (err != io.EOF || !isTheSame(first)):
		says = extract.DeclaredSheet(first)
	default:
		return head
	}
	if says != name {
		d.label = name
	}
	return head
}

// isTheSame reports whether text is the same in all encodings: ASCII without the bytes by which
// UTF-16 and ISO-2022-JP have other characters.
func isTheSame(b []byte) bool {
	return !slices.ContainsFunc(b, func(c byte) bool { return c == 0 || c == 0x1b || c >= 0x80 })
}

func (d *Document) reset() error {
	d.at, d.based, d.label, d.query, d.text, d.plain = d.URL, false, "", nil, nil, nil
	return d.base.Reset(d.URL)
}

// hidesASCII reports whether bytes of other characters look like markup, so that text in this
// encoding has to be decoded before it is read. In style sheets a backslash is markup.
func hidesASCII(charset string, kind form) bool {
	switch charset {
	case "utf-16be", "utf-16le", "iso-2022-jp":
		return true
	case "shift_jis", "gbk", "gb18030", "big5":
		return kind == inCSS
	}
	return false
}

func (d *Document) copy(kind form, w io.Writer, in io.Reader) error {
	out := bufio.NewWriterSize(w, 16<<10)
	var err error
	if strings.HasPrefix(d.label, "utf-16") { // no element or rule names it
		out.WriteRune('\ufeff')
		d.label = ""
	}
	if kind == inCSS {
		if d.label != "" {
			out.WriteString(`@charset "` + d.label + `";`)
		}
		_, err = d.sheet(out, in, false)
	} else {
		m := &markup{Document: d, out: out, in: in}
		m.scanner.Reset(names, nil, false)
		m.scanner.XHTML = kind == inXML
		err = m.run()
	}
	return errors.Join(err, out.Flush())
}

// sheet copies a style sheet and reports whether it has changed anything. In XML the text of style
// elements may have character references.
func (d *Document) sheet(w io.Writer, in io.Reader, references bool) (changed bool, err error) {
	readErr := extract.Sheet(in, func(token []byte, ref string) bool {
		if ref != "" && !isLocal(ref) {
			if references {
				ref = string(scan.Value([]byte(ref)))
			}
			if to, ok := d.replace(ref); ok {
				token, changed = styleToken(token, to), true
			}
		}
		_, err = w.Write(token)
		return err == nil
	})
	return changed, errors.Join(err, readErr)
}

// styleToken returns a token like this one with another reference. It needs no escapes in markup.
func styleToken(token []byte, ref string) []byte {
	const hex = "0123456789abcdef"
	quote := token[:1]
	var to []byte
	if i := strings.IndexByte(string(token), '('); quote[0] == '"' || quote[0] == '\'' {
		to = append(to, quote...)
	} else {
		to, quote = append(to, token[:i+1]...), []byte(")")
	}
	for _, c := range []byte(ref) {
		switch {
		case c <= ' ', c == 0x7f, strings.IndexByte(`"'()\<>&`, c) >= 0:
			to = append(to, '\\', hex[c>>4], hex[c&15], ' ')
		default:
			to = append(to, c)
		}
	}
	return append(to, quote...)
}

const space = " \t\n\f\r"

// isLocal reports whether a reference of a style sheet or in a drawing is to a place in the
// document itself, whatever its base element says (CSS Values, 4.5.1; SVG 2, 16.1).
func isLocal(ref string) bool { return strings.HasPrefix(ref, "#") }

// replace returns what takes the place of a reference; false: it stays.
func (d *Document) replace(text string) (to string, ok bool) {
	r := Reference{Text: text}
	spelt := strings.Trim(text, space)
	if (spelt == "" || spelt[0] == '#') && d.at == d.URL {
		return "", false
	}
	if i := strings.IndexByte(spelt, '#'); i >= 0 {
		r.Fragment = spelt[i:]
	}
	if d.query != nil {
		spelt = extract.EncodeQuery(spelt, d.query)
	}
	r.URL, _ = d.base.Resolve(spelt)
	to = d.Replace(r)
	return to, to != text
}

// rebase makes the address of the first base element the one that references are resolved against.
func (d *Document) rebase(text string) {
	if url, err := d.base.Resolve(text); err == nil && !d.based && d.base.Reset(url) == nil {
		d.at = url
	}
	d.based = true
}

// Text copies plain text, whose encoding has a name, in UTF-8. Browsers and editors recognize that
// where no header says it. What is in UTF-8, or begins with a byte order mark, stays as it is.
func Text(w io.Writer, in io.Reader, label string) error {
	head := bufio.NewReader(in)
	first, _ := head.Peek(len("\ufeff")) // an error comes again
	e, name := charset.Lookup(label)
	if e == nil || name == "utf-8" || name == "replacement" || extract.DeclaredSheet(first) != "" {
		_, err := io.Copy(w, head)
		return err
	}
	_, err := io.Copy(w, transform.NewReader(head, e.NewDecoder()))
	return err
}

// Applies reports whether Copy looks into documents of this media type.
func Applies(media string) bool { return formOf(media) != none }
