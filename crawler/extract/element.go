package extract

import (
	"strings"

	"golang.org/x/net/html"
)

// elements are the names that may hold links or metadata, with the name each is shown under: a
// browser takes image for img. Assets are what it loads to show the page.
var elements = map[string]struct {
	name  string
	asset bool
}{
	"a": {"a", false}, "area": {"area", false}, "base": {"base", false}, "frame": {"frame", false},
	"html": {"html", false}, "iframe": {"iframe", false}, "link": {"link", false}, "meta": {"meta", false},

	"audio": {"audio", true}, "embed": {"embed", true}, "image": {"img", true}, "img": {"img", true},
	"input": {"input", true}, "object": {"object", true}, "script": {"script", true},
	"source": {"source", true}, "track": {"track", true}, "video": {"video", true},
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
	attrCount
)

var attributeOf = map[string]int{
	"href": attrHref, "xlink:href": attrXlinkHref, "src": attrSrc, "srcset": attrSrcset, "poster": attrPoster,
	"data": attrData, "rel": attrRel, "type": attrType, "name": attrName, "content": attrContent,
	"http-equiv": attrHTTPEquiv, "property": attrProperty, "lang": attrLang, "xml:lang": attrXMLLang,
	"alt": attrAlt,
}

// attributes are those of one element, with their character references undone.
type attributes struct {
	has   [attrCount]bool
	value [attrCount]string
}

func (a *attributes) read(z *html.Tokenizer) {
	*a = attributes{}
	for more := true; more; {
		var key, value []byte
		key, value, more = z.TagAttr()
		if i, ok := attributeOf[string(key)]; ok {
			a.has[i], a.value[i] = true, string(value)
		}
	}
}

// element takes the references and metadata of one element.
func (p *page) element(name string, a *attributes) {
	rel := strings.ToLower(a.value[attrRel])
	switch name {
	case "a", "area":
		switch {
		case a.has[attrHref]: // also an empty one: the page itself
			p.refer(name, rel, a.value[attrHref])
		case a.has[attrXlinkHref]:
			p.refer(name, rel, a.value[attrXlinkHref])
		default:
			return
		}
		if name == "area" {
			p.keepLinkText([]byte(oneLine(a.value[attrAlt], maxLinkText)))
		} else {
			p.inLink = !p.linksFull
		}
	case "base":
		if a.has[attrHref] && !p.hasBase {
			p.base, p.hasBase = a.value[attrHref], true
		}
	case "link":
		follow := hasWord(rel, "next") || hasWord(rel, "canonical") || hasWord(rel, "alternate")
		asset := hasWord(rel, "stylesheet") || hasWord(rel, "icon")
		if a.value[attrHref] != "" && (follow && !asset || asset && p.opts.Assets) {
			p.refer(name, rel, a.value[attrHref])
		}
	case "html":
		for _, i := range []int{attrLang, attrXMLLang} {
			if p.meta.Language == "" {
				p.meta.Language = oneLine(a.value[i], maxLanguage)
			}
		}
	case "meta":
		p.metaElement(a)
	case "iframe", "frame":
		p.load(name, a.value[attrSrc])
	default:
		p.asset(name, a)
	}
}

// asset takes the references of an element that shows or runs something.
func (p *page) asset(name string, a *attributes) {
	switch {
	case name == "object":
		p.load(name, a.value[attrData])
		return
	case name == "input" && !strings.EqualFold(a.value[attrType], "image"):
		return
	}
	p.load(name, a.value[attrSrc])
	switch name {
	case "img", "source":
		for _, ref := range srcset(a.value[attrSrcset]) {
			p.load(name, ref)
		}
	case "video":
		p.load(name, a.value[attrPoster])
	}
}

// metaElement takes a refresh, the directives for robots, and what describes the page.
func (p *page) metaElement(a *attributes) {
	content := a.value[attrContent]
	if strings.EqualFold(a.value[attrHTTPEquiv], "refresh") {
		if ref, ok := refresh(content); ok {
			p.refer("meta", "", ref)
		}
	}
	name := strings.TrimSpace(a.value[attrName])
	p.describe(strings.ToLower(name), strings.ToLower(strings.TrimSpace(a.value[attrProperty])), content)
	if strings.EqualFold(name, "robots") || name != "" && strings.EqualFold(name, p.opts.Token) {
		noindex, nofollow := Directives([]string{content}, "")
		p.NoIndex = p.NoIndex || noindex
		p.NoFollow = p.NoFollow || nofollow
		p.robots.item(content)
	}
}

// load takes a reference that means nothing when it is empty.
func (p *page) load(name, ref string) {
	if ref != "" {
		p.refer(name, "", ref)
	}
}

func (p *page) refer(name, rel, ref string) {
	if len(p.refs) >= maxRefs {
		p.Cut = true
		return
	}
	if p.refs == nil {
		p.refs = make([]reference, 0, 64)
	}
	p.refs = append(p.refs, reference{Link: Link{Element: name, Rel: rel}, ref: ref})
}
