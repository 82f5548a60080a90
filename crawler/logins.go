package crawler

import (
	"fmt"
	"net/url"
	"strings"

	"urltree/crawler/weburl"
	"urltree/storage/record"
)

// mostLogins bounds the origins of which seeds have a user name.
const mostLogins = 1000

// loginOf returns user name and password of a seed, nil if it has none (RFC 3986, 3.2.1). The seed
// must be one that [weburl.SeedURL] reads.
func loginOf(seed string) *url.Userinfo {
	scheme, rest, ok := strings.Cut(seed, "//")
	if !ok || strings.ContainsAny(scheme, "/?#@") {
		rest = seed // without a scheme
	}
	if i := strings.IndexAny(rest, `/?#\`); i >= 0 {
		rest = rest[:i]
	}
	i := strings.LastIndexByte(rest, '@')
	if i <= 0 {
		return nil
	}
	plain := func(s string) string {
		if unescaped, err := url.PathUnescape(s); err == nil {
			return unescaped
		}
		return s
	}
	user, password, _ := strings.Cut(rest[:i], ":")
	return url.UserPassword(plain(user), plain(password))
}

// keepLogin returns the canonical URL of a seed with the seed's user name and password, if it has
// any.
func keepLogin(canonical, seed string) string {
	login := loginOf(seed)
	if login == nil {
		return canonical
	}
	scheme, rest, _ := strings.Cut(canonical, "://")
	return scheme + "://" + login.String() + "@" + rest
}

// takeSeed returns the canonical URL of a seed, and keeps its user name and password for the
// origin. The first ones of an origin count.
func (o *Options) takeSeed(seed string) (string, error) {
	canonical, err := weburl.SeedURL(seed)
	login := loginOf(seed)
	switch {
	case err != nil:
		return "", fmt.Errorf("%w: seed %.80q: %w", ErrOptions, weburl.HideLogin(seed), err)
	case login == nil:
		return canonical, nil
	}
	origin := record.Origin(canonical)
	if o.logins[origin] == nil {
		if len(o.logins) == mostLogins {
			return "", fmt.Errorf("%w: seeds of more than %d origins have user names", ErrOptions, mostLogins)
		}
		o.logins[origin] = login
	}
	return canonical, nil
}
