package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"urltree/internal/testseed"
	"urltree/internal/testshare"
	"urltree/internal/testweb"
	"urltree/iut"
	"urltree/storage/record"
)

// forgetRounds is how often forget and compact are killed, in each store.
const forgetRounds = 20

// forgetRound reports whether a round is one of this run: all in the long form.
func forgetRound(i int) bool {
	switch {
	case os.Getenv("TEST_URLTREE_FULL") != "":
		return true
	case testing.Short():
		return i%8 == 0 && (os.Getenv(testshare.Variable) == "" || testshare.Mine(i/8))
	}
	return i%4 == 0
}

// A forgetSite is a crawled web of which a part is to be forgotten: the pages of its second host,
// of a folder, and those of a list, which has targets of redirects as well.
type forgetSite struct {
	t      *testing.T
	web    *testweb.Web
	dir    string // of the tree iut
	crawl  []string
	host   string
	prefix string
	list   map[string]bool
}

func newForgetSite(t *testing.T, store string) *forgetSite {
	pages, _ := killSizes()
	s := &forgetSite{t: t, dir: t.TempDir(), list: map[string]bool{}}
	s.web = startWeb(t, testweb.Options{
		Kind: testweb.Linked, Hosts: 4, Pages: pages, Seed: 7, MinSize: 300, MaxSize: 2000, Redirects: .05, Texts: .2, Twins: .6, NoIndex: .03, Hidden: .05,
	})
	seeds := s.web.Seeds()
	writeSeeds(t, s.dir, seeds)
	s.crawl = append(killArgs("seed.txt", nil), "-edges", "-store", store, "-warc-size", "32k")
	s.host = record.Host(seeds[1])
	answer, n := s.web.Answer(), 0
	for _, url := range answer.Stored {
		switch {
		case !strings.HasPrefix(url, seeds[0]), url == seeds[0]:
		case s.prefix == "":
			s.prefix = seeds[0] + strings.Split(strings.TrimPrefix(url, seeds[0]), "/")[0]
		case n%5 == 0:
			s.list[url] = true
			fallthrough
		default:
			n++
		}
	}
	for i, to := range slices.Sorted(maps.Values(answer.Redirected)) {
		if i%3 == 0 {
			s.list[to] = true
		}
	}
	var text strings.Builder
	for url := range s.list {
		text.WriteString(url + "\n")
	}
	if err := os.WriteFile(filepath.Join(s.dir, "list.txt"), []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	return s
}

// gone reports whether a URL is to be forgotten.
func (s *forgetSite) gone(url string) bool {
	return record.Host(url) == s.host || s.list[url] || url == s.prefix || strings.HasPrefix(url, s.prefix+"/")
}

// forgets are the commands that forget.
func (s *forgetSite) forgets() [][]string {
	return [][]string{{"forget", "-url-file", "list.txt"}, {"forget", "-host", s.host}, {"forget", s.prefix}}
}

// again returns the arguments of a later crawl.
func (s *forgetSite) again(dir string) []string {
	if format, err := iut.ReadFormat(filepath.Join(dir, "iut")); err != nil || len(format.Kept.Options) == 0 {
		return s.crawl
	}
	return []string{"-quiet", "-delay", "0", "-input", "seed.txt", "-flush-interval", killFlush}
}

// copyTree returns a folder with a copy of the tree and the lists.
func (s *forgetSite) copyTree(from string) string {
	s.t.Helper()
	to := s.t.TempDir()
	if out, err := exec.Command("cp", "-a", from+"/.", to).CombinedOutput(); err != nil {
		s.t.Fatalf("%v: %s", err, out)
	}
	return to
}

// requireForgotten requires that nothing is left of what is forgotten, and that the tree is sound.
func (s *forgetSite) requireForgotten(dir string) {
	s.t.Helper()
	must(s.t, dir, "check", "-links")
	for _, args := range [][]string{{"export"}, {"export", "-what", "edges"}, {"seeds", "list"}} {
		for line := range strings.Lines(must(s.t, dir, args...)) {
			for _, field := range strings.Split(strings.TrimSpace(line), "\t") {
				if strings.HasPrefix(field, "http") && s.gone(field) {
					s.t.Fatalf("%v: %s", args, line)
				}
			}
		}
	}
}

// requireStaysOut requires that no later crawl asks for what is forgotten: links, redirects and
// sitemaps name it all the time, and now seeds do.
func (s *forgetSite) requireStaysOut(dir string) {
	s.t.Helper()
	s.web.Reset()
	more := append(slices.Collect(func(yield func(string) bool) {
		for url := range s.list {
			if !yield(url) {
				return
			}
		}
	}), s.web.Seeds()...)
	writeSeeds(s.t, dir, append(more, s.prefix+"/", s.prefix))
	must(s.t, dir, s.again(dir)...)
	must(s.t, dir, "retry", "-state", "redirected")
	must(s.t, dir, s.again(dir)...)
	for url, n := range s.web.Requests() {
		if n > 0 && s.gone(url) {
			s.t.Errorf("%s was asked %d times", url, n)
		}
	}
	for host := range s.web.Robots() {
		if strings.Contains(host, s.host) {
			s.t.Errorf("%s was asked for its robots.txt", host)
		}
	}
	for url := range s.web.Sitemaps() {
		if s.gone(url) {
			s.t.Errorf("the sitemap %s was asked", url)
		}
	}
	if s.web.Asked() == 0 {
		s.t.Error("nothing was asked at all")
	}
	s.requireForgotten(dir)
}

// killed begins a command and kills it after a time, unless it ends before.
func killed(t *testing.T, dir string, after time.Duration, args ...string) {
	t.Helper()
	cmd := child(dir, args...)
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case <-time.After(after): // of a process, so real time
		_ = cmd.Process.Kill()
		<-ended
	case <-ended:
	}
	if code := cmd.ProcessState.ExitCode(); code > 0 {
		t.Fatalf("%v: exit %d: %s", args, code, said.String())
	}
}

// TestForgetKilled kills forget at random moments, in both stores. What is left refuses whatever
// writes, the same command completes it, and nothing brings back what is forgotten: not even an
// index that is made anew.
func TestForgetKilled(t *testing.T) {
	t.Parallel()
	for _, store := range []string{"folders", "warc"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(testseed.Draw(t), 1))
			s := newForgetSite(t, store)
			must(t, s.dir, s.crawl...)
			begin := time.Now()
			dir := s.copyTree(s.dir)
			for _, args := range s.forgets() {
				must(t, dir, args...)
			}
			took, unfinished, last := time.Since(begin)/3, 0, dir
			for i := range forgetRounds {
				if !forgetRound(i) {
					continue
				}
				dir := s.copyTree(s.dir)
				for _, args := range s.forgets() {
					for range 2 {
						killed(t, dir, time.Duration(rng.Int64N(int64(took))), args...)
						format, err := iut.ReadFormat(filepath.Join(dir, "iut"))
						if err != nil {
							t.Fatal(err)
						}
						if format.Forgetting {
							unfinished++
							for _, args := range [][]string{s.again(dir), {"merge"}, {"retry"}, {"compact"}} {
								if _, stderr, code := call(t, dir, args...); code != exitTree || !strings.HasSuffix(stderr, "crawler forget -tree iut goes on with it\n") {
									t.Errorf("%v: exit %d: %s", args, code, stderr)
								}
							}
						}
					}
					must(t, dir, args...)
				}
				s.requireForgotten(dir)
				last = dir
			}
			t.Logf("%d were unfinished", unfinished)
			if unfinished == 0 && os.Getenv("TEST_URLTREE_FULL") != "" {
				t.Error("none was cut off")
			}
			s.requireStaysOut(last)
			if err := os.Remove(filepath.Join(last, "iut", "index.db")); err != nil {
				t.Fatal(err)
			}
			must(t, last, "merge")
			s.requireForgotten(last)
			s.requireStaysOut(last)
		})
	}
}

// TestCompactKilled kills compact at random moments. The tree is sound at any time and has what it
// had, and in the end the bytes of what is forgotten are gone.
func TestCompactKilled(t *testing.T) {
	t.Parallel()
	for _, store := range []string{"folders", "warc"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(testseed.Draw(t), 2))
			s := newForgetSite(t, store)
			must(t, s.dir, append(slices.Clip(s.crawl), "-warc-compression", "none")...)
			for _, args := range s.forgets() {
				must(t, s.dir, args...)
			}
			s.requireForgotten(s.dir)
			urls := must(t, s.dir, "export")
			dir := s.copyTree(s.dir)
			begin := time.Now()
			must(t, dir, "compact")
			took := time.Since(begin)
			for i := range forgetRounds {
				if !forgetRound(i) {
					continue
				}
				dir = s.copyTree(s.dir)
				for range 3 {
					killed(t, dir, time.Duration(rng.Int64N(int64(took))), "compact")
					must(t, dir, "check", "-links")
					if must(t, dir, "export") != urls {
						t.Fatal("the export is another one")
					}
				}
				must(t, dir, "compact")
				if store == "warc" {
					s.requireNoBytes(dir)
					requireWholeSegments(t, filepath.Join(dir, "iut"))
				}
				if out := must(t, dir, "compact"); store == "warc" && !strings.HasPrefix(out, "WARC files: none has anything to leave out") {
					t.Errorf("a second time it says %s", out)
				}
				s.requireForgotten(dir)
				if must(t, dir, "export") != urls {
					t.Fatal("the export is another one")
				}
			}
			if err := os.Remove(filepath.Join(dir, "iut", "index.db")); err != nil {
				t.Fatal(err)
			}
			must(t, dir, "merge")
			s.requireForgotten(dir)
			s.requireStaysOut(dir)
		})
	}
}

// TestUnfinishedForget: while there is one whatever reads works, and whatever writes refuses, but
// for a merge that has to make the index, and for the command that goes on.
func TestUnfinishedForget(t *testing.T) {
	t.Parallel()
	web := startWeb(t, testweb.Options{Kind: testweb.Linked, Hosts: 1, Pages: 10, Seed: 3})
	dir := t.TempDir()
	seed := web.Seeds()[0]
	crawl := []string{"-quiet", "-delay", "0", "-allow-private", seed}
	must(t, dir, crawl...)
	format := filepath.Join(dir, "iut", "FORMAT")
	text, err := os.ReadFile(format)
	if err != nil {
		t.Fatal(err)
	}
	begun := strings.Replace(string(text), "\n# Given", "\nforgetting = yes\n# Given", 1)
	if err := os.WriteFile(format, []byte(begun), 0o644); err != nil {
		t.Fatal(err)
	}
	refused := func(args ...string) {
		t.Helper()
		want := "crawler: there is an unfinished forget of iut; crawler forget -tree iut goes on with it\n"
		if _, stderr, code := call(t, dir, args...); code != exitTree || stderr != want {
			t.Errorf("%v: exit %d: %s", args, code, stderr)
		}
	}
	for _, args := range [][]string{
		crawl,
		{"merge"},
		{"check"},
		{"retry"},
		{"rank"},
		{"options", "-reset", "allow-private"},
		{"convert", "-store", "warc"},
		{"compact"},
		{"seeds", "remove", seed},
		{"forget", "-undo", seed},
	} {
		refused(args...)
	}
	for _, args := range [][]string{
		{"ls"},
		{"show", seed},
		{"cat", seed},
		{"path", seed},
		{"why", seed},
		{"stats"},
		{"export"},
		{"options"},
		{"seeds", "list"},
		{"forget", "-list"},
		{"forget", "-dry-run", seed},
	} {
		must(t, dir, args...)
	}
	if err := os.Remove(filepath.Join(dir, "iut", "index.db")); err != nil {
		t.Fatal(err)
	}
	must(t, dir, "merge")
	refused("merge")
	must(t, dir, "forget")
	if got, err := os.ReadFile(format); err != nil || string(got) != string(text) {
		t.Errorf("FORMAT is %q, %v", got, err)
	}
	must(t, dir, "check", "-links")
	must(t, dir, crawl...)
}

// requireNoBytes requires that no record of a WARC file is of what is forgotten.
func (s *forgetSite) requireNoBytes(dir string) {
	s.t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "iut", "warc", "*.warc"))
	if err != nil || len(names) == 0 {
		s.t.Fatal(names, err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			s.t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			for _, field := range []string{"WARC-Target-URI: ", "WARC-Refers-To-Target-URI: ", "via: ", "redirected-from: "} {
				if url, ok := strings.CutPrefix(strings.TrimSpace(line), field); ok && s.gone(url) {
					s.t.Fatalf("%s: %s", name, line)
				}
			}
			if facts, ok := strings.CutPrefix(line, "facts: "); ok && s.gone(strings.Split(facts, "\t")[1]) {
				s.t.Fatalf("%s: %s", name, line)
			}
		}
	}
}

// TestForgetIsNeverSeen compares a tree after forget with one of a crawl that could never see what
// is forgotten: it has the same, and besides only what a forgotten page had named.
func TestForgetIsNeverSeen(t *testing.T) {
	t.Parallel()
	s := newForgetSite(t, "folders")
	must(t, s.dir, s.crawl...)
	for _, args := range s.forgets() {
		must(t, s.dir, args...)
	}
	after := recordsOf(must(t, s.dir, "export", "-columns", "url,state,reason,status,bytes,target,source"))

	never := t.TempDir()
	writeSeeds(t, never, []string{s.web.Seeds()[0]})
	must(t, never, append(slices.Clip(s.crawl), "-max-pages", "1")...) // a tree, which has asked for one page
	for _, args := range s.forgets() {
		if args[1] == "-url-file" {
			args = []string{"forget", "-url-file", filepath.Join(s.dir, "list.txt")}
		}
		must(t, never, args...)
	}
	writeSeeds(t, never, s.web.Seeds())
	must(t, never, s.again(never)...)
	must(t, never, "check", "-links")
	seen := recordsOf(must(t, never, "export", "-columns", "url,state,reason,status,bytes,target,source"))
	if len(seen) < len(after)/2 {
		t.Fatalf("%d records, and %d after it was forgotten", len(seen), len(after))
	}
	for url, want := range seen {
		if got := after[url]; len(got) == 0 || !slices.Equal(got[:5], want[:5]) {
			t.Errorf("%s: %v, never seen it is %v", url, got, want)
		}
	}
	for url := range after {
		if seen[url] != nil {
			continue
		}
		from, hops := url, 0
		for ; seen[from] == nil && after[from] != nil && hops < len(after); hops++ {
			from = after[from][5]
		}
		if from != record.Forgotten && seen[from] == nil {
			t.Errorf("%s comes from %s", url, from)
		}
	}
}

// recordsOf returns the lines of an export by URL.
func recordsOf(text string) map[string][]string {
	records := map[string][]string{}
	for line := range strings.Lines(text) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		records[fields[0]] = fields[1:]
	}
	return records
}

// TestForgetGoneKilled: of pages that are gone, those that have been so for long enough go, however
// often forget is killed on its way, and all others stay as they are: moved ones as well.
func TestForgetGoneKilled(t *testing.T) {
	t.Parallel()
	seed := testseed.Draw(t)
	for i, store := range []string{"folders", "warc"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			const pages = 120
			var gone atomic.Bool
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/html")
				n, err := strconv.Atoi(r.URL.Path[1:])
				switch {
				case r.URL.Path == "/":
					for n := range pages {
						fmt.Fprintf(w, "<a href=/%d>", n)
					}
				case err != nil, gone.Load() && n%3 == 0:
					http.Error(w, "none", http.StatusGone)
				case gone.Load() && n < pages && n%3 == 1:
					http.Redirect(w, r, fmt.Sprintf("/%d", 1000+n), http.StatusFound)
				default:
					fmt.Fprintf(w, "page %d", n)
				}
			}))
			defer web.Close()
			s := &forgetSite{t: t, dir: t.TempDir()}
			must(t, s.dir, "-quiet", "-delay", "0", "-per-host", "8", "-store", store, "-warc-size", "32k", web.URL+"/")
			gone.Store(true)
			must(t, s.dir, "-quiet", "-delay", "0", "-per-host", "8", "-recrawl", "0s")
			if said := must(t, s.dir, "forget", "-gone", "1d", "-dry-run"); said != "would remove: nothing, the tree has no such URL\n" {
				t.Error(said)
			}
			begin, dir := time.Now(), s.copyTree(s.dir)
			must(t, dir, "forget", "-gone", "0s")
			took := time.Since(begin)
			for range 3 {
				dir := s.copyTree(s.dir)
				for range 2 {
					killed(t, dir, time.Duration(rng.Int64N(int64(took))), "forget", "-gone", "0s")
				}
				must(t, dir, "forget", "-gone", "0s")
				var want, got []string
				for n := range pages {
					if n%3 != 0 {
						want = append(want, fmt.Sprintf("%s/%d", web.URL, n))
					}
					if n%3 == 1 {
						want = append(want, fmt.Sprintf("%s/%d", web.URL, 1000+n))
					}
				}
				for line := range strings.Lines(must(t, dir, "export", "-columns", "url", "-state", "stored")) {
					if n := strings.TrimPrefix(strings.TrimSpace(line), web.URL+"/"); n != "" && n != "URL" {
						got = append(got, web.URL+"/"+n)
					}
				}
				slices.Sort(want)
				slices.Sort(got)
				if !slices.Equal(want, got) {
					t.Errorf("stored are %q, want %q", got, want)
				}
				// Where a page has moved to is no longer said either, once that is forgotten.
				must(t, dir, "forget", web.URL+"/1001")
				if said := must(t, dir, "changes"); strings.Contains(said, "/1001") || !strings.Contains(said, "/1004") {
					t.Errorf("changes says %s", said)
				}
				must(t, dir, "check", "-links")
			}
		})
	}
}
