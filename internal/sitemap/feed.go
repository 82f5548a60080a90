package sitemap

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"

	"golang.org/x/net/html"

	"urltree/crawler/weburl"
)

// feed reads RSS and Atom: the links of each whole item, which are kept until it ends.
func (r *reader) feed(text io.Reader) {
	f := &feed{reader: r, z: tokens(text)}
	for f.next() {
	}
}

// inner lists the elements of a feed that are looked at, by the one around them.
var inner = map[string][]string{
	"":        {"rss", "rdf", "feed"},
	"rss":     {"channel", "item"},
	"rdf":     {"channel", "item"},
	"channel": {"item"},
	"feed":    {"entry"},
	"item":    {"link", "guid"},
	"entry":   {"link"},
}

// A feed is being read. Elements of other names are skipped with all that is in them.
type feed struct {
	*reader
	z      *html.Tokenizer
	prefix string // of the names of items and what is around and in them

	open  []element       // that are looked at
	text  strings.Builder // of the open link or guid of RSS
	links []ref           // of the open item
	bytes int             // of links
	guid  string          // of the open item, if it is a permanent link

	skip  string // an element that is skipped is open; "": none
	depth int    // so many of its name are
}

// An element is open.
type element struct {
	name    string
	base    *weburl.Base // of references in it (XML Base, 4)
	noGUID  bool         // a guid that is no permanent link
	another bool         // a link of Atom that leads elsewhere than to the entry's own page
	href    string       // of a link of Atom
}

// A ref is a reference as written.
type ref struct {
	base *weburl.Base
	text string
}

// next takes one token. It is false at the end, or when no more is wanted.
func (f *feed) next() bool {
	token := f.z.Next()
	switch token {
	case html.ErrorToken: // an item that is open is torn
		f.Cut = f.Cut || errors.Is(f.z.Err(), html.ErrBufferExceeded)
		f.Damaged = len(f.open) > 0
		return false
	case html.TextToken:
		if f.skip == "" && f.inItem() && f.text.Len() <= maxLoc {
			f.text.WriteString(written(f.z.Raw()))
		}
	case html.StartTagToken, html.SelfClosingTagToken:
		tag, more := f.z.TagName()
		name := string(tag)
		f.z.NextIsNotRawText()
		return f.start(name, more, token == html.SelfClosingTagToken)
	case html.EndTagToken:
		tag, _ := f.z.TagName()
		f.z.NextIsNotRawText()
		return f.end(string(tag))
	}
	return true
}

// top returns the name of the innermost open element.
func (f *feed) top() string {
	if len(f.open) == 0 {
		return ""
	}
	return f.open[len(f.open)-1].name
}

// container returns the number of open elements around the items.
func (f *feed) container() int {
	if i := slices.IndexFunc(f.open, func(e element) bool { return isItem(e.name) }); i >= 0 {
		return i
	}
	return len(f.open)
}

func (f *feed) inItem() bool { return f.container() < len(f.open) }

func isItem(name string) bool { return name == "item" || name == "entry" }

func (f *feed) start(name string, attributes, closed bool) bool {
	local, ours := strings.CutPrefix(name, f.prefix)
	if len(f.open) == 0 {
		if f.prefix, local = split(name); local == "rdf" {
			f.prefix = "" // RSS 1.0 has items of its own names in a root of another
		}
		ours = true
	}
	if ours && isItem(local) && f.inItem() {
		// The one before has no end.
		f.skip = ""
		if !f.close(f.container()) {
			return false
		}
	}
	switch {
	case f.skip == name && !closed:
		f.depth++
	case f.skip != "":
	case ours && slices.Contains(inner[f.top()], local):
		f.open = append(f.open, f.element(local, attributes))
		f.text.Reset()
		if closed {
			return f.close(len(f.open) - 1)
		}
	case !closed:
		f.skip, f.depth = name, 1
	}
	return true
}

// element reads the attributes of a start tag; of several of a name the first counts.
func (f *feed) element(name string, more bool) element {
	attributes := map[string]string{}
	for more {
		var key, value []byte
		key, value, more = f.z.TagAttr()
		if _, ok := attributes[string(key)]; !ok && len(value) <= maxLoc {
			attributes[string(key)] = string(value)
		}
	}
	e := element{
		name: name, base: f.base, href: attributes["href"],
		noGUID:  strings.EqualFold(attributes["ispermalink"], "false"),
		another: attributes["rel"] != "" && attributes["rel"] != "alternate",
	}
	if len(f.open) > 0 {
		e.base = f.open[len(f.open)-1].base
	}
	if text, ok := attributes["xml:base"]; ok {
		if url, err := resolve(e.base, text); err == nil {
			if base, err := weburl.NewBase(url); err == nil {
				e.base = base
			}
		}
	}
	return e
}

func (f *feed) end(name string) bool {
	if name == f.skip {
		if f.depth--; f.depth == 0 {
			f.skip = ""
		}
		return true
	}
	local, ours := strings.CutPrefix(name, f.prefix)
	for i := len(f.open) - 1; ours && i >= 0; i-- {
		// Within what is skipped only the end of an item or more counts.
		if f.open[i].name == local && (f.skip == "" || i <= f.container()) {
			f.skip = ""
			return f.close(i)
		}
	}
	return true
}

// close ends the open elements down to n.
func (f *feed) close(n int) bool {
	for len(f.open) > n {
		e := f.open[len(f.open)-1]
		f.open = f.open[:len(f.open)-1]
		switch {
		case isItem(e.name):
			if !f.item(e) {
				return false
			}
		case e.name == "guid":
			if text := strings.TrimSpace(f.text.String()); !e.noGUID && isWeb(text) {
				f.guid = text
			}
		case e.name == "link" && f.Kind != Atom:
			f.keep(e.base, f.text.String())
		case e.name == "link" && !e.another:
			f.keep(e.base, e.href)
		}
		f.text.Reset()
	}
	return true
}

// keep keeps a link of the open item until that ends, unless there are too many.
func (f *feed) keep(base *weburl.Base, text string) {
	switch text = strings.TrimSpace(text); {
	case text == "":
	case len(text) > maxLoc, f.bytes+len(text) > maxToken:
		f.Skipped++
	default:
		f.bytes += len(text)
		f.links = append(f.links, ref{base, strings.Map(allowed, text)})
	}
}

// allowed leaves out what no XML document has; bytes that are no UTF-8 become U+FFFD.
func allowed(c rune) rune {
	if c < ' ' && c != '\t' && c != '\n' && c != '\r' || c == 0xFFFE || c == 0xFFFF {
		return -1
	}
	return c
}

// item takes the links of an item that has ended: of RSS link, and where there is none a guid that
// is a permanent link; of Atom those that lead to the entry's own page.
func (f *feed) item(e element) bool {
	links, guid := f.links, f.guid
	f.links, f.bytes, f.guid = f.links[:0], 0, ""
	if len(links) == 0 && guid != "" {
		return f.at(e.base, guid)
	}
	for _, l := range links {
		if !f.at(l.base, l.text) {
			return false
		}
	}
	return true
}

// json reads a JSON Feed, item by item: three bytes of an item may take hundreds of memory.
func (r *reader) json(text *bufio.Reader) {
	d := json.NewDecoder(text)
	r.Damaged = !r.members(d) && r.err == nil
}

// members reads the object that a JSON Feed is. It is false if it did not come to its end.
func (r *reader) members(d *json.Decoder) bool {
	if _, err := d.Token(); err != nil { // the brace
		return false
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return false
		}
		if key != "items" {
			var skipped json.RawMessage
			if d.Decode(&skipped) != nil {
				return false
			}
			continue
		}
		if t, err := d.Token(); err != nil || t != json.Delim('[') {
			return false
		}
		for d.More() {
			var item struct {
				URL         string `json:"url"`
				ExternalURL string `json:"external_url"`
			}
			err := d.Decode(&item)
			if _, ok := errors.AsType[*json.UnmarshalTypeError](err); err != nil && !ok {
				return false
			}
			if !r.entry(item.URL) || !r.entry(item.ExternalURL) {
				return false
			}
		}
		if _, err := d.Token(); err != nil {
			return false
		}
	}
	_, err := d.Token() // the other brace
	return err == nil
}
