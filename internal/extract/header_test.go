package extract

import (
	"net/http"
	"slices"
	"testing"
)

// TestLinkHeader: links that were kept come back from the headers that LinkHeader makes of them.
func TestLinkHeader(t *testing.T) {
	kept := []string{"http://a.example/next,x;y", "asset:https://a.example/s.css", "application/rss+xml:http://b.example/feed"}
	var got []string
	for _, l := range HeaderLinks("http://a.example/", http.Header{"Link": LinkHeader(kept)}) {
		got = append(got, l.Kept)
	}
	if !slices.Equal(got, kept) {
		t.Errorf("%q, want %q", got, kept)
	}
}
