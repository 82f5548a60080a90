// Package extract finds the links of a page. It is fed by fetch with an answer, or by the tree
// with a folder, and feeds scope.
//
// A page's links depend on the arguments of [Parse] alone: no clock, no map order, no state. So
// the same folder gives the same links whenever it is read. Result.Charset, kept with the page
// and given back as Facts.Charset, stands for the header that is no longer there.
//
// The page is read as tokens, not as a tree: no nesting is too deep, and links in places where
// a browser would drop them are found too. What counts is markup, that of noscript and template
// included; what stands in comments, scripts, styles and other raw text does not.
package extract

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"
	"golang.org/x/text/transform"

	"urltree/crawler/weburl"
)

// maxToken bounds one tag, comment or script, in bytes of UTF-8. A page is read up to a longer one.
const maxToken = 4 << 20

// What a page may ask us to keep in memory: the first so many links, and of their URLs the first
// so many bytes. Both depend on the page alone.
const (
	maxRefs      = 250_000
	maxLinkBytes = 32 << 20
)

// maxTitle bounds Result.Title, in bytes.
const maxTitle = 1000

// Facts are what is known of an answer besides its body.
type Facts struct {
	URL         string   // canonical
	Media       string   // media type without parameters; only HTML and XHTML have links inside
	Charset     string   // of the header, or the one used before; "" or an unknown label: from the body
	HeaderLinks []string // canonical URLs from Link headers: the first links of the page
	NoFollow    bool     // a header says nofollow
}

// Options say which links count.
type Options struct {
	Token  string // product token: meta elements of this name count as robots
	Assets bool   // also what a browser loads to show the page: images, styles, scripts, media
	// NoFollow says whose nofollow is obeyed: "page" or "" that of header and meta robots, "all"
	// also that of a link, "none" no one's.
	NoFollow string
}

// A Link is a reference to another page, or to the page itself.
type Link struct {
	URL     string // canonical
	Element string // name of the element, or "header"
	Rel     string // its rel attribute in lower case
}

// A Result is what a page holds.
type Result struct {
	Links     []Link // in page order, repeats included
	Charset   string // standard name of the encoding that links were decoded by; "" if not HTML
	Title     string // of the first title element, white space collapsed, at most 1000 bytes
	Canonical string // target of the first link rel=canonical, or ""
	NoIndex   bool   // by meta robots
	NoFollow  bool   // by meta robots; Facts.NoFollow is not in it
	Cut       bool   // not all was read: a tag or script is over 4 MiB, or there are too many links
	// NotFollowed counts references that gave no link: "scheme", "syntax" and "length" as weburl
	// has them, "nofollow". It may be nil.
	NotFollowed map[string]int
}

// Parse finds the links of an answer. It never fails: of a damaged page it reads what it can.
func Parse(f Facts, body []byte, o Options) Result {
	p := page{opts: o}
	for _, url := range f.HeaderLinks {
		p.refs = append(p.refs, reference{Link: Link{URL: url, Element: "header"}})
	}
	xhtml := strings.EqualFold(f.Media, "application/xhtml+xml")
	if xhtml || strings.EqualFold(f.Media, "text/html") {
		var e encoding.Encoding
		e, p.Charset = charsetOf(body, f.Charset)
		var r io.Reader = bytes.NewReader(body)
		if p.Charset != "utf-8" {
			r = transform.NewReader(r, e.NewDecoder())
			if !strings.HasPrefix(p.Charset, "utf-16") && p.Charset != "replacement" {
				p.query = e
			}
		}
		p.scan(r, xhtml)
	}
	p.resolve(f)
	return p.Result
}

// charsetOf gives the encoding of a page: by byte order mark, then the label, then a meta
// element in the first 1024 bytes, then a guess. So the name it gives, as the label, gives the
// same encoding.
func charsetOf(body []byte, label string) (encoding.Encoding, string) {
	e, name, certain := charset.DetermineEncoding(body, "")
	if certain {
		return e, name
	}
	if e, name := charset.Lookup(label); e != nil {
		return e, name
	}
	return e, name
}

// A reference is a link before its URL is known.
type reference struct {
	Link
	ref string // as written; not used for a header link
}

// A page collects what scan sees; references wait for resolve, since a base element counts for
// those before it too.
type page struct {
	Result
	opts    Options
	refs    []reference
	hasBase bool
	base    string            // href of the first base element that has one
	query   encoding.Encoding // of queries; nil: UTF-8
}

// resolve makes the references links.
func (p *page) resolve(f Facts) {
	base, err := weburl.NewBase(f.URL)
	if err == nil && p.hasBase {
		// A base that is no web address, such as javascript:, leaves that of the page.
		if url, err := base.Resolve(p.reference(p.base)); err == nil {
			base, _ = weburl.NewBase(url)
		}
	}
	ignored := p.opts.NoFollow != "none" && (f.NoFollow || p.NoFollow)
	size := 0
	for _, r := range p.refs {
		if size > maxLinkBytes {
			p.Cut = true
			return
		}
		if r.Element != "header" {
			r.URL, err = base.Resolve(p.reference(r.ref))
		} else {
			err = nil
		}
		if p.Canonical == "" && r.Element == "link" && err == nil && hasWord(r.Rel, "canonical") {
			p.Canonical = r.URL
		}
		switch {
		case errors.Is(err, weburl.ErrScheme):
			p.skip("scheme")
		case errors.Is(err, weburl.ErrLength):
			p.skip("length")
		case err != nil:
			p.skip("syntax")
		case ignored, p.opts.NoFollow == "all" && hasWord(r.Rel, "nofollow"):
			p.skip("nofollow")
		default:
			p.Links = append(p.Links, r.Link)
			size += len(r.URL)
		}
	}
}

// reference writes the query of ref in the encoding of the page, as browsers do.
func (p *page) reference(ref string) string {
	if p.query == nil {
		return ref
	}
	return encodeQuery(ref, p.query)
}

func (p *page) skip(reason string) {
	if p.NotFollowed == nil {
		p.NotFollowed = map[string]int{}
	}
	p.NotFollowed[reason]++
}

// scan reads the markup from r, which is UTF-8.
func (p *page) scan(r io.Reader, xhtml bool) {
	z := html.NewTokenizer(r)
	z.SetMaxBuf(maxToken)
	foreign := 0 // open svg and math elements
	var attrs attributes
	for inTitle := false; ; {
		z.AllowCDATA(xhtml || foreign > 0)
		switch token := z.Next(); token {
		case html.ErrorToken:
			p.Cut = p.Cut || errors.Is(z.Err(), html.ErrBufferExceeded)
			return
		case html.TextToken:
			if inTitle && p.Title == "" {
				p.Title = title(z.Text())
			}
			inTitle = false
		case html.EndTagToken:
			inTitle = false
			if name, _ := z.TagName(); isForeign(name) && foreign > 0 {
				foreign--
			}
		case html.StartTagToken, html.SelfClosingTagToken:
			name, more := z.TagName()
			closed := token == html.SelfClosingTagToken && (xhtml || foreign > 0)
			// Without scripts noscript is markup. An element closed at once has no raw text.
			if closed || string(name) == "noscript" {
				z.NextIsNotRawText()
			}
			inTitle = !closed && foreign == 0 && string(name) == "title"
			if isForeign(name) && !closed {
				foreign++
			}
			if element := elements[string(name)]; element != "" {
				attrs.read(z, more)
				p.element(element, &attrs)
			}
		}
	}
}

func isForeign(name []byte) bool { return string(name) == "svg" || string(name) == "math" }

// title collapses white space and cuts at maxTitle.
func title(text []byte) string {
	s := strings.Join(strings.Fields(string(text[:min(len(text), 8*maxTitle)])), " ")
	return strings.ToValidUTF8(s[:min(len(s), maxTitle)], "")
}

// hasWord tells whether words, in lower case and separated by white space, has this one.
func hasWord(words, word string) bool {
	for w := range strings.FieldsSeq(words) {
		if w == word {
			return true
		}
	}
	return false
}
