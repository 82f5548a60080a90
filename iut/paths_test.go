package iut

import (
	"path"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var mappings = []Mapping{{}, {FoldCase: true}}

func TestPath(t *testing.T) {
	for _, tt := range []struct{ name, url, want string }{
		{"root", "https://example.org/", "pr-https/do-example/do-org"},
		{"readable", "https://en.wikipedia.org/wiki/a_(b)", "pr-https/do-en/do-wikipedia/do-org/dr-wiki/dr-a_(b)"},
		{"port", "http://example.org:8080/", "pr-http/do-example/do-org/po-8080"},
		{"slash", "http://a/b/", "pr-http/do-a/dr-b/dr-"},
		{"no slash", "http://a/b", "pr-http/do-a/dr-b"},
		{"empty segments", "http://a//", "pr-http/do-a/dr-/dr-"},
		{"query", "http://a/b?c=d", "pr-http/do-a/dr-b/qu-c=d"},
		{"query of slash", "http://a/b/?", "pr-http/do-a/dr-b/dr-/qu-"},
		{"query of root", "http://a/?x", "pr-http/do-a/qu-x"},
		{"percent stays", "http://a/%2F", "pr-http/do-a/dr-%2F"},
		{"dots", "http://a/..", "pr-http/do-a/dr-.."},
		{"forbidden", `http://a/:*"<>|\^`, "pr-http/do-a/dr-^3A^2A^22^3C^3E^7C^5C^5E"},
		{"question in query", "http://a/?b?c/d", "pr-http/do-a/qu-b^3Fc^2Fd"},
		{"address", "http://[::1]:81/", "pr-http/do-[^3A^3A1]/po-81"},
		{"not canonical", "http://a:/", ""},
		{"no path", "http://a", ""},
		{"not web", "ftp://a/", ""},
		{"nothing", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Mapping{}.Path(tt.url)
			if got != tt.want || (err != nil) != (tt.want == "") {
				t.Fatalf("Path(%q) = %q, %v; want %q", tt.url, got, err, tt.want)
			}
			if err == nil {
				checkPath(t, Mapping{}, tt.url)
			}
		})
	}
}

func TestPathLong(t *testing.T) {
	long := func(n int) string { return "http://a/" + strings.Repeat("x", n) }
	for _, tt := range []struct {
		name, url string
		want      string
	}{
		{"fits", long(197), "pr-http/do-a/dr-" + strings.Repeat("x", 197)},
		{"one too many", long(198), "pr-http/do-a/dr-" + strings.Repeat("x", 196) + "^/dr-xx"},
		{"two cuts", long(196*2 + 198), "pr-http/do-a/" + strings.Repeat("dr-"+strings.Repeat("x", 196)+"^/", 3) + "dr-xx"},
		{"escape at the cut", long(195) + "|||", "pr-http/do-a/dr-" + strings.Repeat("x", 195) + "^/dr-^7C^7C^7C"},
		{"escape before the cut", long(193) + "||", "pr-http/do-a/dr-" + strings.Repeat("x", 193) + "^7C^/dr-^7C"},
		{"mark looks like an escape", long(196) + "7Cx", "pr-http/do-a/dr-" + strings.Repeat("x", 196) + "^/dr-7Cx"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, err := (Mapping{}).Path(tt.url); got != tt.want || err != nil {
				t.Fatalf("Path = %q, %v; want %q", got, err, tt.want)
			}
			checkPath(t, Mapping{}, tt.url)
		})
	}
	for n := 860; n < 900; n++ { // over the longest path there is
		checkPath(t, Mapping{}, long(n))
	}
	over, err := Mapping{}.Path("http://a:81/" + strings.Repeat("x/", 300))
	if err != nil || !strings.HasPrefix(over, "pr-http/do-a/ov-") || len(over) != len("pr-http/do-a/ov-")+64 {
		t.Errorf("Path of a long URL = %q, %v", over, err)
	}
	if got, err := (Mapping{}).Path("http://" + strings.Repeat("a.", 300) + "/"); err == nil {
		t.Errorf("a host that no path can hold has %q", got)
	}
}

func TestPathFoldCase(t *testing.T) {
	m := Mapping{FoldCase: true}
	for _, tt := range []struct{ name, url, want string }{
		{"capitals", "http://a/Bc", "pr-http/do-a/dr-^42c"},
		{"escapes of the URL", "http://a/%2F", "pr-http/do-a/dr-%2^46"},
		{"dot at the end", "http://a/b.", "pr-http/do-a/dr-b^2E"},
		{"dot within", "http://a/b.c", "pr-http/do-a/dr-b.c"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, err := m.Path(tt.url); got != tt.want || err != nil {
				t.Fatalf("Path(%q) = %q, %v; want %q", tt.url, got, err, tt.want)
			}
			checkPath(t, m, tt.url)
		})
	}
}

func TestURLOfRejects(t *testing.T) {
	over, _ := Mapping{}.Path("http://a/" + strings.Repeat("x/", 500))
	for _, tt := range []struct{ name, rel string }{
		{"nothing", ""},
		{"scheme alone", "pr-http"},
		{"other scheme", "pr-ftp/do-a"},
		{"climbs", "pr-http/do-a/../do-b"},
		{"dot", "pr-http/do-a/."},
		{"absolute", "/pr-http/do-a"},
		{"closing slash", "pr-http/do-a/"},
		{"order", "pr-http/do-a/qu-x/dr-b"},
		{"needless escape", "pr-http/do-a/dr-^41"},
		{"small hex", "pr-http/do-a/dr-^3a"},
		{"missing escape", "pr-http/do-a/dr-a:b"},
		{"half an escape", "pr-http/do-a/dr-a^4"},
		{"open", "pr-http/do-a/dr-a^"},
		{"needless cut", "pr-http/do-a/dr-a^/dr-b"},
		{"cut with another prefix", "pr-http/do-a/dr-" + strings.Repeat("x", 196) + "^/qu-xx"},
		{"name too long", "pr-http/do-a/dr-" + strings.Repeat("x", 198)},
		{"escaped end of component", "pr-http/do-a/dr-b^00qx"},
		{"overlong", over},
		{"content", "pr-http/do-a/content.html"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if url, err := (Mapping{}).URLOf(tt.rel); err == nil {
				t.Errorf("URLOf(%q) = %q, want an error", tt.rel, url)
			}
		})
	}
	if url, err := (Mapping{FoldCase: true}).URLOf("pr-http/do-a/dr-B"); err == nil {
		t.Errorf("URLOf accepts a capital where they are escaped: %q", url)
	}
}

// checkPath checks the laws of a path that Path accepts.
func checkPath(t interface {
	Helper()
	Fatalf(string, ...any)
}, m Mapping, url string,
) string {
	t.Helper()
	rel, err := m.Path(url)
	if err != nil {
		t.Fatalf("Path(%q): %v", url, err)
	}
	if len(rel) > maxPath || path.Clean(rel) != rel || !strings.HasPrefix(rel, "pr-http") || strings.ContainsAny(rel, `\:*?"<>|`) {
		t.Fatalf("Path(%q) = %q, which can do harm", url, rel)
	}
	for name := range strings.SplitSeq(rel, "/") {
		if len(name) > maxName || name == ".." || m.FoldCase && strings.ToLower(removeEscapes(name)) != removeEscapes(name) {
			t.Fatalf("Path(%q) = %q with the name %q", url, rel, name)
		}
	}
	back, err := m.URLOf(rel)
	if isOverlong(rel) {
		if err == nil {
			t.Fatalf("URLOf(%q) = %q, want an error", rel, back)
		}
	} else if err != nil || back != url {
		t.Fatalf("URLOf(Path(%q)) = %q, %v", url, back, err)
	}
	return rel
}

func removeEscapes(name string) string {
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		if name[i] == '^' {
			i += 2
			continue
		}
		b.WriteByte(name[i])
	}
	return b.String()
}

func genURL() *rapid.Generator[string] {
	label := rapid.StringMatching(`[a-z0-9-]{1,8}`)
	text := rapid.OneOf(
		rapid.StringMatching(`[A-Za-z0-9._~%!$&'()*+,;=:@^|" \\<>-]{0,12}`),
		rapid.StringMatching(`[aB:^.%]{150,420}`),
	)
	return rapid.Custom(func(t *rapid.T) string {
		url := rapid.SampledFrom([]string{"http://", "https://"}).Draw(t, "scheme") +
			strings.Join(rapid.SliceOfN(label, 1, 4).Draw(t, "labels"), ".")
		if rapid.Bool().Draw(t, "port") {
			url += ":8080"
		}
		url += "/" + strings.Join(rapid.SliceOfN(text, 0, 4).Draw(t, "segments"), "/")
		if rapid.Bool().Draw(t, "query") {
			url += "?" + text.Draw(t, "text") + rapid.SampledFrom([]string{"", "/", "?"}).Draw(t, "more")
		}
		return url
	})
}

func TestPathProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := rapid.SampledFrom(mappings).Draw(t, "mapping")
		url, other := genURL().Draw(t, "url"), genURL().Draw(t, "other")
		if rel := checkPath(t, m, url); url != other && rel == checkPath(t, m, other) {
			t.Fatalf("%q and %q share %q", url, other, rel)
		}
	})
}

func FuzzPath(f *testing.F) {
	for _, url := range []string{"https://a.b/c/?d", "http://a:1//^", "http://a/" + strings.Repeat(":", 99), "http://a/\xff\x01"} {
		f.Add(url)
	}
	f.Fuzz(func(t *testing.T, url string) {
		for _, m := range mappings {
			if _, err := m.Path(url); err == nil {
				checkPath(t, m, url)
			}
		}
	})
}

func FuzzURLOf(f *testing.F) {
	for _, rel := range []string{"pr-https/do-a/dr-b/qu-c", "pr-http/do-a/dr-" + strings.Repeat("x", 196) + "^/dr-xx", "pr-http/do-a/po-1/dr-^5E"} {
		f.Add(rel)
	}
	f.Fuzz(func(t *testing.T, rel string) {
		for _, m := range mappings {
			url, err := m.URLOf(rel)
			if err != nil {
				continue
			}
			if again := checkPath(t, m, url); again != rel {
				t.Fatalf("URLOf(%q) = %q, whose path is %q", rel, url, again)
			}
		}
	})
}
