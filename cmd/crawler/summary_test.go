package main

import (
	"bytes"
	"strings"
	"testing"

	"urltree/crawler"
	"urltree/storage/record"
)

// TestSummaryGoesOn: a command that goes on is shown if it has something to ask: URLs that are not
// held, or sitemaps where it reads them.
func TestSummaryGoesOn(t *testing.T) {
	held := record.Totals{Counts: record.Counts{Held: 2}, Sitemaps: 1}
	for _, tt := range []struct {
		name  string
		total record.Totals
		opts  crawler.Options
		want  bool
	}{
		{"URLs that wait", record.Totals{Counts: record.Counts{Now: 1, Held: 2}}, crawler.Options{}, true},
		{"held URLs alone", record.Totals{Counts: record.Counts{Held: 2}}, crawler.Options{}, false},
		{"a sitemap", held, crawler.Options{}, true},
		{"a sitemap, without -sitemaps", held, crawler.Options{Bounds: crawler.Bounds{NoSitemaps: true}}, false},
		{"a sitemap, with -robots ignore", held, crawler.Options{Politeness: crawler.Politeness{IgnoreRobots: true}}, false},
		{"a sitemap, with -max-depth 0", held, crawler.Options{Bounds: crawler.Bounds{SeedsOnly: true}}, false},
	} {
		var out bytes.Buffer
		c := &command{stderr: &out, args: []string{"crawler"}}
		c.summary(crawler.Result{Run: record.Run{ID: 1}, Total: tt.total}, tt.opts)
		if got := strings.Contains(out.String(), "to go on"); got != tt.want {
			t.Errorf("%s: to go on is shown: %v, want %v\n%s", tt.name, got, tt.want, out.String())
		}
	}
}
