package scope

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"testing"

	"golang.org/x/net/idna"

	"urltree/storage/record"
)

func TestReason(t *testing.T) {
	all := []Mode{Any, Domain, Host, Prefix}
	for _, tt := range []struct {
		name, seed, url string
		modes           []Mode // those that admit the URL
	}{
		{"the seed", "http://www.example.org/a/b", "http://www.example.org/a/b", all},
		{"same folder", "http://www.example.org/a/b", "http://www.example.org/a/c?d", all},
		{"below", "http://www.example.org/a/b", "http://www.example.org/a/b/c/", all},
		{"the folder itself", "http://www.example.org/a/b", "http://www.example.org/a/", all},
		{"scheme and port differ", "http://www.example.org/a/b", "https://www.example.org:81/a/c", all},
		{"slash in a query is no folder", "http://www.example.org/a?b/c", "http://www.example.org/d", all},
		{"folder above", "http://www.example.org/a/b", "http://www.example.org/", []Mode{Any, Domain, Host}},
		{"folder with a longer name", "http://www.example.org/a/b", "http://www.example.org/ab", []Mode{Any, Domain, Host}},
		{"path in a query", "http://www.example.org/a/b", "http://www.example.org/?/a/b", []Mode{Any, Domain, Host}},
		{"other host of the domain", "http://www.example.org/", "http://example.org/", []Mode{Any, Domain}},
		{"below a public suffix", "http://a.co.uk/", "http://b.co.uk/", []Mode{Any}},
		{"domain below a public suffix", "http://a.b.co.uk/", "http://b.co.uk/", []Mode{Any, Domain}},
		{"suffix that people register under", "http://me.github.io/", "http://you.github.io/", []Mode{Any}},
		{"name that ends alike", "http://example.org/", "http://badexample.org/", []Mode{Any}},
		{"addresses that end alike", "http://127.0.0.1/", "http://1.0.0.1/", []Mode{Any}},
		{"address", "http://127.0.0.1/", "http://127.0.0.1:81/x", all},
		{"IPv6", "http://[::1]/", "https://[::1]:81/x", all},
		{"other IPv6", "http://[::1]/", "http://[::2]/", []Mode{Any}},
		{"name without dots", "http://localhost:81/", "http://localhost/", all},
		{"host in a query", "http://example.org/", "http://evil.example/?http://example.org/", []Mode{Any}},
	} {
		for _, mode := range all {
			t.Run(tt.name+"/"+mode.String(), func(t *testing.T) {
				want := "scope"
				for _, m := range tt.modes {
					if m == mode {
						want = ""
					}
				}
				s := newScope(Options{Mode: mode})
				if near := s.Admits(tt.url); near != (mode == Any) {
					t.Errorf("without seeds: Admits = %v", near)
				}
				s.addSeed(tt.seed)
				if got := s.Reason(tt.url); got != want {
					t.Errorf("Reason = %q, want %q", got, want)
				}
				if !s.Admits(tt.seed) {
					t.Error("the seed is not admitted")
				}
				s.addSeed(tt.url) // now it is one itself
				if !s.Admits(tt.url) || !s.Admits(tt.seed) {
					t.Error("a second seed is not admitted, or took the first away")
				}
			})
		}
	}
}

// A seeded is a scope with a store in memory.
type seeded struct {
	*Scope
	mu   sync.Mutex
	has  map[string]bool // areas, and "seed " and a URL
	asks int
}

func newScope(o Options) *seeded {
	s := &seeded{has: map[string]bool{}}
	s.Scope = New(o, s)
	return s
}

func (s *seeded) addSeed(url string) {
	s.Widen(url)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.has["seed "+url] = true
	for _, area := range s.Areas(url) {
		s.has[area] = true
	}
}

func (s *seeded) HasArea(area string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asks++
	return s.has[area]
}

func (s *seeded) IsSeed(url string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.has["seed "+url]
}

// TestAnswersInMemory: an area is looked up once, and again only after Forget; what they take is
// bounded.
func TestAnswersInMemory(t *testing.T) {
	s := newScope(Options{Mode: Host})
	for range 3 {
		s.Admits("http://a.org/x")
		s.HasHost("https://a.org:1/y")
	}
	if s.asks != 1 {
		t.Errorf("asked %d times", s.asks)
	}
	s.has["a.org"] = true
	if s.Admits("http://a.org/x") {
		t.Error("asked again")
	}
	if s.Forget(); !s.Admits("http://a.org/x") || s.asks != 2 {
		t.Errorf("not admitted after Forget, asked %d times", s.asks)
	}
	if s.Widen("http://b.org/"); !s.Admits("http://b.org/z") || s.asks != 2 {
		t.Errorf("not admitted after Widen, asked %d times", s.asks)
	}
	for i := range 3 * mostAreas {
		s.Admits(fmt.Sprintf("http://h%d.org/", i))
	}
	if len(s.areas) > mostAreas {
		t.Errorf("%d areas in memory", len(s.areas))
	}
	for i := range 2 * mostBytes / 240 {
		s.Admits(fmt.Sprintf("http://%0240d.org/", i))
	}
	sum := 0
	for area := range s.areas {
		sum += len(area)
	}
	if sum > mostBytes || sum != s.bytes {
		t.Errorf("%d bytes in memory, counted %d", sum, s.bytes)
	}
}

func TestPatterns(t *testing.T) {
	re := func(exprs ...string) (res []*regexp.Regexp) {
		for _, e := range exprs {
			res = append(res, regexp.MustCompile(e))
		}
		return res
	}
	for _, tt := range []struct {
		name             string
		include, exclude []*regexp.Regexp
		url, want        string
	}{
		{"no patterns", nil, nil, "http://example.org/a", ""},
		{"one of two includes", re(`/b`, `/a$`), nil, "http://example.org/a", ""},
		{"no include", re(`/b`), nil, "http://example.org/a", "include"},
		{"exclude", nil, re(`/b`, `\.org/a`), "http://example.org/a", "exclude"},
		{"exclude wins", re(`/a`), re(`/a`), "http://example.org/a", "exclude"},
		{"scope first", re(`/a`), re(`/a`), "http://example.com/a", "scope"},
		{"not for seeds", re(`/b`), re(`example`), "http://example.org/", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newScope(Options{Mode: Host, Include: tt.include, Exclude: tt.exclude})
			s.addSeed("http://example.org/")
			if got := s.Reason(tt.url); got != tt.want {
				t.Errorf("Reason = %q, want %q", got, tt.want)
			}
			if s.Admits(tt.url) != (tt.want == "") {
				t.Error("Admits and Reason differ")
			}
		})
	}
}

// TestRule: the rule in words goes with the reason.
func TestRule(t *testing.T) {
	re := regexp.MustCompile
	for _, tt := range []struct {
		opts Options
		url  string
		want string
	}{
		{Options{}, "http://b.org/", "-scope any"},
		{Options{Mode: Host}, "http://a.org/x", "-scope host, and a seed has the host a.org"},
		{Options{Mode: Host}, "http://b.org/x", "-scope host, and no seed has the host b.org"},
		{Options{Mode: Domain}, "http://x.www.b.org/", "-scope domain, and no seed has the domain b.org"},
		{Options{Mode: Prefix}, "http://a.org/d/e", "-scope prefix, and a seed has the host a.org and a folder above it"},
		{Options{Mode: Prefix}, "http://a.org/e", "-scope prefix, and no seed has the host a.org and a folder above it"},
		{Options{Mode: Prefix}, "http://a.org/d/", "it counts as a seed"},
		{Options{Include: []*regexp.Regexp{re("x"), re("y")}}, "http://b.org/y", `-include "y" matches`},
		{Options{Include: []*regexp.Regexp{re("x")}}, "http://b.org/z", "no -include matches"},
		{Options{Exclude: []*regexp.Regexp{re("z$")}}, "http://b.org/z", `-exclude "z$" matches`},
	} {
		s := newScope(tt.opts)
		s.addSeed("http://a.org/d/")
		if got := s.Rule(tt.url); got != tt.want {
			t.Errorf("%+v, %s: %q, want %q", tt.opts, tt.url, got, tt.want)
		}
	}
}

func TestParseMode(t *testing.T) {
	for _, m := range []Mode{Any, Domain, Host, Prefix} {
		if got, err := ParseMode(m.String()); got != m || err != nil {
			t.Errorf("ParseMode(%q) = %v, %v", m, got, err)
		}
	}
	const want = `scope "site": want one of any, domain, host, prefix`
	if _, err := ParseMode("site"); err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

func TestManySeeds(t *testing.T) {
	n := 100_000
	if testing.Short() {
		n = 10_000
	}
	s := newScope(Options{Mode: Prefix})
	var wg sync.WaitGroup
	for worker := range 2 {
		wg.Go(func() {
			for i := worker; i < n; i += 2 {
				s.addSeed(fmt.Sprintf("http://host%d.example/%d/", i%1000, i))
				if url := fmt.Sprintf("https://host%d.example/%d/x", i%1000, i); !s.Admits(url) {
					t.Errorf("%s is not admitted", url)
				}
			}
		})
	}
	wg.Wait()
	for i := range n {
		if url := fmt.Sprintf("http://host%d.example/%d", i%1000, i); s.Admits(url) {
			t.Fatalf("%s is admitted", url)
		}
	}
}

func TestPublicSuffixList(t *testing.T) {
	dir := os.Getenv("SHARED")
	if dir == "" {
		dir = "../../../shared"
	}
	data, err := os.ReadFile(filepath.Join(dir, "conformance/psl/psl_cases.json"))
	if errors.Is(err, os.ErrNotExist) {
		t.Skipf("no shared conformance data: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Host        string
		Registrable *string
	}
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		host, err := idna.Lookup.ToASCII(c.Host)
		if err != nil {
			continue // not a host of a canonical URL
		}
		want := host
		if c.Registrable != nil {
			if want, err = idna.Lookup.ToASCII(*c.Registrable); err != nil {
				t.Fatal(err)
			}
		}
		if got := record.Domain(host); got != want {
			t.Errorf("Domain(%q) = %q, want %q", host, got, want)
		}
	}
}

func BenchmarkReason(b *testing.B) {
	for _, mode := range []Mode{Domain, Host, Prefix} {
		b.Run(mode.String(), func(b *testing.B) {
			s := newScope(Options{Mode: mode})
			for i := range 100_000 {
				s.addSeed(fmt.Sprintf("http://host%d.example/%d/", i, i))
			}
			for b.Loop() {
				s.Reason("http://www.host77.example/a/b/c/d.html?e")
			}
		})
	}
}
