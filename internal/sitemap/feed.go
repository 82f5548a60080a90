package sitemap

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/mmcdole/gofeed/atom"
	"github.com/mmcdole/gofeed/rss"
	"golang.org/x/net/html"

	"urltree/crawler/weburl"
)

// feed reads RSS and Atom. What gofeed takes it takes as a whole, with a call for each level of
// nesting and some hundred bytes for each tag; a hostile feed could so end the process. So it is
// given only what names pages, trimmed to well-formed documents of a few items each.
func (r *reader) feed(text io.Reader) {
	t := &trimmer{reader: r, z: tokens(text)}
	for t.next() {
	}
}

// chunk is how many items a document for gofeed has.
const chunk = 500

// inner lists the elements of a feed that are kept, by the one around them.
var inner = map[string][]string{
	"":        {"rss", "rdf", "feed"},
	"rss":     {"channel", "item"},
	"rdf":     {"channel", "item"},
	"channel": {"item"},
	"feed":    {"entry"},
	"item":    {"link", "guid"},
	"entry":   {"link"},
}

// A trimmer writes the kept elements, with the names and attributes that gofeed needs.
type trimmer struct {
	*reader
	z      *html.Tokenizer
	prefix string // of the names of items and what is around and in them

	out   bytes.Buffer
	open  []string // kept elements that are open
	tags  []string // their start tags
	bases []string // their base URLs, absolute
	items int      // in out
	item  int      // where in out the open one begins

	skip  string // an element that is not kept is open; ""; none
	depth int    // so many of its name are
}

// next takes one token. It is false at the end, or when no more is wanted.
func (t *trimmer) next() bool {
	token := t.z.Next()
	switch token {
	case html.ErrorToken:
		t.Cut = t.Cut || errors.Is(t.z.Err(), html.ErrBufferExceeded)
		t.Damaged = len(t.open) > 0
		if t.inItem() {
			t.out.Truncate(t.item) // torn
			t.open = t.open[:t.container()]
		}
		return t.flush() && false
	case html.TextToken:
		if top := t.top(); t.skip == "" && (top == "link" || top == "guid") && t.out.Len() < maxToken {
			t.out.WriteString(escape(written(t.z.Raw())))
		}
	case html.StartTagToken, html.SelfClosingTagToken:
		tag, more := t.z.TagName()
		name := string(tag)
		t.z.NextIsNotRawText()
		return t.start(name, more, token == html.SelfClosingTagToken)
	case html.EndTagToken:
		tag, _ := t.z.TagName()
		t.z.NextIsNotRawText()
		return t.end(string(tag))
	}
	return true
}

func (t *trimmer) top() string {
	if len(t.open) == 0 {
		return ""
	}
	return t.open[len(t.open)-1]
}

// container returns the number of open elements around the items.
func (t *trimmer) container() int {
	for i, name := range t.open {
		if isItem(name) {
			return i
		}
	}
	return len(t.open)
}

func (t *trimmer) inItem() bool { return t.container() < len(t.open) }

func isItem(name string) bool { return name == "item" || name == "entry" }

func (t *trimmer) start(name string, attributes, closed bool) bool {
	local, ours := strings.CutPrefix(name, t.prefix)
	if len(t.open) == 0 {
		if t.prefix, local = split(name); local == "rdf" {
			t.prefix = "" // RSS 1.0 has items of its own names in a root of another
		}
		ours = true
	}
	if ours && isItem(local) && t.inItem() {
		// The one before has no end.
		t.skip = ""
		if !t.close(t.container()) {
			return false
		}
	}
	switch {
	case t.skip == name && !closed:
		t.depth++
	case t.skip != "":
	case ours && keeps(t.top(), local):
		if isItem(local) {
			t.item = t.out.Len()
		}
		tag, base := t.tag(local, attributes)
		t.out.WriteString(tag)
		depth := len(t.open)
		t.open, t.tags, t.bases = append(t.open, local), append(t.tags[:depth], tag), append(t.bases[:depth], base)
		if closed {
			return t.close(len(t.open) - 1)
		}
	case !closed:
		t.skip, t.depth = name, 1
	}
	return true
}

func keeps(around, name string) bool {
	for _, n := range inner[around] {
		if n == name {
			return true
		}
	}
	return false
}

// tag returns a start tag, and the base URL in its element (XML Base, 4). gofeed takes any base for
// a folder, and knows none around the feed, so that references in attributes are written as
// absolute URLs, and bases as the absolute URLs of their folders, for references in texts.
func (t *trimmer) tag(name string, more bool) (tag, base string) {
	if base = t.url; len(t.open) > 0 {
		base = t.bases[len(t.open)-1]
	}
	attributes := map[string]string{}
	for more {
		var key, value []byte
		key, value, more = t.z.TagAttr()
		if _, ok := attributes[string(key)]; !ok && len(value) <= maxLoc {
			attributes[string(key)] = string(value)
		}
	}
	var b strings.Builder
	b.WriteByte('<')
	b.WriteString(name)
	if name == "feed" {
		b.WriteString(` xmlns="http://www.w3.org/2005/Atom"`)
	}
	for _, a := range []struct{ key, name string }{{"xml:base", "xml:base"}, {"href", "href"}, {"rel", "rel"}, {"ispermalink", "isPermaLink"}} {
		text, ok := attributes[a.key]
		switch {
		case !ok:
			continue
		case a.key == "xml:base":
			if url, ok := resolve(base, text); ok {
				base = url
			}
			text = folder(base)
		case a.key == "href" && strings.TrimSpace(text) != "":
			if url, ok := resolve(base, text); ok {
				text = url
			}
		}
		b.WriteString(" " + a.name + `="` + escape(text) + `"`)
	}
	b.WriteByte('>')
	return b.String(), base
}

// resolve returns the URL of a reference on a page with this base, and whether it has one.
func resolve(base, ref string) (url string, ok bool) {
	b, err := weburl.NewBase(base)
	if err == nil {
		url, err = b.Resolve(strings.TrimSpace(ref))
	}
	return url, err == nil && utf8.ValidString(ref)
}

// escape writes text as XML may hold it.
func escape(text string) string {
	return html.EscapeString(strings.Map(func(c rune) rune {
		if c < ' ' && c != '\t' && c != '\n' && c != '\r' || c == 0xFFFE || c == 0xFFFF {
			return -1
		}
		return c
	}, text))
}

// folder cuts a base behind its last slash: gofeed takes all of it for a folder.
func folder(base string) string {
	path, _, _ := strings.Cut(base, "?")
	from := strings.Index(path, "://") + 1 // 0: no scheme
	if from > 0 {
		from += len("//")
	}
	if i := strings.LastIndexByte(path[from:], '/'); i >= 0 {
		return path[:from+i+1]
	}
	return path
}

func (t *trimmer) end(name string) bool {
	if name == t.skip {
		if t.depth--; t.depth == 0 {
			t.skip = ""
		}
		return true
	}
	local, ours := strings.CutPrefix(name, t.prefix)
	for i := len(t.open) - 1; ours && i >= 0; i-- {
		// Within what is skipped only the end of an item or more counts.
		if t.open[i] == local && (t.skip == "" || i <= t.container()) {
			t.skip = ""
			return t.close(i)
		}
	}
	return true
}

// close ends the open elements down to n.
func (t *trimmer) close(n int) bool {
	for len(t.open) > n {
		name := t.top()
		t.open = t.open[:len(t.open)-1]
		t.out.WriteString("</" + name + ">")
		if isItem(name) {
			t.items++
		}
	}
	if (t.items >= chunk || t.out.Len() > maxToken || len(t.open) == 0) && !t.inItem() {
		return t.flush()
	}
	return true
}

// flush passes what is written to gofeed, and begins anew with the same elements open.
func (t *trimmer) flush() bool {
	items := t.items
	for i := len(t.open) - 1; i >= 0; i-- {
		t.out.WriteString("</" + t.open[i] + ">")
	}
	ok := items == 0 || t.give()
	t.items = 0
	t.out.Reset()
	for i := range t.open {
		t.out.WriteString(t.tags[i])
	}
	return ok
}

// give takes the links of the items: of RSS link, and where there is none a guid that is a
// permanent link; of Atom those that lead to the entry's own page.
func (t *trimmer) give() bool {
	if t.Kind == Atom {
		feed, err := new(atom.Parser).Parse(&t.out)
		if err != nil {
			t.Skipped += t.items
			return true
		}
		for _, e := range feed.Entries {
			for _, l := range e.Links {
				if l.Rel == "alternate" && !t.entry(l.Href) {
					return false
				}
			}
		}
		return true
	}
	feed, err := new(rss.Parser).Parse(&t.out)
	if err != nil {
		t.Skipped += t.items
		return true
	}
	for _, item := range feed.Items {
		links := item.Links
		if strings.Join(links, "") == "" && item.GUID != nil && !strings.EqualFold(item.GUID.IsPermalink, "false") && isWeb(item.GUID.Value) {
			links = []string{item.GUID.Value}
		}
		for _, l := range links {
			if !t.entry(l) {
				return false
			}
		}
	}
	return true
}

// json reads a JSON Feed, item by item. gofeed would hold all items at once, and for one of three
// bytes hold hundreds.
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
			var wrong *json.UnmarshalTypeError
			if err := d.Decode(&item); err != nil && !errors.As(err, &wrong) {
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
