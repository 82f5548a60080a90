// Package scope decides which URLs belong to a crawl. It is fed by seeds and by the links of
// pages, both canonical; what it admits goes on to the frontier.
//
// A [Mode] is a distance from the seeds: everywhere, their domains, their hosts, or their folders on
// these, in any spelling that RFC 3986, 6.2.2 calls equivalent. It is relative to all seeds of all runs, and the target of a seed's redirect is one more,
// so a scope only grows. Patterns (RE2) narrow it further, but for the seeds.
package scope

import (
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/net/publicsuffix"
)

// A Mode says how far from the seeds a crawl goes.
type Mode int

const (
	Any    Mode = iota // everywhere
	Domain             // same registrable domain as a seed; an IP address is its own domain
	Host               // same host name as a seed, any scheme and port
	Prefix             // as Host, and below the folder of the seed: its path up to the last slash
)

var modes = []string{"any", "domain", "host", "prefix"}

func (m Mode) String() string { return modes[m] }

// ParseMode reads the name of a mode: any, domain, host or prefix.
func ParseMode(name string) (Mode, error) {
	for i, m := range modes {
		if m == name {
			return Mode(i), nil
		}
	}
	return 0, fmt.Errorf("scope %q: want one of %s", name, strings.Join(modes, ", "))
}

// Options of a scope. The zero value admits everything.
type Options struct {
	Mode Mode
	// Include: if there are any, a URL must match at least one. Exclude: it must match none.
	// Neither applies to seeds. They are matched against the whole URL.
	Include, Exclude []*regexp.Regexp
}

// A Scope admits URLs by options and seeds. Scope is relative to all seeds, so it grows with
// each; what it admitted once it always admits. It is safe for concurrent use.
type Scope struct {
	opts Options

	mu    sync.RWMutex
	seeds map[string]struct{} // guarded by mu; URLs
	areas map[string]struct{} // guarded by mu; domains, hosts or folders, as Mode has it
}

// New makes a scope without seeds: in all modes but Any it admits nothing yet.
func New(o Options) *Scope {
	return &Scope{opts: o, seeds: map[string]struct{}{}, areas: map[string]struct{}{}}
}

// AddSeed adds a canonical URL that a person named, or the target of a seed's redirect. It is
// admitted from now on, whatever the options.
func (s *Scope) AddSeed(url string) {
	area, path := split(url)
	switch s.opts.Mode {
	case Domain:
		area = domain(area)
	case Prefix:
		s.mu.Lock()
		s.areas[area] = struct{}{} // for HasHost; a folder ends in a slash
		s.mu.Unlock()
		area += unescape(path[:strings.LastIndexByte(path, '/')+1])
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seeds[url] = struct{}{}
	s.areas[area] = struct{}{}
}

// Admits tells whether a canonical URL belongs to the crawl.
func (s *Scope) Admits(url string) bool { return s.Reason(url) == "" }

// Reason tells why a canonical URL does not belong to the crawl: "scope", "include" or
// "exclude". It is "" for one that does.
func (s *Scope) Reason(url string) string {
	seed, near := s.look(url)
	switch {
	case seed:
		return ""
	case !near:
		return "scope"
	case len(s.opts.Include) > 0 && match(s.opts.Include, url) == nil:
		return "include"
	case match(s.opts.Exclude, url) != nil:
		return "exclude"
	}
	return ""
}

// Rule names the rule by which Reason decides, in words.
func (s *Scope) Rule(url string) string {
	seed, _ := s.look(url)
	switch s.Reason(url) {
	case "scope":
		return fmt.Sprintf("-scope %v, and no seed has %s", s.opts.Mode, s.near(url))
	case "include":
		return "no -include matches"
	case "exclude":
		return fmt.Sprintf("-exclude %q matches", match(s.opts.Exclude, url))
	}
	switch include := match(s.opts.Include, url); {
	case seed:
		return "it counts as a seed"
	case include != nil:
		return fmt.Sprintf("-include %q matches", include)
	case s.opts.Mode == Any:
		return "-scope any"
	}
	return fmt.Sprintf("-scope %v, and a seed has %s", s.opts.Mode, s.near(url))
}

// near names what a URL must have in common with a seed.
func (s *Scope) near(url string) string {
	host, _ := split(url)
	switch s.opts.Mode {
	case Domain:
		return "the domain " + domain(host)
	case Host:
		return "the host " + host
	}
	return "the host " + host + " and a folder above it"
}

// HasHost tells whether URLs on the host of a canonical URL may belong to the crawl, patterns aside.
func (s *Scope) HasHost(url string) bool {
	area, _ := split(url)
	switch s.opts.Mode {
	case Any:
		return true
	case Domain:
		area = domain(area)
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	_, ok := s.areas[area]
	return ok
}

// look tells whether a URL is a seed, and whether it is near one as Mode has it.
func (s *Scope) look(url string) (seed, near bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if _, ok := s.seeds[url]; ok {
		return true, true
	}
	host, path := split(url)
	switch s.opts.Mode {
	case Domain:
		_, near = s.areas[domain(host)]
	case Host:
		_, near = s.areas[host]
	case Prefix:
		folder := host + unescape(path)
		for i := len(host); i < len(folder) && !near; i++ {
			if folder[i] == '/' {
				_, near = s.areas[folder[:i+1]]
			}
		}
	default:
		near = true
	}
	return false, near
}

// domain gives the registrable domain of a host, or the host where it has none: an IP address,
// a public suffix, a name such as localhost.
func domain(host string) string {
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return host // the list of suffixes would take 1.1 of 127.0.1.1 for a domain
	}
	if d, err := publicsuffix.EffectiveTLDPlusOne(host); err == nil {
		return d
	}
	return host
}

// split gives the host name, without port, and the path of a canonical URL.
func split(url string) (host, path string) {
	_, rest, _ := strings.Cut(url, "://")
	rest, _, _ = strings.Cut(rest, "?")
	host, _, _ = strings.Cut(rest, "/")
	path = rest[len(host):]
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		host = host[:i]
	}
	return host, path
}

// unescape returns a path with the escapes of unreserved characters undone, and the digits of the
// others in capitals: spellings that are equivalent by RFC 3986, 6.2.2, name one folder.
func unescape(path string) string {
	if strings.IndexByte(path, '%') < 0 {
		return path
	}
	b := make([]byte, 0, len(path))
	for i := 0; i < len(path); i++ {
		if path[i] != '%' || i+2 >= len(path) {
			b = append(b, path[i])
			continue
		}
		c, err := strconv.ParseUint(path[i+1:i+3], 16, 8)
		switch {
		case err != nil:
			b = append(b, '%')
			continue
		case isUnreserved(byte(c)):
			b = append(b, byte(c))
		default:
			b = append(b, strings.ToUpper(path[i:i+3])...)
		}
		i += 2
	}
	return string(b)
}

func isUnreserved(c byte) bool {
	return c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || strings.IndexByte("-._~", c) >= 0
}

// match gives the first pattern that matches, or nil.
func match(patterns []*regexp.Regexp, url string) *regexp.Regexp {
	for _, re := range patterns {
		if re.MatchString(url) {
			return re
		}
	}
	return nil
}
