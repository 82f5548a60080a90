// Package scope decides which URLs belong to a crawl. It is fed by seeds and by the links of
// pages, both canonical; what it admits goes on to the frontier.
//
// A [Mode] is a distance from the seeds: everywhere, their domains, their hosts, or their folders
// on these, in any spelling that RFC 3986, 6.2.2 calls equivalent. It is relative to all seeds of
// all runs, and the target of a seed's redirect is one more, so a scope only grows. Patterns (RE2)
// narrow it further, but for the seeds.
package scope

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"urltree/storage/record"
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

// String returns the name that ParseMode reads.
func (m Mode) String() string { return modes[m] }

// ParseMode reads the name of a mode: any, domain, host or prefix. The error quotes another name,
// and names all modes.
func ParseMode(name string) (Mode, error) {
	if i := slices.Index(modes, name); i >= 0 {
		return Mode(i), nil
	}
	return 0, fmt.Errorf("scope %q: want one of %s", name, strings.Join(modes, ", "))
}

// Options are those of a scope. With the zero value and any Store everything is admitted.
type Options struct {
	Mode Mode
	// Include: if there are any, a URL must match at least one. Exclude: it must match none.
	// Neither applies to seeds. They are matched against the whole URL.
	Include, Exclude []*regexp.Regexp
}

// A Store looks up what was kept of the seeds, and of the targets of their redirects. It is asked
// from many goroutines at a time. A look-up that fails is the Store's to report: it answers false.
type Store interface {
	// HasArea reports whether one of them has the area, see [Scope.Areas].
	HasArea(area string) bool
	// IsSeed reports whether a canonical URL is one of them.
	IsSeed(url string) bool
}

// A Scope admits URLs by options and seeds. Scope is relative to all seeds, so it grows with
// each; what it admitted once it always admits. It is safe for concurrent use.
//
// The seeds are in a [Store]. In memory are answers for a few thousand areas.
type Scope struct {
	opts  Options
	store Store

	mu      sync.RWMutex
	areas   map[string]bool // guarded by mu; answers of store, by area
	bytes   int             // guarded by mu; of the keys of areas
	widened int             // guarded by mu; calls of Widen
}

// Bounds of the answers in memory.
const (
	mostAreas = 16 << 10
	mostBytes = 1 << 20
)

// New returns a scope whose seeds are in store.
func New(o Options, store Store) *Scope {
	return &Scope{opts: o, store: store, areas: map[string]bool{}}
}

// Areas returns what a [Store] has to keep of a canonical URL that a person named, or that is the
// target of a seed's redirect: the domain, the host, or the host and the folder. In mode Any it is
// nothing.
func (s *Scope) Areas(url string) []string {
	host, path := split(url)
	switch s.opts.Mode {
	case Domain:
		return []string{record.Domain(host)}
	case Host:
		return []string{host}
	case Prefix:
		return []string{host, host + unescape(path[:strings.LastIndexByte(path, '/')+1])}
	}
	return nil
}

// Widen admits what belongs to the areas of a seed's redirect before the store has them.
func (s *Scope) Widen(url string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.widened++
	for _, area := range s.Areas(url) {
		s.keep(area, true)
	}
}

// Forget drops the answers in memory, which may be older than what the store has now.
func (s *Scope) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget()
}

func (s *Scope) forget() { s.areas, s.bytes = map[string]bool{}, 0 }

// keep takes note of an answer. s.mu is held.
func (s *Scope) keep(area string, yes bool) {
	if len(s.areas) >= mostAreas || s.bytes+len(area) > mostBytes {
		s.forget()
	}
	if _, ok := s.areas[area]; !ok {
		s.bytes += len(area)
		area = strings.Clone(area) // the URL lies in memory with a whole page
	}
	s.areas[area] = yes
}

// has reports whether a seed has an area.
func (s *Scope) has(area string) bool {
	s.mu.RLock()
	yes, known := s.areas[area]
	widened := s.widened
	s.mu.RUnlock()
	if known {
		return yes
	}
	yes = s.store.HasArea(area)
	s.mu.Lock()
	defer s.mu.Unlock()
	if widened == s.widened { // else the answer may be out of date
		s.keep(area, yes)
	}
	return yes
}

// Admits reports whether a canonical URL belongs to the crawl.
func (s *Scope) Admits(url string) bool { return s.Reason(url) == "" }

// Reason returns why a canonical URL does not belong to the crawl: "scope", "include" or
// "exclude". It is "" for one that does.
func (s *Scope) Reason(url string) string {
	reason := ""
	switch {
	case !s.isNear(url):
		return "scope" // a seed is near itself
	case len(s.opts.Include) > 0 && match(s.opts.Include, url) == nil:
		reason = "include"
	case match(s.opts.Exclude, url) != nil:
		reason = "exclude"
	}
	if reason != "" && s.store.IsSeed(url) {
		return ""
	}
	return reason
}

// Excludes reports whether a pattern of Options.Exclude matches a URL, be it near a seed or not.
func (s *Scope) Excludes(url string) bool { return match(s.opts.Exclude, url) != nil }

// Rule names the rule by which Reason decides, in words.
func (s *Scope) Rule(url string) string {
	switch s.Reason(url) {
	case "scope":
		return fmt.Sprintf("-scope %v, and no seed has %s", s.opts.Mode, s.near(url))
	case "include":
		return "no -include matches"
	case "exclude":
		return fmt.Sprintf("-exclude %q matches", match(s.opts.Exclude, url))
	}
	switch include := match(s.opts.Include, url); {
	case s.store.IsSeed(url):
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
		return "the domain " + record.Domain(host)
	case Host:
		return "the host " + host
	}
	return "the host " + host + " and a folder above it"
}

// HasHost reports whether URLs on the host of a canonical URL may belong to the crawl, patterns
// aside.
func (s *Scope) HasHost(url string) bool {
	area, _ := split(url)
	switch s.opts.Mode {
	case Any:
		return true
	case Domain:
		area = record.Domain(area)
	}
	return s.has(area)
}

// isNear reports whether a URL is near a seed as Mode has it.
func (s *Scope) isNear(url string) bool {
	if s.opts.Mode != Prefix {
		return s.HasHost(url)
	}
	host, path := split(url)
	if !s.has(host) {
		return false
	}
	folder := host + unescape(path)
	for i := len(host); i < len(folder); i++ {
		if folder[i] == '/' && s.has(folder[:i+1]) {
			return true
		}
	}
	return false
}

// split returns the host name, without port, and the path of a canonical URL.
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
	return escapes.ReplaceAllStringFunc(path, func(escape string) string {
		if c, _ := strconv.ParseUint(escape[1:], 16, 8); isUnreserved(byte(c)) {
			return string(rune(c))
		}
		return strings.ToUpper(escape)
	})
}

var escapes = regexp.MustCompile(`%[0-9A-Fa-f]{2}`)

func isUnreserved(c byte) bool {
	return c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || strings.IndexByte("-._~", c) >= 0
}

// match returns the first pattern that matches, or nil.
func match(patterns []*regexp.Regexp, url string) *regexp.Regexp {
	for _, re := range patterns {
		if re.MatchString(url) {
			return re
		}
	}
	return nil
}
