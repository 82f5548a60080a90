package extract

import (
	"net/http"
	"strings"

	"urltree/crawler/weburl"
)

// A HeaderLink is a link of a Link or Refresh header.
type HeaderLink struct {
	URL  string // canonical
	Rel  string // the words of its rel in lower case, a space between two; "" of a Refresh header
	Kept string // as Facts.HeaderLinks has it; "": nothing follows such a link
}

// markAsset is the mark of a header link that is followed with Options.Assets alone.
const markAsset = "asset"

// HeaderLinks returns the links of an answer's Link headers, in order, and that of its Refresh
// header. Links of another context (anchor) are none.
func HeaderLinks(base string, header http.Header) (list []HeaderLink) {
	links, refreshes := header["Link"], header["Refresh"]
	if len(links) == 0 && len(refreshes) == 0 {
		return nil
	}
	b, err := weburl.NewBase(base)
	if err != nil {
		return nil
	}
	for _, s := range links {
		for {
			_, rest, ok := strings.Cut(s, "<")
			if !ok {
				break
			}
			ref, rest, ok := strings.Cut(rest, ">")
			if !ok {
				break
			}
			var p params
			p, s = linkParams(rest)
			if p.hasAnchor {
				continue
			}
			if url, err := b.Resolve(weburl.EscapeBytes(ref)); err == nil {
				list = append(list, HeaderLink{URL: url, Rel: p.rel, Kept: keep(url, p.rel, p.media)})
			}
		}
	}
	for _, s := range refreshes[:min(len(refreshes), 1)] { // as the standard has it, the first counts
		if ref, ok := refresh(s); ok {
			if url, err := b.Resolve(weburl.EscapeBytes(ref)); err == nil {
				list = append(list, HeaderLink{URL: url, Kept: url})
			}
		}
	}
	return list
}

// keep returns a header link as Facts.HeaderLinks has it.
func keep(url, rel, media string) string {
	switch {
	case isAsset(rel):
		return markAsset + ":" + url
	case !isFollowed(rel):
		return ""
	case declares(rel) && mediaType(media) != "":
		return mediaType(media) + ":" + url
	}
	return url
}

// LinkHeader returns Link headers of which HeaderLinks makes links with these Kept.
func LinkHeader(kept []string) (list []string) {
	for _, k := range kept {
		switch mark, url := marked(k); mark {
		case "":
			list = append(list, "<"+url+">; rel=next")
		case markAsset:
			list = append(list, "<"+url+">; rel=preload")
		default:
			list = append(list, "<"+url+">; rel=alternate; type=\""+mark+"\"")
		}
	}
	return list
}

// marked returns the mark of a header link, and its URL.
func marked(kept string) (mark, url string) {
	if strings.HasPrefix(kept, "http://") || strings.HasPrefix(kept, "https://") {
		return "", kept
	}
	mark, url, _ = strings.Cut(kept, ":")
	return mark, url
}

// isFollowed reports whether a link of this rel leads to a page.
func isFollowed(rel string) bool {
	return hasWord(rel, "next") || hasWord(rel, "canonical") || hasWord(rel, "alternate")
}

// isAsset reports whether a link of this rel leads to what a browser loads to show the page.
func isAsset(rel string) bool {
	for w := range strings.FieldsSeq(rel) {
		switch w {
		case "stylesheet", "icon", "apple-touch-icon", "apple-touch-icon-precomposed", "mask-icon", "preload", "modulepreload", "manifest":
			return true
		}
	}
	return false
}

// declares reports whether the type of a link of this rel decides whether it is followed.
func declares(rel string) bool {
	return hasWord(rel, "alternate") && !hasWord(rel, "next") && !hasWord(rel, "canonical")
}

// mediaType returns the media type that a type attribute or parameter names, without parameters;
// "": none.
func mediaType(text string) string {
	const most = 128
	text, _, _ = strings.Cut(text, ";")
	text = strings.ToLower(strings.Trim(text, space))
	if len(text) > most || strings.Count(text, "/") != 1 {
		return ""
	}
	for _, c := range text {
		if !('a' <= c && c <= 'z' || '0' <= c && c <= '9' || strings.ContainsRune("/+-._!#$&^", c)) {
			return ""
		}
	}
	return text
}

// isWanted reports whether a link is followed that declares a media type: one that is stored, or a
// feed's. JSON of no special kind is data of some program nearly always.
func (p *page) isWanted(media string) bool {
	return media == "" || p.opts.Accepts == nil || p.opts.Accepts(media) || IsFeed(media) && media != "application/json"
}

// params are those of one link.
type params struct {
	rel, media string
	hasAnchor  bool
}

// linkParams reads the parameters of one link up to the comma that ends it. Of rel and type the
// first counts. rest is what follows the comma.
func linkParams(s string) (p params, rest string) {
	hasRel, hasType := false, false
	for {
		s = strings.TrimLeft(s, space+";")
		if s == "" || s[0] == ',' {
			return p, s
		}
		end := strings.IndexAny(s, "=;,")
		if end < 0 {
			end = len(s)
		}
		name, value := strings.ToLower(strings.TrimSpace(s[:end])), ""
		s = s[end:]
		if strings.HasPrefix(s, "=") {
			value, s = paramValue(strings.TrimLeft(s[1:], space))
		}
		switch {
		case name == "anchor":
			p.hasAnchor = true
		case name == "rel" && !hasRel:
			p.rel, hasRel = strings.Join(strings.Fields(strings.ToLower(value)), " "), true
		case name == "type" && !hasType:
			p.media, hasType = value, true
		}
	}
}

// paramValue reads a token or a quoted string off the front of s.
func paramValue(s string) (value, rest string) {
	if !strings.HasPrefix(s, `"`) {
		end := strings.IndexAny(s, ";,")
		if end < 0 {
			end = len(s)
		}
		return strings.TrimSpace(s[:end]), s[end:]
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '"':
			return b.String(), s[i+1:]
		case s[i] == '\\' && i+1 < len(s):
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String(), ""
}
