package storage

import (
	"fmt"
	"testing"

	bolt "go.etcd.io/bbolt"

	"urltree/storage/record"
)

// Counts are the same below and above the number of records from which they have a row, whatever
// the steps in which a folder grows; the row is there from that number on and not before.
func TestCountedFrom(t *testing.T) {
	for _, step := range []int{1, 7, record.CountedFrom - 1, record.CountedFrom, record.CountedFrom + 1, 3 * record.CountedFrom} {
		t.Run(fmt.Sprintf("steps of %d", step), func(t *testing.T) {
			x, _ := newIndex(t, 0)
			folder, page := []byte("http\x00da\x00rf\x00"), []byte("http\x00da\x00rf\x00rp\x00")
			url := "http://a/f"
			rows := commitLinks(t, x, url, url+"/p") // pages of the folders: not below themselves
			for n := 1; n <= 3*record.CountedFrom; {
				var links []string
				for range step {
					links = append(links, fmt.Sprintf("%s/p?%d", url, n))
					n++
				}
				for url, row := range commitLinks(t, x, links...) {
					rows[url] = row
				}
				// One of them gets its outcome, so that small folders have more than one kind.
				done := links[len(links)/2]
				commitOutcome(t, x, rows[done], record.Stored)
				delete(rows, done)
				stored := int64((n - 1) / step)
				want := record.Counts{Now: int64(n-1) - stored, Stored: stored}
				if got, err := x.Folders().Used(record.Place{Query: true, Key: page}); err != nil || got != want.Used() {
					t.Fatalf("%d records: path has %d, %v, want %+v", n-1, got, err, want)
				}
				queries := want.Records()
				want.Now++ // the path itself
				if got, err := x.Folders().Counts(folder); err != nil || got != want {
					t.Fatalf("%d records: folder has %+v, %v, want %+v", n-1, got, err, want)
				}
				err := x.file.View(func(tx *bolt.Tx) error {
					if row := tx.Bucket(record.BucketFolder).Get(folder) != nil; row != (want.Records() >= record.CountedFrom) {
						t.Errorf("%d records below a folder, row: %v", want.Records(), row)
					}
					if row := tx.Bucket(record.BucketQuery).Get(page) != nil; row != (queries >= record.CountedFrom) {
						t.Errorf("%d records with queries, row: %v", queries, row)
					}
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				if faults := faultsOf(t, x); faults != nil {
					t.Fatal(faults)
				}
			}
		})
	}
}
