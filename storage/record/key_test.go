package record

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// show writes a key with spaces for its NULs.
func show(key []byte) string { return strings.ReplaceAll(string(key), "\x00", " ") }

func TestKey(t *testing.T) {
	for _, tt := range []struct{ name, url, want string }{
		{"root", "http://example.org/", "http dexample dorg "},
		{"port", "https://en.example.org:81/", "https den dexample dorg o81 "},
		{"path", "http://a.org/x/y", "http da dorg rx ry "},
		{"trailing slash", "http://a.org/x/", "http da dorg rx r "},
		{"query", "http://a.org/x?y=/?", "http da dorg rx qy=/? "},
		{"query of the root", "http://a.org/?x", "http da dorg qx "},
		{"query of an empty segment", "http://a.org/a/?x", "http da dorg ra r qx "},
		{"empty query", "http://a.org/?", "http da dorg q "},
		{"empty segments", "http://a.org//x", "http da dorg r rx "},
		{"address", "http://[::1]:80/", "http d[::1] o80 "},
		{"no scheme", "a.org/x", ""},
		{"other scheme", "ftp://a.org/", ""},
		{"no path", "http://a.org", ""},
		{"query without path", "http://a.org?x/", ""},
		{"no host", "http:///x", ""},
		{"colon without port", "http://a.org:/", ""},
		{"NUL", "http://a.org/\x00", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			key, err := Key(tt.url)
			if (err != nil) != (tt.want == "") || err == nil && show(key) != tt.want {
				t.Fatalf("Key(%q) = %q, %v; want %q", tt.url, show(key), err, tt.want)
			}
			if err == nil {
				requireBothWays(t, tt.url)
			}
		})
	}
}

func TestURLRejects(t *testing.T) {
	for _, key := range []string{
		"", "http ", "ftp da ", "http da", "http da r", "http oa ", "http o80 da ", "http rx da ",
		"http da qx rx ", "http da qx qy ", "http da xx ", "http da  rx ", "http da rx o80 ",
	} {
		if url, err := URL([]byte(strings.ReplaceAll(key, " ", "\x00"))); err == nil {
			t.Errorf("URL(%q) = %q, want an error", key, url)
		}
	}
}

// requireBothWays checks the laws of a URL that has a key.
func requireBothWays(t interface{ Fatalf(string, ...any) }, url string) {
	key, err := Key(url)
	if err != nil {
		t.Fatalf("Key(%q): %v", url, err)
	}
	back, err := URL(key)
	if err != nil || back != url {
		t.Fatalf("%q becomes %q and then %q, %v", url, show(key), back, err)
	}
	last := 0
	Parents(key, func(folder []byte) {
		if !bytes.HasPrefix(key, folder) || len(folder) <= last || folder[len(folder)-1] != 0 || len(folder) == len(key) {
			t.Fatalf("parent %q of %q", show(folder), show(key))
		}
		last = len(folder)
	})
	if bytes.Count(key, []byte{0}) != 1+bytes.Count(key[:last], []byte{0}) {
		t.Fatalf("%q: the last parent is %q", show(key), show(key[:last]))
	}
	if origin := Origin(url); !strings.HasPrefix(url, origin+"/") || !strings.Contains(origin, "://"+Host(url)) {
		t.Fatalf("%q: origin %q, host %q", url, origin, Host(url))
	}
}

func FuzzKey(f *testing.F) {
	f.Add("http://example.org/a/?x")
	f.Add("https://[::1]:80/a//b/")
	f.Fuzz(func(t *testing.T, url string) {
		if _, err := Key(url); err == nil {
			requireBothWays(t, url)
		}
	})
}

func FuzzURL(f *testing.F) {
	f.Add([]byte("http\x00da\x00o81\x00rx\x00q\x00"))
	f.Fuzz(func(t *testing.T, key []byte) {
		// A damaged key may read as a URL, but never as one that has no key or several.
		if url, err := URL(key); err == nil {
			if _, err := Key(url); err == nil {
				requireBothWays(t, url)
			}
		}
	})
}

func drawURL(t *rapid.T) string {
	label := rapid.StringMatching(`[a-c]{1,2}`)
	url := rapid.SampledFrom([]string{"http", "https"}).Draw(t, "scheme") + "://"
	url += strings.Join(rapid.SliceOfN(label, 1, 3).Draw(t, "labels"), ".")
	url += rapid.SampledFrom([]string{"", ":81"}).Draw(t, "port") + "/"
	url += strings.Join(rapid.SliceOfN(rapid.StringMatching(`[a!.^~]{0,2}`), 0, 3).Draw(t, "segments"), "/")
	return url + rapid.SampledFrom([]string{"", "?", "?x", "?x/y"}).Draw(t, "query")
}

func TestKeyProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		urls := rapid.SliceOfNDistinct(rapid.Custom(drawURL), 2, 8, rapid.ID[string]).Draw(t, "urls")
		var keys [][]byte
		for _, url := range urls {
			requireBothWays(t, url)
			key, _ := Key(url)
			keys = append(keys, key)
		}
		slices.SortFunc(keys, bytes.Compare)
		for i := range keys[1:] {
			if bytes.Equal(keys[i], keys[i+1]) {
				t.Fatalf("two URLs have the key %q", show(keys[i]))
			}
		}
		// All that lies in a folder stands together, and afterFolder is the first place behind it.
		Parents(keys[0], func(folder []byte) {
			inside := 0
			for _, k := range keys {
				if bytes.HasPrefix(k, folder) {
					inside++
				}
				if in := bytes.HasPrefix(k, folder); in != (bytes.Compare(k, folder) >= 0 && bytes.Compare(k, AfterFolder(folder)) < 0) {
					t.Fatalf("%q in %q: %v, but not by order", show(k), show(folder), in)
				}
			}
			for _, k := range keys[:inside] {
				if !bytes.HasPrefix(k, folder) {
					t.Fatalf("%q stands among those in %q", show(k), show(folder))
				}
			}
		})
	})
}
