package fetch

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/publicsuffix"
)

// Bounds of the cookies that answers set: they are a help against cookie walls, not a promise.
const (
	jarSites  = 512      // registrable domains with cookies; then the one that got its first cookie longest ago goes
	jarBytes  = 16 << 10 // held of one site; then its cookies go, those that were set longest ago first
	perCookie = 384      // bytes that a cookie takes besides its line
)

// ParseCookies reads a cookie file as browsers' exporters and curl write it: seven fields with tabs
// between them (domain, whether hosts below it are meant, path, secure, expiry in Unix seconds or
// 0, name, value), comments after #, and #HttpOnly_ before a domain. Names and values are taken as
// they stand there. Cookies that expired stay in the result. A line that is none of these is told
// to bad, with its number, and passed over; it is an error if no line is a cookie and some are bad.
func ParseCookies(file []byte, bad func(line int, err error)) ([]*http.Cookie, error) {
	var cookies []*http.Cookie
	var first error
	n := 0
	for line := range strings.Lines(strings.TrimPrefix(string(file), "\ufeff")) {
		n++
		c, err := parseCookieLine(strings.TrimRight(line, "\r\n"))
		switch {
		case err != nil:
			if first == nil {
				first = fmt.Errorf("line %d: %w", n, err)
			}
			bad(n, err)
		case c != nil:
			cookies = append(cookies, c)
		}
	}
	if cookies == nil && first != nil {
		return nil, fmt.Errorf("no line is a cookie: %w", first)
	}
	return cookies, nil
}

// parseCookieLine reads one line of a cookie file. It returns nil for a comment or a blank line.
func parseCookieLine(line string) (*http.Cookie, error) {
	line, httpOnly := strings.CutPrefix(line, "#HttpOnly_")
	if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#") {
		return nil, nil
	}
	f := strings.Split(line, "\t")
	if len(f) == 6 {
		f = append(f, "") // an empty value whose tab got lost
	}
	if len(f) != 7 {
		return nil, fmt.Errorf("want 7 fields with tabs between them, have %d", len(f))
	}
	expires, err := strconv.ParseFloat(f[4], 64)
	switch {
	case f[0] == "":
		return nil, errors.New("no domain")
	case f[5] == "":
		return nil, errors.New("no name")
	case err != nil || math.IsNaN(expires):
		return nil, fmt.Errorf("expiry is %.20q, want Unix seconds", f[4])
	case hasControls(f[5] + f[6]):
		return nil, errors.New("control characters in name or value")
	}
	c := &http.Cookie{
		Name: f[5], Value: f[6], Path: f[2], HttpOnly: httpOnly,
		Domain: strings.ToLower(strings.TrimPrefix(f[0], ".")),
		Secure: strings.EqualFold(f[3], "TRUE"),
	}
	if strings.EqualFold(f[1], "TRUE") {
		c.Domain = "." + c.Domain // for the hosts below as well
	}
	if expires > 0 {
		c.Expires = time.Unix(int64(min(expires, 1<<40)), 0)
	}
	return c, nil
}

// hasControls reports whether s has a control character that no header may carry.
func hasControls(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}

// parseSetCookie reads a Set-Cookie header as RFC 6265, 5.2 has it: name and value as they stand
// there. It returns nil if the header sets no cookie. [http.ParseSetCookie] would hold a server to
// the grammar of 4.1.1.
func parseSetCookie(header string) *http.Cookie {
	pair, attributes, _ := strings.Cut(header, ";")
	name, value, ok := strings.Cut(pair, "=")
	name, value = strings.Trim(name, " \t"), strings.Trim(value, " \t")
	if !ok || name == "" || hasControls(name+value) {
		return nil
	}
	c, err := http.ParseSetCookie("x=;" + attributes)
	if err != nil {
		return nil
	}
	c.Name, c.Value = name, value
	return c
}

// A rawJar is a cookiejar.Jar that gives back values as they were set, and Secure cookies over TLS
// alone: those of loopback addresses a Jar sends over any connection. Their mark is the first byte
// of the values in it.
type rawJar struct{ jar *cookiejar.Jar }

const (
	markPlain  = "p"
	markSecure = "s"
)

func newJar() rawJar {
	j, _ := cookiejar.New(&cookiejar.Options{PublicSuffixList: publicsuffix.List}) // never fails
	return rawJar{j}
}

func (j rawJar) set(u *url.URL, c *http.Cookie) {
	marked := *c
	marked.Value = markPlain + c.Value
	if c.Secure {
		marked.Value = markSecure + c.Value
	}
	j.jar.SetCookies(u, []*http.Cookie{&marked})
}

// cookies returns the cookies for a URL, with their names and values alone.
func (j rawJar) cookies(u *url.URL) []*http.Cookie {
	all := j.jar.Cookies(u)
	fit := all[:0]
	for _, c := range all {
		var secure bool
		if c.Value, secure = strings.CutPrefix(c.Value, markSecure); !secure {
			c.Value = c.Value[len(markPlain):]
		}
		if !secure || u.Scheme == "https" {
			fit = append(fit, c)
		}
	}
	return fit
}

// fileJar makes a jar of cookies that ParseCookies gave.
func fileJar(cookies []*http.Cookie) rawJar {
	j := newJar()
	for _, c := range cookies {
		host, below := strings.CutPrefix(c.Domain, ".")
		copied := *c
		copied.Domain = ""
		if below && net.ParseIP(host) == nil {
			copied.Domain = host
		}
		if strings.IndexByte(host, ':') >= 0 {
			host = "[" + host + "]"
		}
		j.set(&url.URL{Scheme: "https", Host: host, Path: "/"}, &copied)
	}
	return j
}

// addCookies adds the cookies that earlier answers set and, for a seed's host, those of the file;
// where both know a name the newer one, of the answer, counts.
func (c *Client) addCookies(r *http.Request, host string) {
	have := c.session.cookies(r.URL)
	if len(c.opts.Cookies) > 0 && c.opts.SeedHost(host) {
		for _, cookie := range c.files.cookies(r.URL) {
			if !named(have, cookie.Name) {
				have = append(have, cookie)
			}
		}
	}
	if len(have) == 0 {
		return
	}
	pairs := slices.Clip(r.Header["Cookie"]) // of Options.Header
	for _, cookie := range have {
		pairs = append(pairs, cookie.Name+"="+cookie.Value)
	}
	r.Header["Cookie"] = []string{strings.Join(pairs, "; ")}
}

func named(cookies []*http.Cookie, name string) bool {
	return slices.ContainsFunc(cookies, func(c *http.Cookie) bool { return c.Name == name })
}

// A jar keeps cookies that answers set, for a bounded number of sites and of bytes. The zero value
// is empty.
type jar struct {
	mu    sync.Mutex
	sites map[string]*siteJar // by registrable domain
	order []string            // keys of sites, oldest first
}

// A siteJar has the cookies of one site. The jar does not say what it holds, so that stands in held
// as well.
type siteJar struct {
	jar   rawJar
	held  []heldCookie // by the time they were set last, oldest first
	bytes int          // sum of their sizes
}

// A heldCookie is known to its jar by name, domain and path.
type heldCookie struct {
	name, domain, path string
	host               string // of the answer that set it
	size               int    // bytes
}

// same reports whether setting h replaces o.
func (h *heldCookie) same(o *heldCookie) bool {
	return h.name == o.name && h.domain == o.domain && h.path == o.path
}

// in reports whether the jar has the cookie: it is neither expired nor was it refused.
func (h *heldCookie) in(j rawJar) bool {
	return named(j.cookies(&url.URL{Scheme: "https", Host: h.host, Path: h.path}), h.name)
}

// set adds a cookie to the jar, and removes what is too much then.
func (s *siteJar) set(u *url.URL, c *http.Cookie, size int) {
	if !strings.HasPrefix(c.Path, "/") {
		c.Path = u.Path[:max(strings.LastIndexByte(u.Path, '/'), 0)] // RFC 6265, 5.1.4
	}
	if c.Path == "" {
		c.Path = "/"
	}
	h := heldCookie{c.Name, strings.ToLower(strings.TrimPrefix(c.Domain, ".")), c.Path, u.Host, size}
	if h.domain == "" {
		h.domain = strings.ToLower(u.Hostname())
	}
	s.jar.set(u, c)
	s.drop(func(o *heldCookie) bool { return h.same(o) })
	if !h.in(s.jar) {
		return
	}
	s.held = append(s.held, h)
	if s.bytes += size; s.bytes > jarBytes {
		s.drop(func(o *heldCookie) bool { return !o.in(s.jar) })
	}
	for s.bytes > jarBytes {
		old := s.held[0]
		gone := &http.Cookie{Name: old.name, Domain: old.domain, Path: old.path, MaxAge: -1}
		s.jar.set(&url.URL{Scheme: "https", Host: old.host, Path: "/"}, gone)
		s.drop(func(o *heldCookie) bool { return old.same(o) })
	}
}

// drop removes cookies from what is held.
func (s *siteJar) drop(which func(*heldCookie) bool) {
	s.held = slices.DeleteFunc(s.held, func(h heldCookie) bool {
		if !which(&h) {
			return false
		}
		s.bytes -= h.size
		return true
	})
}

// site returns the key of a URL's cookies; a host outside the public suffix list stands for itself.
func site(u *url.URL) string {
	host := u.Hostname()
	if domain, err := publicsuffix.EffectiveTLDPlusOne(host); err == nil && net.ParseIP(host) == nil {
		return domain
	}
	return host
}

func (j *jar) cookies(u *url.URL) []*http.Cookie {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.sites) == 0 {
		return nil
	}
	if s := j.sites[site(u)]; s != nil {
		return s.jar.cookies(u)
	}
	return nil
}

// keep takes the cookies that an answer sets.
func (j *jar) keep(u *url.URL, res *http.Response) {
	for _, header := range res.Header["Set-Cookie"] {
		size := len(header) + perCookie
		if c := parseSetCookie(header); c != nil && size <= jarBytes {
			j.set(u, c, size)
		}
	}
}

func (j *jar) set(u *url.URL, c *http.Cookie, size int) {
	key := site(u)
	j.mu.Lock()
	defer j.mu.Unlock()
	s := j.sites[key]
	if s == nil {
		if len(j.order) == jarSites {
			delete(j.sites, j.order[0])
			j.order = append(j.order[:0], j.order[1:]...)
		}
		if j.sites == nil {
			j.sites = make(map[string]*siteJar)
		}
		s = &siteJar{jar: newJar()}
		j.sites[key] = s
		j.order = append(j.order, key)
	}
	s.set(u, c, size)
}
