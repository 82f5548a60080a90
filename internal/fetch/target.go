package fetch

import (
	"fmt"
	"net/url"
	"strings"
)

// parseURL reads scheme and host of an absolute http(s) URL; the rest is taken by setTarget.
func parseURL(rawURL string) (*url.URL, error) {
	scheme, rest, ok := strings.Cut(rawURL, "://")
	if !ok || scheme != "http" && scheme != "https" {
		return nil, fmt.Errorf("%q is not an http or https URL", rawURL)
	}
	authority := rest
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		authority = rest[:i]
	}
	u, err := url.Parse(scheme + "://" + authority)
	if err != nil {
		return nil, err
	}
	if u.Hostname() == "" {
		return nil, fmt.Errorf("%q has no host", rawURL)
	}
	u.User = nil
	return u, nil
}

// setTarget sets path and query so that they are sent as they are spelt: the path as opaque text.
// Where a proxy is to read it, or where it could be taken for a host, that is done only if net/url
// would spell it in another way, and in absolute form. Cookies go by the decoded path.
func setTarget(u *url.URL, rawURL string, absolute bool) {
	rawURL, _, _ = strings.Cut(rawURL, "#")
	rest := rawURL[len(u.Scheme)+len("://"):]
	path, query, hasQuery := strings.Cut(rest, "?")
	if i := strings.IndexByte(path, '/'); i >= 0 {
		path = path[i:]
	} else {
		path = "/"
	}
	u.RawQuery, u.ForceQuery = query, hasQuery
	decoded, err := url.PathUnescape(path)
	if err == nil {
		u.Path = decoded
	}
	if !absolute && !strings.HasPrefix(path, "//") {
		u.Opaque = path
		return
	}
	u.RawPath = path
	if err != nil || u.EscapedPath() != path {
		u.RawPath, u.Opaque = "", "//"+u.Host+path
	}
}
