package storage

import (
	bolt "go.etcd.io/bbolt"

	"urltree/storage/boltfile"
	"urltree/storage/record"
)

// The looks of a transaction are answers whose links are to be looked at once more.
type looks struct {
	shorter map[string]bool // by record key: whether a shorter way was found; false: they have been looked at
	relink  bool            // links in pages stored before may belong to the crawl only now
}

func (l *looks) write(w *writer, totals *record.Totals) {
	puts := make(boltfile.Puts, 0, len(l.shorter))
	for key, yes := range l.shorter {
		switch {
		case yes:
			puts.Put([]byte(key), record.Seal(nil, []byte(key)))
		case w.Get(record.BucketShorter, []byte(key)) != nil:
			puts.Delete([]byte(key))
		}
	}
	w.write(record.BucketShorter, puts)
	if !l.relink {
		return
	}
	if sitemap, _ := w.Cursor(record.BucketSitemap).First(); sitemap != nil || totals.Parsed() { // else nothing has links so far
		w.put(record.BucketSys, record.KeyRelink, record.Seal(nil, record.KeyRelink))
	}
}

// Shorter returns URLs that have their outcome and to which a shorter way was found since, at most
// n: their links are nearer too, and are to be looked at again, with Outcome.Again.
func (x *Index) Shorter(n int) ([]record.Record, error) {
	var list []record.Record
	err := x.file.View(func(tx *bolt.Tx) error {
		urls := tx.Bucket(record.BucketURL)
		c := tx.Bucket(record.BucketShorter).Cursor()
		for k, _ := c.First(); k != nil && len(list) < n; k, _ = c.Next() {
			rec, err := record.Decode(k, urls.Get(k))
			if err != nil {
				// Its links are lost with it; check names it.
				url, err := record.URL(k)
				if err != nil {
					return err
				}
				rec = record.Record{Row: record.Row{URL: url}}
			}
			list = append(list, rec)
		}
		return nil
	})
	return list, err
}
