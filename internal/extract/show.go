package extract

import (
	"bytes"
	"io"
	"strings"
	"unicode/utf8"

	"urltree/internal/extract/scan"
)

// A shown takes what a page shows, in page order.
type shown interface {
	// add takes the text between two tags, that of an element with raw text, or that of plain text.
	// It must not keep the bytes.
	add(text []byte)
	// tag takes a tag, by the place of its element in the names. A start tag that closes its element
	// comes as an end tag as well.
	tag(element int, start bool)
}

// hiding elements come first in the names of showText: their text is not shown, also in drawings,
// where it is no raw text.
var hiding = [...]scan.Element{
	{Name: "script", Want: scan.Starts | scan.Ends},
	{Name: "style", Want: scan.Starts | scan.Ends},
}

// inWords are the elements whose raw text is shown in [Words].
var inWords = scan.NewNames(append(hiding[:],
	scan.Element{Name: "title", Want: scan.Starts},
	scan.Element{Name: "textarea", Want: scan.Starts},
	scan.Element{Name: "xmp", Want: scan.Starts},
	scan.Element{Name: "plaintext", Want: scan.Starts},
), nil)

// IsShown reports whether pages of a media type have a text that is shown.
func IsShown(media string) bool { return isMarkup(media) || strings.EqualFold(media, "text/plain") }

func isMarkup(media string) bool { return strings.EqualFold(media, "text/html") || isXML(media) }

func isXML(media string) bool { return strings.EqualFold(media, "application/xhtml+xml") }

// InUTF8 returns an HTML or XHTML page in UTF-8, by the encoding that [Parse] reads it in, without
// a byte order mark; nil: it is neither. What is no character in that encoding is U+FFFD, and so
// is U+0000, which HTML does not have. The slice may be that of body.
func InUTF8(f Facts, body []byte) []byte {
	if !isMarkup(f.Media) {
		return nil
	}
	in := newSource(body, f.Charset, formatOf(isXML(f.Media)))
	text := in.text
	if in.rest != nil {
		text, _ = io.ReadAll(in.rest) // of damaged text what can be decoded
	}
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	if !utf8.Valid(text) {
		text, _ = inUTF8.NewDecoder().Bytes(text) // as browsers do; it has no errors
	}
	if bytes.IndexByte(text, 0) >= 0 {
		text = bytes.ReplaceAll(text, []byte{0}, []byte("\ufffd"))
	}
	return text
}

// showText passes what a page shows to out: of HTML and XHTML the text outside scripts, styles and
// comments, and the tags that names has, whose raw text is shown too; of plain text all.
func showText(f Facts, body []byte, names *scan.Names, out shown) {
	xhtml := isXML(f.Media)
	switch {
	case isMarkup(f.Media):
		showMarkup(newSource(body, f.Charset, formatOf(xhtml)), xhtml, names, out)
	case strings.EqualFold(f.Media, "text/plain"):
		in := newSource(body, f.Charset, formatOf(false))
		text := in.text
		if in.rest != nil {
			text, _ = io.ReadAll(in.rest) // of damaged text what can be decoded
		}
		out.add(text)
	}
}

func showMarkup(in *source, xhtml bool, names *scan.Names, out shown) {
	var s scan.Scanner
	in.start(&s, names)
	s.XHTML, s.Text = xhtml, true
	hidden := false
	var text []byte
	for {
		switch s.Next() {
		case scan.End:
			return
		case scan.More:
			in.feed(&s)
		case scan.Text:
			if hidden = hidden && s.InDrawing(); !hidden {
				text = s.AppendText(text[:0])
				out.add(text)
			}
		case scan.Start:
			if s.Element() < len(hiding) {
				hidden = s.InDrawing() && !s.Closed()
				continue
			}
			out.tag(s.Element(), true)
			if s.Closed() {
				out.tag(s.Element(), false)
			}
			out.add(in.rawText(&s))
		case scan.EndTag:
			if s.Element() < len(hiding) {
				hidden = false
				continue
			}
			out.tag(s.Element(), false)
		}
	}
}
