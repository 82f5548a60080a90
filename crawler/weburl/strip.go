package weburl

import (
	"fmt"
	"slices"
	"strings"
)

// A Strip says what is taken out of canonical URLs, so that URLs which differ in it alone are
// one. The zero value takes out nothing. It is part of a tree's identity.
type Strip struct {
	// Params are names of query parameters, a star at the end standing for any rest.
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

// ParseStrip reads comma-separated names of query parameters, and "www." for the host prefix.
func ParseStrip(text string) (Strip, error) {
	var s Strip
	for name := range strings.SplitSeq(text, ",") {
		name = strings.TrimSpace(name)
		switch {
		case name == "":
		case name == wwwPrefix:
			s.WWW = true
		case strings.ContainsAny(name, "&=?# \t") || strings.Contains(strings.TrimSuffix(name, "*"), "*") || name == "*":
			return s, fmt.Errorf("%q is no name of a query parameter, with or without a star at its end", name)
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
	at := strings.IndexByte(url, '?')
	if at < 0 {
		return url
	}
	kept := make([]byte, 0, len(url))
	kept = append(kept, url[:at]...)
	mark, dropped := byte('?'), false
	for param := range strings.SplitSeq(url[at+1:], "&") {
		name, _, _ := strings.Cut(param, "=")
		if s.strips(name) {
			dropped = true
			continue
		}
		kept = append(append(kept, mark), param...)
		mark = '&'
	}
	if !dropped {
		return url
	}
	return string(kept)
}

func (s Strip) strips(name string) bool {
	for _, p := range s.Params {
		if prefix, ok := strings.CutSuffix(p, "*"); ok && strings.HasPrefix(name, prefix) || p == name {
			return true
		}
	}
	return false
}
