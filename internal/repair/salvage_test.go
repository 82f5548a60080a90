package repair

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"urltree/storage"
	"urltree/storage/boltfile"
	"urltree/storage/inbox"
	"urltree/storage/record"
)

// emptyIndex makes an empty index whose inbox has lists of so many rows.
func emptyIndex(t *testing.T, inbox int) (*storage.Index, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "index.db")
	if err := storage.Create(path); err != nil {
		t.Fatal(err)
	}
	return open(t, path, storage.Options{NoSync: true, Strict: true, Inbox: inbox}), path
}

func open(t *testing.T, path string, opts storage.Options) *storage.Index {
	t.Helper()
	x, err := storage.Open(path, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = x.Close() })
	return x
}

func faultsOf(t *testing.T, x *storage.Index) (faults []string) {
	t.Helper()
	if _, err := x.Verify(t.Context(), func(f string) { faults = append(faults, f) }); err != nil {
		t.Fatal(err)
	}
	return faults
}

// spoil runs fn on the file of an index that is closed.
func spoil(t *testing.T, path string, fn func(*bolt.Tx) error) {
	t.Helper()
	file, err := boltfile.Open(path, boltfile.Options{NoSync: true})
	if err == nil {
		err = errors.Join(file.Update(fn), file.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestSalvagedRows: where the last runs are lost, their numbers come again. What waits since then
// is looked for in its folder all the same once such a run is killed.
func TestSalvagedRows(t *testing.T) {
	const url = "http://a.org/"
	x, path := emptyIndex(t, 0)
	stored := &record.Outcome{Row: record.Row{URL: "http://host.org/", Source: record.Seed}, State: record.Stored, Page: record.Page{Status: 200, Bytes: 1}}
	if _, err := x.Commit([]*record.Outcome{stored}); err != nil {
		t.Fatal(err)
	}
	begin := func(x *storage.Index) (id, lastUnclean uint32) {
		run, _, lastUnclean, err := x.Runs().Begin()
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
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	spoil(t, path, func(tx *bolt.Tx) error {
		return errors.Join(tx.DeleteBucket(record.BucketRun), func() error { _, err := tx.CreateBucket(record.BucketRun); return err }())
	})
	to, _ := emptyIndex(t, 0)
	if _, err := salvage(t.Context(), path, to); err != nil {
		t.Fatal(err)
	}
	if err := to.Runs().MarkUnclean(); err != nil {
		t.Fatal(err)
	}
	if id, _ := begin(to); id >= last { // killed
		t.Fatalf("run %d comes after the loss of %d", id, last)
	}
	_, unclean := begin(to)
	rows, _, err := to.Queues().Refill("a.org", time.Now(), 1, -1, func(string) bool { return false })
	if err != nil || len(rows) != 1 || rows[0].URL != url {
		t.Fatal(rows, err)
	}
	if rows[0].Run > unclean {
		t.Errorf("the row is of run %d, those up to %d are looked up", rows[0].Run, unclean)
	}
}

// TestSalvageTakesAll: of what is whole, each row is taken over, however many transactions they
// fill: records with their metadata, times of hosts, sitemaps, robots.txt answers, targets outside.
func TestSalvageTakesAll(t *testing.T) {
	if testing.Short() {
		t.Skip("writes more rows than a transaction takes: not with -short")
	}
	t.Parallel()
	const n = salvagedRows + 1 // rows of each kind: more than one transaction takes
	x, path := emptyIndex(t, 0)
	var set []*record.Outcome
	for i := range n {
		url := fmt.Sprintf("http://host%d.org/", i)
		set = append(set, &record.Outcome{
			Row: record.Row{URL: url, Source: record.Seed}, State: record.Stored, Page: record.Page{Status: 200, Bytes: int64(i)}, Meta: &record.Meta{Title: url},
			Links: []record.Link{{URL: url + "next", Source: url, Depth: 1}, {Kind: record.SitemapRow, URL: url + "sitemap.xml", Depth: 1}, {Kind: record.OutsideRow, URL: url + "outside"}},
			Host:  &record.HostTimes{Name: record.Host(url), Answer: int64(i + 1)}, Robots: &record.Robots{Origin: record.Origin(url), Time: int64(i + 1)},
		})
	}
	if _, err := x.Commit(set); err != nil {
		t.Fatal(err)
	}
	all := salvageable(t, x, path)

	to, toPath := emptyIndex(t, 0)
	done, err := salvage(t.Context(), path, to)
	if err != nil || done.records != 2*n || len(done.lost) > 0 || done.nameless > 0 || done.named {
		t.Errorf("%+v, %v; want %d records and nothing lost", done, err, 2*n)
	}
	if faults := faultsOf(t, to); len(faults) > 0 {
		t.Errorf("faults: %q", faults)
	}
	got := salvageable(t, to, toPath)
	for row, value := range all {
		if again, ok := got[row]; !ok || again != value {
			t.Errorf("%s: %q, there: %v; was %q", row, again, ok, value)
		}
	}
	if len(got) != len(all) || len(all) != 8*n {
		t.Errorf("%d rows, were %d, want %d", len(got), len(all), 8*n)
	}
}

// salvageable closes an index, and returns its records, by key, and the rows of the other kinds
// that salvage takes over as they are.
func salvageable(t *testing.T, x *storage.Index, path string) map[string]string {
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
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	spoil(t, path, func(tx *bolt.Tx) error {
		for _, name := range [][]byte{record.BucketMeta, record.BucketHost, record.BucketSitemap, record.BucketRobots, record.BucketOutside, record.BucketWaiting} {
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
	return rows
}

// TestInboxOldDamage spoils a row of the inbox that counts no more, and one that gets the key of a
// record, so that it seems to count no more: check names both, and nothing is missing but the
// record of the second.
func TestInboxOldDamage(t *testing.T) {
	for name, other := range map[string]bool{"old": false, "of another": true} {
		t.Run(name, func(t *testing.T) {
			x, path := emptyIndex(t, 100)
			o := &record.Outcome{}
			for i := range 50 {
				o.Links = append(o.Links, record.Link{URL: fmt.Sprintf("http://a.org/%d", i), Source: "http://a.org/", Depth: 1})
			}
			if _, err := x.Commit([]*record.Outcome{o}); err != nil {
				t.Fatal(err)
			}
			rows, _, err := x.Queues().Refill("a.org", time.Now(), 2, -1, func(string) bool { return false })
			if err != nil || len(rows) != 2 {
				t.Fatal(rows, err)
			}
			failed := &record.Outcome{Row: rows[0], State: record.Failed, Reason: "timeout"}
			if _, err := x.Commit([]*record.Outcome{failed}); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(x.Marks().SetLinkOptions([]byte("made by")), x.Close()); err != nil {
				t.Fatal(err)
			}
			at := rows[0].Seq
			if other {
				at = rows[1].Seq
			}
			spoil(t, path, func(tx *bolt.Tx) error {
				k := binary.BigEndian.AppendUint64(nil, at)
				b := tx.Bucket(inbox.Buckets[0])
				if b.Get(k) == nil {
					b = tx.Bucket(inbox.Buckets[1])
				}
				_, value, err := inbox.Row(k, b.Get(k))
				if err != nil {
					return err
				}
				key, err := record.Key(rows[0].URL)
				if err != nil {
					return err
				}
				row := append(binary.AppendUvarint(nil, uint64(len(key))), key...)
				row = append(row, value...)
				if !other {
					row[len(row)-6]++
				}
				return b.Put(k, row)
			})
			x = open(t, path, storage.Options{ReadOnly: true})
			var faults []string
			if _, err := x.Verify(t.Context(), func(f string) { faults = append(faults, f) }); err != nil {
				t.Fatal(err)
			}
			if len(faults) == 0 || !strings.Contains(faults[0], rows[0].URL) {
				t.Errorf("faults %q, want the row", faults)
			}
			if err := x.Close(); err != nil {
				t.Fatal(err)
			}
			to, _ := emptyIndex(t, 0)
			got, err := salvage(t.Context(), path, to)
			if err != nil || len(got.lost) > 0 || got.nameless > 0 || got.named != other {
				t.Errorf("%+v, %v; want nothing lost but a record without a trace: %v", got, err, other)
			}
			if options, err := to.Marks().LinkOptions(); err != nil || string(options) != "made by" {
				t.Errorf("link options %q, %v", options, err)
			}
			n := int64(50)
			if other {
				n--
			}
			sum, err := to.Verify(t.Context(), func(fault string) { t.Error("fault:", fault) })
			if err != nil || sum.Records() != n {
				t.Errorf("%d records, %v; want %d", sum.Records(), err, n)
			}
		})
	}
}
