package fetch

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/publicsuffix"
)

// Bounds of the cookies that answers set: they are a help against cookie walls, not a promise.
const (
	jarSites = 512      // registrable domains with cookies; then the one that got its first cookie longest ago goes
	jarBytes = 16 << 10 // set by one site; then its cookies are forgotten
)

// ParseCookies reads a cookie file as browsers' exporters and curl write it: seven fields with tabs
// between them (domain, whether hosts below it are meant, path, secure, expiry in Unix seconds or 0,
// name, value), comments after #, and #HttpOnly_ before a domain. Cookies that expired stay in the result.
func ParseCookies(r io.Reader) ([]*http.Cookie, error) {
	var cookies []*http.Cookie
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSuffix(lines.Text(), "\r")
		line, httpOnly := strings.CutPrefix(line, "#HttpOnly_")
		if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(line, "\t")
		if len(f) == 6 {
			f = append(f, "") // an empty value whose tab got lost
		}
		if len(f) != 7 || f[0] == "" || f[5] == "" {
			return nil, fmt.Errorf("cookie file, line %d: want 7 fields with tabs between them, have %d", n, len(f))
		}
		expires, err := strconv.ParseInt(f[4], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("cookie file, line %d: expiry: %w", n, err)
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
			c.Expires = time.Unix(expires, 0)
		}
		cookies = append(cookies, c)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("cookie file: %w", err)
	}
	return cookies, nil
}

func newJar() *cookiejar.Jar {
	j, _ := cookiejar.New(&cookiejar.Options{PublicSuffixList: publicsuffix.List}) // never fails
	return j
}

// fileJar makes a jar of cookies that ParseCookies gave.
func fileJar(cookies []*http.Cookie) *cookiejar.Jar {
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
		j.SetCookies(&url.URL{Scheme: "https", Host: host, Path: "/"}, []*http.Cookie{&copied})
	}
	return j
}

// addCookies adds the cookies that earlier answers set and, for a seed's host, those of the file;
// where both know a name the newer one, of the answer, counts.
func (c *Client) addCookies(r *http.Request, seed bool) {
	have := c.session.cookies(r.URL)
	if seed && len(c.opts.Cookies) > 0 {
		for _, cookie := range c.files.Cookies(r.URL) {
			if !named(have, cookie.Name) {
				have = append(have, cookie)
			}
		}
	}
	if len(have) > 0 {
		r.Header = r.Header.Clone() // it is shared
	}
	for _, cookie := range have {
		r.AddCookie(cookie)
	}
}

func named(cookies []*http.Cookie, name string) bool {
	for _, c := range cookies {
		if c.Name == name {
			return true
		}
	}
	return false
}

// A jar keeps cookies that answers set, for a bounded number of sites and of bytes. The zero value is empty.
type jar struct {
	mu    sync.Mutex
	sites map[string]*siteJar // by registrable domain
	order []string            // keys of sites, oldest first
}

type siteJar struct {
	jar   *cookiejar.Jar
	bytes int // set so far
}

// site gives the key of a URL's cookies; a host outside the public suffix list stands for itself.
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
		return s.jar.Cookies(u)
	}
	return nil
}

func (j *jar) keep(u *url.URL, res *http.Response) {
	if len(res.Header["Set-Cookie"]) == 0 {
		return
	}
	cookies := res.Cookies()
	size := 0
	for _, c := range cookies {
		size += len(c.Raw) + 256 // what the jar itself takes
	}
	if size == 0 || size > jarBytes {
		return
	}
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
	if s.bytes+size > jarBytes {
		s.jar, s.bytes = newJar(), 0
	}
	s.bytes += size
	s.jar.SetCookies(u, cookies)
}
