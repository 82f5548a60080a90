//go:build linux

package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestJudge takes a state in which all is well and does one thing wrong to it.
func TestJudge(t *testing.T) {
	stored, pending := record{state: "stored"}, record{state: "pending", reason: "-"}
	for _, tt := range []struct {
		name                  string
		spoil                 func(before, after *state, e *episode)
		lost, doubled, others int
	}{
		{"all is well", func(before, after *state, e *episode) {}, 0, 0, 0},
		{"record gone", func(before, after *state, e *episode) { delete(after.ledger, "open") }, 1, 0, 0},
		{"outcome gone", func(before, after *state, e *episode) { after.ledger["moved"] = pending }, 1, 0, 0},
		{"index gone", func(before, after *state, e *episode) { after.ledger = nil }, 1, 0, 0},
		{"page gone, and stored", func(before, after *state, e *episode) { delete(after.pages, "page") }, 2, 0, 0},
		{"stored without a page", func(before, after *state, e *episode) { after.ledger["open"] = stored }, 1, 0, 0},
		{"asked again", func(before, after *state, e *episode) { e.asked["moved"] = 1 }, 0, 1, 0},
		{"whole page asked again", func(before, after *state, e *episode) {
			before.ledger["page"], e.asked["page"] = pending, 1
		}, 0, 1, 0},
		{"two lines", func(before, after *state, e *episode) { after.twice = []string{"page"} }, 0, 1, 0},
		{"too many asked in vain", func(before, after *state, e *episode) { e.asked["open"], e.repeats = 1, 0 }, 0, 0, 1},
		{"asked in vain", func(before, after *state, e *episode) { e.asked["open"] = 1 }, 0, 0, 0},

		{"a new index knows less", func(before, after *state, e *episode) {
			e.rebuilt = true
			delete(after.ledger, "open")
			after.ledger["moved"], e.asked["moved"] = pending, 1
		}, 0, 0, 0},
		{"a new index knows pages", func(before, after *state, e *episode) { e.rebuilt, after.ledger["page"] = true, pending }, 1, 0, 0},
		{"a new index, page asked again", func(before, after *state, e *episode) { e.rebuilt, e.asked["page"] = true, 1 }, 0, 1, 0},
		{"a new index, page torn", func(before, after *state, e *episode) {
			e.rebuilt, e.torn["page"], e.asked["page"] = true, true, 1
			delete(after.pages, "page")
			after.ledger["page"] = pending
		}, 0, 0, 0},

		{"over the limit", func(before, after *state, e *episode) {
			after.ledger["open"], after.ledger["two"] = stored, stored
			after.pages["open"], after.pages["two"] = page{}, page{}
			e.limit = 1
		}, 0, 0, 1},
		{"under the limit", func(before, after *state, e *episode) { e.limit = 1 }, 0, 0, 1},

		{"kept out asked again", func(before, after *state, e *episode) { e.asked["noindex"] = 1 }, 0, 1, 0},
		{"kept out, may be asked", func(before, after *state, e *episode) {
			e.asked["noindex"], e.reopens = 1, func(was record) bool { return was.reason == "noindex" }
			after.ledger["noindex"] = pending
		}, 0, 0, 0},
		{"another may be asked", func(before, after *state, e *episode) {
			e.asked["moved"], e.reopens = 1, func(was record) bool { return was.reason == "noindex" }
			after.ledger["moved"] = pending
		}, 1, 1, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			states := [2]state{}
			for i := range states {
				states[i] = state{
					ledger: map[string]record{"page": stored, "open": pending, "moved": {state: "redirected"}, "noindex": {state: "refused", reason: "noindex"}},
					pages:  map[string]page{"page": {}},
				}
			}
			e := &episode{asked: map[string]int{}, torn: map[string]bool{}, repeats: 2}
			tt.spoil(&states[0], &states[1], e)
			v := judge(&states[0], &states[1], e)
			if len(v.lost) != tt.lost || len(v.doubled) != tt.doubled || len(v.other) != tt.others {
				t.Errorf("want %d, %d, %d: %+q", tt.lost, tt.doubled, tt.others, v)
			}
		})
	}
}

func TestWhole(t *testing.T) {
	body := []byte("a body")
	line := fmt.Sprintf("http://a/\tseed\t0\ttime\t200\ttext/html\tutf-8\t-\t-\t%d\t%x\tcrc\n", len(body), sha256.Sum256(body))
	if url, ok := whole([]byte(line), int64(len(body)), sha256.Sum256(body)); !ok || url != "http://a/" {
		t.Errorf("%q is not whole", line)
	}
	for _, torn := range []struct{ line, body string }{
		{line[:len(line)-1], string(body)}, {"", string(body)}, {line, "a bod"}, {line, "A body"}, {line + line, string(body)},
	} {
		if _, ok := whole([]byte(torn.line), int64(len(torn.body)), sha256.Sum256([]byte(torn.body))); ok {
			t.Errorf("%q is whole", torn)
		}
	}
}

func TestLedger(t *testing.T) {
	const title = "URL\tstate\treason\tstatus\ttries\tsource\tvia\tdepth\tbytes\ttime\n"
	line := "http://a/\tpending\t-\t-\t2\tseed\t-\t0\t-\t-\n"
	ledger, err := readLedger(title + line)
	if want := (record{"pending", "-", 2}); err != nil || len(ledger) != 1 || ledger["http://a/"] != want {
		t.Errorf("%v, %v", ledger, err)
	}
	for _, bad := range []string{title + line + line, title + "http://a/\n", "", title + strings.Replace(line, "2", "x", 1)} {
		if ledger, err := readLedger(bad); err == nil {
			t.Errorf("%q gives %v", bad, ledger)
		}
	}
}

// TestNotices crawls a web into each store with the command, by one process and by three nodes, and
// then with one that takes a page away at the end of each crawl.
func TestNotices(t *testing.T) {
	dir := t.TempDir()
	binary := filepath.Join(dir, "crawler")
	if out, err := exec.Command("go", "build", "-C", "../..", "-o", binary, "./cmd/crawler").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	server := filepath.Join(dir, "nats-server")
	if out, err := exec.Command("go", "build", "-C", "../..", "-o", server, "github.com/nats-io/nats-server/v2").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	thief := filepath.Join(dir, "thief")
	script := "#!/bin/sh\n" + binary + ` "$@"` + "\ncode=$?\n" +
		"case $1 in -quiet | -cluster) rm -f $(find iut -name source.txt | head -n 1); find iut -path 'iut/warc/*' | head -n 1 | xargs -r truncate -s -9 ;; esac\nexit $code\n"
	if err := os.WriteFile(thief, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ seed, store, nodes string }{{"131", "folders", "0"}, {"138", "warc", "0"}, {"131", "folders", "3"}, {"138", "warc", "3"}} {
		for _, command := range []string{binary, thief} {
			var log bytes.Buffer
			// The time is over at once, so that only the run to the end is left.
			err := run(t.Context(), []string{"-time", "1ns", "-nodes", tt.nodes, "-server", server, "-seed", tt.seed, "-dir", dir, "-crawler", command}, &log)
			row := regexp.MustCompile(` all\|.*`).FindString(log.String())
			fields := strings.Fields(strings.ReplaceAll(row, "|", " "))
			checks := max("1", tt.nodes) // one of each tree
			if len(fields) < 8 || fields[1] != "1" || fields[2] == "0" || fields[3] != checks || !strings.Contains(log.String(), ", "+tt.store+", ") {
				t.Fatalf("%s: %v\n%s", command, err, &log)
			}
			if faults := slices.ContainsFunc(fields[4:], func(f string) bool { return f != "0" }); faults != (command == thief) || faults != (err != nil) {
				t.Errorf("%s: %v\n%s", command, err, &log)
			}
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "urltree-soak-*")); len(left) != 4 {
		t.Errorf("left are %q, should be the folders of the faults", left)
	}
}

// TestMissing: a kind counts as missing until it had an episode, unless it wants a mount where
// there is none.
func TestMissing(t *testing.T) {
	s := &soak{kinds: map[string]*counts{}}
	var mounts []string
	first := ""
	for _, k := range kinds {
		switch {
		case k.disk != "":
			mounts = append(mounts, k.name)
		case first == "":
			first = k.name
		}
	}
	if got := s.missing(); len(got) == 0 || len(got)+len(mounts) != len(kinds) {
		t.Errorf("at first %q is missing", got)
	}
	for _, name := range s.missing()[1:] {
		s.of(name).episodes++
	}
	if got := s.missing(); !slices.Equal(got, []string{first}) {
		t.Errorf("%q is missing, want %s", got, first)
	}
	s.disks = []string{inMemory, onExt4}
	if got := s.missing(); len(got) != 1+len(mounts) {
		t.Errorf("%q is missing, want %s and %q", got, first, mounts)
	}
}
