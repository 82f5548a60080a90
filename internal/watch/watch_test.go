package watch

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"urltree/internal/inspect"
	"urltree/iut"
	"urltree/storage/record"
)

// example is a crawl of which each figure is another number.
func example() *inspect.Status {
	return &inspect.Status{
		Version: "urltree 1", Time: 1000, Phase: "fetch", Waiting: "2 hosts resting", Bytes: 7000,
		Run: record.Run{
			ID: 3, Start: 900, Found: 70, Stored: 11, Bytes: 5000,
			Outcomes: map[string]int64{"stored": 11, "failed http-4xx": 5, "failed dns": 2, "refused robots": 3},
			Statuses: map[string]int64{"2xx": 12, "4xx": 5}, Looks: map[string]int64{"same": 4},
		},
		URLs: inspect.URLCounts{Waiting: 40, Held: 6, Stored: 21, Redirected: 8, Refused: 9, Failed: 10},
		Crawl: &inspect.Crawl{
			Elapsed: 100, PerSecond: 3, Mean: 2, Hosts: map[string]int64{"resting": 13, "asked": 14},
			Downloads: inspect.Filled{Used: 15, Most: 16}, Buffers: inspect.Filled{Used: 17, Most: 18}, Memory: inspect.Filled{Used: 19, Most: 20},
			Disk: inspect.Disk{Free: 22, Least: 23, Pauses: 24}, Stuck: 25,
			Seen:   inspect.Seen{Filled: inspect.Filled{Used: 26, Most: 27}, URLs: 28, Complete: true, Asked: 29, FalsePositives: 30},
			Stages: map[string]inspect.Spent{"request": {Count: 31, Sum: 32, P50: 1, P95: 2, P99: 3}},
			Sync:   inspect.Spent{Count: 33, Sum: 34}, Commit: inspect.Spent{Count: 35, Sum: 36},
			Cluster: &inspect.Cluster{Asks: true},
		},
	}
}

// answering answers the question status with s.
func answering(s *inspect.Status) Ask {
	return func(_ context.Context, q inspect.Question, w io.Writer) error {
		if q.Command != "status" {
			return inspect.ErrUsage
		}
		return json.NewEncoder(w).Encode(s)
	}
}

// get returns the answer to a request of this header.
func get(h http.Handler, method, target string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, nil)
	r.Host = "127.0.0.1:80"
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		if r.Header.Set(name, value); name == "Host" {
			r.Host = value
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestMetrics(t *testing.T) {
	w := get(New(Options{Ask: answering(example())}), "GET", "/metrics")
	text := w.Body.String()
	if kind := w.Header().Get("Content-Type"); w.Code != 200 || !strings.HasPrefix(kind, "text/plain; version=0.0.4") {
		t.Fatalf("%d, %q: %s", w.Code, kind, text)
	}
	for _, line := range []string{
		`urltree_build_info{version="urltree 1"} 1`, "urltree_run_start_timestamp_seconds 900", "urltree_fetching 1", "urltree_paused 0", "urltree_waiting 1",
		"urltree_pages_stored_total 11", "urltree_page_bytes_total 5000", "urltree_urls_found_total 70",
		`urltree_outcomes_total{reason="",state="stored"} 11`, `urltree_outcomes_total{reason="http-4xx",state="failed"} 5`,
		`urltree_outcomes_total{reason="robots",state="refused"} 3`, `urltree_responses_total{class="4xx"} 5`, `urltree_looks_total{outcome="same"} 4`,
		`urltree_urls{state="waiting"} 40`, `urltree_urls{state="held"} 6`, `urltree_urls{state="failed"} 10`, "urltree_stored_bytes 7000",
		`urltree_hosts{state="resting"} 13`, "urltree_downloads 15", "urltree_downloads_limit 16", "urltree_buffer_items 17", "urltree_buffer_items_limit 18",
		"urltree_memory_bytes 19", "urltree_memory_limit_bytes 20", "urltree_disk_free_bytes 22", "urltree_disk_reserve_bytes 23", "urltree_disk_pauses_total 24",
		"urltree_stuck_steps_total 25", "urltree_seen_filter_bytes 26", "urltree_seen_filter_limit_bytes 27", "urltree_seen_filter_urls 28",
		"urltree_seen_filter_complete 1", "urltree_seen_filter_index_lookups_total 29", "urltree_seen_filter_false_positives_total 30",
		`urltree_stage_duration_seconds{stage="request",quantile="0.95"} 2`, `urltree_stage_duration_seconds_count{stage="request"} 31`,
		"urltree_sync_duration_seconds_count 33", "urltree_commit_duration_seconds_sum 36", "urltree_cluster_lease 1",
	} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("lacks %s", line)
		}
	}
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("no promtool here (package prometheus): linted by the library alone")
	}
	check := exec.Command(promtool, "check", "metrics")
	check.Stdin = strings.NewReader(text)
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("promtool check metrics: %v: %s", err, out)
	}
}

// TestNoCrawl: where nobody crawls there are no figures, not old ones and not zeros.
func TestNoCrawl(t *testing.T) {
	rest := example()
	rest.Crawl = nil
	busy := func(context.Context, inspect.Question, io.Writer) error { return iut.ErrBusy }
	for name, ask := range map[string]Ask{"at rest": answering(rest), "being opened": busy} {
		if w := get(New(Options{Ask: ask}), "GET", "/metrics"); w.Code != 503 || strings.Contains(w.Body.String(), "urltree_") {
			t.Errorf("%s: %d: %s", name, w.Code, w.Body)
		}
	}
}

// TestRefused: who asks is judged before anything is asked.
func TestRefused(t *testing.T) {
	const open, token = "", "s3cret"
	for _, tt := range []struct {
		name, token    string
		method, target string
		header         []string
		status         int
	}{
		{"loopback", open, "GET", "/metrics", nil, 200},
		{"IPv6", open, "GET", "/metrics", []string{"Host: [::1]:80"}, 200},
		{"localhost", open, "GET", "/metrics", []string{"Host: LocalHost:80"}, 200},
		{"the name of -listen", open, "GET", "/metrics", []string{"Host: crawl.example"}, 200},
		{"a name led here", open, "GET", "/metrics", []string{"Host: evil.example"}, 421},
		{"a name that begins as ours", open, "GET", "/metrics", []string{"Host: localhost.evil.example:80"}, 421},
		{"an address in a name", open, "GET", "/metrics", []string{"Host: 127.0.0.1.evil.example"}, 421},
		{"profiles of a name led here", open, "GET", "/debug/pprof/", []string{"Host: evil.example"}, 421},

		{"no token", token, "GET", "/metrics", nil, 401},
		{"no token, profiles", token, "GET", "/debug/pprof/", nil, 401},
		{"no token, nothing there", token, "GET", "/nothing", nil, 401},
		{"a wrong token", token, "GET", "/metrics", []string{"Authorization: Bearer s3cre"}, 401},
		{"an empty token", token, "GET", "/metrics", []string{"Authorization: Bearer "}, 401},
		{"a wrong password", token, "GET", "/metrics", []string{"Authorization: Basic OnMzY3Jl"}, 401},
		{"the token", token, "GET", "/metrics", []string{"Authorization: Bearer s3cret"}, 200},
		{"the token as a password", token, "GET", "/metrics", []string{"Authorization: Basic YTpzM2NyZXQ="}, 200},
		{"the token and another name", token, "GET", "/metrics", []string{"Host: crawler.example.org", "Authorization: Bearer s3cret"}, 200},

		{"our page", open, "GET", "/metrics", []string{"Sec-Fetch-Site: same-origin", "Sec-Fetch-Dest: empty"}, 200},
		{"typed", open, "GET", "/metrics", []string{"Sec-Fetch-Site: none", "Sec-Fetch-Dest: document"}, 200},
		{"a page elsewhere", open, "GET", "/metrics", []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Dest: image"}, 403},
		{"a page of another port", open, "GET", "/metrics", []string{"Sec-Fetch-Site: same-site", "Sec-Fetch-Dest: empty"}, 403},
		{"a frame elsewhere", open, "GET", "/", []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Dest: iframe"}, 403},
		{"a change by a page elsewhere", open, "POST", "/metrics", []string{"Sec-Fetch-Site: cross-site"}, 403},
		{"the same, of an old browser", open, "POST", "/metrics", []string{"Origin: http://evil.example"}, 403},
		{"a change by a page without an origin", open, "POST", "/metrics", []string{"Origin: null"}, 403},
		{"with the token as well", token, "POST", "/metrics", []string{"Origin: http://evil.example", "Authorization: Basic YTpzM2NyZXQ="}, 403},
		{"nothing to change there", open, "POST", "/metrics", nil, 405},
		{"the command line", open, "GET", "/debug/pprof/cmdline", nil, 404},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := get(New(Options{Ask: answering(example()), Token: tt.token, Host: "crawl.example"}), tt.method, tt.target, tt.header...)
			if w.Code != tt.status {
				t.Errorf("%d, want %d: %.100s", w.Code, tt.status, w.Body)
			}
			if w.Code != 200 && strings.Contains(w.Body.String(), "urltree_") {
				t.Error("it is answered all the same")
			}
			for name, want := range map[string]string{
				"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Cross-Origin-Resource-Policy": "same-origin", "Access-Control-Allow-Origin": "",
			} {
				if got := w.Header().Get(name); got != want {
					t.Errorf("%s: %q", name, got)
				}
			}
		})
	}
}

// TestDocuments: each metric that the documents name is one.
func TestDocuments(t *testing.T) {
	text := get(New(Options{Ask: answering(example())}), "GET", "/metrics").Body.String()
	files, err := filepath.Glob("../../docs/watching/*")
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	named := 0
	for _, file := range append(files, "../../docs/watching.md") {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range regexp.MustCompile(`urltree_[a-z_]+`).FindAllString(string(b), -1) {
			if named++; !strings.Contains(text, "\n"+name) {
				t.Errorf("%s: there is no %s", file, name)
			}
		}
		if strings.HasSuffix(file, ".json") && !json.Valid(b) {
			t.Errorf("%s is no JSON", file)
		}
	}
	if named < 60 {
		t.Errorf("only %d metrics are named", named)
	}
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("no promtool here (package prometheus): rules of alerts are not checked")
	}
	if out, err := exec.Command(promtool, "check", "rules", "../../docs/watching/alerts.yml").CombinedOutput(); err != nil {
		t.Errorf("promtool check rules: %v: %s", err, out)
	}
}
