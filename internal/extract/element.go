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
	plain   bool   // it has nothing but what any element may have to show
	want    scan.Want
	isTitle bool
}

// other is the name of all elements that have no tag of their own.
const other = "other"

// tags are all of them. A browser takes image for img, but for drawings.
var tags = func() (list []tag) {
	for _, name := range []string{"a", "area", "base", "frame", "html", "iframe", "link", "meta"} {
		list = append(list, tag{name: []byte(name), shown: name, want: scan.Starts})
	}
	list[0].want |= scan.Ends
	for _, name := range []string{"audio", "embed", "feimage", "image", "img", "input", "object", "script", "source", "style", "track", "use", "video"} {
		list = append(list, tag{name: []byte(name), shown: name, asset: true, want: scan.Starts})
	}
	list = append(list, tag{name: []byte("title"), shown: other, plain: true, want: scan.Starts, isTitle: true})
	for _, name := range []string{"h1", "h2", "h3", "h4", "h5", "h6"} {
		list = append(list, tag{name: []byte(name), shown: other, plain: true, want: scan.Starts | scan.Ends})
	}
	for _, name := range lineEnds {
		list = append(list, tag{name: []byte(name), shown: other, plain: true, want: scan.StartsInText | scan.EndsInText})
	}
	return append(list, tag{name: []byte(scan.Other), shown: other, asset: true, want: scan.Starts})
}()

var withAssets, withoutAssets = newNames(true), newNames(false)

func newNames(assets bool) *scan.Names {
	var elements []scan.Element
	for _, t := range tags {
		switch {
		case t.asset && !assets:
			t.want = 0
		case assets:
			t.want |= scan.Starts
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
	attrSrcdoc
	attrStyle
	attrBackground
	attrImageSrcset
	attrDataSrc
	attrDataSrcset
	attrDataLazySrc
	attrDataLazySrcset
	attrDataLazy
	attrDataOriginal
	attrDataBg
	attrDataBackground
	attrDataPoster
)

var attributeNames = []string{
	attrHref: "href", attrXlinkHref: "xlink:href", attrSrc: "src", attrSrcset: "srcset", attrPoster: "poster",
	attrData: "data", attrRel: "rel", attrType: "type", attrName: "name", attrContent: "content",
	attrHTTPEquiv: "http-equiv", attrProperty: "property", attrLang: "lang", attrXMLLang: "xml:lang",
	attrAlt: "alt", attrSrcdoc: "srcdoc", attrStyle: "style", attrBackground: "background", attrImageSrcset: "imagesrcset",
	attrDataSrc: "data-src", attrDataSrcset: "data-srcset", attrDataLazySrc: "data-lazy-src", attrDataLazySrcset: "data-lazy-srcset",
	attrDataLazy: "data-lazy", attrDataOriginal: "data-original", attrDataBg: "data-bg", attrDataBackground: "data-background",
	attrDataPoster: "data-poster",
}

// attributes are those of one element, with their character references undone.
type attributes interface {
	// Attr returns the value of one, which must not be changed, and whether the element has it.
	Attr(attribute int) (value []byte, ok bool)
}

func attr(a attributes, i int) string {
	value, _ := a.Attr(i)
	return string(value)
}

// element takes the references and metadata of one element.
func (p *page) element(name string, a attributes) {
	p.ownElement(name, a)
	if p.opts.Assets {
		p.looks(name, a)
	}
}

// ownElement takes what only some elements have. In a document in the page there is no metadata.
func (p *page) ownElement(name string, a attributes) {
	isPage := p.docs.at == 0
	switch name {
	case "a", "area":
		if ref, ok := p.address(a); ok {
			place := len(p.Links)
			p.refer(name, p.rel(a), ref)
			if isPage {
				p.startLink(name, a, place)
			}
		}
	case "base":
		d := &p.docs.list[p.docs.at]
		if ref, ok := a.Attr(attrHref); ok && !d.hasBase {
			d.base, d.hasBase = string(ref), true
		}
	case "link":
		p.linkElement(a)
	case "html":
		for _, i := range []int{attrLang, attrXMLLang} {
			if isPage && p.about.meta.Language == "" {
				language, _ := a.Attr(i)
				p.about.meta.Language = p.oneLine(language, maxLanguage)
			}
		}
	case "meta":
		p.metaElement(a, isPage)
	case "iframe", "frame":
		if text, ok := a.Attr(attrSrcdoc); ok && name == "iframe" {
			p.srcdoc(text)
		} else {
			p.load(name, a, attrSrc)
		}
	case other, "style":
	default:
		p.asset(name, a)
	}
}

// address returns the address of a link; an empty one is that of the page itself.
func (p *page) address(a attributes) (ref []byte, ok bool) {
	if ref, ok = a.Attr(attrHref); !ok {
		ref, ok = a.Attr(attrXlinkHref)
	}
	return ref, ok
}

func (p *page) linkElement(a attributes) {
	ref, _ := a.Attr(attrHref)
	rel := p.rel(a)
	asset := isAsset(rel)
	if asset && p.opts.Assets {
		p.candidates("link", a, attrImageSrcset)
	}
	if len(ref) == 0 || asset && !p.opts.Assets || !asset && !isFollowed(rel) {
		return
	}
	if !asset && declares(rel) && !p.isWanted(mediaType(attr(a, attrType))) {
		p.refs.unwanted = append(p.refs.unwanted, len(p.Links))
	}
	p.refer("link", rel, ref)
}

// asset takes the references of an element that shows or runs something.
func (p *page) asset(name string, a attributes) {
	switch name {
	case "object":
		p.load(name, a, attrData)
		return
	case "image", "use", "feimage":
		if ref, ok := p.address(a); ok && len(ref) > 0 && ref[0] != '#' {
			p.show(name, ref)
		}
		if name != "image" {
			return
		}
		name = "img"
	case "input":
		if !strings.EqualFold(attr(a, attrType), "image") {
			return
		}
	}
	p.load(name, a, attrSrc)
	switch name {
	case "img", "source":
		p.candidates(name, a, attrSrcset)
	case "video":
		p.load(name, a, attrPoster)
	}
}

// looks takes what any element may show: its style and background, and, by attributes that scripts
// for lazy loading have in common, what they put in place of it.
func (p *page) looks(name string, a attributes) {
	if text, ok := a.Attr(attrStyle); ok {
		p.style(text)
	}
	p.load(name, a, attrBackground)
	for i := attrDataSrc; i <= attrDataPoster; i++ {
		switch value, ok := a.Attr(i); {
		case !ok:
		case i == attrDataSrcset || i == attrDataLazySrcset:
			p.candidates(name, a, i)
		case bytes.HasPrefix(value, []byte("url(")):
			p.style(value)
		case bytes.ContainsAny(value, "./") && !bytes.ContainsAny(value, "{}<>"): // else a word or data of a script
			p.show(name, value)
		}
	}
}

// candidates takes the images of a srcset attribute.
func (p *page) candidates(name string, a attributes, i int) {
	for _, ref := range srcset(attr(a, i)) {
		p.show(name, []byte(ref))
	}
}

// show takes a reference to what is shown. What it holds itself, in a data URL, is often long.
func (p *page) show(name string, ref []byte) {
	const scheme = "data:"
	if text := bytes.TrimLeft(ref, space); len(text) >= len(scheme) && bytes.EqualFold(text[:len(scheme)], []byte(scheme)) {
		p.skip("scheme")
		return
	}
	p.refer(name, "", ref)
}

// metaElement takes a refresh, the directives for robots, and what describes the page.
func (p *page) metaElement(a attributes, isPage bool) {
	content, _ := a.Attr(attrContent)
	if pragma, _ := a.Attr(attrHTTPEquiv); bytes.EqualFold(pragma, []byte("refresh")) {
		if ref, ok := refresh(string(content)); ok {
			p.refer("meta", "", []byte(ref))
		}
	}
	name := strings.ToLower(strings.TrimSpace(attr(a, attrName)))
	if isPage {
		p.describe(name, strings.ToLower(strings.TrimSpace(attr(a, attrProperty))), content)
	}
	if !strings.EqualFold(name, "robots") && (name == "" || !strings.EqualFold(name, p.opts.Token)) {
		return
	}
	noindex, nofollow := Directives([]string{string(content)}, "")
	if !isPage {
		d := &p.docs.list[p.docs.at]
		d.noFollow = d.noFollow || nofollow
		return
	}
	p.NoIndex = p.NoIndex || noindex
	p.NoFollow = p.NoFollow || nofollow
	p.about.robots.item(string(content))
}

// load takes a reference that means nothing when it is empty.
func (p *page) load(name string, a attributes, i int) {
	if ref, _ := a.Attr(i); len(ref) > 0 {
		p.show(name, ref)
	}
}

// rel returns the words of the rel attribute in lower case, a space between two. Many of a page are
// the same.
func (p *page) rel(a attributes) string {
	value, _ := a.Attr(attrRel)
	if string(value) != p.refs.lastRel {
		p.refs.lastRel = string(value)
		p.refs.lowerRel = strings.Join(strings.Fields(strings.ToLower(p.refs.lastRel)), " ")
	}
	return p.refs.lowerRel
}

func (p *page) refer(name, rel string, ref []byte) {
	if len(p.Links) >= maxRefs || len(p.refs.written) > maxLinkBytes {
		p.Cut = true
		return
	}
	if len(ref) > maxRef {
		ref = bytes.TrimLeft(ref, " \t\n\f\r")
		ref = ref[:min(len(ref), maxRef)]
	}
	p.refs.written = append(doubled(p.refs.written, len(ref)), ref...)
	p.refs.ends = append(doubled(p.refs.ends, 1), len(p.refs.written))
	p.Links = append(doubled(p.Links, 1), Link{Element: name, Rel: rel})
}

// doubled returns a list with room for n more elements. A list that grows becomes twice as large,
// also where append would grow it by a quarter: the lists of a page with very many links would take
// most of their time to be copied to memory that is new.
func doubled[E any](list []E, n int) []E {
	if len(list)+n <= cap(list) {
		return list
	}
	return slices.Grow(list, max(len(list), n))
}
