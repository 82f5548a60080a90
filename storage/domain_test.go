package storage

import (
	"encoding/binary"
	"fmt"
	"testing"

	bolt "go.etcd.io/bbolt"

	"urltree/storage/record"
)

// TestUpgradeCountsHosts: an index of the schema before, whose domains have not been counted, has
// the counts of one that has counted from the first record on.
func TestUpgradeCountsHosts(t *testing.T) {
	x, path := newIndex(t, 1)
	o := &record.Outcome{}
	for n := range 30 {
		o.Links = append(o.Links, record.Link{URL: fmt.Sprintf("http://h%d.d%d.org/", n, n%7), Source: "http://a.org/", Depth: 1},
			record.Link{URL: fmt.Sprintf("http://held%d.d%d.org/", n, n%7), Source: "http://a.org/", Depth: 1, Held: "form"},
			record.Link{URL: fmt.Sprintf("http://10.0.0.%d/", n), Source: "http://a.org/", Depth: 1})
	}
	if _, err := x.Commit([]*record.Outcome{o}); err != nil {
		t.Fatal(err)
	}
	rows := func() (list []record.DomainRow) {
		for n := range 7 {
			d, err := x.Hosts().Domain(fmt.Sprintf("d%d.org", n))
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, d)
		}
		return list
	}
	want := fmt.Sprint(rows())
	var hosts []record.HostRow
	err := x.file.Update(func(tx *bolt.Tx) error {
		b := tx.Bucket(record.BucketHost)
		err := b.ForEach(func(k, v []byte) error {
			h, err := record.DecodeHost(string(k), v)
			h.Counted = 0
			hosts = append(hosts, h)
			return err
		})
		for _, h := range hosts {
			if err == nil {
				err = b.Put([]byte(h.Name), h.Append(nil))
			}
		}
		if err == nil {
			err = tx.DeleteBucket(record.BucketDomain)
		}
		if err == nil {
			err = tx.Bucket(record.BucketSys).Put(record.KeySchema, record.Seal(binary.AppendUvarint(nil, Schema-1), nil))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	x.Close()
	if yes, err := Upgrade(path, true); err != nil || !yes {
		t.Fatal(yes, err)
	}
	x = open(t, path, Options{})
	if got := fmt.Sprint(rows()); got != want {
		t.Errorf("domains %s, want %s", got, want)
	}
	if got := faultsOf(t, x); len(got) > 0 {
		t.Error(got)
	}
}
