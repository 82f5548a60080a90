package weburl

import (
	"fmt"
	"slices"
	"strings"
)

// A Strip says what is taken out of canonical URLs, so that URLs which differ in it alone are
// one. The zero value takes out nothing. It is part of a tree's identity.
type Strip struct {
	// Params are names of parameters of the query, and of those behind a semicolon in a path segment
	// (RFC 3986, 3.3), such as ;jsessionid=1. A star at the end stands for any rest.
	Params []string
	// WWW takes a leading "www." off host names that have another dot.
	WWW bool
}

// String writes a Strip as ParseStrip reads it: comma-separated names, "www." for WWW.
func (s Strip) String() string {
	list := slices.Clone(s.Params)
	if s.WWW {
		list = append(list, wwwPrefix)
	}
	return strings.Join(list, ",")
}

const wwwPrefix = "www."

// ParseStrip reads comma-separated names of parameters, and "www." for the host prefix. The error
// quotes the first name that can be none.
func ParseStrip(text string) (Strip, error) {
	var s Strip
	for name := range strings.SplitSeq(text, ",") {
		name = strings.TrimSpace(name)
		switch {
		case name == "":
		case name == wwwPrefix:
			s.WWW = true
		case strings.ContainsAny(name, "&=?# \t") || strings.Contains(strings.TrimSuffix(name, "*"), "*") || name == "*":
			return s, fmt.Errorf("%q is no name of a parameter, with or without a star at its end", name)
		default:
			s.Params = append(s.Params, name)
		}
	}
	return s, nil
}

// Apply takes out of a canonical URL what is to be stripped. The result is canonical too, and
// stripping it again changes nothing.
func (s Strip) Apply(url string) string {
	if s.WWW {
		for {
			scheme, rest, _ := strings.Cut(url, "://")
			host, ok := strings.CutPrefix(rest, wwwPrefix)
			if !ok || !strings.Contains(host[:strings.IndexAny(host, "/:?")], ".") {
				break
			}
			url = scheme + "://" + host
		}
	}
	if len(s.Params) == 0 {
		return url
	}
	url = s.path(url)
	at := strings.IndexByte(url, '?')
	if at < 0 {
		return url
	}
	params := strings.Split(url[at+1:], "&")
	kept := slices.DeleteFunc(params, s.strips)
	switch len(kept) {
	case len(params):
		return url
	case 0:
		return url[:at]
	}
	return url[:at+1] + strings.Join(kept, "&")
}

// path takes parameters out of the segments of a canonical URL's path. A segment that would become
// a dot segment stays as it is.
func (s Strip) path(url string) string {
	path, query := url, ""
	if i := strings.IndexByte(url, '?'); i >= 0 {
		path, query = url[:i], url[i:]
	}
	if strings.IndexByte(path, ';') < 0 {
		return url
	}
	host := strings.Index(path, "://") + len("://")
	segments := strings.Split(path[host:], "/")
	for i, segment := range segments[1:] {
		params := strings.Split(segment, ";")
		kept := slices.DeleteFunc(params[1:], s.strips)
		if stripped := strings.Join(params[:1+len(kept)], ";"); !isDots(stripped) {
			segments[1+i] = stripped
		}
	}
	return path[:host] + strings.Join(segments, "/") + query
}

// isDots reports whether the URL standard takes a segment for "." or "..".
func isDots(segment string) bool {
	if len(segment) > len("%2e%2e") {
		return false
	}
	dots := strings.ReplaceAll(strings.ToLower(segment), "%2e", ".")
	return dots == "." || dots == ".."
}

// strips reports whether a parameter is taken out.
func (s Strip) strips(param string) bool {
	name, _, _ := strings.Cut(param, "=")
	for _, p := range s.Params {
		if prefix, ok := strings.CutSuffix(p, "*"); ok && strings.HasPrefix(name, prefix) || p == name {
			return true
		}
	}
	return false
}
