package fetch

import (
	"net/http"
	"testing"
)

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
