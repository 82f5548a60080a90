package extract

import (
	"bytes"
	"slices"
	"strings"

	"urltree/internal/extract/scan"
)

// A tag is an element that holds links, metadata or text that is kept, or ends such text.
type tag struct {
	name    []byte
	shown   string // the name a link is shown under, if it may have links or metadata
	asset   bool   // only what a browser loads to show the page
	want    scan.Want
	isTitle bool
}

// tags are all of them. A browser takes image for img.
var tags = func() (list []tag) {
	for _, name := range []string{"a", "area", "base", "frame", "html", "iframe", "link", "meta"} {
		list = append(list, tag{name: []byte(name), shown: name, want: scan.Starts})
	}
	list[0].want |= scan.Ends
	for _, name := range []string{"audio", "embed", "img", "input", "object", "script", "source", "track", "video"} {
		list = append(list, tag{name: []byte(name), shown: name, asset: true, want: scan.Starts})
	}
	list = append(list, tag{name: []byte("image"), shown: "img", asset: true, want: scan.Starts})
	list = append(list, tag{name: []byte("title"), want: scan.Starts, isTitle: true})
	for _, name := range []string{"h1", "h2", "h3", "h4", "h5", "h6"} {
		list = append(list, tag{name: []byte(name), want: scan.Starts | scan.Ends})
	}
	for _, name := range lineEnds {
		list = append(list, tag{name: []byte(name), want: scan.StartsInText | scan.EndsInText})
	}
	return list
}()

var withAssets, withoutAssets = newNames(true), newNames(false)

func newNames(assets bool) *scan.Names {
	var elements []scan.Element
	for _, t := range tags {
		if t.asset && !assets {
			t.want = 0
		}
		elements = append(elements, scan.Element{Name: string(t.name), Want: t.want})
	}
	return scan.NewNames(elements, attributeNames)
}

func namesOf(assets bool) *scan.Names {
	if assets {
		return withAssets
	}
	return withoutAssets
}

// Attributes that element looks at.
const (
	attrHref = iota
	attrXlinkHref
	attrSrc
	attrSrcset
	attrPoster
	attrData
	attrRel
	attrType
	attrName
	attrContent
	attrHTTPEquiv
	attrProperty
	attrLang
	attrXMLLang
	attrAlt
)

var attributeNames = []string{
	attrHref: "href", attrXlinkHref: "xlink:href", attrSrc: "src", attrSrcset: "srcset", attrPoster: "poster",
	attrData: "data", attrRel: "rel", attrType: "type", attrName: "name", attrContent: "content",
	attrHTTPEquiv: "http-equiv", attrProperty: "property", attrLang: "lang", attrXMLLang: "xml:lang",
	attrAlt: "alt",
}

// attributes are those of one element, with their character references undone.
type attributes interface {
	// Attr gives the value of one, which must not be changed, and whether the element has it.
	Attr(attribute int) (value []byte, ok bool)
}

func attr(a attributes, i int) string {
	value, _ := a.Attr(i)
	return string(value)
}

// element takes the references and metadata of one element.
func (p *page) element(name string, a attributes) {
	switch name {
	case "a", "area":
		ref, ok := a.Attr(attrHref) // also an empty one: the page itself
		if !ok {
			if ref, ok = a.Attr(attrXlinkHref); !ok {
				return
			}
		}
		p.named = len(p.Links) // its place, unless there are too many
		p.refer(name, p.rel(a), ref)
		if name == "area" {
			alt, _ := a.Attr(attrAlt)
			text := []byte(p.oneLine(alt, maxLinkText))
			p.keepLinkText(text)
			p.nameEdge(text)
		} else {
			p.inLink = !p.linksFull || p.opts.Edges
		}
	case "base":
		if ref, ok := a.Attr(attrHref); ok && !p.hasBase {
			p.base, p.hasBase = string(ref), true
		}
	case "link":
		ref, _ := a.Attr(attrHref)
		rel := p.rel(a)
		follow := hasWord(rel, "next") || hasWord(rel, "canonical") || hasWord(rel, "alternate")
		asset := hasWord(rel, "stylesheet") || hasWord(rel, "icon")
		if len(ref) > 0 && (follow && !asset || asset && p.opts.Assets) {
			p.refer(name, rel, ref)
		}
	case "html":
		for _, i := range []int{attrLang, attrXMLLang} {
			if p.meta.Language == "" {
				language, _ := a.Attr(i)
				p.meta.Language = p.oneLine(language, maxLanguage)
			}
		}
	case "meta":
		p.metaElement(a)
	case "iframe", "frame":
		p.load(name, a, attrSrc)
	default:
		p.asset(name, a)
	}
}

// asset takes the references of an element that shows or runs something.
func (p *page) asset(name string, a attributes) {
	switch {
	case name == "object":
		p.load(name, a, attrData)
		return
	case name == "input" && !strings.EqualFold(attr(a, attrType), "image"):
		return
	}
	p.load(name, a, attrSrc)
	switch name {
	case "img", "source":
		for _, ref := range srcset(attr(a, attrSrcset)) {
			p.refer(name, "", []byte(ref))
		}
	case "video":
		p.load(name, a, attrPoster)
	}
}

// metaElement takes a refresh, the directives for robots, and what describes the page.
func (p *page) metaElement(a attributes) {
	content, _ := a.Attr(attrContent)
	if pragma, _ := a.Attr(attrHTTPEquiv); bytes.EqualFold(pragma, []byte("refresh")) {
		if ref, ok := refresh(string(content)); ok {
			p.refer("meta", "", []byte(ref))
		}
	}
	name, _ := a.Attr(attrName)
	name = bytes.TrimSpace(name)
	property, _ := a.Attr(attrProperty)
	p.describe(strings.ToLower(string(name)), strings.ToLower(string(bytes.TrimSpace(property))), content)
	if bytes.EqualFold(name, []byte("robots")) || len(name) > 0 && bytes.EqualFold(name, []byte(p.opts.Token)) {
		text := string(content)
		noindex, nofollow := Directives([]string{text}, "")
		p.NoIndex = p.NoIndex || noindex
		p.NoFollow = p.NoFollow || nofollow
		p.robots.item(text)
	}
}

// load takes a reference that means nothing when it is empty.
func (p *page) load(name string, a attributes, i int) {
	if ref, _ := a.Attr(i); len(ref) > 0 {
		p.refer(name, "", ref)
	}
}

// rel gives the words of the rel attribute in lower case, a space between two. Many of a page are the same.
func (p *page) rel(a attributes) string {
	value, _ := a.Attr(attrRel)
	if string(value) != p.lastRel {
		p.lastRel = string(value)
		p.lowerRel = strings.Join(strings.Fields(strings.ToLower(p.lastRel)), " ")
	}
	return p.lowerRel
}

func (p *page) refer(name, rel string, ref []byte) {
	if len(p.Links) >= maxRefs || len(p.written) > maxLinkBytes {
		p.Cut = true
		return
	}
	if len(ref) > maxRef {
		ref = bytes.TrimLeft(ref, " \t\n\f\r")
		ref = ref[:min(len(ref), maxRef)]
	}
	if cap(p.written) == 0 { // for all of a usual page
		p.written, p.ends, p.Links = make([]byte, 0, 4<<10), slices.Grow(p.ends, 128), slices.Grow(p.Links, 128)
	}
	p.written = append(double(p.written, len(ref)), ref...)
	p.ends = append(double(p.ends, 1), len(p.written))
	p.Links = append(double(p.Links, 1), Link{Element: name, Rel: rel})
}

// double makes room for n more in s. A page of thousands of links would be copied far more often by append, which
// grows by a quarter.
func double[T any](s []T, n int) []T {
	if len(s)+n > cap(s) {
		s = slices.Grow(s, len(s)+n)
	}
	return s
}
