package frontier

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"urltree/storage/record"
)

// rowsOf makes pending rows of URLs without their scheme, found in this order.
func rowsOf(urls ...string) []record.Row {
	var rows []record.Row
	for i, url := range urls {
		rows = append(rows, record.Row{URL: "http://" + url, Source: record.Seed, Seq: uint64(i + 1), Range: record.Now})
	}
	return rows
}

// urlsOf is the reverse, of all rows of loans.
func urlsOf(loans ...*Loan) []string {
	var urls []string
	for _, l := range loans {
		for i := range l.Rows {
			urls = append(urls, strings.TrimPrefix(l.Rows[i].URL, "http://"))
		}
	}
	return urls
}

// lendTo lends to a worker.
func lendTo(t *testing.T, w *Taker) *Loan {
	t.Helper()
	loans, err := w.Take(t.Context(), 4)
	if err != nil || len(loans) != 1 {
		t.Fatalf("%d loans: %v", len(loans), err)
	}
	return loans[0]
}

func show(key string) string { return strings.ReplaceAll(key, "\x00", " ") }

// TestTreeOrder lets one worker ask for everything.
func TestTreeOrder(t *testing.T) {
	const a, b = "a.example/", "b.example/"
	for _, tt := range []struct {
		name  string
		opts  Options
		rows  []string
		fails string // its failure sends the worker back
		want  []string
	}{
		{
			"open children first",
			Options{PerLoan: 1},
			[]string{a + "x/1/1", a + "y", a + "x/2", a + "z/1/1"},
			"",
			[]string{a + "y", a + "z/1/1", a + "x/2", a + "x/1/1"}, // folders in turn
		},
		{
			"the children of a page behind it",
			Options{PerLoan: 1},
			[]string{a + "x/1", a + "y", a + "x", a + "x/1/1", a},
			"",
			[]string{a, a + "x", a + "x/1", a + "x/1/1", a + "y"},
		},
		{
			"a subtree to its end",
			Options{PerLoan: 1},
			[]string{a + "x/1", a + "y/1", a + "x/2", a + "y/2", a + "x/1/1", a + "x/2/1"},
			"",
			[]string{a + "x/1", a + "x/1/1", a + "x/2", a + "x/2/1", a + "y/1", a + "y/2"},
		},
		{
			"queries are children",
			Options{PerLoan: 1},
			[]string{a + "x/1", a + "x?1", a + "?1"},
			"",
			[]string{a + "?1", a + "x?1", a + "x/1"},
		},
		{
			"ports are of one host, and its subtrees",
			Options{PerLoan: 1},
			[]string{"a.example:81/x", a + "x", "www.a.example/x", "a.example:81/"},
			"",
			[]string{"a.example:81/", "a.example:81/x", a + "x", "www.a.example/x"},
		},
		{
			"pages of one folder are one loan",
			Options{PerLoan: 3},
			[]string{a + "1", a + "2", a + "3", a + "4", a + "x/1"},
			"",
			[]string{a + "1", a + "2", a + "3", a + "4", a + "x/1"},
		},
		{
			"out of a host that rests",
			Options{Delay: time.Second},
			[]string{a + "x/1", a + "x/2", b + "x/1", b + "x/2"},
			"",
			[]string{a + "x/1", b + "x/1", b + "x/2", a + "x/2"},
		},
		{
			"on where it was after a rest",
			Options{Delay: time.Second},
			[]string{a + "x/y/1", a + "z/1", a + "x/y/2"},
			"",
			[]string{a + "x/y/1", a + "x/y/2", a + "z/1"},
		},
		{
			"after an error back to the sentinel",
			Options{Delay: time.Second},
			[]string{a + "x/y/1", a + "x/z", a + "x/y/2"},
			a + "x/z",
			[]string{a + "x/z", a + "x/y/1", a + "x/y/2"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStore(rowsOf(tt.rows...)...)
				tt.opts.Tree = s
				f := start(t, s, tt.opts)
				w := f.Taker()
				var got []string
				for len(got) < len(tt.want) {
					l := lendTo(t, w)
					urls := urlsOf(l)
					got = append(got, urls...)
					if at := show(w.at); at == "" || len(urls) > max(tt.opts.PerLoan, 1) {
						t.Errorf("%v lent, the worker is at %q", urls, at)
					}
					failed := slices.Contains(urls, tt.fails)
					f.Answered(l, Answer{Failed: failed})
					if failed != (w.at == "") {
						t.Errorf("%v failed: %v, the worker is at %q", urls, failed, show(w.at))
					}
					finish(f, s, l)
				}
				wantEnd(t, f)
				if !slices.Equal(got, tt.want) {
					t.Errorf("asked\n%v\nwant\n%v", got, tt.want)
				}
				if f.walks.found == 0 || f.figures().Refills > 0 && f.walks.found < int64(len(got))/int64(max(tt.opts.PerLoan, 1)) {
					t.Errorf("only %d loans by walks", f.walks.found)
				}
			})
		})
	}
}

// TestFewestWorkers: workers spread over subtrees, at each level, and pass by what is out.
func TestFewestWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var urls []string
		for _, x := range []string{"x", "y", "z"} {
			for i := range 4 {
				urls = append(urls, fmt.Sprintf("a.example/%s/%d/page", x, i))
			}
		}
		s := newStore(rowsOf(urls...)...)
		f := start(t, s, Options{Tree: s, PerHost: 20, Crawlers: 6})
		in := map[string]int{}
		var loans []*Loan
		for i := range len(urls) {
			l := lendTo(t, f.Taker())
			in[strings.Split(urlsOf(l)[0], "/")[1]]++
			for x, n := range in {
				if n > i/3+1 {
					t.Errorf("%d of %d workers in %s", n, i+1, x)
				}
			}
			loans = append(loans, l)
		}
		if got := slices.Sorted(slices.Values(urlsOf(loans...))); !slices.Equal(got, urls) {
			t.Errorf("lent %v", got)
		}
		finish(f, s, loans...)
		wantEnd(t, f)
	})
}

// TestReopenedFolder: a new URL in a folder where all was done is asked, in its turn.
func TestReopenedFolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(rowsOf("a.example/x/1", "a.example/y/1", "a.example/y/z/1")...)
		f := start(t, s, Options{Tree: s})
		w := f.Taker()
		finish(f, s, lendTo(t, w))
		finish(f, s, lendTo(t, w)) // in y now
		fresh := rowsOf("a.example/x/2")
		f.Add(fresh, s.commit(nil, fresh, nil))
		var got []string
		for range 2 {
			l := lendTo(t, w)
			got = append(got, urlsOf(l)...)
			finish(f, s, l)
		}
		wantEnd(t, f)
		if !slices.Equal(got, []string{"a.example/y/z/1", "a.example/x/2"}) {
			t.Errorf("asked %v", got)
		}
	})
}

// TestNodes: only the ways of workers and of rows that are out are in memory.
func TestNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var urls []string
		for i := range 300 {
			urls = append(urls, fmt.Sprintf("a.example/%d/%d/%d", i%7, i%50, i))
		}
		s := newStore(rowsOf(urls...)...)
		f := start(t, s, Options{Tree: s, PerLoan: 2})
		w := f.Taker()
		for range urls {
			l := lendTo(t, w)
			if n := len(f.walks.nodes); n > 5 {
				t.Fatalf("%d folders in memory for one worker and one loan", n)
			}
			finish(f, s, l)
			if f.figures().Eligible == 0 {
				break
			}
		}
		wantEnd(t, f)
		f.moveLocked(w, "")
		if n := len(f.walks.nodes); n > 0 {
			t.Errorf("%d folders in memory at the end", n)
		}
	})
}

// A blindStore shows no entry of a folder: every walk is in vain.
type blindStore struct{ *memStore }

func (blindStore) OpenChildren([]byte, []byte, int) ([]record.Child, []byte, error) {
	return nil, nil, nil
}
func (blindStore) OpenOf([][]byte) ([]record.Child, error) { return nil, nil }

// TestWalksInVain: what no walk finds is lent all the same, and the worker goes on from there.
func TestWalksInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		urls := []string{"a.example/x/1", "b.example/", "c.example/y/2"}
		s := newStore(rowsOf(urls...)...)
		f := start(t, s, Options{Tree: blindStore{s}})
		w := f.Taker()
		var got []string
		for range urls {
			l := lendTo(t, w)
			key, err := record.Key(l.Rows[0].URL)
			if err != nil || parent(string(key)) != w.at {
				t.Errorf("%v lent, the worker is at %q", urlsOf(l), show(w.at))
			}
			got = append(got, urlsOf(l)...)
			finish(f, s, l)
		}
		wantEnd(t, f)
		if slices.Sort(got); !slices.Equal(got, urls) || f.walks.found > 0 {
			t.Errorf("lent %v, %d by walks", got, f.walks.found)
		}
	})
}

// TestWalkError: an index that cannot be read ends every Take.
func TestWalkError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(rowsOf("a.example/x/1")...)
		f := start(t, s, Options{Tree: s})
		s.err = errors.New("broken")
		for range 2 {
			if _, err := f.Taker().Take(t.Context(), 1); !errors.Is(err, s.err) {
				t.Errorf("Take: %v", err)
			}
		}
	})
}

// TestLabels: what names a host in a key is read as it is written.
func TestLabels(t *testing.T) {
	for _, host := range []string{"localhost", "a.example", "www.a.example", "127.0.0.1", "[::1]", "a..example", "d.d"} {
		for _, rest := range []string{"", ":81"} {
			for _, path := range []string{"/", "/d", "/d/?d"} {
				url := "https://" + host + rest + path
				key, err := record.Key(url)
				if err != nil {
					t.Fatal(err)
				}
				scheme, labels, below := splitKey(string(key))
				if scheme != "https\x00" || labels != string(labelsOf(host)) || hostOf(labels) != host || scheme+labels+below != string(key) {
					t.Errorf("%s: %q, %q, %q", url, scheme, labels, below)
				}
				folders := []string{""}
				record.Parents(key, func(folder []byte) { folders = append(folders, string(folder)) })
				if up := parent(string(key)); up != folders[len(folders)-1] {
					t.Errorf("%s is in %q, want %q", url, show(up), show(folders[len(folders)-1]))
				}
			}
		}
	}
}

// TestTreeSitemaps: sitemaps do not wait until a worker comes by; a host takes turns between its
// sitemaps and its URLs, as in other orders.
func TestTreeSitemaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(rowsOf("a.example/x/1", "a.example/x/2", "a.example/x/3")...)
		s.addSitemaps("http://a.example/map/1", "http://a.example/map/2", "http://b.example/map/3")
		f := start(t, s, Options{Tree: s, PerLoan: 1})
		w := f.Taker()
		var got []string
		for range 6 {
			l := lendTo(t, w)
			got = append(got, urlsOf(l)...)
			finish(f, s, l)
		}
		wantEnd(t, f)
		for _, url := range []string{"a.example/map/2", "b.example/map/3"} {
			if at := slices.Index(got, url); at < 0 || at > 3 {
				t.Errorf("%s was not asked in its turn: %v", url, got)
			}
		}
		if at, next := slices.Index(got, "a.example/map/1"), slices.Index(got, "a.example/map/2"); next < at+2 {
			t.Errorf("two sitemaps of one host before its URLs: %v", got)
		}
		if f.walks.found != 3 {
			t.Errorf("%d of 3 URLs were found by walks: %v", f.walks.found, got)
		}
	})
}
