package storage

import (
	"errors"
	"fmt"
	"testing"

	bolt "go.etcd.io/bbolt"

	"urltree/storage/record"
)

// TestSalvagedRows: where the last runs are lost, their numbers come again. What waits since then
// is looked for in its folder all the same once such a run is killed.
func TestSalvagedRows(t *testing.T) {
	const url = "http://a.org/"
	x, path := newIndex(t, 1)
	begin := func(x *Index) (id, lastUnclean uint32) {
		run, _, lastUnclean, err := x.Begin()
		if err != nil {
			t.Fatal(err)
		}
		return run.ID, lastUnclean
	}
	begin(x)
	begin(x)
	last, _ := begin(x)
	if _, err := x.Commit([]*record.Outcome{{Links: []record.Link{{URL: url, Source: record.Seed}}}}); err != nil {
		t.Fatal(err)
	}
	spoil := x.file.Update(func(tx *bolt.Tx) error {
		for k, _ := tx.Bucket(record.BucketRun).Cursor().First(); k != nil; k, _ = tx.Bucket(record.BucketRun).Cursor().First() {
			if err := tx.Bucket(record.BucketRun).Delete(k); err != nil {
				return err
			}
		}
		return nil
	})
	if err := errors.Join(spoil, x.Close()); err != nil {
		t.Fatal(err)
	}

	to, _ := newIndex(t, 0)
	if _, err := Salvage(t.Context(), path, to); err != nil {
		t.Fatal(err)
	}
	if err := to.MarkUnclean(); err != nil {
		t.Fatal(err)
	}
	if id, _ := begin(to); id >= last { // killed
		t.Fatalf("run %d comes after the loss of %d", id, last)
	}
	_, unclean := begin(to)
	rows, err := to.Refill("a.org", to.began, 1, func(string) bool { return false })
	if err != nil || len(rows) != 1 || rows[0].URL != url {
		t.Fatal(rows, err)
	}
	if rows[0].Run > unclean {
		t.Errorf("the row is of run %d, those up to %d are looked up", rows[0].Run, unclean)
	}
}

// TestSalvageTakesAll: of what is whole, each row is taken over, however many transactions they
// fill: records with their metadata, times of hosts, sitemaps, robots.txt answers.
func TestSalvageTakesAll(t *testing.T) {
	if testing.Short() {
		t.Skip("writes more rows than a transaction takes: not with -short")
	}
	t.Parallel()
	const n = salvagedRows + 1 // rows of each kind: more than one transaction takes
	x, path := newIndex(t, 0)
	var set []*record.Outcome
	for i := range n {
		url := fmt.Sprintf("http://host%d.org/", i)
		set = append(set, &record.Outcome{
			Row: record.Row{URL: url, Source: record.Seed}, State: record.Stored, Page: record.Page{Status: 200, Bytes: int64(i)}, Meta: &record.Meta{Title: url},
			Links: []record.Link{{URL: url + "next", Source: url, Depth: 1}},
			Host:  &record.HostTimes{Name: record.Host(url), Answer: int64(i + 1)}, Robots: &record.Robots{Origin: record.Origin(url), Time: int64(i + 1)},
			Sitemaps: []record.Sitemap{{URL: url + "sitemap.xml", Level: 1}},
		})
	}
	if _, err := x.Commit(set); err != nil {
		t.Fatal(err)
	}
	all := salvageable(t, x)
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}

	to, _ := newIndex(t, 0)
	done, err := Salvage(t.Context(), path, to)
	if err != nil || done.Records != 2*n || len(done.Lost) > 0 || done.Nameless > 0 || done.Named {
		t.Errorf("%+v, %v; want %d records and nothing lost", done, err, 2*n)
	}
	got := salvageable(t, to)
	for row, value := range all {
		if again, ok := got[row]; !ok || again != value {
			t.Errorf("%s: %q, there: %v; was %q", row, again, ok, value)
		}
	}
	if len(got) != len(all) || len(all) != 6*n {
		t.Errorf("%d rows, were %d, want %d", len(got), len(all), 6*n)
	}
	if faults := faultsOf(t, to); len(faults) > 0 {
		t.Errorf("faults: %q", faults)
	}
}

// salvageable returns the records of an index, by key, and the rows of the other kinds that Salvage
// takes over as they are.
func salvageable(t *testing.T, x *Index) map[string]string {
	t.Helper()
	rows := map[string]string{}
	err := x.Records(t.Context(), nil, func(r record.Record, err error) error {
		r.Run = 0 // of a pending one it is not known any more
		rows["record "+r.URL] = fmt.Sprintf("%+v", r)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	err = x.file.View(func(tx *bolt.Tx) error {
		for _, name := range [][]byte{record.BucketMeta, record.BucketHost, record.BucketSitemap, record.BucketRobots} {
			err := tx.Bucket(name).ForEach(func(k, v []byte) error {
				rows[fmt.Sprintf("%s %q", name, k)] = string(v)
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return rows
}
