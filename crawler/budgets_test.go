package crawler_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"urltree/crawler"
	"urltree/storage"
	"urltree/storage/record"
)

// records returns all records of a tree at rest, by URL.
func records(t *testing.T, root string) map[string]record.Record {
	t.Helper()
	index, err := storage.Open(filepath.Join(root, "index.db"), storage.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer index.Close()
	all := map[string]record.Record{}
	err = index.Records(context.Background(), nil, func(r record.Record, err error) error {
		all[r.URL] = r
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestBudgets crawls sites that never end, beside one that does. Each ends at its budget, the
// other site is stored, the rest is held with its reason and listed in res2.txt; a run with
// a higher budget goes on, and one without other budgets does not.
func TestBudgets(t *testing.T) {
	none := crawler.Budgets{Host: -1, Prefix: -1, Query: -1, Repeat: -1, Depth: -1, MaxHeld: -1}
	with := func(set func(b *crawler.Budgets, n int64)) func(n int64) crawler.Budgets {
		return func(n int64) crawler.Budgets {
			b := none
			set(&b, n)
			return b
		}
	}
	for _, c := range []struct {
		reason  string
		links   func(r *http.Request) string // of a page of the endless site
		budgets func(n int64) crawler.Budgets
		// pages of the endless site that n lets through
		stored func(n int64) int
		cuts   bool
	}{{
		reason: "budget-host",
		links: func(r *http.Request) string {
			return fmt.Sprintf("<a href=/%s1><a href=/%[1]s2>", strings.Trim(r.URL.Path, "/"))
		},
		budgets: with(func(b *crawler.Budgets, n int64) { b.Host = n }),
		stored:  func(n int64) int { return int(n) },
	}, {
		reason: "budget-prefix", // the root is in no folder
		links: func(r *http.Request) string {
			return fmt.Sprintf("<a href=/calendar/%dx/day><a href=/calendar/%[1]dy>", len(r.URL.Path)+strings.Count(r.URL.Path, "1"))
		},
		budgets: with(func(b *crawler.Budgets, n int64) { b.Prefix = n }),
		stored:  func(n int64) int { return int(n) + 1 },
	}, {
		reason: "budget-query", // session ids: each answer invents some
		links: func(r *http.Request) string {
			return fmt.Sprintf("<a href=/list?id=%s1><a href=/list?id=%[1]s2>", r.URL.Query().Get("id"))
		},
		budgets: with(func(b *crawler.Budgets, n int64) { b.Query = n }),
		stored:  func(n int64) int { return int(n) + 1 },
	}, {
		reason:  "budget-repeat",
		links:   func(r *http.Request) string { return "<a href=" + strings.TrimSuffix(r.URL.Path, "/") + "/again/>" },
		budgets: with(func(b *crawler.Budgets, n int64) { b.Repeat = n }),
		stored:  func(n int64) int { return int(n) + 1 },
	}, {
		reason: "budget-depth",
		links: func(r *http.Request) string {
			return fmt.Sprintf("<a href=%s/%d>", strings.TrimSuffix(r.URL.Path, "/"), len(r.URL.Path))
		},
		budgets: with(func(b *crawler.Budgets, n int64) { b.Depth = n }),
		stored:  func(n int64) int { return int(n) + 1 },
	}, {
		reason: "budget-host", // and hardly any place for what is held
		links: func(r *http.Request) string {
			return fmt.Sprintf("<a href=/%[1]s1><a href=/%[1]s2><a href=/%[1]s3>", strings.Trim(r.URL.Path, "/"))
		},
		budgets: with(func(b *crawler.Budgets, n int64) { b.Host, b.MaxHeld = n, 2 }),
		stored:  func(n int64) int { return int(n) },
		cuts:    true,
	}} {
		t.Run(c.reason, func(t *testing.T) {
			const few, more = 5, 8
			origins := hosts(t, 2, func(host int, rw http.ResponseWriter, r *http.Request) {
				if host == 0 {
					fmt.Fprint(rw, c.links(r))
				} else if r.URL.Path == "/" {
					for i := range 3 {
						fmt.Fprintf(rw, "<a href=/page/%d>", i)
					}
				}
			})
			dir := t.TempDir()
			opts := crawler.Options{
				Tree:       filepath.Join(dir, "iut"),
				Output:     filepath.Join(dir, "res.txt"),
				Seeds:      []string{origins[0] + "/", origins[1] + "/"},
				Politeness: crawler.Politeness{Delay: -1},
				HTTP:       crawler.HTTP{AllowPrivate: true},
				Resources:  crawler.Resources{FlushInterval: 5 * time.Millisecond},
				Limits:     crawler.Limits{Budgets: c.budgets(few)},
			}
			for run, n := range []int64{few, few, more} {
				opts.Budgets = c.budgets(n)
				result, err := crawler.Run(context.Background(), opts)
				if err != nil {
					t.Fatal(err)
				}
				requireChecked(t, dir)
				stored, held, cut := [2]int{}, 0, 0
				for url, r := range records(t, opts.Tree) {
					switch {
					case r.State == record.Pending && (r.Range != record.Held || r.Reason != c.reason):
						t.Errorf("run %d: %s waits in %c for %q", run, url, r.Range, r.Reason)
					case r.State == record.Pending:
						held++
					case strings.HasPrefix(url, origins[0]):
						stored[0]++
					default:
						stored[1]++
					}
					cut += int(r.Cut)
				}
				if want := c.stored(n); stored[0] != want || stored[1] != 4 {
					t.Errorf("run %d: %v stored, want %d and 4", run, stored, want)
				}
				list, err := os.ReadFile(filepath.Join(dir, "res2.txt"))
				if err != nil {
					t.Fatal(err)
				}
				if lines := strings.Count(string(list), "\t"+c.reason+"\n"); lines != held || held == 0 {
					t.Errorf("run %d: %d of res2.txt's lines name the budget, %d are held", run, lines, held)
				}
				if (cut > 0) != c.cuts || c.cuts && held != 2 {
					t.Errorf("run %d: %d links cut, %d held", run, cut, held)
				}
				if want := int64(stored[0] + stored[1]); result.Total.Stored != want {
					t.Errorf("run %d: result says %d stored, not %d", run, result.Total.Stored, want)
				}
			}
		})
	}
}
