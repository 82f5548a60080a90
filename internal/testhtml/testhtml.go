// Package testhtml reads the tokens of a page as the HTML standard has them, for tests that hold
// our scanner to a tokenizer.
package testhtml

import (
	"regexp"

	"golang.org/x/net/html"
)

var (
	tagName = regexp.MustCompile("^<[^ \t\n\f\r/>]*")
	inTag   = regexp.MustCompile("^(?:[ \t\n\f\r/]+|" +
		"[^ \t\n\f\r/>][^ \t\n\f\r/>=]*(?:[ \t\n\f\r]*=[ \t\n\f\r]*(?:\"[^\"]*\"|'[^']*'|[^ \t\n\f\r\"'>][^ \t\n\f\r>]*)?)?)")
)

// Next returns the next token of z. The tokenizer takes the slash at the end of the last value for
// one that closes the element if the name of that attribute was there before: such a tag is a
// start tag here.
func Next(z *html.Tokenizer) html.TokenType {
	token := z.Next()
	if token != html.SelfClosingTagToken {
		return token
	}
	rest := z.Raw()
	rest = rest[len(tagName.Find(rest)):]
	for slash := false; ; {
		switch {
		case len(rest) > 1:
			slash = rest[0] == '/' || rest[0] <= ' '
			rest = rest[len(inTag.Find(rest)):]
		case slash:
			return token
		default:
			return html.StartTagToken
		}
	}
}
