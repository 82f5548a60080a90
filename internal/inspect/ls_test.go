package inspect

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"urltree/storage"
)

// randomTree commits records with random URLs of a few hosts, ports, segments and queries, in
// random states. The URLs that it gives are sorted.
func randomTree(t *testing.T, i *Inspector, rnd *rand.Rand, n int) []string {
	t.Helper()
	pick := func(list ...string) string { return list[rnd.IntN(len(list))] }
	known := map[string]bool{}
	var set []*storage.Outcome
	for range n {
		url := pick("http", "https") + "://" + pick("a", "a.b", "a.b.c", "b", "127.0.0.1", "[::1]") + pick("", "", ":81") + "/"
		for range rnd.IntN(8) {
			url += pick("", "x", "x!", "y") + "/"
		}
		url += pick("", "x", "z") + pick("", "", "?", "?q", "?q/r?s")
		if known[url] {
			continue
		}
		known[url] = true
		set = append(set, &storage.Outcome{Links: []storage.Link{{URL: url, Source: storage.Seed}}})
		row := storage.Row{URL: url, Source: storage.Seed, Range: storage.Now, Seq: uint64(len(known))}
		o := &storage.Outcome{Row: row, State: storage.States[rnd.IntN(len(storage.States))]}
		if o.State == storage.Pending {
			o.Next.Range = []storage.Range{storage.Now, storage.Later, storage.Held}[rnd.IntN(3)]
		}
		set = append(set, o)
	}
	commit(t, i, set...)
	return sorted(known)
}

func sorted(set map[string]bool) []string {
	var list []string
	for s := range set {
		list = append(list, s)
	}
	slices.Sort(list)
	return list
}

// A lsLine is a line of ls, taken apart.
type lsLine struct {
	url    string // names of the lines above it and its own, one after the other
	level  int
	page   string
	folder string
	counts [6]int // open, held, stored, redirected, failed, refused
}

func parseLs(t *testing.T, out string) []lsLine {
	t.Helper()
	const names = 10 + 8 + 6*8 + 2
	var (
		list  []lsLine
		above []string
	)
	for n, line := range strings.Split(strings.TrimSuffix(out, "\n"), "\n") {
		if n == 0 {
			continue
		}
		if len(line) < names {
			t.Fatalf("line %q", line)
		}
		fields := strings.Fields(line[:names])
		name := strings.TrimLeft(line[names:], " ")
		l := lsLine{level: (len(line) - names - len(name)) / 2, page: fields[0], folder: fields[1]}
		for k, f := range fields[2:] {
			fmt.Sscan(f, &l.counts[k]) // "-" is 0
		}
		if name == "all" {
			name = ""
		}
		if l.level > len(above) {
			t.Fatalf("line %q is too deep", line)
		}
		above = append(above[:l.level], name)
		l.url = strings.Join(above, "")
		if !strings.Contains(strings.TrimPrefix(strings.TrimPrefix(l.url, "http://"), "https://"), "/") {
			l.url += "/" // the root page of a host
		}
		list = append(list, l)
	}
	return list
}

// pages gives the URLs of the lines that have a record, in order of the alphabet.
func pages(list []lsLine, has func(lsLine) bool) []string {
	var urls []string
	for _, l := range list {
		if l.page != "-" && has(l) {
			urls = append(urls, l.url)
		}
	}
	slices.Sort(urls)
	return urls
}

func anyPage(lsLine) bool { return true }

// ledger gives the URLs that an export names.
func ledger(t *testing.T, i *Inspector, args ...string) []string {
	t.Helper()
	out, err := answer(i, append([]string{"export"}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	var urls []string
	for line := range strings.Lines(strings.SplitAfterN(out, "\n", 2)[1]) {
		url, _, _ := strings.Cut(line, "\t")
		urls = append(urls, url)
	}
	slices.Sort(urls)
	return urls
}

func mustLs(t *testing.T, i *Inspector, args ...string) []lsLine {
	t.Helper()
	out, err := answer(i, append([]string{"ls"}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	return parseLs(t, out)
}

// TestLsLaws checks on random trees what holds of every tree.
func TestLsLaws(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			i := open(t)
			urls := randomTree(t, i, rand.New(rand.NewPCG(seed, 1)), 400)
			all := mustLs(t, i, "-r")
			if diff := cmp.Diff(urls, pages(all, anyPage)); diff != "" {
				t.Errorf("records are not each listed once: %s", diff)
			}
			if diff := cmp.Diff(urls, ledger(t, i)); diff != "" {
				t.Errorf("records are not each exported once: %s", diff)
			}
			checkSums(t, all)

			for _, prefix := range []string{
				"http://", "https://a.b/", "http://a.b:81/", "http://a.b/x/", "https://a/x!/y", "http://b//", "https://[::1]/x/x/",
			} {
				var want []string
				for _, url := range urls {
					if inFolder(url, prefix) {
						want = append(want, url)
					}
				}
				if len(want) == 0 {
					if out, err := answer(i, "ls", prefix); !errors.Is(err, ErrNotFound) {
						t.Errorf("ls %s, where nothing is: %q, %v", prefix, out, err)
					}
					continue
				}
				part := mustLs(t, i, "-r", prefix)
				if diff := cmp.Diff(want, pages(part, anyPage)); diff != "" {
					t.Errorf("ls -r %s: %s", prefix, diff)
				}
				if diff := cmp.Diff(want, ledger(t, i, prefix)); diff != "" {
					t.Errorf("export %s: %s", prefix, diff)
				}
				checkSums(t, part)
				var near []lsLine
				for _, l := range part {
					if l.level <= 1 {
						near = append(near, l)
					}
				}
				if diff := cmp.Diff(near, mustLs(t, i, prefix), cmp.AllowUnexported(lsLine{})); diff != "" {
					t.Errorf("ls %s is not the first levels of ls -r: %s", prefix, diff)
				}
			}

			for word, page := range map[string]string{
				"open": "open held", "held": "held", "closed": "closed redirected refused", "stored": "closed",
				"redirected": "redirected", "refused": "refused", "error": "error", "failed": "error", "visited": "open held",
			} {
				meant := func(l lsLine) bool { return slices.Contains(strings.Fields(page), l.page) }
				want := pages(all, meant)
				if diff := cmp.Diff(want, pages(mustLs(t, i, "-r", "-state", word), meant)); diff != "" {
					t.Errorf("ls -r -state %s: %s", word, diff)
				}
				if diff := cmp.Diff(want, ledger(t, i, "-state", word)); diff != "" {
					t.Errorf("export -state %s: %s", word, diff)
				}
				choose, ok := selectors(word)
				if n := choose(i.Index.Totals().Counts); !ok || n != int64(len(want)) {
					t.Errorf("%s: the totals count %d, there are %d", word, n, len(want))
				}
			}

			whole, _ := answer(i, "ls", "-r")
			for _, n := range []int{1, 2, 17, len(all)} {
				out, err := answer(i, "ls", "-r", "-n", fmt.Sprint(n))
				head, more, cut := strings.Cut(out, "... more than")
				if err != nil || !strings.HasPrefix(whole, head) || strings.Count(head, "\n") != n+1 || cut != (n < len(all)) {
					t.Errorf("-n %d: %d lines, then %q, %v", n, strings.Count(head, "\n"), more, err)
				}
			}
		})
	}
}

// inFolder tells whether a URL is meant by a prefix: the page of that path, its queries, and all
// below.
func inFolder(url, prefix string) bool {
	path := strings.TrimSuffix(prefix, "/")
	if strings.HasSuffix(path, "/") { // a scheme, or a path of empty segments, which is no page
		return strings.HasPrefix(url, prefix)
	}
	return url == path || strings.HasPrefix(url, path+"/") || strings.HasPrefix(url, path+"?")
}

// checkSums: a line counts its own record and all that the lines below it count.
func checkSums(t *testing.T, list []lsLine) {
	t.Helper()
	for k, l := range list {
		var sum [6]int
		if column := strings.Index("open held closed redirected error refused", l.page); l.page != "-" {
			sum[strings.Count("open held closed redirected error refused"[:column], " ")]++
		}
		state := "-"
		for _, below := range list[k+1:] {
			if below.level <= l.level {
				break
			}
			if below.level == l.level+1 {
				for c, n := range below.counts {
					sum[c] += n
				}
			}
			switch {
			case below.page == "open" || below.page == "held":
				state = "visited"
			case below.page == "error" && state != "visited":
				state = "error"
			case below.page != "-" && state == "-":
				state = "closed"
			}
		}
		if sum != l.counts {
			t.Errorf("%s counts %v, what is there %v", l.url, l.counts, sum)
		}
		if state != l.folder {
			t.Errorf("folder %s is %s, what is there makes it %s", l.url, l.folder, state)
		}
	}
}

// TestLsWide: folders with more entries than one look into the index fetches.
func TestLsWide(t *testing.T) {
	i := open(t)
	known := map[string]bool{}
	for n := range 600 {
		known[fmt.Sprintf("https://host%d.example/", n)] = true
		known[fmt.Sprintf("https://example.org/%d", n)] = true
		known[fmt.Sprintf("https://example.org/a/b/c/d/e/f/g/h/%d", n)] = true
	}
	urls := sorted(known)
	var list []storage.Link
	for _, url := range urls {
		list = append(list, storage.Link{URL: url, Source: storage.Seed})
	}
	commit(t, i, &storage.Outcome{Links: list})
	got := mustLs(t, i, "-r")
	if diff := cmp.Diff(urls, pages(got, anyPage)); diff != "" {
		t.Error(diff)
	}
	checkSums(t, got)
}

// TestLsWhileFound lists a tree of which the crawl finds more all the while: new URLs are moved to where
// folders have them once, not before each folder, which takes a transaction of its own, and a sync.
func TestLsWhileFound(t *testing.T) {
	i := open(t)
	if err := i.Index.Close(); err != nil {
		t.Fatal(err)
	}
	var err error
	i.Index, err = storage.Open(filepath.Join(i.Tree.Root(), "index.db"), storage.Options{NoSync: true, Inbox: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { i.Index.Close() })
	n := 0
	find := func(urls int) {
		t.Helper()
		o := &storage.Outcome{}
		for range urls {
			n++
			o.Links = append(o.Links, storage.Link{URL: fmt.Sprintf("http://a.org/%04d/x", n), Source: storage.Seed})
		}
		commit(t, i, o)
	}
	const known = 3000
	find(known)
	var text strings.Builder
	var first, commits uint64
	err = i.Run(t.Context(), Question{Command: "ls", Recursive: true}, writer(func(b []byte) (int, error) {
		tx, err := i.Index.Transaction()
		if commits == 0 {
			first = tx
		} else if tx != first+commits {
			t.Errorf("transaction %d, want %d after %d commits: the list makes some itself", tx, first+commits, commits)
		}
		find(50)
		commits++
		text.Write(b)
		return len(b), err
	}))
	if err != nil {
		t.Fatal(err)
	}
	if commits < 3 {
		t.Errorf("%d writes, want some", commits)
	}
	if got := strings.Count(text.String(), "/x\n"); got < known {
		t.Errorf("%d pages listed, want the %d that were known before", got, known)
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }
