package tree

import (
	"errors"
	"io"
	"time"

	"urltree/internal/article"
	"urltree/internal/extract"
	"urltree/iut"
	"urltree/storage/record"
)

// A Page is what a tree has of a stored page. Its methods read the body each time that they are
// called; they may be called from any goroutine. Their errors are fs.ErrNotExist for a body that is
// not there any more, iut.ErrTorn for one that is not whole, iut.ErrDisk, and those of the system.
type Page struct {
	URL     string      // canonical
	Source  string      // the URL that it was found on first, or Seed
	Via     string      // the URL that redirected to it; "": none did
	Depth   int         // links from a seed, by the shortest way
	Status  int         // of HTTP
	Time    time.Time   // when it was answered, in whole seconds
	Found   time.Time   // when its URL became known, likewise
	Media   string      // media type, lower case, without parameters
	Charset string      // that its links were decoded by; if it is not HTML, that of the header; "": none
	Bytes   int64       // of the body
	SHA256  [32]byte    // of the body
	Meta    record.Meta // title, description, headings and the like; zero if it is not HTML

	tree  *Tree
	facts iut.Facts
}

// Where returns where the body is below the root of the tree: its folder, or the name of a WARC
// file with offset and length of its record there, a space between two.
func (p *Page) Where() (string, error) { return p.tree.pages.Where(p.facts) }

// Open opens the body, without content coding. The caller closes it.
func (p *Page) Open() (io.ReadCloser, error) { return p.tree.pages.Content(p.facts) }

// Body reads the whole body.
func (p *Page) Body() ([]byte, error) { return p.read(p.Bytes) }

func (p *Page) read(most int64) ([]byte, error) {
	in, err := p.Open()
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(in, most))
	return body, errors.Join(err, in.Close())
}

// Bounds of texts, in bytes.
const (
	mostRead = 8 << 20 // of the body, the first ones
	mostText = 1 << 20
)

// Text returns what a page of HTML, XHTML or plain text shows, in UTF-8: at most 1 MiB, of the
// first 8 MiB of the body. Other pages have none.
func (p *Page) Text() (string, error) { return p.text(extract.AppendText) }

// MainText is Text without the menus, side bars and the like, which a reader view of a browser
// leaves out, where such a part is found.
func (p *Page) MainText() (string, error) { return p.text(article.AppendText) }

func (p *Page) text(of func(to []byte, f extract.Facts, body []byte, most int) []byte) (string, error) {
	if !extract.IsShown(p.Media) {
		return "", nil
	}
	body, err := p.read(mostRead)
	if err != nil {
		return "", err
	}
	return string(of(nil, extract.Facts{Media: p.Media, Charset: p.Charset}, body, mostText)), nil
}

// A Link is a reference of a page.
type Link struct {
	URL     string // canonical
	Element string // name of the element; "header" of a header, "feed" of a feed, "style" in CSS, "other" of an attribute with an asset
	Rel     string // the words of its rel attribute in lower case, a space between two; also nofollow, where the page says so of all its links
	Text    string // of an element a or area: what is in it, one line, at most 100 bytes
}

// Links returns the references of the page to http(s) URLs, in page order and with repeats, whether
// the crawl follows them or not; those to images, styles and other assets too.
func (p *Page) Links() ([]Link, error) {
	body, err := p.Body()
	if err != nil {
		return nil, err
	}
	list := p.tree.linker.EdgesOf(p.facts, body, true)
	links := make([]Link, len(list))
	for i, e := range list {
		links[i] = Link{URL: e.To, Element: e.Element, Rel: e.Rel, Text: e.Text}
	}
	return links, nil
}
