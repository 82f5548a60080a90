package inspect

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"urltree/storage"
	"urltree/storage/record"
)

// randomTree commits records with random URLs of a few hosts, ports, segments and queries, in
// random states. The URLs that it gives are sorted.
func randomTree(t *testing.T, i *Inspector, rnd *rand.Rand, n int) []string {
	t.Helper()
	pick := func(list ...string) string { return list[rnd.IntN(len(list))] }
	known := map[string]bool{}
	var set []*record.Outcome
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
		set = append(set, &record.Outcome{Links: []record.Link{{URL: url, Source: record.Seed}}})
		row := record.Row{URL: url, Source: record.Seed, Range: record.Now, Seq: uint64(len(known))}
		o := &record.Outcome{Row: row, State: record.States[rnd.IntN(len(record.States))]}
		if o.State == record.Pending {
			o.Next.Range = []record.Range{record.Now, record.Later, record.Held}[rnd.IntN(3)]
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
	state  string
	counts [6]int // waiting, held, done, moved, failed, refused
}

func parseLs(t *testing.T, out string) []lsLine {
	t.Helper()
	var (
		list  []lsLine
		above []string
		names int // column in which those begin
	)
	for n, line := range strings.Split(strings.TrimSuffix(out, "\n"), "\n") {
		if n == 0 {
			names = strings.Index(line, "URL")
			continue
		}
		if len(line) < names {
			t.Fatalf("line %q", line)
		}
		fields := strings.Fields(line[:names])
		name := strings.TrimLeft(line[names:], " ")
		l := lsLine{level: (len(line) - names - len(name)) / 2, state: fields[0]}
		for k, f := range fields[1:] {
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

// own returns what each line counts beyond the lines directly below it: its own record, if it has
// one.
func own(list []lsLine) [][6]int {
	counts := make([][6]int, len(list))
	for k, l := range list {
		counts[k] = l.counts
		for _, below := range list[k+1:] {
			if below.level <= l.level {
				break
			}
			if below.level == l.level+1 {
				for c, n := range below.counts {
					counts[k][c] -= n
				}
			}
		}
	}
	return counts
}

// pages returns the sorted URLs of the lines of ls -r whose own record is counted in one of the
// columns.
func pages(list []lsLine, columns ...int) []string {
	var urls []string
	for k, counts := range own(list) {
		for _, c := range columns {
			if counts[c] == 1 {
				urls = append(urls, list[k].url)
			}
		}
	}
	slices.Sort(urls)
	return urls
}

var anyPage = []int{0, 1, 2, 3, 4, 5}

// ledger returns the URLs that an export names.
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
		if testing.Short() && seed > 0 {
			break
		}
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			i := open(t)
			urls := randomTree(t, i, rand.New(rand.NewPCG(seed, 1)), 400)
			all := mustLs(t, i, "-r")
			if diff := cmp.Diff(urls, pages(all, anyPage...)); diff != "" {
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
				if diff := cmp.Diff(want, pages(part, anyPage...)); diff != "" {
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

			for word, columns := range map[string][]int{
				"open": {0, 1}, "held": {1}, "closed": {2, 3, 5}, "stored": {2},
				"redirected": {3}, "refused": {5}, "error": {4}, "failed": {4}, "visited": {0, 1},
			} {
				want := pages(all, columns...)
				// Each line is there that leads to such a record, and no other.
				var lines []lsLine
				for _, l := range all {
					if slices.ContainsFunc(columns, func(c int) bool { return l.counts[c] > 0 }) {
						lines = append(lines, l)
					}
				}
				if diff := cmp.Diff(lines, mustLs(t, i, "-r", "-state", word), cmp.AllowUnexported(lsLine{})); diff != "" {
					t.Errorf("ls -r -state %s: %s", word, diff)
				}
				if diff := cmp.Diff(want, ledger(t, i, "-state", word)); diff != "" {
					t.Errorf("export -state %s: %s", word, diff)
				}
				choose, err := chosen(word, "")
				if n := choose(i.Index.Totals().Counts); err != nil || n != int64(len(want)) {
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

// inFolder reports whether a URL is meant by a prefix: the page of that path, its queries, and all
// below.
func inFolder(url, prefix string) bool {
	path := strings.TrimSuffix(prefix, "/")
	if strings.HasSuffix(path, "/") { // a scheme, or a path of empty segments, which is no page
		return strings.HasPrefix(url, prefix)
	}
	return url == path || strings.HasPrefix(url, path+"/") || strings.HasPrefix(url, path+"?")
}

// checkSums: a line counts its own record and all that the lines below it count, and its state is
// what these records make it.
func checkSums(t *testing.T, list []lsLine) {
	t.Helper()
	for k, counts := range own(list) {
		l, records := list[k], 0
		for c, n := range counts {
			records += n
			if n < 0 || l.counts[c] < 0 {
				records = 2
			}
		}
		if records > 1 {
			t.Errorf("%s counts %v, of its own %v", l.url, l.counts, counts)
		}
		if want := wantState(l.counts); l.state != want {
			t.Errorf("%s is %s, what is there makes it %s", l.url, l.state, want)
		}
	}
}

// wantState says by the words of the help text what counts make.
func wantState(n [6]int) string {
	waits, held, finished := n[0] > 0, n[1] > 0, n[2]+n[3]+n[4]+n[5] > 0
	switch {
	case (waits || held) && finished, n[2] > 0 && n[4] > 0:
		return "partly"
	case waits:
		return "waiting"
	case held:
		return "held"
	case n[4] > 0:
		return "failed"
	case n[2] > 0:
		return "done"
	case n[3] > 0:
		return "moved"
	}
	return "refused"
}

// TestLsWorking: what the crawl has in hand is working, and so are the folders above it, but no
// other host that only has the same labels.
func TestLsWorking(t *testing.T) {
	i := open(t)
	var list []record.Link
	for _, url := range []string{
		"http://a.org/x/y", "http://a.org/x/z", "http://a.org/w", "http://b.a.org/", "http://a.org:81/", "http://c.org/", "http://d.c.org/q",
	} {
		list = append(list, record.Link{URL: url, Source: record.Seed})
	}
	commit(t, i, &record.Outcome{Links: list})
	i.Working = func() []string { return []string{"http://a.org/x/y", "http://d.c.org/q"} }
	var got []string
	for _, l := range mustLs(t, i, "-r") {
		if l.state == "working" {
			got = append(got, l.url)
		}
	}
	want := []string{"/", "http:///", "http://a.org/", "http://a.org/x", "http://a.org/x/y", "http://d.c.org/", "http://d.c.org/q"}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestLsWideCounts: counts of many digits stand below their titles.
func TestLsWideCounts(t *testing.T) {
	var out strings.Builder
	w := bufio.NewWriter(&out)
	l := &lister{w: w}
	top := node{name: "all", below: record.Counts{Now: 123_456_789, Stored: 5, Failed: 12_345_678}}
	l.title(top.sum())
	small := node{name: "/a", own: record.Counts{Stored: 1}}
	if err := errors.Join(l.line(&top, 0), l.line(&small, 1), w.Flush()); err != nil {
		t.Fatal(err)
	}
	want := `state      waiting  held  done  moved    failed  refused  URL
partly   123456789     -     5      -  12345678        -  all
done             -     -     1      -         -        -    /a
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
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
	var list []record.Link
	for _, url := range urls {
		list = append(list, record.Link{URL: url, Source: record.Seed})
	}
	commit(t, i, &record.Outcome{Links: list})
	got := mustLs(t, i, "-r")
	if diff := cmp.Diff(urls, pages(got, anyPage...)); diff != "" {
		t.Error(diff)
	}
	checkSums(t, got)
}

// TestLsWhileFound lists a tree of which the crawl finds more all the while: new URLs are moved to
// where folders have them once, not before each folder, which takes a transaction of its own, and a
// sync.
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
		o := &record.Outcome{}
		for range urls {
			n++
			o.Links = append(o.Links, record.Link{URL: fmt.Sprintf("http://a.org/%04d/x", n), Source: record.Seed})
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
