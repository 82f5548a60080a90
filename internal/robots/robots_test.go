package robots

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestAllowed(t *testing.T) {
	for _, tt := range []struct {
		name, file, path string
		ok               bool
		line             string
	}{
		{"no file", "", "/x", true, ""},
		{"no group for us", "User-agent: other\nDisallow: /", "/x", true, ""},
		{"group for all", "User-agent: *\nDisallow: /", "/x", false, "Disallow: /"},
		{"own group without rules", "User-agent: *\nDisallow: /\nUser-agent: kite\nAllow:", "/x", true, ""},
		{"name with a version", "User-agent: Kite/2.0\nDisallow: /", "/x", false, "Disallow: /"},
		{"longer name", "User-agent: kite-news\nDisallow: /", "/x", true, ""},
		{"the file itself", "User-agent: *\nDisallow: /", "/robots.txt", true, ""},
		{"longest rule", "User-agent: *\nDisallow: /a\nAllow: /a/b # here", "/a/b", true, "Allow: /a/b"},
		{"tie", "User-agent: *\nDisallow: /a\nAllow: /a", "/a", true, "Allow: /a"},
		{"tie of two spellings", "User-agent: *\nAllow: /~\nDisallow: /%7e", "/~", true, "Allow: /~"},
		{"end", "User-agent: *\nDisallow: /*.pdf$", "/a.pdf", false, "Disallow: /*.pdf$"},
		{"end with more", "User-agent: *\nDisallow: /*.pdf$", "/a.pdf?x", true, ""},
		{"end seen twice", "User-agent: *\nDisallow: /*.pdf$", "/a.pdf.pdf", false, "Disallow: /*.pdf$"},
		{"asterisks count as bytes", "User-agent: *\nAllow: /ab\nDisallow: /a*b", "/ab", false, "Disallow: /a*b"},
		{"end needs its own bytes", "User-agent: *\nDisallow: /ab*ba$", "/aba", true, ""},
		{"dollar inside", "User-agent: *\nDisallow: /a$b", "/a$b/", false, "Disallow: /a$b"},
		{"escaped dollar", "User-agent: *\nDisallow: /a%24", "/a$b", false, "Disallow: /a%24"},
		{"escaped asterisk", "User-agent: *\nDisallow: /a%2A", "/a*b", false, "Disallow: /a%2A"},
		{"escaped asterisk is none", "User-agent: *\nDisallow: /a%2Ac", "/abc", true, ""},
		{"space", "User-agent: *\nDisallow: /a b", "/a%20b", false, "Disallow: /a b"},
		{"brackets in a query", "User-agent: *\nDisallow: /?{", "/?{x}", false, "Disallow: /?{"},
		{"apostrophe in a query", "User-agent: *\nDisallow: /?'", "/?%27", false, "Disallow: /?'"},
		{"slash stays escaped", "User-agent: *\nDisallow: /a%2fb", "/a/b", true, ""},
		{"broken escape", "User-agent: *\nDisallow: /a%2", "/a%2", false, "Disallow: /a%2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ok, line := Parse([]byte(tt.file), "kite").Allowed(tt.path)
			if ok != tt.ok || line != tt.line {
				t.Errorf("Allowed(%q) = %v, %q; want %v, %q", tt.path, ok, line, tt.ok, tt.line)
			}
			for name, file := range map[string]string{
				"CRLF": strings.ReplaceAll(tt.file, "\n", "\r\n"), "CR": strings.ReplaceAll(tt.file, "\n", "\r"),
				"BOM": "\ufeff" + tt.file, "capitals": strings.NewReplacer("agent", "AGENT", "allow", "ALLOW", "kite", "KITE").Replace(tt.file),
			} {
				if again, _ := Parse([]byte(file), "kite").Allowed(tt.path); again != ok {
					t.Errorf("with %s: %v, not %v", name, again, ok)
				}
			}
		})
	}
}

func TestAnswers(t *testing.T) {
	for _, path := range []string{"/", "/x?y", "/robots.txt"} {
		if ok, _ := AllowAll.Allowed(path); !ok {
			t.Errorf("AllowAll forbids %s", path)
		}
		if ok, _ := Parse([]byte("User-agent: *\nDisallow: /"), "kite").Allowed(path); ok != (path == "/robots.txt") {
			t.Errorf("all is forbidden: %s allowed: %v", path, ok)
		}
	}
}

func TestFacts(t *testing.T) {
	for _, tt := range []struct {
		name, file string
		delay      time.Duration
		sitemaps   []string
	}{
		{"nothing", "User-agent: *\n", 0, nil},
		{"own group first", "User-agent: *\nCrawl-delay: 9\nUser-agent: kite\nCrawl-delay: 1.5", 1500 * time.Millisecond, nil},
		{"own group without", "User-agent: *\nCrawl-delay: 9\nUser-agent: kite\nDisallow:", 0, nil},
		{"longest", "User-agent: *\nCrawl-delay: 1\nCrawl-delay: 3\nCrawl-delay: 2", 3 * time.Second, nil},
		{"not of the next group", "User-agent: kite\nDisallow: /a\nUser-agent: x\nCrawl-delay: 3", 0, nil},
		{"word", "User-agent: *\nCrawl-delay: soon", 0, nil},
		{"negative", "User-agent: *\nCrawl-delay: -1", 0, nil},
		{"not a number", "User-agent: *\nCrawl-delay: NaN", 0, nil},
		{"without end", "User-agent: *\nCrawl-delay: Inf", 24 * time.Hour, nil},
		{"huge", "User-agent: *\nCrawl-delay: 1e300", 24 * time.Hour, nil},
		{
			"sitemaps anywhere", "Sitemap: /a.xml\nUser-agent: x\nDisallow: /\nsitemap:https://example.org/b.xml # b\nSitemap:", 0,
			[]string{"/a.xml", "https://example.org/b.xml"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := Parse([]byte(tt.file), "kite")
			if r.CrawlDelay != tt.delay || !slices.Equal(r.Sitemaps, tt.sitemaps) {
				t.Errorf("delay %v, sitemaps %q; want %v, %q", r.CrawlDelay, r.Sitemaps, tt.delay, tt.sitemaps)
			}
		})
	}
}

func TestMaxBytes(t *testing.T) {
	head := "User-agent: *\nDisallow: /a\n"
	for _, tt := range []struct {
		name    string
		padding int // bytes before a last line
		counts  bool
	}{
		{"all within", MaxBytes - len(head) - len("Disallow: /bcd\n"), true},
		{"last line cut", MaxBytes - len(head) - len("Disallow: /b"), false},
		{"last line beyond", MaxBytes, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file := head + strings.Repeat("#", tt.padding-1) + "\nDisallow: /bcd\n"
			r := Parse([]byte(file), "kite")
			if ok, _ := r.Allowed("/a"); ok {
				t.Error("the first rule does not count")
			}
			if ok, _ := r.Allowed("/bcd"); ok == tt.counts {
				t.Errorf("the last rule counts: %v", !ok)
			}
			if ok, _ := r.Allowed("/b"); !ok {
				t.Error("a part of a line counts")
			}
		})
	}
}

func TestToken(t *testing.T) {
	for in, want := range map[string]string{
		"urltree/1.0 (+https://example.org/bot)": "urltree", "A_b-c": "A_b-c", "bot2": "bot", "": "", "1": "",
	} {
		if got := Token(in); got != want {
			t.Errorf("Token(%q) = %q, want %q", in, got, want)
		}
	}
	if ok, _ := Parse([]byte("User-agent: 1\nDisallow: /"), "").Allowed("/"); !ok {
		t.Error("no token is taken for a name without letters")
	}
}

func TestConformance(t *testing.T) {
	dir := os.Getenv("SHARED")
	if dir == "" {
		dir = "../../../shared"
	}
	data, err := os.ReadFile(filepath.Join(dir, "conformance/robots/robots_cases.json"))
	if errors.Is(err, os.ErrNotExist) {
		t.Skipf("no shared conformance data: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		ID, Group, Robots string
		Base64            string `json:"robots_b64"`
		Parts             []struct {
			Text, Repeat string
			Bytes        int
		} `json:"robots_parts"`
		Agent, URL string
		Allowed    bool
		Tags       []string
	}
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, c := range cases {
		if len(c.Tags) > 0 && !slices.Contains(c.Tags, "ambiguous") && !slices.Contains(c.Tags, "nonstandard-agent") || c.URL == "" {
			continue
		}
		n++
		file, err := base64.StdEncoding.DecodeString(c.Base64)
		if err != nil {
			t.Fatal(err)
		}
		file = append(file, c.Robots...)
		for _, p := range c.Parts {
			file = append(file, p.Text...)
			if p.Repeat != "" {
				file = append(file, strings.Repeat(p.Repeat, p.Bytes/len(p.Repeat))...)
			}
		}
		u, err := url.Parse(c.URL)
		if err != nil {
			t.Fatal(err)
		}
		path := u.EscapedPath()
		if path == "" {
			path = "/"
		}
		if u.RawQuery != "" || u.ForceQuery {
			path += "?" + u.RawQuery
		}
		if ok, line := Parse(file, Token(c.Agent)).Allowed(path); ok != c.Allowed {
			t.Errorf("%s (%s): %s for %s: %v by %q", c.ID, c.Group, c.URL, c.Agent, ok, line)
		}
	}
	if n < 330 {
		t.Errorf("only %d cases", n)
	}
}

func TestManyAsterisks(t *testing.T) {
	file := "User-agent: *\nDisallow: /" + strings.Repeat("*a", 100_000) + "$\nDisallow: /" + strings.Repeat("*a*b", 10_000)
	r := Parse([]byte(file), "kite")
	if ok, _ := r.Allowed("/" + strings.Repeat("a", 50_000)); !ok {
		t.Error("matches with too few letters")
	}
	if ok, _ := r.Allowed("/" + strings.Repeat("ab", 10_000)); ok {
		t.Error("does not match")
	}
}

// FuzzMatch compares a rule of its own with a regular expression made of it, on a path.
func FuzzMatch(f *testing.F) {
	for _, p := range []string{"/", "/a*b", "/*.php$", "/a**b*$", "*", "$", "/%41%2a%zz", "/é", "/a$b", "/a#b", "/\x00"} {
		f.Add(p, "/a/b.php")
		f.Add(p, strings.NewReplacer("*", "", "$", "").Replace(p))
	}
	f.Fuzz(func(t *testing.T, pattern, path string) {
		if normal(normal(path)) != normal(path) {
			t.Errorf("normal is not idempotent: %q, %q", normal(path), normal(normal(path)))
		}
		pattern = strings.TrimSpace(pattern)
		if strings.ContainsAny(pattern, "\r\n#") || pattern == "" || path == "/robots.txt" {
			Parse([]byte(pattern), path)
			return
		}
		body, end := strings.CutSuffix(pattern, "$")
		var parts []string
		for _, part := range strings.Split(body, "*") {
			parts = append(parts, regexp.QuoteMeta(normal(part)))
		}
		expr := "(?s)^" + strings.Join(parts, ".*")
		if end {
			expr += "$"
		}
		want := regexp.MustCompile(expr).MatchString(normal(path))
		ok, line := Parse([]byte("User-agent: *\nDisallow: "+pattern), "kite").Allowed(path)
		if ok == want || want != (line != "") {
			t.Errorf("rule %q, path %q: allowed %v by %q; the expression matches: %v", pattern, path, ok, line, want)
		}
	})
}

// FuzzParse checks what holds for every file.
func FuzzParse(f *testing.F) {
	f.Add([]byte("\ufeffUser-agent: kite\r\nDisallow: /a*b$\rAllow: /\nCrawl-delay: 1\nSitemap: x"), "/a")
	f.Add([]byte("user-agent:*\nuser-agent:kite\ndisallow:/%7e\xff"), "/~")
	f.Fuzz(func(t *testing.T, file []byte, path string) {
		r := Parse(file, "kite")
		ok, line := r.Allowed(path)
		if key, _, _ := strings.Cut(strings.ToLower(line), ":"); line != "" && strings.TrimSpace(key) != map[bool]string{true: "allow", false: "disallow"}[ok] {
			t.Errorf("%v by %q", ok, line)
		}
		if !ok && line == "" {
			t.Error("forbidden by nothing")
		}
		if r.CrawlDelay < 0 || r.CrawlDelay > maxDelay {
			t.Errorf("delay %v", r.CrawlDelay)
		}
		if again, _ := Parse(append([]byte("# note\nDisallow: /\n"), file...), "kite").Allowed(path); again != ok && !strings.HasPrefix(string(file), "\ufeff") {
			t.Error("lines before the first group change the answer")
		}
	})
}

// TestLinearWork counts the bytes that are looked through: twice the path, or twice the rule,
// is no more than twice the work, whatever the asterisks.
func TestLinearWork(t *testing.T) {
	work := func(pattern, path string) int {
		bytes := 0
		r := newRule(false, pattern, "")
		r.match(normal(path), func(s, part string) int {
			i := strings.Index(s, part)
			if i < 0 {
				bytes += len(s)
			} else {
				bytes += i + len(part)
			}
			return i
		})
		return bytes + len(pattern) + len(path)
	}
	for _, tt := range []struct{ name, rule, path string }{
		{"stars", "/*a*a*a*a*b", "/aaaaaaaaaaaaaaaa"},
		{"stars that match", "/*a*a*a*a", "/aaaaaaaaaaaaaaaa"},
		{"only stars", "/****************", "/abcabcabcabc"},
		{"long parts", "/*aaaaaaab", "/aaaaaaaaaaaaaaaaaaaaaaaaaaaa"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for n := 1; n <= 1024; n *= 2 {
				path := strings.Repeat(tt.path, n)
				rule := tt.rule + strings.Repeat(tt.rule[1:], n)
				once, twice := work(rule, path), work(rule+rule[1:], path+path[1:])
				if twice > 2*once {
					t.Fatalf("%d bytes of rule, %d of path: %d steps, %d for twice as much", len(rule), len(path), once, twice)
				}
			}
		})
	}
}

func BenchmarkAllowed(b *testing.B) {
	file := "User-agent: *\n" + strings.Repeat("Disallow: /folder/*/page.html$\nAllow: /other/\n", 200)
	r := Parse([]byte(file), "kite")
	for b.Loop() {
		r.Allowed("/wiki/Concurrency_(computer_science)?action=edit")
	}
}
