// Package weburl turns every web address into its one spelling, the canonical URL: what the URL
// standard makes of it, without fragment and user name. It is fed by seeds, links, redirects
// and sitemaps; it feeds scope, the seen filter and the tree.
//
// Nothing else is rewritten: escapes stay as they are, a query keeps its order, a lone "?"
// stays. Two spellings that a server may tell apart are two URLs.
//
// All functions, and the methods of a Strip, may be called from any goroutine; a [Base] has one
// user at a time.
//
// A canonical URL
//
//   - begins with http:// or https://, a host that is not empty, an optional port other than
//     the scheme's own, and a slash;
//   - is ASCII without control bytes, spaces, '#', '<' and '>';
//   - has no segment "." or "..", also not escaped ones;
//   - is its own canonical form.
package weburl

import (
	"errors"
	"strings"

	whatwg "github.com/nlnwa/whatwg-url/url"
)

// Version is the version of these rules. A tree notes it in FORMAT: under other rules a page
// could be filed a second time.
const Version = 1

// Bounds of references and of canonical URLs. For some references the parser needs time in the
// square of their length; with these bounds no page costs much more than a usual one of its size.
const (
	maxBytes = 8192
	maxParts = 256  // slashes and backslashes
	maxUser  = 1024 // bytes of user name and password
)

// The errors of this package come bare: a page may hold very many bad references, and callers
// know the place.
var (
	ErrScheme = errors.New("weburl: not an http(s) URL")
	ErrSyntax = errors.New("weburl: not a valid URL")
	ErrLength = errors.New("weburl: over 8192 bytes or 256 slashes")
)

// parser is the URL standard with its change of 2025, which escapes '^' in a path. It has no
// state.
var parser = whatwg.NewParser(whatwg.WithPathPercentEncodeSet(whatwg.PathPercentEncodeSet.Set('^')))

// Canonical returns the canonical form of an absolute reference. It returns ErrScheme, ErrSyntax
// or ErrLength.
func Canonical(ref string) (string, error) { return (*Base)(nil).Resolve(ref) }

// A Base is a canonical URL against which references are resolved. It is not for concurrent use.
type Base struct {
	url     string
	origin  int    // url[:origin] is scheme, host and port
	pathEnd int    // url[origin:pathEnd] is the path
	site    string // url[:origin]
	folder  string // url up to the last slash of its path

	full  *whatwg.Url // url as the parser has it; nil before the first reference that needs it
	known *known      // nil before the first reference
	kept  int         // bytes of URLs of pages that known may have parts of
	text  chunk       // what fast makes lies in it
	users int         // references with a user name or password
}

// NewBase makes a base of an absolute URL. The errors are those of Canonical.
func NewBase(url string) (*Base, error) {
	b := new(Base)
	if err := b.Reset(url); err != nil {
		return nil, err
	}
	return b, nil
}

// Reset makes b a base of another absolute URL, as NewBase does, in the same memory. After an
// error b is good for nothing but another Reset.
func (b *Base) Reset(url string) error {
	url, err := Canonical(url)
	if err != nil {
		return err
	}
	b.forget(len(url))
	b.url, b.pathEnd, b.full, b.users = url, len(url), nil, 0
	host := strings.Index(url, "://") + len("://")
	b.origin = host + strings.IndexByte(url[host:], '/')
	if i := strings.IndexByte(url, '?'); i >= 0 {
		b.pathEnd = i
	}
	b.site, b.folder = url[:b.origin], url[:strings.LastIndexByte(url[:b.pathEnd], '/')+1]
	return nil
}

// Users returns how many references had a user name or password, which Resolve has dropped.
func (b *Base) Users() int {
	if b == nil {
		return 0
	}
	return b.users
}

// Resolve returns the canonical URL that ref stands for on a page with this base. It returns
// ErrScheme, ErrSyntax or ErrLength. A nil base resolves absolute references only. A URL lies in
// the same memory as others: who keeps one of a page for long should keep a clone.
func (b *Base) Resolve(ref string) (string, error) {
	spelt := ref
	if i := strings.IndexByte(ref, '#'); i >= 0 {
		spelt = ref[:i]
	}
	if b != nil && spelt == "" {
		return b.url, nil
	}
	place := b.place(spelt)
	if place != nil && place.ref == spelt && place.behind == b.behind(spelt) {
		return place.url, nil
	}
	ref = clean(ref)
	if i := strings.IndexByte(ref, '#'); i >= 0 {
		ref = ref[:i+1] // the '#' stays: a space before it is not at the end of the reference
	}
	if isTooLong(ref) {
		return "", ErrLength
	}
	plain := strings.TrimSuffix(ref, "#")
	url, ok := b.fast(plain)
	if !ok {
		var err error
		if url, err = b.slow(ref); err != nil {
			return "", err
		}
	}
	if isTooLong(url) { // base and reference together, or with escapes
		return "", ErrLength
	}
	if ok && place != nil && len(plain) == len(spelt) {
		b.keep(place, plain, url)
	}
	return url, nil
}

// slow resolves by the full parser.
func (b *Base) slow(ref string) (string, error) {
	s := scheme(ref)
	if s != "" && !isWeb(strings.ToLower(s)) {
		return "", ErrScheme
	}
	if len(userInfo(ref, s)) > maxUser {
		return "", ErrLength
	}
	u, err := b.parse(ref)
	if err != nil {
		return "", ErrSyntax
	}
	if !isWeb(u.Scheme()) {
		return "", ErrScheme
	}
	if u.Hostname() == "" || !isStable(u.Hostname()) {
		return "", ErrSyntax
	}
	if b != nil && (u.Username() != "" || u.Password() != "") {
		b.users++
	}
	u.SetUsername("")
	u.SetPassword("")
	return u.Href(true), nil
}

// isStable reports whether the parser takes a host that it made. It makes some in punycode that
// it then refuses.
func isStable(host string) bool {
	if !strings.Contains(host, "xn--") {
		return true
	}
	u, err := parser.Parse("http://" + host + "/")
	return err == nil && u.Hostname() == host
}

func isTooLong(s string) bool {
	return len(s) > maxBytes || len(s) > maxParts && strings.Count(s, "/")+strings.Count(s, `\`) > maxParts
}

// userInfo returns the user name and password of a reference that begins with a scheme, or "".
func userInfo(ref, scheme string) string {
	rest := ref
	if scheme != "" {
		rest = ref[len(scheme)+1:]
	}
	authority := strings.TrimLeft(rest, `/\`)
	if scheme == "" && len(rest)-len(authority) < 2 {
		return "" // a path
	}
	if i := strings.IndexAny(authority, `/\?#`); i >= 0 {
		authority = authority[:i]
	}
	return authority[:max(0, strings.LastIndexByte(authority, '@'))]
}

func (b *Base) parse(ref string) (*whatwg.Url, error) {
	if b == nil {
		return parser.Parse(ref)
	}
	if b.full == nil {
		full, err := parser.Parse(b.url)
		if err != nil {
			return nil, err
		}
		b.full = full
	}
	return b.full.Parse(ref)
}

// SeedURL returns the canonical URL of one line that a person wrote. A line without a scheme is
// an http address: example.org/x, localhost:8080, [::1]/. The errors are those of Canonical.
func SeedURL(line string) (string, error) {
	line = clean(line)
	s := scheme(line)
	switch {
	case s != "" && !isPort(line[len(s)+1:]):
		return Canonical(line)
	case strings.HasPrefix(line, "//"):
		return Canonical("http:" + line)
	case line == "" || strings.IndexByte(`/\?#`, line[0]) >= 0:
		return "", ErrSyntax // the parser would skip slashes and take what follows for the host
	}
	return Canonical("http://" + line)
}

// HideLogin returns a text that may hold a URL without what may be its user name and password, for
// messages: all up to the last '@' becomes "...", but for the scheme. The text need not be a URL.
func HideLogin(text string) string {
	i := strings.LastIndexByte(text, '@')
	if i < 0 {
		return text
	}
	shown := ""
	if s := scheme(text[:i]); isWeb(strings.ToLower(s)) && strings.HasPrefix(text[len(s):], "://") {
		shown = s + "://"
	}
	return shown + "..." + text[i:]
}

// isPort reports whether the text behind "name:" makes the name a host: a number, and then a
// path, query, fragment or nothing.
func isPort(s string) bool {
	digits := strings.TrimLeft(s, "0123456789")
	return len(digits) < len(s) && (digits == "" || strings.IndexByte(`/\?#`, digits[0]) >= 0)
}

// scheme returns the scheme at the start of ref, as it is spelt there, or "".
func scheme(ref string) string {
	for i := range len(ref) {
		switch c := ref[i]; {
		case c|0x20 >= 'a' && c|0x20 <= 'z':
		case i > 0 && (c >= '0' && c <= '9' || c == '+' || c == '-' || c == '.'):
		case i > 0 && c == ':':
			return ref[:i]
		default:
			return ""
		}
	}
	return ""
}

func isWeb(scheme string) bool { return scheme == "http" || scheme == "https" }

// clean drops what the URL standard ignores: control characters and spaces at both ends, tabs
// and line ends everywhere.
func clean(s string) string {
	for len(s) > 0 && s[0] <= ' ' {
		s = s[1:]
	}
	for len(s) > 0 && s[len(s)-1] <= ' ' {
		s = s[:len(s)-1]
	}
	for i := range len(s) { // far quicker than strings.ContainsAny on what is nearly always short
		if s[i] < ' ' {
			return strings.NewReplacer("\t", "", "\n", "", "\r", "").Replace(s)
		}
	}
	return s
}
