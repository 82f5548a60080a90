package fetch

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/publicsuffix"
	"pgregory.net/rapid"
)

// noBad is for ParseCookies where no line is bad.
func noBad(t *testing.T) func(int, error) {
	return func(line int, err error) { t.Errorf("line %d: %v", line, err) }
}

func TestCookiesOfAnswers(t *testing.T) {
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if _, err := r.Cookie("seen"); err != nil {
			http.SetCookie(w, &http.Cookie{Name: "seen", Value: "1", Path: "/"})
			http.Redirect(w, r, "/", http.StatusFound)
		}
	})
	c := newClient(t, Options{})
	for i, want := range []struct {
		status int
		set    bool
	}{{302, true}, {200, false}} {
		res, err := c.Get(t.Context(), addr+"/", Request{})
		if err != nil || res.Status != want.status || res.CookieSet != want.set {
			t.Errorf("request %d: got %+v, %v", i, res, err)
		}
	}
}

// keepOf takes the cookies of an answer of host, and sentTo returns the names of those that host
// gets.
func keepOf(j *jar, host string, headers ...string) {
	j.keep(&url.URL{Scheme: "http", Host: host, Path: "/"}, &http.Response{Header: http.Header{"Set-Cookie": headers}})
}

func sentTo(j *jar, host string) (names []string) {
	for _, c := range j.cookies(&url.URL{Scheme: "http", Host: host, Path: "/"}) {
		names = append(names, c.Name)
	}
	return names
}

func TestJarIsBounded(t *testing.T) {
	var j jar
	set := func(host, cookie string) { keepOf(&j, host, cookie) }
	sent := func(host string) int { return len(sentTo(&j, host)) }
	for i := range 1000 {
		set("a.example.com", fmt.Sprintf("c%d=%s", i, strings.Repeat("x", 1000)))
		if n := sent("a.example.com"); n == 0 || n > jarBytes/1000 {
			t.Fatalf("%d cookies after %d", n, i+1)
		}
	}
	set("b.example.com", "big="+strings.Repeat("x", jarBytes))
	if sent("b.example.com") != 0 {
		t.Error("kept a cookie over the limit")
	}
	for i := range jarSites {
		set(fmt.Sprintf("www.site%d.org", i), "a=b")
	}
	if len(j.sites) != jarSites || len(j.order) != jarSites || sent("a.example.com") != 0 || sent("www.site7.org") != 1 {
		t.Errorf("%d sites, %d in order", len(j.sites), len(j.order))
	}
	set("x.site7.org", "shared=1; Domain=site7.org")
	if sent("www.site7.org") != 2 || sent("x.site7.org") != 1 {
		t.Error("a cookie for a domain does not reach its hosts alone")
	}
}

// What a site holds counts, not what it ever set: a value that changes with each answer drives
// nothing out.
func TestJarCountsWhatItHolds(t *testing.T) {
	for _, host := range []string{"www.example.com", "127.0.0.1:8080", "[::1]:8080", "localhost"} {
		t.Run(host, func(t *testing.T) {
			var j jar
			keepOf(&j, host, "login=1; Path=/")
			for i := range 1000 {
				keepOf(&j, host, fmt.Sprintf("track=%d%s; Path=/", i, strings.Repeat("x", 1000)),
					"foreign=1; Domain=other.test", fmt.Sprintf("gone%d=1; Max-Age=0", i))
			}
			if got := sentTo(&j, host); !slices.Equal(got, []string{"login", "track"}) {
				t.Errorf("sent %v", got)
			}
			s := j.sites[site(&url.URL{Host: host})]
			if want := len("login=1; Path=/") + len("track=999; Path=/") + 1000 + 2*perCookie; s.bytes != want || len(s.held) != 2 {
				t.Errorf("%d cookies of %d bytes, want %d", len(s.held), s.bytes, want)
			}
			for i := range 100 { // then those go that were set longest ago
				keepOf(&j, host, fmt.Sprintf("n%d=%s", i, strings.Repeat("x", 1000)))
			}
			got := sentTo(&j, host)
			if n := len(got); n < 5 || n != len(s.held) || s.bytes > jarBytes || got[n-1] != "n99" || got[0] != fmt.Sprintf("n%d", 100-n) {
				t.Errorf("%d bytes, sent %v", s.bytes, got)
			}
		})
	}
}

// For cookies within the grammar of servers the jar does as net/http's, until it is full.
func TestJarIsAsNetHTTP(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var ours jar
		theirs, _ := cookiejar.New(&cookiejar.Options{PublicSuffixList: publicsuffix.List})
		address := rapid.Custom(func(t *rapid.T) *url.URL {
			return &url.URL{
				Scheme: rapid.SampledFrom([]string{"http", "https"}).Draw(t, "scheme"),
				Host:   rapid.SampledFrom([]string{"example.com", "a.example.com", "b.a.example.com:81", "192.0.2.1", "co.uk"}).Draw(t, "host"),
				Path:   rapid.SampledFrom([]string{"/", "/p", "/p/", "/p/q", "/pq"}).Draw(t, "path"),
			}
		})
		for range rapid.IntRange(1, 12).Draw(t, "answers") {
			at := address.Draw(t, "at")
			header := rapid.StringMatching("[ab]=[cd]").Draw(t, "pair") + rapid.SampledFrom([]string{
				"", "; Domain=example.com", "; domain=.A.example.com", "; Domain=com", "; Domain=192.0.2.1",
			}).Draw(t, "domain") + rapid.SampledFrom([]string{"", "; Path=/", "; path=/p", "; Path=p"}).Draw(t, "path") +
				rapid.SampledFrom([]string{"", "; Secure", "; Max-Age=0", "; Expires=Thu, 01 Jan 1970 00:00:00 GMT"}).Draw(t, "more")
			res := &http.Response{Header: http.Header{"Set-Cookie": {header}}}
			ours.keep(at, res)
			theirs.SetCookies(at, res.Cookies())
		}
		at := address.Draw(t, "asked")
		spell := func(cookies []*http.Cookie) (s string) {
			for _, c := range cookies {
				s += c.Name + "=" + c.Value + " "
			}
			return s
		}
		if got, want := spell(ours.cookies(at)), spell(theirs.Cookies(at)); got != want {
			t.Fatalf("%s gets %q, want %q", at, got, want)
		}
	})
}

// RFC 6265, 5.2 and 5.4: name and value go back as they came.
func TestCookiesAreSentAsTheyWereSet(t *testing.T) {
	for _, pair := range []string{
		`prefs={"seen":1}`, `user[lang]=de`, `pair=a,b`, `q="x y"`, `e=`, `back=a\b`, "town=K\u00f6ln", "latin=K\xf6ln",
		`a:b/c=d`, `n@me(x)=1`, `eq=a==`, "tab=a\tb",
	} {
		for way, header := range map[string]string{"plain": pair, "attributes": " " + pair + " ; Path=/; HttpOnly", "secure over http": pair + "; Secure"} {
			t.Run(pair+" "+way, func(t *testing.T) {
				var got string
				addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
					got = r.Header.Get("Cookie")
					w.Header()["Set-Cookie"] = []string{header}
				})
				name, value, _ := strings.Cut(pair, "=")
				file, err := ParseCookies([]byte("127.0.0.1\tFALSE\t/\tFALSE\t0\tfile "+name+"\t"+strings.ReplaceAll(value, "\t", " ")), noBad(t))
				if err != nil {
					t.Fatal(err)
				}
				c := newClient(t, Options{
					Header: http.Header{"Cookie": {"own=1"}}, Cookies: file,
					SeedHost: func(string) bool { return true }, SeedOrigin: func(string) bool { return true },
				})
				for range 2 {
					if _, err := c.Get(t.Context(), addr+"/", Request{}); err != nil {
						t.Fatal(err)
					}
				}
				want := "own=1; "
				if !strings.HasSuffix(header, "Secure") {
					want += pair + "; "
				}
				if want += "file " + strings.ReplaceAll(pair, "\t", " "); got != want {
					t.Errorf("sent %q, want %q", got, want)
				}
			})
		}
	}
	for _, header := range []string{"", "=v", " = v", "no pair", "; Path=/", "a=b\x01", "a\x7f=b"} {
		if c := parseSetCookie(header); c != nil {
			t.Errorf("%q sets %v", header, c)
		}
	}
}

// Secure cookies go over TLS alone, also to loopback.
func TestSecureCookies(t *testing.T) {
	var got string
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Get("Cookie")
		http.SetCookie(w, &http.Cookie{Name: "session", Value: "1", Path: "/", Secure: true})
	})
	plain := serve(t, handler)
	secure := httptest.NewTLSServer(handler)
	t.Cleanup(secure.Close)
	file, err := ParseCookies([]byte("127.0.0.1\tFALSE\t/\tTRUE\t0\tfile\t1\n"), noBad(t))
	if err != nil {
		t.Fatal(err)
	}
	c := newClient(t, Options{Cookies: file, SeedHost: func(string) bool { return true }, Insecure: true})
	for _, tt := range []struct{ url, want string }{
		{secure.URL, "file=1"}, {plain, ""}, {secure.URL, "session=1; file=1"}, {plain, ""},
	} {
		if _, err := c.Get(t.Context(), tt.url+"/", Request{}); err != nil || got != tt.want {
			t.Errorf("%s got the cookies %q (%v), want %q", tt.url, got, err, tt.want)
		}
	}
}

// One bad line costs itself alone.
func TestParseCookies(t *testing.T) {
	bad := strings.Join([]string{
		"a.test\tTRUE\t/", "a.test TRUE / FALSE 0 n v", "a.test\tTRUE\t/\tFALSE\tsoon\tn\tv", "\tTRUE\t/\tFALSE\t0\tn\tv",
		"a.test\tTRUE\t/\tFALSE\t0\t\tv", "a.test\tTRUE\t/\tFALSE\t0\tn\tv\x01", "a.test\tTRUE\t/\tFALSE\tNaN\tn\tv", strings.Repeat("x", 1<<20),
	}, "\n")
	if c, err := ParseCookies([]byte(bad), func(int, error) {}); err == nil || !strings.Contains(err.Error(), "line 1:") {
		t.Errorf("got %v, %v; want the error of the first line", c, err)
	}
	good := []string{
		"\ufeff.a.test\tTRUE\t/p\tTRUE\t5\tn\t\r", "# x\r", "", "b.test\tFALSE\t/\tFALSE\t1900000000.75\tn\tv", "c.test\tFALSE\t/\tFALSE\t-1\tn",
		"d.test\tFALSE\t/\tFALSE\t1e300\tn\tv",
	}
	var lines []int
	got, err := ParseCookies([]byte(strings.Join(good, "\n")+"\n"+bad), func(line int, _ error) { lines = append(lines, line) })
	if err != nil || len(got) != 4 || !slices.Equal(lines, []int{7, 8, 9, 10, 11, 12, 13, 14}) {
		t.Fatalf("got %v, bad lines %v, %v", got, lines, err)
	}
	if c := got[0]; c.Domain != ".a.test" || c.Path != "/p" || !c.Secure || c.Expires.Unix() != 5 {
		t.Errorf("got %+v", c)
	}
	if got[1].Expires.Unix() != 1900000000 || !got[2].Expires.IsZero() || got[3].Expires.Year() < 9999 {
		t.Errorf("expiry: %v, %v, %v", got[1], got[2], got[3])
	}
	if c, err := ParseCookies(bytes.Repeat([]byte("# x\n"), 3), noBad(t)); c != nil || err != nil {
		t.Errorf("of comments: %v, %v", c, err)
	}
}
