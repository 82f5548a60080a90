package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// brokenLinks returns the rows of broken -format csv without the time at which a URL was asked:
// URL, state, reason, status, end, page, element, text.
func brokenLinks(t *testing.T, dir string) (rows []string) {
	t.Helper()
	records, err := csv.NewReader(strings.NewReader(must(t, dir, "broken", "-format", "csv"))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range records[1:] {
		rows = append(rows, strings.Join(slices.Delete(r[:9], 5, 6), "\t"))
	}
	return rows
}

// wantBroken makes these rows from the other exports, by the words of the documents.
func wantBroken(t *testing.T, dir string) (rows []string) {
	t.Helper()
	type record struct {
		URL, State, Reason, Target, Source, Via string
		Status                                  int
	}
	records := map[string]record{}
	var order []string
	for line := range strings.Lines(must(t, dir, "export", "-format", "jsonl", "-columns", "url,state,reason,status,target,source,via")) {
		var r record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		records[r.URL] = r
		order = append(order, r.URL)
	}
	links := map[string][][]string{}
	for _, line := range edgesOf(t, dir) { // sorted by page
		e := strings.Split(line, "\t")
		if e[2] != "redirect" {
			links[e[1]] = append(links[e[1]], []string{e[0], e[2], strings.TrimPrefix(e[4], "-")})
		}
	}
	for _, url := range order {
		r, end := records[url], ""
		for last := r; last.State == "redirected"; {
			end = last.Target
			last = records[end]
			r.Reason, r.Status = last.Reason, last.Status
			if last.State == "failed" {
				break
			}
		}
		if r.State != "failed" && (r.State != "redirected" || records[end].State != "failed") {
			continue
		}
		to := links[url]
		if r.Via == "" && r.Source == "seed" {
			to = append(to, []string{"", "seed", ""})
		} else if r.Via == "" && !slices.ContainsFunc(to, func(l []string) bool { return l[0] == r.Source }) {
			to = append(to, []string{r.Source, "", ""})
		}
		for _, l := range to {
			status := ""
			if r.Status != 0 {
				status = strconv.Itoa(r.Status)
			}
			rows = append(rows, strings.Join(append([]string{url, r.State, r.Reason, status, end}, l...), "\t"))
		}
	}
	return rows
}

// TestKillBroken kills a crawl three times. What is broken is at any time what the other exports
// say, and in the end what a crawl finds that was not killed.
func TestKillBroken(t *testing.T) {
	t.Parallel()
	const pages = 150
	var asked, kill atomic.Int64
	killed := make(chan struct{}, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == kill.Load() {
			killed <- struct{}{}
		}
		var n int
		if _, err := fmt.Sscanf(r.URL.Path, "/old/%d", &n); err == nil {
			http.Redirect(w, r, fmt.Sprintf("/gone/%d", n), http.StatusFound)
		} else if _, err := fmt.Sscanf(r.URL.Path, "/page/%d", &n); err == nil && n < pages {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprintf(w, "<title>%d</title>", n)
			for _, to := range []string{
				fmt.Sprintf("/page/%d", 2*n+1), fmt.Sprintf("/page/%d", 2*n+2), fmt.Sprintf("/gone/%d", n%7), fmt.Sprintf("/old/%d", n%5),
			} {
				fmt.Fprintf(w, "<a href=%s>to %s</a>\n", to, to)
			}
		} else {
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	args := []string{"-quiet", "-delay", "0", "-per-host", "4", "-flush-interval", "20ms", "-scope", "host", "-edges", server.URL + "/page/0"}
	calm, dir := t.TempDir(), t.TempDir()
	must(t, calm, args...)
	want := brokenLinks(t, calm)
	if len(want) < 2*pages {
		t.Fatalf("%d broken links: %q", len(want), want)
	}
	if diff := cmp.Diff(wantBroken(t, calm), want); diff != "" {
		t.Errorf("broken links are not those that the exports have: %s", diff)
	}
	some := 0
	for range 3 {
		kill.Store(asked.Load() + pages/4)
		cmd := child(dir, args...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		<-killed
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		got := brokenLinks(t, dir)
		if diff := cmp.Diff(wantBroken(t, dir), got); diff != "" {
			t.Errorf("broken links after a kill: %s", diff)
		}
		some = max(some, len(got))
	}
	must(t, dir, args...)
	if diff := cmp.Diff(want, brokenLinks(t, dir)); diff != "" {
		t.Errorf("broken links in the end: %s", diff)
	}
	t.Logf("%d broken links, %d after a kill", len(want), some)
}
