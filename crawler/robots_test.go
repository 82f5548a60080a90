package crawler

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"urltree/internal/fetch"
	"urltree/internal/frontier"
	"urltree/internal/robots"
	"urltree/storage"
	"urltree/storage/record"
)

// shared returns a file of the shared test data, or skips the test.
func shared(t *testing.T, name string) []byte {
	t.Helper()
	root := os.Getenv("SHARED")
	if root == "" {
		root = filepath.Join("..", "..", "shared")
	}
	b, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Skip("needs shared test data: ", err)
	}
	return b
}

// newRobots makes a cache over an empty index, and a client that may ask this machine.
func newRobots(t *testing.T) (*robotsCache, *fetch.Client) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "index.db")
	if err := storage.Create(path); err != nil {
		t.Fatal(err)
	}
	index, err := storage.Open(path, storage.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	client := fetch.New(fetch.Options{Guard: func(string, string, bool) bool { return true }, Timeout: 5 * time.Second})
	t.Cleanup(func() {
		client.Close()
		if err := index.Close(); err != nil {
			t.Error(err)
		}
	})
	c := newRobotsCache(index, "urltree", 2, time.Now().Unix()-1)
	c.found = func(string, time.Duration) {}
	return c, client
}

// TestRobotsStatus holds what an answer's status means against the table of RFC 9309, 2.3.
func TestRobotsStatus(t *testing.T) {
	var table struct {
		Status []struct {
			Status  int
			Outcome string
			Tags    []string
		}
	}
	if err := json.Unmarshal(shared(t, "conformance/robots/robots_http.json"), &table); err != nil {
		t.Fatal(err)
	}
	for _, row := range table.Status {
		t.Run(fmt.Sprint(row.Status), func(t *testing.T) {
			c, client := newRobots(t)
			server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				switch {
				case r.URL.Path == "/moved" || row.Status == 200:
					fmt.Fprint(rw, "User-agent: *\nDisallow: /no\n")
				case row.Status == 0:
					panic(http.ErrAbortHandler)
				case row.Status/100 == 3:
					http.Redirect(rw, r, "/moved", row.Status)
				default:
					rw.WriteHeader(row.Status)
				}
			}))
			defer server.Close()
			stored, answer := askFor(t, c, client, server.URL)
			want := row.Outcome
			if row.Status == http.StatusTooManyRequests {
				want = "disallow-all" // ambiguous: we keep away from a host that is too busy
			}
			allowed := func(path string) bool {
				rules, err := c.rules(server.URL)
				if err != nil {
					t.Fatal(err)
				}
				if rules == nil {
					return false // it must be asked again first
				}
				ok, _ := rules.Allowed(path)
				return ok
			}
			var got string
			switch yes, no := allowed("/yes"), allowed("/no"); {
			case yes && no:
				got = "allow-all"
			case yes:
				got = "parse"
			case !no:
				got = "disallow-all"
			}
			if want == "follow" {
				want = "parse"
			}
			if got != want {
				t.Errorf("status %d comes to %s, want %s", row.Status, got, want)
			}
			if fault := want == "disallow-all"; (answer.Fault != frontier.NoFault) != fault || c.need(server.URL) != fault || answered(stored.Status) == fault {
				t.Errorf("fault %v, need %v, stored %+v; want a fault: %v", answer.Fault, c.need(server.URL), stored, fault)
			}
		})
	}
}

// askFor asks for a robots.txt and follows its redirects at once.
func askFor(t *testing.T, c *robotsCache, client *fetch.Client, origin string) (*record.Robots, frontier.Answer) {
	t.Helper()
	row := record.Row{Kind: record.RobotsRow, URL: origin + "/robots.txt", Source: origin}
	for ; ; row.Hops++ {
		r := reply{end: time.Now()}
		r.res, r.err = client.Get(t.Context(), row.URL, fetch.Request{MaxSize: robots.MaxBytes, KeepLarge: true})
		a := c.learn(&row, false, &r)
		if row.URL = a.next; row.URL == "" {
			return a.row, a.host
		}
	}
}

// TestRobotsLife asks an unreachable robots.txt only so often, keeps answers for a day over a
// restart, and asks again where the answer is lost.
func TestRobotsLife(t *testing.T) {
	c, client := newRobots(t)
	requests, status := 0, http.StatusInternalServerError
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		requests++
		rw.WriteHeader(status)
		fmt.Fprint(rw, "User-agent: urltree\nDisallow: /no\n", strings.Repeat("#", 10))
	}))
	defer server.Close()
	ask := func() *record.Robots {
		row, _ := askFor(t, c, client, server.URL)
		return row
	}
	for try := uint32(1); c.need(server.URL); try++ {
		row := ask()
		if _, err := c.index.Commit([]*record.Outcome{{Robots: row}}); err != nil {
			t.Fatal(err)
		}
		if try == 1 {
			clear(c.origins) // what is forgotten in this run is in the index
		}
		if row.Tries != try || try > c.tries {
			t.Fatalf("try %d is counted as %d, %d are allowed", try, row.Tries, c.tries)
		}
	}
	if cause, yes := c.unreachable(server.URL); !yes || cause != "http-5xx" || requests != int(c.tries) {
		t.Errorf("unreachable %v %q after %d requests, want it after %d", yes, cause, requests, c.tries)
	}
	status = http.StatusOK
	row := ask()
	if _, no := c.unreachable(server.URL); c.need(server.URL) || no {
		t.Error("an answer does not count at once")
	}
	if _, err := c.index.Commit([]*record.Outcome{{Robots: row}}); err != nil {
		t.Fatal(err)
	}
	again := newRobotsCache(c.index, "urltree", 2, time.Now().Unix()+1)
	if again.need(server.URL) {
		t.Error("asked again after a restart")
	}
	rules, err := again.rules(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	if ok, line := rules.Allowed("/no"); ok {
		t.Error("the rules of the last run are lost: ", line)
	}
	old := *row
	old.Time = time.Now().Add(-robotsLife - time.Second).Unix()
	if _, err := c.index.Commit([]*record.Outcome{{Robots: &old}}); err != nil {
		t.Fatal(err)
	}
	again = newRobotsCache(c.index, "urltree", 2, time.Now().Unix()+1)
	if !again.need(server.URL) {
		t.Error("an answer older than a day still counts")
	}
	again.origins["http://lost.test"] = &robotsEntry{valid: time.Now().Add(time.Hour)}
	if rules, err := again.rules("http://lost.test"); rules != nil || err != nil || !again.need("http://lost.test") {
		t.Errorf("a lost answer gives %v, %v", rules, err)
	}
}

// TestDeadHost: a URL of a host that gives no answer is pending, and OnOutcome is told the cause,
// which a check for broken links goes by.
func TestDeadHost(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	seed := "http://" + l.Addr().String() + "/"
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	told := map[string]string{}
	_, err = Run(t.Context(), Options{
		NoTree:    true,
		Seeds:     []string{seed},
		HTTP:      HTTP{Retries: -1},
		Bounds:    Bounds{NoSitemaps: true},
		Resources: Resources{Crawlers: 1, Downloads: 1},
		OnOutcome: func(o Outcome) { told[o.URL] = o.State.String() + " " + o.Reason },
	})
	if err != nil || told[seed] != "pending robots-unreachable:connect" {
		t.Errorf("%v, told %q", err, told)
	}
}

// TestRobotsForgotten: a robots.txt that redirects to what is forgotten counts as missing, and
// where it leads is not asked.
func TestRobotsForgotten(t *testing.T) {
	t.Parallel()
	c, client := newRobots(t)
	c.forgotten = func(url string) bool { return strings.HasSuffix(url, "/moved") }
	var asked atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/moved" {
			asked.Store(true)
		}
		http.Redirect(rw, r, "/moved", http.StatusFound)
	}))
	defer server.Close()
	if stored, _ := askFor(t, c, client, server.URL); asked.Load() || stored == nil || stored.Status != http.StatusNotFound {
		t.Errorf("asked: %t; kept is %+v", asked.Load(), stored)
	}
}
