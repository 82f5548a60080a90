package storage

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"urltree/internal/testseed"
	"urltree/storage/record"
)

func links(urls ...string) iter.Seq2[record.Link, error] {
	return func(yield func(record.Link, error) bool) {
		for _, url := range urls {
			if !yield(record.Link{Kind: record.OutsideRow, URL: url, Source: "http://host0.org/0"}, nil) {
				return
			}
		}
	}
}

// toAsk returns the rows of a host that Refill reads at a time, by URL.
func toAsk(t *testing.T, x *Index, host string, now time.Time) map[string]record.Row {
	t.Helper()
	rows, _, err := x.Outside().Refill(host, now, 1_000, 0, func(string) bool { return false })
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]record.Row{}
	for _, r := range rows {
		found[r.URL] = r
	}
	return found
}

// TestOutsideModel does what may happen to targets outside in any order, and compares the index
// with a map: what each has come to, which ones may be asked, and the counts. No URL of the crawl
// is one, and a crawl sees none of their rows.
func TestOutsideModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(testseed.Draw(t), 0))
	x, _ := newIndex(t, 20) // http://host0.org/0 and so on
	ctx := t.Context()
	crawl := x.Totals().Counts
	model := map[string]record.State{}
	held := map[string]bool{}
	far := time.Now().Add(time.Hour)
	name := func() string { return fmt.Sprintf("http://host%d.org/%d", rng.IntN(4), rng.IntN(60)) }
	for range 400 {
		switch rng.IntN(4) {
		case 0:
			url := name()
			if err := x.Outside().Enter(links(url, url)); err != nil {
				t.Fatal(err)
			}
			known, err := x.Has([]string{url})
			if err != nil {
				t.Fatal(err)
			}
			if model[url] == 0 && !known[0] {
				model[url] = record.Pending
			}
		case 1, 2:
			rows := slices.Collect(maps.Values(toAsk(t, x, fmt.Sprintf("host%d.org", rng.IntN(4)), far)))
			if len(rows) == 0 {
				continue
			}
			row := rows[rng.IntN(len(rows))]
			if model[row.URL] != record.Pending || held[row.URL] {
				t.Fatalf("%s may be asked, and is %v", row.URL, model[row.URL])
			}
			states := []record.State{record.Works, record.Failed, record.Redirected, record.Refused, record.Pending, record.Pending}
			o := &record.Outcome{Row: row, State: states[rng.IntN(len(states))], Reason: "why"}
			o.Row.Tries++
			switch {
			case o.State == record.Redirected:
				o.Page.HeaderLinks = name()
				o.Links = []record.Link{{Kind: record.OutsideRow, URL: o.Page.HeaderLinks, Via: row.URL, Hops: 1}}
			case o.State == record.Pending && rng.IntN(2) == 0:
				o.Next = record.Row{Range: record.Held, Reason: "refused:http-5xx"}
			case o.State == record.Pending:
				o.Next = record.Row{Range: record.Later, Due: far.UnixNano() - 1, Reason: "http-5xx"}
			}
			done, err := x.Commit([]*record.Outcome{o})
			if err != nil {
				t.Fatal(err)
			}
			if done.Next[0].Range != o.Next.Range {
				t.Fatalf("%s waits in %q, want %q", row.URL, done.Next[0].Range, o.Next.Range)
			}
			model[row.URL] = o.State
			held[row.URL] = o.Next.Range == record.Held
			for _, r := range done.Fresh {
				if model[r.URL] != 0 || r.Kind != record.OutsideRow {
					t.Fatalf("%+v is new", r)
				}
				model[r.URL] = record.Pending
			}
			// An outcome of before, as after a crash, changes nothing.
			if o.State != record.Pending {
				before := &record.Outcome{Row: row, State: record.Pending, Next: record.Row{Range: record.Later, Due: 1}}
				if again, err := x.Commit([]*record.Outcome{before}); err != nil || again.Next[0].Range != 0 {
					t.Fatal(again.Next, err)
				}
			}
		case 3:
			state := []record.State{record.Pending, record.Failed}[rng.IntN(2)]
			_, err := x.Outside().Reopen(ctx, func(r *record.Record) bool { return r.State == state })
			if err != nil {
				t.Fatal(err)
			}
			for url := range model {
				if model[url] == state {
					model[url], held[url] = record.Pending, false
				}
			}
		}
	}
	got, open := map[string]record.State{}, map[string]bool{}
	err := x.Outside().Each(ctx, func(r *record.Record) error {
		got[r.URL] = r.State
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(got, model) {
		t.Errorf("%v, want %v", got, model)
	}
	count := int64(0)
	for url, state := range model {
		if state == record.Pending && !held[url] {
			open[url] = true
			count++
		}
	}
	for n := range 4 {
		for url := range toAsk(t, x, fmt.Sprintf("host%d.org", n), far) {
			if !open[url] {
				t.Errorf("%s may be asked, and is %v", url, model[url])
			}
			delete(open, url)
		}
	}
	totals := x.Totals()
	if len(open) > 0 || totals.Outside != count || totals.Counts != crawl {
		t.Errorf("%d are not among the rows, %d counted of %d; counts of the crawl %+v, were %+v", len(open), totals.Outside, count, totals.Counts, crawl)
	}
	if faults := faultsOf(t, x); len(faults) > 0 {
		t.Errorf("faults: %q", faults)
	}
}

// TestOutsideFaults: check notices a row without its target, a target without its row, and counts
// that differ; a damaged target is no row to be asked, and is entered again.
func TestOutsideFaults(t *testing.T) {
	const url = "http://a.org/x"
	key, _ := record.Key(url)
	for name, spoil := range map[string]func(tx *bolt.Tx) error{
		"row is gone": func(tx *bolt.Tx) error {
			k, _ := tx.Bucket(record.BucketWaiting).Cursor().First()
			return tx.Bucket(record.BucketWaiting).Delete(k)
		},
		"target is gone": func(tx *bolt.Tx) error { return tx.Bucket(record.BucketOutside).Delete(key) },
		"target is damaged": func(tx *bolt.Tx) error {
			return tx.Bucket(record.BucketOutside).Put(key, []byte("damaged"))
		},
		"host counts another number": func(tx *bolt.Tx) error {
			h := record.HostRow{HostTimes: record.HostTimes{Name: "a.org"}, Outside: 2}
			return tx.Bucket(record.BucketHost).Put([]byte("a.org"), h.Append(nil))
		},
	} {
		t.Run(name, func(t *testing.T) {
			x, _ := newIndex(t, 1)
			if err := x.Outside().Enter(links(url)); err != nil {
				t.Fatal(err)
			}
			if faults := faultsOf(t, x); len(faults) > 0 {
				t.Fatalf("before: %q", faults)
			}
			if err := x.file.Update(spoil); err != nil {
				t.Fatal(err)
			}
			if faults := faultsOf(t, x); len(faults) == 0 {
				t.Error("check finds nothing")
			}
			if err := x.Outside().Enter(links(url)); err != nil {
				t.Fatal(err)
			}
			rows := toAsk(t, x, "a.org", time.Now())
			if want := name != "row is gone"; (len(rows) == 1) != want {
				t.Errorf("%d rows to be asked", len(rows))
			}
			for _, r := range rows {
				if _, err := x.Commit([]*record.Outcome{{Row: r, State: record.Works}}); err != nil {
					t.Fatal(err)
				}
			}
			if r, ok, err := x.Outside().Get(url); len(rows) > 0 && (err != nil || !ok || r.State != record.Works) {
				t.Errorf("%+v, %v, %v", r, ok, err)
			}
		})
	}
}

// TestOutsideMissing: an index that was made before there were targets outside lacks the buckets.
// It has none, and gets the buckets when it is opened for writing.
func TestOutsideMissing(t *testing.T) {
	x, path := newIndex(t, 3)
	err := x.file.Update(func(tx *bolt.Tx) error {
		return errors.Join(tx.DeleteBucket(record.BucketOutside), tx.DeleteBucket(record.BucketWaiting))
	})
	if err := errors.Join(err, x.Close()); err != nil {
		t.Fatal(err)
	}
	r := open(t, path, Options{ReadOnly: true})
	if _, ok, err := r.Outside().Get("http://a.org/"); ok || err != nil {
		t.Error(ok, err)
	}
	if faults := faultsOf(t, r); len(faults) > 0 {
		t.Errorf("faults: %q", faults)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	y := open(t, path, Options{})
	if faults := faultsOf(t, y); len(faults) > 0 {
		t.Errorf("faults: %q", faults)
	}
}
