// Package extract finds the links and the metadata of a page, in one pass. It is fed by fetch
// with an answer, or by the tree with a folder, and feeds scope.
//
// A page's links depend on the arguments of [Parse] alone: no clock, no map order, no state. So
// the same folder gives the same links whenever it is read. Result.Charset, kept with the page
// and given back as Facts.Charset, stands for the header that is no longer there. What a header
// adds to the metadata is not kept: a folder gives those of the page alone.
//
// The page is read as tokens, not as a tree: no nesting is too deep, and links in places where
// a browser would drop them are found too. What counts is markup, that of noscript and template
// included; what stands in comments, scripts, styles and other raw text does not.
package extract

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"
	"golang.org/x/text/transform"

	"urltree/crawler/weburl"
	"urltree/storage"
)

// maxToken bounds one tag, comment or script, in bytes of UTF-8. A page is read up to a longer one.
const maxToken = 4 << 20

// What a page may ask us to keep in memory: the first so many links, and of their URLs the first
// so many bytes. Both depend on the page alone.
const (
	maxRefs      = 210_000
	maxLinkBytes = 32 << 20
)

// Facts are what is known of an answer besides its body.
type Facts struct {
	URL         string   // canonical
	Media       string   // media type without parameters; only HTML, XHTML and feeds have links inside
	Charset     string   // of the header, or the one used before; "" or an unknown label: from the body
	HeaderLinks []string // canonical URLs from Link headers: the first links of the page
	NoFollow    bool     // a header says nofollow
	Language    string   // of the Content-Language header, for metadata
	Robots      []string // X-Robots-Tag headers, for metadata; what they mean for links is NoFollow
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
	Element string // name of the element, "header" or "feed"
	Rel     string // its rel attribute in lower case
}

// A Result is what a page holds.
type Result struct {
	Links    []Link // in page order, repeats included
	Charset  string // standard name of the encoding that links were decoded by; "" if not HTML
	NoIndex  bool   // by meta robots
	NoFollow bool   // by meta robots; Facts.NoFollow is not in it
	Cut      bool   // not all was read: a tag or script is over 4 MiB, or there are too many links
	// Exhausted: the page asks for more work than a page may, and was given up. Links, Meta and
	// what it says to robots are as far as they were known.
	Exhausted bool
	// Meta is what the page says about itself, at most 6 KiB of text; nil: nothing, or not HTML.
	Meta *storage.Meta
	// NotFollowed counts references that gave no link: "scheme", "syntax" and "length" as weburl
	// has them, "nofollow". It may be nil.
	NotFollowed map[string]int
}

// Parse finds links and metadata of an answer. It never fails: of a damaged page it reads what it can.
func Parse(f Facts, body []byte, o Options) Result { return parse(f, body, o, maxSteps) }

func parse(f Facts, body []byte, o Options, steps int) Result {
	p := page{
		opts: o, left: steps, robots: line{max: maxDirectives},
		heading: line{max: maxHeading}, link: line{max: maxLinkText},
	}
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
				p.query = e.NewEncoder()
			}
		}
		p.scan(r, xhtml)
	} else if IsFeed(f.Media) {
		p.feed(f, body)
	}
	p.resolve(f)
	if p.Charset != "" {
		p.Meta = p.finish(f)
	}
	return p.Result
}

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
	if e, name := charset.Lookup(label); e != nil {
		return e, name
	}
	e, name, _ := charset.DetermineEncoding(body, "")
	return e, name
}

// A reference is a link before its URL is known.
type reference struct {
	Link
	ref string // as written; not used where URL is known
}

// A page collects what scan sees; references wait for resolve, since a base element counts for
// those before it too.
type page struct {
	Result
	opts    Options
	left    int // steps of the budget
	refs    []reference
	hasBase bool
	base    string            // href of the first base element that has one
	query   *encoding.Encoder // of queries; nil: UTF-8

	meta          storage.Meta // as far as it is known
	ogDescription string       // for a page without another
	robots        line         // contents of meta elements
	level         uint8        // of the heading that is open; 0: none
	heading       line         // its text so far
	inLink        bool         // an element a with an address is open
	link          line         // its text so far
	linkTexts     []byte       // a newline behind each
	linkHashes    []uint64     // of each
	linksFull     bool         // no more link texts
}

// resolve makes the references links.
func (p *page) resolve(f Facts) {
	base, err := weburl.NewBase(f.URL)
	baseLength := len(f.URL)
	if err == nil && p.hasBase {
		// A base that is no web address, such as javascript:, leaves that of the page.
		if url, err := base.Resolve(p.reference(p.base)); err == nil {
			base, _ = weburl.NewBase(url)
			baseLength = len(url)
		}
	}
	defer func() {
		for range base.Users() {
			p.skip("userinfo (followed without it)")
		}
	}()
	ignored := p.opts.NoFollow != "none" && (f.NoFollow || p.NoFollow)
	if !ignored {
		p.Links = slices.Grow(p.Links, len(p.refs))
	}
	size := 0
	for _, r := range p.refs {
		if size > maxLinkBytes {
			p.Cut = true
			return
		}
		err = nil
		if r.URL == "" {
			ref := p.reference(r.ref)
			if !p.spend(workOf(ref, baseLength)) {
				return
			}
			r.URL, err = base.Resolve(ref)
		}
		if p.meta.Canonical == "" && r.Element == "link" && err == nil && hasWord(r.Rel, "canonical") && len(r.URL) <= maxCanonical {
			p.meta.Canonical = r.URL
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
	in := &source{r: r}
	z := in.tokenizer()
	foreign := 0 // open svg and math elements
	var attrs attributes
	var lower [maxName]byte
	defer p.endHeading()
	defer p.endLink()
	for inTitle, rawText := false, false; ; {
		z.AllowCDATA(xhtml || foreign > 0)
		in.tag = tagScan{}
		if rawText {
			in.tag.state = noTag
		}
		token, size := z.Next(), len(z.Raw())
		isStart := token == html.StartTagToken || token == html.SelfClosingTagToken
		steps := stepsToken + size
		if isStart {
			steps += stepsTag * size
		}
		if !p.spend(steps) {
			return
		}
		switch {
		case token == html.ErrorToken:
			p.Exhausted = errors.Is(z.Err(), errAttributes)
			p.Cut = p.Cut || errors.Is(z.Err(), html.ErrBufferExceeded)
			return
		case token == html.TextToken:
			// Text may go on after any byte, unlike all else.
			goesOn := size >= maxToken && !rawText && !bytes.HasPrefix(z.Raw(), []byte("<!"))
			if goesOn {
				in.putBack(z)
			}
			switch {
			case inTitle && p.meta.Title == "":
				text := line{max: maxText}
				text.add(z.Text())
				p.meta.Title = text.take()
			case !rawText && foreign == 0 && p.wantsText():
				p.text(z.Text())
			}
			inTitle, rawText = false, false
			if goesOn {
				z = in.tokenizer()
			}
		case token == html.EndTagToken:
			inTitle, rawText = false, false
			name := tagName(z.Raw()[2:], &lower)
			if isForeign(name) && foreign > 0 {
				foreign--
			}
			p.endTag(name)
		case isStart:
			name := tagName(z.Raw()[1:], &lower)
			closed := token == html.SelfClosingTagToken && (xhtml || foreign > 0)
			rawText = !closed && hasRawText(name)
			// Without scripts noscript is markup. An element closed at once has no raw text.
			if closed || string(name) == "noscript" {
				z.NextIsNotRawText()
			}
			inTitle = rawText && foreign == 0 && string(name) == "title"
			if isForeign(name) && !closed {
				foreign++
			}
			p.startTag(name, closed)
			if e := elements[string(name)]; e.name != "" && (p.opts.Assets || !e.asset) {
				attrs.read(z)
				p.element(e.name, &attrs)
				if closed && e.name == "a" {
					p.endLink()
				}
			}
		}
	}
}

// maxName bounds the names that mean anything here: plaintext is the longest.
const maxName = 12

// tagName gives the name that a tag begins with, in lower case, nil for one that is too long. The
// tokenizer could tell, but copies each.
func tagName(tag []byte, lower *[maxName]byte) []byte {
	for i, c := range tag {
		switch {
		case c == '>' || c == '/' || c == ' ' || '\t' <= c && c <= '\r' && c != '\v':
			return lower[:i]
		case i == maxName:
			return nil
		case 'A' <= c && c <= 'Z':
			c += 'a' - 'A'
		}
		lower[i] = c
	}
	return nil
}

// hasRawText tells whether what follows a start tag is text up to its end tag, and not shown.
func hasRawText(name []byte) bool {
	switch string(name) {
	case "script", "style", "title", "textarea", "iframe", "noembed", "noframes", "xmp", "plaintext":
		return true
	}
	return false
}

func isForeign(name []byte) bool { return string(name) == "svg" || string(name) == "math" }

// hasWord tells whether words, in lower case and separated by white space, has this one.
func hasWord(words, word string) bool {
	for w := range strings.FieldsSeq(words) {
		if w == word {
			return true
		}
	}
	return false
}
