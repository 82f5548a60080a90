package extract

import (
	"bytes"
	"encoding/binary"
	"io"
	"strings"

	"golang.org/x/text/encoding"
	"golang.org/x/text/transform"

	"urltree/internal/extract/scan"
)

// window is how much of a page in another encoding is decoded at a time, in bytes of UTF-8,
// unless a tag or text that is read as a whole is longer.
const window = 16 << 10

// A source feeds a page to a scanner, as UTF-8.
type source struct {
	charset string
	query   *encoding.Encoder // for queries of references; nil: they are UTF-8
	text    []byte            // as much as is there
	rest    io.Reader         // what comes behind it; nil: nothing
}

// newSource returns the source of a page, see reset.
func newSource(body []byte, label string, f format) *source {
	in := new(source)
	in.reset(body, label, f)
	return in
}

// reset makes in the source of a page, whose encoding it finds by body and a label.
func (in *source) reset(body []byte, label string, f format) {
	e, charset := charsetOf(body, label, f)
	*in = source{charset: charset}
	if charset != "utf-8" && !strings.HasPrefix(charset, "utf-16") && charset != "replacement" {
		in.query = e.NewEncoder()
	}
	if charset == "utf-8" || hasASCII(charset) && isASCII(body) {
		in.text = body
	} else {
		in.rest = transform.NewReader(bytes.NewReader(body), e.NewDecoder())
	}
}

// reader returns a reader of the page.
func (in *source) reader() io.Reader {
	if in.rest != nil {
		return in.rest
	}
	return bytes.NewReader(in.text)
}

// start resets s to read the page from its beginning.
func (in *source) start(s *scan.Scanner, names *scan.Names) { s.Reset(names, in.text, in.rest == nil) }

// feed passes to the scanner what it has not read, and more.
func (in *source) feed(s *scan.Scanner) {
	rest := s.Rest()
	text := in.text[:cap(in.text)]
	if need := max(window, 2*len(rest)); need > len(text) {
		text = make([]byte, need)
	}
	kept := copy(text, rest)
	n, err := io.ReadFull(in.rest, text[kept:])
	in.text = text[:kept+n]
	s.Feed(in.text, err != nil)
}

// rawText returns the text of an element that has raw text.
func (in *source) rawText(s *scan.Scanner) []byte {
	for {
		text, more := s.RawText()
		if !more {
			return text
		}
		in.feed(s)
	}
}

// hasASCII reports whether text in ASCII alone is the same in this encoding.
func hasASCII(charset string) bool {
	return !strings.HasPrefix(charset, "utf-16") && charset != "iso-2022-jp" && charset != "replacement"
}

func isASCII(b []byte) bool {
	const high = 0x8080808080808080
	for ; len(b) >= 32; b = b[32:] {
		if (binary.LittleEndian.Uint64(b)|binary.LittleEndian.Uint64(b[8:])|binary.LittleEndian.Uint64(b[16:])|binary.LittleEndian.Uint64(b[24:]))&high != 0 {
			return false
		}
	}
	for _, c := range b {
		if c >= 0x80 {
			return false
		}
	}
	return true
}
