package sitemap

import (
	"errors"
	"io"
	"regexp"
	"strings"

	"golang.org/x/net/html"
)

// tokens reads mark-up that claims to be XML, without believing it.
func tokens(text io.Reader) *html.Tokenizer {
	z := html.NewTokenizer(text)
	z.SetMaxBuf(maxToken)
	z.AllowCDATA(true)
	return z
}

// xml reads a urlset or an index: the first loc of each entry, and any that stands in none.
// Elements of another prefix than the root's are extensions, with locs of their own. A loc that
// is not closed by the end of the document is torn.
func (r *reader) xml(text io.Reader) {
	var (
		z      = tokens(text)
		prefix string
		root   string // the name of the first tag; "": it is yet to come
		closed = false
		open   = false
		within = false // an entry is open
		taken  = false // and had its loc
		loc    strings.Builder
	)
	for {
		token := z.Next()
		switch token {
		case html.ErrorToken:
			r.Cut = r.Cut || errors.Is(z.Err(), html.ErrBufferExceeded)
			r.Damaged = !closed
			return
		case html.TextToken:
			if open && loc.Len() <= maxLoc {
				loc.WriteString(written(z.Raw()))
			}
		case html.StartTagToken, html.SelfClosingTagToken, html.EndTagToken:
			tag, _ := z.TagName()
			name := string(tag)
			z.NextIsNotRawText()
			if root == "" {
				root = name
				prefix, _ = split(name)
				closed = token == html.SelfClosingTagToken
			}
			closed = closed || token == html.EndTagToken && name == root
			if open { // any tag ends it, its own or that of a damaged document
				open, taken = false, true
				if loc.Len() > maxLoc {
					r.Skipped++
				} else if !r.entry(loc.String()) {
					return
				}
				loc.Reset()
			}
			switch local, ours := strings.CutPrefix(name, prefix); {
			case !ours:
			case local == "url", local == "sitemap":
				within, taken = token == html.StartTagToken, false
			case local == "loc" && token == html.StartTagToken:
				open = !within || !taken
			}
		}
	}
}

// written returns the text of a token. CDATA stands for itself; of character references those
// that end in a semicolon count, for a URL may well hold "&copy=1".
func written(raw []byte) string {
	text := string(raw)
	if inner, ok := strings.CutPrefix(text, "<![CDATA["); ok {
		return strings.TrimSuffix(inner, "]]>")
	}
	return reference.ReplaceAllStringFunc(text, html.UnescapeString)
}

var reference = regexp.MustCompile(`&[#0-9A-Za-z]+;`)
