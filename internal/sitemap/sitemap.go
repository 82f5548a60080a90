// Package sitemap reads what a site says about its own pages: XML sitemaps and their indexes, lists
// of URLs as text, and RSS, Atom and JSON feeds, each also packed with gzip. It is fed by answers
// of fetch and by pages of the tree; it feeds the choice of links.
//
// What a document is, its first bytes tell, not its name or media type. Nothing is expected to be
// well-formed: of a damaged document the whole entries count. It is read as a stream, so that
// memory does not grow with it: at most one tag, comment or URL at a time.
package sitemap

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/klauspost/compress/gzip"
	"golang.org/x/net/html"
	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"

	"urltree/crawler/weburl"
)

// A Kind says what a document is.
type Kind uint8

const (
	None   Kind = iota // none of the others
	URLSet             // a sitemap: its locs are pages
	Index              // a sitemap index: its locs are sitemaps
	Text               // a sitemap as text: a URL a line
	RSS                // all versions, RSS 1.0 (RDF) among them
	Atom
	JSON // JSON Feed
)

func (k Kind) String() string {
	return [...]string{"none", "urlset", "index", "text", "rss", "atom", "json"}[k]
}

// Feed reports whether a kind is one of feeds.
func (k Kind) Feed() bool { return k >= RSS }

// The limits of the sitemap protocol.
const (
	MaxLocs  = 50_000
	MaxBytes = 50 << 20
)

// Options bound what is read of one document.
type Options struct {
	Locs  int   // that are given; 0: MaxLocs
	Bytes int64 // of the document, unpacked; 0: MaxBytes
	// Torn says that the document was not received to its end.
	Torn bool
}

// A Result describes a document.
type Result struct {
	Kind    Kind
	Locs    int  // given to yield
	Skipped int  // entries that name nothing a crawler can ask for
	Cut     bool // not all was read: over a limit, or one token was too long
	Damaged bool // it ends before its end: an element is open, its packing is broken, or Options.Torn
}

const (
	headSize = 32 << 10 // bytes of text by which the kind is told
	maxToken = 1 << 20  // bytes of one tag, comment or text; what follows a longer one is not read
	maxLoc   = 64 << 10 // bytes of one entry as written; a longer one is skipped
)

// Read calls yield with each URL that a document names, in order, canonical, repeats included.
// url is the canonical one of the document: relative references, which the protocol does not know,
// are taken to it. An error is that of yield, which ends the reading, or of weburl about url.
func Read(url string, body io.Reader, o Options, yield func(loc string) error) (Result, error) {
	if o.Locs <= 0 {
		o.Locs = MaxLocs
	}
	if o.Bytes <= 0 {
		o.Bytes = MaxBytes
	}
	base, err := weburl.NewBase(url)
	if err != nil {
		return Result{}, fmt.Errorf("sitemap of %q: %w", url, err)
	}
	src := open(body, o.Bytes)
	if o.Torn {
		src.bad = io.ErrUnexpectedEOF
	}
	r := &reader{base: base, limit: o.Locs, yield: yield}
	switch r.Kind = src.kind(); r.Kind {
	case URLSet, Index:
		r.xml(src.text)
	case Text:
		r.lines(src)
	case RSS, Atom:
		r.feed(src.text)
	case JSON:
		r.json(src.text)
	}
	r.Cut = r.Cut || src.bytes.N == 0
	r.Damaged = !r.Cut && r.Kind != None && (r.Damaged || src.bad != nil)
	return r.Result, r.err
}

// Detect returns what a document is.
func Detect(body []byte) Kind { return open(bytes.NewReader(body), MaxBytes).kind() }

// A source is a document, unpacked and as UTF-8.
type source struct {
	text  *bufio.Reader
	bytes *io.LimitedReader // of the unpacked document; 0 left: there was more than the limit
	bad   error             // why the document ends early; nil: as far as is known, it does not
}

func open(body io.Reader, limit int64) *source {
	s := &source{}
	raw := bufio.NewReader(body)
	var unpacked io.Reader = raw
	if magic, _ := raw.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		zip, err := gzip.NewReader(raw)
		if err != nil {
			s.bad, unpacked = err, bytes.NewReader(nil)
		} else {
			unpacked = &damaged{r: zip, s: s}
		}
	}
	s.bytes = &io.LimitedReader{R: unpacked, N: limit + 1}
	data := bufio.NewReader(s.bytes)
	head, _ := data.Peek(1024)
	s.text = bufio.NewReaderSize(transform.NewReader(data, decoder(head)), headSize)
	return s
}

// more reports, at the end, whether there was or should have been more.
func (s *source) more() bool { return s.bad != nil || s.bytes.N == 0 }

// damaged notes why unpacking ended early, and ends the document there.
type damaged struct {
	r io.Reader
	s *source
}

func (d *damaged) Read(p []byte) (int, error) {
	n, err := d.r.Read(p)
	if err != nil && err != io.EOF {
		d.s.bad, err = err, io.EOF
	}
	return n, err
}

var declaration = regexp.MustCompile(`^\s*<\?xml[^>]*?\sencoding\s*=\s*["']([A-Za-z0-9._:-]+)["']`)

// decoder makes UTF-8 of a document with this head: by byte order mark, by XML declaration, else
// it is UTF-8 already.
func decoder(head []byte) transform.Transformer {
	var e encoding.Encoding
	switch m := declaration.FindSubmatch(head); {
	case bytes.HasPrefix(head, []byte("<\x00")):
		e = unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM)
	case bytes.HasPrefix(head, []byte("\x00<")):
		e = unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM)
	case m != nil:
		var name string
		if e, name = charset.Lookup(string(m[1])); strings.HasPrefix(name, "utf-16") || name == "replacement" {
			e = nil // could not have been read in it
		}
	}
	if e == nil {
		return unicode.BOMOverride(transform.Nop)
	}
	return unicode.BOMOverride(e.NewDecoder())
}

// kind returns the kind of a document by its head, and reads nothing.
func (s *source) kind() Kind {
	head, _ := s.text.Peek(headSize)
	switch text := bytes.TrimLeft(head, " \t\r\n"); {
	case len(text) == 0:
		return None
	case text[0] == '{':
		if bytes.Contains(text, []byte("jsonfeed.org")) || bytes.Contains(text, []byte(`jsonfeed.org\/`)) {
			return JSON
		}
		return None
	case isWeb(firstLine(text)):
		return Text
	}
	z := html.NewTokenizer(bytes.NewReader(head))
	z.AllowCDATA(true)
	for {
		switch z.Next() {
		case html.ErrorToken:
			return None
		case html.StartTagToken, html.SelfClosingTagToken:
			name, _ := z.TagName()
			_, local := split(string(name))
			return roots[local]
		}
	}
}

// roots are the names of the root elements of each kind.
var roots = map[string]Kind{"urlset": URLSet, "sitemapindex": Index, "rss": RSS, "rdf": RSS, "feed": Atom}

// split returns the prefix of an element's name, with its colon, and the rest.
func split(name string) (prefix, local string) {
	i := strings.LastIndexByte(name, ':') + 1
	return name[:i], name[i:]
}

func firstLine(text []byte) string {
	line, _, _ := bytes.Cut(text, []byte("\n"))
	return string(bytes.TrimSpace(line[:min(len(line), maxLoc)]))
}

// isWeb reports whether a line of text is an absolute http(s) URL, with nothing beside it.
func isWeb(line string) bool {
	for _, scheme := range []string{"http://", "https://"} {
		if len(line) > len(scheme) && strings.EqualFold(line[:len(scheme)], scheme) {
			return !strings.ContainsAny(line, " \t\r<>\"")
		}
	}
	return false
}

// A reader passes what it finds to yield.
type reader struct {
	Result
	base  *weburl.Base // of the document
	limit int
	yield func(string) error
	err   error // of yield
}

// entry takes one entry as written. It is false when no more is wanted.
func (r *reader) entry(ref string) bool { return r.at(r.base, ref) }

// at is entry for a reference with a base of its own.
func (r *reader) at(base *weburl.Base, ref string) bool {
	if ref = strings.TrimSpace(ref); ref == "" {
		return true
	}
	loc, err := resolve(base, ref)
	if err != nil {
		r.Skipped++
		return true
	}
	if r.Locs >= r.limit {
		r.Cut = true
		return false
	}
	r.Locs++
	r.err = r.yield(loc)
	return r.err == nil
}

// resolve returns the URL of a reference.
func resolve(base *weburl.Base, ref string) (string, error) {
	if !utf8.ValidString(ref) {
		return "", errNotUTF8
	}
	return base.Resolve(strings.TrimSpace(ref))
}

var errNotUTF8 = errors.New("not UTF-8")

// lines reads a sitemap as text. A line that is no absolute URL is skipped,
// and so is the last one where the limit of bytes has cut it.
func (r *reader) lines(src *source) {
	for text := src.text; ; {
		line, err := text.ReadSlice('\n')
		long := err == bufio.ErrBufferFull
		for err == bufio.ErrBufferFull {
			_, err = text.ReadSlice('\n')
		}
		if err != nil && src.more() {
			return
		}
		switch line := string(bytes.TrimSpace(line)); {
		case line == "" && !long:
		case long || !isWeb(line):
			r.Skipped++
		case !r.entry(line):
			return
		}
		if err != nil {
			return
		}
	}
}
