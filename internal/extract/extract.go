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
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/net/html"
	"golang.org/x/text/encoding"

	"urltree/crawler/weburl"
	"urltree/internal/edges"
	"urltree/internal/extract/scan"
	"urltree/storage/record"
)

// What a page may ask us to keep in memory: the first so many links, and of their references, and
// of their URLs, the first so many bytes. All depend on the page alone.
const (
	maxRefs      = 210_000
	maxLinkBytes = 8 << 20
	maxRef       = 16 << 10 // of one reference: without its fragment a longer one, such as an image, is no URL
)

// Facts are what is known of an answer besides its body.
type Facts struct {
	URL         string   // canonical
	Media       string   // media type without parameters; only HTML, XHTML, feeds, LinkLines and, with Options.Assets, CSS have links inside
	Charset     string   // of the header, or the one used before; "" or an unknown label: from the body
	HeaderLinks []string // as HeaderLink.Kept has them: the first links of the page
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
	// Edges fills in Result.Edges.
	Edges bool
	// Accepts reports whether a media type is stored: links that declare another one, but for those of
	// feeds, are Result.Unwanted. nil: all are.
	Accepts func(media string) bool
}

// A Link is a reference to another page, or to the page itself.
type Link struct {
	URL     string // canonical
	Element string // name of the element, "header", "feed", "style" in CSS, "other" of an attribute with an asset, or, of LinkLines, "line"
	Rel     string // the words of its rel attribute in lower case, a space between two
}

// A Result is what a page holds.
type Result struct {
	Links    []Link // in page order, repeats included
	Unwanted []Link // those that are not followed for the media type that they declare, in page order
	Charset  string // standard name of the encoding that links were decoded by; if neither HTML nor CSS that of Facts.Charset
	NoIndex  bool   // by meta robots
	NoFollow bool   // by meta robots; Facts.NoFollow is not in it
	Cut      bool   // not all was read: a tag that may have links is over 4 MiB, or there are too many links
	// Exhausted: the page asks for more work than a page may, and was given up. Links, Meta and
	// what it says to robots are as far as they were known.
	Exhausted bool
	// Edges are, with Options.Edges, all references that are URLs, in page order, repeats included:
	// also those that nofollow keeps out of Links. Which they are depends on the page and on
	// Options.Assets alone. They end where URLs, rel attributes and texts exceed 8 MiB.
	Edges []edges.Edge
	// Meta is what the page says about itself, at most 6 KiB of text; nil: nothing, or not HTML.
	Meta *record.Meta
	// NotFollowed counts references that gave no link: "scheme", "syntax" and "length" as weburl
	// has them, "nofollow", "type" of Unwanted ones. It may be nil.
	NotFollowed map[string]int
}

// Parse finds links and metadata of an answer. It never fails: of a damaged page it reads what it
// can.
func Parse(f Facts, body []byte, o Options) Result { return new(Parser).Parse(f, body, o) }

// A Parser parses one page after the other in the same memory. The zero value is ready. It is not
// for concurrent use.
type Parser struct {
	page    page
	base    weburl.Base
	source  source
	scanner scan.Scanner
}

// Parse is as the function of that name, but Result.Links and Edges are good only until the next
// call.
func (r *Parser) Parse(f Facts, body []byte, o Options) Result { return r.parse(f, body, o, maxSteps) }

func (r *Parser) parse(f Facts, body []byte, o Options, steps int) Result {
	p := r.newPage(f, o, steps)
	in := &r.source
	switch xhtml, ok := isHTML(f.Media, body); {
	case ok:
		in.reset(body, f.Charset, formatOf(xhtml))
		p.Charset, p.query, p.isMarkup = in.charset, in.query, true
		p.scan(&r.scanner, in, xhtml)
	case o.Assets && strings.EqualFold(f.Media, "text/css"):
		in.reset(body, f.Charset, inCSS)
		p.Charset = in.charset
		p.css("style", in.reader(), cssWindow)
	case IsFeed(f.Media):
		p.feed(f, body)
	case f.Media == LinkLines:
		p.lines(body)
	}
	if p.Charset == "" && f.Charset != "" {
		_, p.Charset = lookup(f.Charset)
	}
	return p.result(f, &r.base)
}

// isHTML reports whether a page of this media type has links inside, and whether it is XHTML. XML
// is, if its root element says so.
func isHTML(media string, body []byte) (xhtml, ok bool) {
	switch strings.ToLower(media) {
	case "text/html":
		return false, true
	case "application/xhtml+xml":
		return true, true
	case "application/xml", "text/xml":
		return true, isXHTML(body)
	}
	return false, false
}

// isXHTML reports whether the root element of XML is that of a page.
func isXHTML(body []byte) bool {
	z := html.NewTokenizer(bytes.NewReader(body[:min(len(body), rootSize)]))
	for {
		switch z.Next() {
		case html.ErrorToken:
			return false
		case html.StartTagToken:
			root := z.Token()
			return root.Data == "html" && slices.Contains(root.Attr, html.Attribute{Key: "xmlns", Val: "http://www.w3.org/1999/xhtml"})
		}
	}
}

// rootSize is how much of XML is searched for its root element, in bytes.
const rootSize = 4 << 10

// newPage returns the page that is read next, without what is left of the last one.
func (r *Parser) newPage(f Facts, o Options, steps int) *page {
	p, old := &r.page, r.page
	*p = page{
		opts: o, left: steps, refs: old.refs.reset(), docs: old.docs.reset(), texts: old.texts.reset(),
		about: old.about.reset(), called: old.called.reset(),
	}
	p.Links, p.Edges = kept(old.Links), kept(old.Edges)
	for _, kept := range f.HeaderLinks {
		mark, url := marked(kept)
		switch {
		case mark == markAsset && !o.Assets:
			continue
		case mark != markAsset && !p.isWanted(mark):
			p.refs.unwanted = append(p.refs.unwanted, len(p.Links))
		}
		p.Links, p.refs.ends = append(p.Links, Link{URL: url, Element: "header"}), append(p.refs.ends, 0)
	}
	return p
}

// result returns what the page holds once it is read.
func (p *page) result(f Facts, base *weburl.Base) Result {
	p.resolve(f, base)
	if p.isMarkup {
		p.Meta = p.finish(f)
	}
	r := p.Result
	if len(r.Links) == 0 {
		r.Links = nil
	}
	if len(r.Edges) == 0 {
		r.Edges = nil
	}
	return r
}

// maxKept bounds what each of the lists of a Parser keeps for the next page, in bytes.
const maxKept = 1 << 20

// kept returns a list without its elements, in the same memory unless that is more than maxKept.
func kept[E any](list []E) []E {
	if cap(list)*int(unsafe.Sizeof(*new(E))) > maxKept {
		return nil
	}
	return list[:0]
}

// A page collects what scan sees; its links have no URLs until resolve, since a base element
// counts for those before it too.
type page struct {
	Result
	opts     Options
	left     int // steps of the budget
	isMarkup bool
	query    *encoding.Encoder // of queries; nil: UTF-8

	refs   refs
	docs   docs
	texts  texts
	about  about
	called called
}

// refs are the references of all links as they are written.
type refs struct {
	written  []byte // one behind the other
	ends     []int  // of each in written; one that has its URL already has none
	unwanted []int  // places in Links of those for Result.Unwanted

	lastRel, lowerRel string // the rel attribute before, as it is written and as rel returns it
	short             line   // of oneLine
}

func (r *refs) reset() refs {
	n := refs{written: kept(r.written), ends: kept(r.ends), unwanted: kept(r.unwanted), short: line{text: r.short.text[:0]}}
	if len(r.lastRel) <= maxLinkText {
		n.lastRel, n.lowerRel = r.lastRel, r.lowerRel
	}
	return n
}

// docs are the page, and the documents in its iframes.
type docs struct {
	list  []document
	parts []part // in page order; before the first one all is of the page
	at    int    // the document that is read
	depth int    // so many are around it
}

func (d *docs) reset() docs {
	return docs{list: append(kept(d.list), document{}), parts: kept(d.parts)}
}

// texts are those of the a and area elements, with Options.Edges.
type texts struct {
	named int        // the place in Links of the element that was met last
	all   []byte     // one behind the other
	of    []edgeText // which has which; those without are left out
	next  int        // the first of these whose link has not been met in resolve
	bytes int        // of all texts of Edges
}

func (t *texts) reset() texts { return texts{all: kept(t.all), of: kept(t.of)} }

// about is what the page says of itself.
type about struct {
	meta          record.Meta // as far as it is known
	ogDescription string      // for a page without another
	robots        line        // contents of meta elements
	level         uint8       // of the heading that is open; 0: none
	heading       line        // its text so far
	headingTexts  []byte      // of all before, one behind the other
	headings      []heading   // those
}

func (a *about) reset() about {
	return about{
		robots:  line{max: maxDirectives, text: a.robots.text[:0]},
		heading: line{max: maxHeading, text: a.heading.text[:0]}, headingTexts: kept(a.headingTexts), headings: kept(a.headings),
	}
}

// called is what the links of the page are called.
type called struct {
	open    bool     // an element a with an address is open
	text    line     // its text so far
	decoded []byte   // the text that is added, to be used again
	all     []byte   // a newline behind each
	hashes  []uint64 // of each
	full    bool     // no more of them
}

func (c *called) reset() called {
	return called{text: line{max: maxLinkText, text: c.text.text[:0]}, decoded: kept(c.decoded), all: kept(c.all), hashes: kept(c.hashes)}
}

// resolve sets the URLs of the links, and drops those that have none or are not to be followed.
func (p *page) resolve(f Facts, base *weburl.Base) {
	known := base
	base = p.enter(0, f.URL, known)
	defer func() { p.countUsers(base) }()
	ignored := p.opts.NoFollow != "none" && (f.NoFollow || p.NoFollow)
	// The references are only read; a copy would cost more than to resolve most of them. Base forgets
	// them with its next Reset.
	written := unsafe.String(unsafe.SliceData(p.refs.written), len(p.refs.written))
	counts := p.query != nil || len(p.docs.parts) > 0 || mostWork(len(written), len(p.refs.ends), len(p.docs.list[0].url)) > p.left
	links, start, size := p.Links, 0, 0
	kept := links[:0] // in the same place
	defer func() { p.Links = kept }()
	texts := string(p.texts.all)
	parts, unwanted, at := p.docs.parts, p.refs.unwanted, 0
	for i, end := range p.refs.ends {
		if size > maxLinkBytes {
			p.Cut = true
			return
		}
		for len(parts) > 0 && parts[0].from == i {
			at, parts = parts[0].document, parts[1:]
			p.countUsers(base)
			if base = p.enter(at, f.URL, known); !p.spend(stepsRef * len(p.docs.list[at].url)) {
				return
			}
		}
		link := links[i]
		var err error
		if link.URL == "" {
			ref := written[start:end]
			if at == 0 {
				ref = p.reference(ref)
			}
			start = end
			if counts && !p.spend(workOf(ref, len(p.docs.list[at].url))) {
				return
			}
			link.URL, err = base.Resolve(ref)
		}
		if at == 0 && p.about.meta.Canonical == "" && link.Element == "link" && err == nil && hasWord(link.Rel, "canonical") && len(link.URL) <= maxCanonical {
			p.about.meta.Canonical = strings.Clone(link.URL)
		}
		if p.opts.Edges && err == nil {
			p.edge(i, link, texts, f.NoFollow || p.NoFollow)
		}
		isUnwanted := len(unwanted) > 0 && unwanted[0] == i
		if isUnwanted {
			unwanted = unwanted[1:]
		}
		switch {
		case err != nil:
			p.skip(reasons[err])
		case ignored, p.opts.NoFollow == "all" && hasWord(link.Rel, "nofollow"), p.opts.NoFollow != "none" && p.docs.list[at].noFollow:
			p.skip("nofollow")
		case isUnwanted:
			p.skip("type")
			p.Unwanted = append(p.Unwanted, link)
		default:
			kept = append(kept, link)
			size += len(link.URL)
		}
	}
}

// reasons why a reference gave no link, as NotFollowed has them.
var reasons = map[error]string{weburl.ErrScheme: "scheme", weburl.ErrLength: "length", weburl.ErrSyntax: "syntax"}

// reference writes the query of ref in the encoding of the page, as browsers do.
func (p *page) reference(ref string) string {
	if p.query == nil {
		return ref
	}
	return EncodeQuery(ref, p.query)
}

func (p *page) skip(reason string) {
	if p.NotFollowed == nil {
		p.NotFollowed = map[string]int{}
	}
	p.NotFollowed[reason]++
}

// scan reads the page.
func (p *page) scan(s *scan.Scanner, in *source, xhtml bool) {
	defer p.endHeading()
	defer p.endLink()
	p.markup(s, in, xhtml)
}

// markup reads the page, or a document in it, whose texts do not count.
func (p *page) markup(s *scan.Scanner, in *source, xhtml bool) {
	in.start(s, namesOf(p.opts.Assets))
	s.XHTML = xhtml
	isPage := p.docs.at == 0
	for read := 0; ; {
		s.Text = isPage && p.wantsText()
		kind := s.Next()
		if kind == scan.More {
			in.feed(s)
			continue
		}
		steps := stepsToken + s.Read() - read
		read = s.Read()
		if kind == scan.Start {
			steps += stepsTag * s.Size()
		}
		if !p.spend(steps) {
			return
		}
		switch kind {
		case scan.End:
			p.Cut = p.Cut || s.Exceeded()
			return
		case scan.Text:
			if !s.InDrawing() {
				p.called.decoded = s.AppendText(p.called.decoded[:0])
				p.text(p.called.decoded)
			}
		case scan.EndTag:
			if isPage {
				p.endTag(tags[s.Element()].name)
			}
		case scan.Start:
			tag := &tags[s.Element()]
			if tag.shown == "style" && p.opts.Assets {
				p.style(in.rawText(s))
			}
			if isPage {
				if tag.isTitle && p.about.meta.Title == "" && !s.Closed() && !s.InDrawing() {
					p.about.meta.Title = p.oneLine(in.rawText(s), maxText)
				}
				p.startTag(tag.name, s.Closed())
			}
			if tag.shown != "" && (!tag.plain || p.opts.Assets) {
				p.element(tag.shown, s)
				if isPage && tag.shown == "a" && s.Closed() {
					p.endLink()
				}
			}
		}
	}
}

// hasWord reports whether words, in lower case and separated by white space, has this one.
func hasWord(words, word string) bool {
	for w := range strings.FieldsSeq(words) {
		if w == word {
			return true
		}
	}
	return false
}
