package weburl

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"
)

// law checks what holds for every canonical URL.
func law(t *testing.T, url string) {
	t.Helper()
	if again, err := Canonical(url); again != url || err != nil {
		t.Errorf("not idempotent: %q becomes %q, %v", url, again, err)
	}
	scheme, rest, _ := strings.Cut(url, "://")
	host, _, ok := strings.Cut(rest, "/")
	if !isWeb(scheme) || !ok || host == "" || strings.ContainsAny(host, "?@") {
		t.Errorf("%q does not begin with scheme, host and slash", url)
	}
	for i := range len(url) {
		if c := url[i]; c <= ' ' || c > '~' || strings.IndexByte("#<>", c) >= 0 {
			t.Errorf("%q holds byte %#x", url, c)
		}
	}
	path, _, _ := strings.Cut(strings.ReplaceAll(strings.ToLower(url), "%2e", "."), "?")
	for _, segment := range strings.Split(path, "/")[3:] {
		if segment == "." || segment == ".." {
			t.Errorf("%q has the segment %q", url, segment)
		}
	}
}

func TestCanonical(t *testing.T) {
	for _, tt := range []struct {
		name, in, want string
		err            error
	}{
		{"as it is", "https://example.org/a/b?c=d&e", "https://example.org/a/b?c=d&e", nil},
		{"scheme and host in capitals", "HTTP://Example.ORG/A", "http://example.org/A", nil},
		{"no path", "http://example.org", "http://example.org/", nil},
		{"query without path", "http://example.org?q", "http://example.org/?q", nil},
		{"lone question mark stays", "http://example.org/a?", "http://example.org/a?", nil},
		{"fragment dropped", "http://example.org/a#b?c#d", "http://example.org/a", nil},
		{"space before the fragment stays", "http://example.org/a #b", "http://example.org/a%20", nil},
		{"user name dropped", "http://me:secret@example.org/", "http://example.org/", nil},
		{"port of the scheme dropped", "https://example.org:443/", "https://example.org/", nil},
		{"other port stays", "https://example.org:80/", "https://example.org:80/", nil},
		{"climbs out", "http://example.org/../../etc/./x", "http://example.org/etc/x", nil},
		{"escaped dots", "http://example.org/a/%2E%2e/b/%2e", "http://example.org/b/", nil},
		{"slashes stay", "http://example.org//a//../b", "http://example.org//a/b", nil},
		{"backslashes", `http:\\example.org\a`, "http://example.org/a", nil},
		{"circumflex", "http://example.org/a^b?a^b", "http://example.org/a%5Eb?a^b", nil},
		{"escapes stay", "http://example.org/%7e%2f%zz", "http://example.org/%7e%2f%zz", nil},
		{"not ASCII", "http://bücher.example/ü?ü", "http://xn--bcher-kva.example/%C3%BC?%C3%BC", nil},
		{"not UTF-8", "http://example.org/\xfc", "http://example.org/%EF%BF%BD", nil},
		{"NUL", "http://example.org/a\x00b", "http://example.org/a%00b", nil},
		{"number for a host", "http://0x7f.1/", "http://127.0.0.1/", nil},
		{"IPv6", "http://[0:0::1]:8080/", "http://[::1]:8080/", nil},
		{"white space around and inside", " \n http://exam\tple.org/a\nb ", "http://example.org/ab", nil},
		{"long fragment", "http://example.org/#" + strings.Repeat("x", 1<<20), "http://example.org/", nil},
		{"mail", "mailto:a@example.org", "", ErrScheme},
		{"script with a line break", "java\nscript:alert(1)", "", ErrScheme},
		{"ftp", "ftp://example.org/", "", ErrScheme},
		{"relative", "/a", "", ErrSyntax},
		{"empty", "", "", ErrSyntax},
		{"no host", "http://", "", ErrSyntax},
		{"host of nothing visible", "http://\u00ad/", "", ErrSyntax},
		{"bad port", "http://example.org:99999/", "", ErrSyntax},
		{"space in the host", "http://exa mple.org/", "", ErrSyntax},
		{"long", "http://example.org/" + strings.Repeat("x", maxBytes), "", ErrLength},
		{"long by its escapes", "http://example.org/" + strings.Repeat("ü", maxBytes/4), "", ErrLength},
		{"slashes", "http://example.org/" + strings.Repeat("/", maxParts), "", ErrLength},
		{"user name", "http://" + strings.Repeat("@", maxUser+1) + "@example.org/", "", ErrLength},
		{"few slashes", "http://example.org/" + strings.Repeat("/", maxParts-3), "http://example.org/" + strings.Repeat("/", maxParts-3), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Canonical(tt.in)
			if got != tt.want || !errors.Is(err, tt.err) {
				t.Fatalf("Canonical(%.100q) = %q, %v; want %q, %v", tt.in, got, err, tt.want, tt.err)
			}
			if err == nil {
				law(t, got)
			}
		})
	}
}

func TestResolve(t *testing.T) {
	const base = "https://example.org:81/a/b/c?d/e"
	for _, tt := range []struct {
		name, ref, want string
		err             error
	}{
		{"nothing is the page", "", base, nil},
		{"fragment is the page", "#top", base, nil},
		{"query", "?x", "https://example.org:81/a/b/c?x", nil},
		{"lone question mark", "?", "https://example.org:81/a/b/c?", nil},
		{"file", "x", "https://example.org:81/a/b/x", nil},
		{"here", ".", "https://example.org:81/a/b/", nil},
		{"up", "../x", "https://example.org:81/a/x", nil},
		{"up and no further", "../../../../x/..", "https://example.org:81/", nil},
		{"dots in a query", "x?a/../b", "https://example.org:81/a/b/x?a/../b", nil},
		{"dots in names", "a..b/...", "https://example.org:81/a/b/a..b/...", nil},
		{"from the root", "/x//", "https://example.org:81/x//", nil},
		{"other host", "//host.example", "https://host.example/", nil},
		{"other host with port", "//host.example:443/x", "https://host.example/x", nil},
		{"absolute", "http://host.example/x", "http://host.example/x", nil},
		{"scheme only", "https:x", "https://example.org:81/a/b/x", nil},
		{"colon in a later segment", "./x:y", "https://example.org:81/a/b/x:y", nil},
		{"colon after a digit", "1:2", "https://example.org:81/a/b/1:2", nil},
		{"phone", "tel:+1", "", ErrScheme},
		{"no host", "//", "", ErrSyntax},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, err := NewBase(base)
			if err != nil {
				t.Fatal(err)
			}
			got, err := b.Resolve(tt.ref)
			if got != tt.want || !errors.Is(err, tt.err) {
				t.Fatalf("Resolve(%q) = %q, %v; want %q, %v", tt.ref, got, err, tt.want, tt.err)
			}
			if err == nil {
				law(t, got)
			}
			same(t, b, tt.ref)
		})
	}
}

func TestNewBase(t *testing.T) {
	for in, want := range map[string]error{
		"ftp://example.org/": ErrScheme, "about:blank": ErrScheme, "x": ErrSyntax, "HTTP://EXAMPLE.org": nil,
	} {
		b, err := NewBase(in)
		if !errors.Is(err, want) {
			t.Errorf("NewBase(%q): %v, want %v", in, err, want)
		}
		if err == nil && b.url != "http://example.org/" {
			t.Errorf("NewBase(%q) is %q", in, b.url)
		}
	}
}

func TestSeedURL(t *testing.T) {
	for _, tt := range []struct {
		name, in, want string
		err            error
	}{
		{"absolute", " https://Example.org ", "https://example.org/", nil},
		{"name", "example.org", "http://example.org/", nil},
		{"name and path", "example.org/a?b", "http://example.org/a?b", nil},
		{"name and port", "example.org:80", "http://example.org/", nil},
		{"port and path", "localhost:8080/x", "http://localhost:8080/x", nil},
		{"port and query", "localhost:8080?x", "http://localhost:8080/?x", nil},
		{"no port", "localhost:/x", "", ErrScheme},
		{"address", "127.0.0.1:8080", "http://127.0.0.1:8080/", nil},
		{"IPv6", "[::1]:8080/x", "http://[::1]:8080/x", nil},
		{"not ASCII", "bücher.example", "http://xn--bcher-kva.example/", nil},
		{"no scheme before slashes", "//example.org/x", "http://example.org/x", nil},
		{"scheme without slashes", "http:example.org", "http://example.org/", nil},
		{"colon in the path", "example.org/a:b", "http://example.org/a:b", nil},
		{"mail", "mailto:a@example.org", "", ErrScheme},
		{"ftp", "ftp://example.org/", "", ErrScheme},
		{"path", "/etc/hosts", "", ErrSyntax},
		{"comment", "# seeds", "", ErrSyntax},
		{"empty", " \t", "", ErrSyntax},
		{"words", "two words", "", ErrSyntax},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := SeedURL(tt.in)
			if got != tt.want || !errors.Is(err, tt.err) {
				t.Fatalf("SeedURL(%q) = %q, %v; want %q, %v", tt.in, got, err, tt.want, tt.err)
			}
			if err == nil {
				law(t, got)
			}
		})
	}
}

// knownFailures are the cases of the URL standard that the parser gets wrong.
var knownFailures = []string{
	"U294", "U295", "U297", "U298", "U299", // punycode of characters that are not assigned
	"U809", // punycode of nothing
}

func TestURLStandard(t *testing.T) {
	var cases []struct {
		ID, Input, Href, Protocol, Username, Password string
		Base                                          *string
		Web, Failure                                  bool
	}
	readShared(t, "url/urltestdata.json", &cases)
	n := 0
	for _, c := range cases {
		if !c.Web {
			continue
		}
		n++
		want, wantErr := c.Href, error(nil)
		want, _, _ = strings.Cut(want, "#")
		if c.Username+c.Password != "" {
			scheme, rest, _ := strings.Cut(want, "://")
			want = scheme + "://" + rest[strings.IndexByte(rest, '@')+1:]
		}
		switch {
		case c.Failure:
			want, wantErr = "", ErrSyntax
		case !isWeb(strings.TrimSuffix(c.Protocol, ":")):
			want, wantErr = "", ErrScheme
		}
		var b *Base
		if c.Base != nil {
			b, _ = NewBase(*c.Base) // a base of another scheme serves absolute references only
		}
		got, err := b.Resolve(c.Input)
		ok := got == want && errors.Is(err, wantErr)
		if known := slices.Contains(knownFailures, c.ID); ok == known {
			t.Errorf("%s: Resolve(%q) = %q, %v; want %q, %v; known failure: %v", c.ID, c.Input, got, err, want, wantErr, known)
		}
		if err == nil {
			law(t, got)
		}
		if b != nil {
			same(t, b, c.Input)
		}
	}
	if n < 300 {
		t.Errorf("only %d cases are marked web", n)
	}
}

// knownHostFailures are refused, though newer tables of characters allow them, but for the
// capital sharp s, which becomes "ss".
var knownHostFailures = []string{
	"xn--a", "xn--a.xn--zca", "xn--ls8h=", "xn--1ug.example", "xn--a-yoc", "xn--zn7c.com", "xn--0.com",
	"xn--1ch", "xn--gdh", "xn--hdh", "≠", "≮", "≯", "=\u0338", "<\u0338", ">\u0338", "=\u00ad\u0338", "<\u00ad\u0338", ">\u00ad\u0338",
	"look\u180eout.net", "look\u206bout.net", "Ӏ.com", "\U0002f868.com", "Ↄ.com", "ẞ.com", "ẞ.foo.com",
}

func TestHostNames(t *testing.T) {
	var cases []struct {
		Input  string
		Output *string
	}
	readShared(t, "url/toascii.json", &cases)
	for _, c := range cases {
		got, err := Canonical("https://" + c.Input + "/x")
		ok := c.Output == nil && err != nil || c.Output != nil && got == "https://"+*c.Output+"/x"
		if known := slices.Contains(knownHostFailures, c.Input); ok == known {
			t.Errorf("host %q gives %q, %v; known failure: %v", c.Input, got, err, known)
		}
		if err == nil {
			law(t, got)
		}
	}
}

// same checks that the fast path gives what the full parser gives.
func same(t *testing.T, b *Base, ref string) {
	t.Helper()
	fast, ok := b.fast(clean(ref))
	if !ok {
		return
	}
	if slow, err := b.slow(clean(ref)); fast != slow || err != nil {
		t.Errorf("the fast path makes %q of %q, the parser %q, %v", fast, ref, slow, err)
	}
}

func FuzzResolve(f *testing.F) {
	for _, base := range []string{"http://example.org/", "https://a.b:81/c/d/e?f/../g"} {
		for _, ref := range []string{
			"", "a/../b", "../../x?y", "//h.example/x", "http://h.example", "?a'b", "/%2e%2E/a", "x:y", "/..", "a/./b//..", "#x",
			"https://xn--a.example/", "http://1.2", "//user@host/", "é", "http://[::1%25]/", "http://a.0x+1/",
		} {
			f.Add(base, ref)
		}
	}
	f.Fuzz(func(t *testing.T, base, ref string) {
		b, err := NewBase(base)
		if err != nil {
			return
		}
		law(t, b.url)
		if strings.IndexByte(ref, '#') < 0 {
			same(t, b, ref)
			same(t, nil, ref)
		}
		url, err := b.Resolve(ref)
		if err == nil {
			law(t, url)
		}
		if again, err2 := b.Resolve(ref); again != url || err2 != err {
			t.Errorf("%q gives %q, %v; a second time %q, %v", ref, url, err, again, err2)
		}
		if url, err := SeedURL(ref); err == nil {
			law(t, url)
		}
	})
}

func BenchmarkResolve(b *testing.B) {
	base, err := NewBase("https://example.org/wiki/Main_Page")
	if err != nil {
		b.Fatal(err)
	}
	for _, bb := range []struct{ name, ref string }{
		{"file", "Concurrency_(computer_science)?action=edit"},
		{"up", "../../static/index.html#top"},
		{"absolute", "https://www.example.net/a/b/c.html"},
		{"full parser", "/wiki/Zürich"},
		{"slashes", "é" + strings.Repeat("x", 7000) + strings.Repeat("/x", maxParts-10)},
		{"user names", "//" + strings.Repeat("@x", maxUser/2-10) + "@host/"},
	} {
		b.Run(bb.name, func(b *testing.B) {
			for b.Loop() {
				base.place(strings.TrimSuffix(bb.ref, "#top")).ref = "" // it is not known from the last time
				if _, err := base.Resolve(bb.ref); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("known", func(b *testing.B) {
		for b.Loop() {
			if _, err := base.Resolve("../../static/index.html#top"); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// TestKnown: what a base has resolved before changes nothing, also where references share a place.
func TestKnown(t *testing.T) {
	b, err := NewBase("https://example.org/a/b?c")
	if err != nil {
		t.Fatal(err)
	}
	refs := []string{"", "#", "x#", "x #", "x", "x ", "x # ", " x", "x\t#", "y\n", "y", "y#\n", "//u@h.example/", "//h.example/", "//u@h.example/#x", "?", "é"}
	for i := range 4 * len(known{}.places) {
		refs = append(refs, fmt.Sprintf("p/%d#%d", i/2, i))
	}
	users := 0
	for round := range 3 {
		for _, ref := range refs {
			fresh, err := NewBase(b.url)
			if err != nil {
				t.Fatal(err)
			}
			want, wantErr := fresh.Resolve(ref)
			users += fresh.Users()
			if got, err := b.Resolve(ref); got != want || err != wantErr || b.Users() != users {
				t.Fatalf("round %d: %q gives %q, %v and %d users, want %q, %v and %d", round, ref, got, err, b.Users(), want, wantErr, users)
			}
		}
	}
	if users != 6 {
		t.Errorf("%d references had users, want 6", users)
	}
}

// TestReset: a base that was another one before resolves as a fresh one does.
func TestReset(t *testing.T) {
	pages := []string{
		"https://example.org/a/b?c", "https://example.org/a/d?e", "https://example.org/a/", "https://example.org/a?/", "http://example.org/a/b?c",
		"https://example.org/", "https://example.org/a/b/", "http://127.0.0.1:8080/a/b", "http://127.0.0.1:8080/a/c", "no URL",
	}
	refs := []string{"", "x", "?y", "./", "../z", "/r", "//h.example/", "//u@h.example/", "http://o.example", "é", "x#f", "?"}
	var b Base
	for round := range 500 {
		page := pages[(round*7+round/len(pages))%len(pages)]
		fresh, wantErr := NewBase(page)
		if err := b.Reset(page); err != wantErr {
			t.Fatalf("%s: %v, want %v", page, err, wantErr)
		}
		if wantErr != nil {
			continue
		}
		for _, ref := range refs {
			want, wantErr := fresh.Resolve(ref)
			if got, err := b.Resolve(ref); got != want || err != wantErr || b.Users() != fresh.Users() {
				t.Fatalf("%q on %s gives %q, %v, want %q, %v", ref, page, got, err, want, wantErr)
			}
		}
	}
}

// TestKept: a base knows on the next page what it resolved on the last, whatever became of the
// memory that the reference lay in; and what it keeps of very many pages is bounded.
func TestKept(t *testing.T) {
	var b Base
	resolve := func(page, ref string) string {
		t.Helper()
		if err := b.Reset(page); err != nil {
			t.Fatal(err)
		}
		written := []byte(ref)
		url, err := b.Resolve(unsafe.String(&written[0], len(written)))
		if err != nil {
			t.Fatal(err)
		}
		clear(written)
		return url
	}
	for _, tt := range []struct{ ref, page, next, want, of string }{
		{"../x.html", "http://a.org/b/c/d", "http://a.org/b/c/e?f", "http://a.org/b/x.html", "folder"},
		{"x.html", "http://a.org/b/c/d", "http://a.org/b/c/", "http://a.org/b/c/x.html", "folder"},
		{"/g/x.html", "http://a.org/b/c/d", "http://a.org/h", "http://a.org/g/x.html", "site"},
		{"http://o.org/x", "http://a.org/b/c/d", "https://i.org/", "http://o.org/x", "every page"},
	} {
		url := resolve(tt.page, tt.ref)
		next := resolve(tt.next, tt.ref)
		if url != tt.want || next != tt.want || unsafe.StringData(url) != unsafe.StringData(next) {
			t.Errorf("%s is resolved twice for %s, as %s and %s, want %s once", tt.ref, tt.of, url, next, tt.want)
		}
	}
	most := 0
	for i := range 3000 {
		url := resolve(fmt.Sprintf("http://a.org/%d/%s", i, strings.Repeat("x", i%2000)), fmt.Sprintf("y%d", i%7))
		if !strings.HasSuffix(url, fmt.Sprintf("/%d/y%d", i, i%7)) {
			t.Fatal(url)
		}
		most = max(most, b.kept+b.text.made)
		held := map[string]bool{} // bases, by what is known behind them
		size := 0
		for _, r := range b.known.places {
			if r.behind != "" && !held[r.behind] {
				held[r.behind] = true
				size += len(r.behind)
			}
		}
		if size > b.kept {
			t.Fatalf("references go behind %d bytes of bases, and %d are counted", size, b.kept)
		}
	}
	if most > maxKnown+2*chunkSize || most < maxKnown/2 {
		t.Errorf("%d bytes are kept, want some %d", most, maxKnown)
	}
}

func readShared(t *testing.T, name string, into any) {
	t.Helper()
	dir := os.Getenv("SHARED")
	if dir == "" {
		dir = "../../../shared"
	}
	data, err := os.ReadFile(filepath.Join(dir, "conformance", name))
	if errors.Is(err, os.ErrNotExist) {
		t.Skipf("no shared conformance data: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatal(err)
	}
}

// TestUsers counts the references whose user name or password is dropped.
func TestUsers(t *testing.T) {
	b, err := NewBase("http://a.org/x")
	if err != nil {
		t.Fatal(err)
	}
	for _, ref := range []string{"http://u@b.org/", "http://u:p@b.org/", "//:p@b.org/y", "http://b.org/@", "http://@b.org/", "u@b"} {
		if url, err := b.Resolve(ref); err != nil || strings.Contains(url, "u@b.org") {
			t.Errorf("%q becomes %q, %v", ref, url, err)
		}
	}
	if b.Users() != 3 {
		t.Errorf("%d user names, want 3", b.Users())
	}
}

// TestBoundedWork counts the bytes that the worst references make the parser take: those that are
// not refused for their length stay below a bound, however long they are.
func TestBoundedWork(t *testing.T) {
	const most = 8 << 20
	for _, tt := range []struct{ name, begin, repeat, end string }{
		{"slashes", "http://a.org", "/", "^"},
		{"folders", "http://a.org", "/a", "^"},
		{"up", "", "../", "^"},
		{"at signs", "http://", "a@", "b.org/"},
		{"colons", "http://", ":", "@b.org/"},
		{"dots", "http://", "a.", "org/^"},
		{"escapes", "http://a.org/", "%41", "^"},
		{"query", "http://a.org/?", "a=b&", "\""},
		{"white space", "http://a.org/", "\n", "^"},
		{"backslashes", "http://a.org", "\\", "^"},
		{"brackets", "http://", "[", "]/"},
		{"unicode", "http://", "ü", ".org/"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, err := NewBase("http://a.org/" + strings.Repeat("x/", 100))
			if err != nil {
				t.Fatal(err)
			}
			for n := 16; n <= 1<<17; n *= 2 {
				ref := tt.begin + strings.Repeat(tt.repeat, n) + tt.end
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				_, _ = b.Resolve(ref)
				runtime.ReadMemStats(&after)
				if took := after.TotalAlloc - before.TotalAlloc; took > most {
					t.Fatalf("%d bytes of reference: %d bytes of memory", len(ref), took)
				}
			}
		})
	}
}

// TestChunk: a URL that a base gave stays what it was, whatever the base resolves later.
func TestChunk(t *testing.T) {
	var b Base
	var urls, want []string
	for page := range 5 {
		if err := b.Reset(fmt.Sprintf("http://example.org/%d/", page)); err != nil {
			t.Fatal(err)
		}
		for i := range 300 {
			ref := fmt.Sprintf("%d%s", i, strings.Repeat("x", i*i%5000))
			url, err := b.Resolve(ref)
			if err != nil {
				t.Fatal(err)
			}
			urls, want = append(urls, url), append(want, fmt.Sprintf("http://example.org/%d/%s", page, ref))
		}
	}
	if !slices.Equal(urls, want) {
		t.Error("URLs have changed")
	}
	n := testing.AllocsPerRun(100, func() {
		_ = b.Reset("http://example.org/")
		for _, ref := range []string{"a", "../b", "/c?d", "?e", "http://example.net/f"} {
			if _, err := b.Resolve(ref); err != nil {
				t.Fatal(err)
			}
		}
	})
	if n > 1 { // for the base itself
		t.Errorf("%v allocations for five references", n)
	}
}
