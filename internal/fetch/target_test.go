package fetch

import (
	"net/http"
	"net/url"
	"testing"
)

// What parseURL takes as it is must be what net/url makes of it.
func TestPlainHostIsWhatNetURLTakes(t *testing.T) {
	for authority, plain := range map[string]bool{
		"example.org":         true,
		"127.0.0.1:18471":     true,
		"xn--bcher-kva.ch:80": true,
		"a":                   true,
		"":                    false,
		":80":                 false,
		"a:":                  false,
		"a:8x":                false,
		"a:1:2":               false,
		"[::1]:80":            false,
		"u@a":                 false,
		"u:p@a":               false,
		"A.org":               false,
		"a%41":                false,
		"a b":                 false,
		"\u00e9.org":          false,
	} {
		if isPlainHost(authority) != plain {
			t.Errorf("isPlainHost(%q) = %v", authority, !plain)
		}
		if !plain {
			continue
		}
		got, err := parseURL("http://" + authority + "/a?b")
		want, werr := url.Parse("http://" + authority)
		if err != nil || werr != nil || *got != *want {
			t.Errorf("%q: %+v %v, net/url says %+v %v", authority, got, err, want, werr)
		}
	}
}

// Cookies go by the path, however it is sent.
func TestCookiesGoByThePath(t *testing.T) {
	got := map[string]string{}
	site := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/set/it" {
			http.SetCookie(w, &http.Cookie{Name: "deep", Value: "1", Path: "/a b"})
			http.SetCookie(w, &http.Cookie{Name: "here", Value: "1"}) // of /set
		}
		got[r.RequestURI] = r.Header.Get("Cookie")
	})
	c := newClient(t, Options{})
	for _, target := range []string{"/set/it", "/a%20b/c", "/set/x|y", "/other"} {
		if _, err := c.Get(t.Context(), site+target, Request{}); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]string{"/set/it": "", "/a%20b/c": "deep=1", "/set/x|y": "here=1", "/other": ""}
	for target, cookies := range want {
		if got[target] != cookies {
			t.Errorf("%s got the cookies %q, want %q", target, got[target], cookies)
		}
	}
}
