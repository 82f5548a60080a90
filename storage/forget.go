package storage

import (
	"bytes"
	"context"

	bolt "go.etcd.io/bbolt"

	"urltree/storage/boltfile"
	"urltree/storage/record"
)

// A Forgetting is what one transaction removes from the index, and where it no longer names what is
// removed.
type Forgetting struct {
	URLs  []string        // of records that go, with all that follows from them
	Clean []record.Record // records that get Source, Via, Reason and HeaderLinks of these

	Sitemaps      []string // of sitemaps that go
	CleanSitemaps []string // of sitemaps that lose their source

	Outside []string // of targets outside that go
	Looks   []string // of stored pages that redirect now, and lose what is known of where to
}

// Weight returns how many records, sitemaps and targets it is about.
func (f *Forgetting) Weight() int {
	return len(f.URLs) + len(f.Clean) + len(f.Sitemaps) + len(f.CleanSitemaps) + len(f.Outside) + len(f.Looks)
}

// Forget does what f says in one transaction. A host of which no record, no sitemap to be read and
// no target to be asked is left loses its row. Of what is not there it changes nothing. The file of
// edges does not count any more once a stored page is removed, see [Marks.SetEdges].
func (x *Index) Forget(f *Forgetting) error {
	if err := x.Settle(context.Background()); err != nil {
		return err
	}
	if err := x.lock(); err != nil {
		return err
	}
	defer x.mu.Unlock()
	return x.update(func(c *change) error {
		c.ledger.forgets = true
		for _, url := range f.URLs {
			e, err := c.entry(url)
			if err != nil {
				return err
			}
			e.gone, e.rec = e.old != nil, nil
		}
		for i := range f.Clean {
			e, err := c.entry(f.Clean[i].URL)
			if err != nil {
				return err
			}
			if r := e.rec; r != nil {
				r.Source, r.Via, r.Reason, r.HeaderLinks = f.Clean[i].Source, f.Clean[i].Via, f.Clean[i].Reason, f.Clean[i].HeaderLinks
			}
		}
		for _, url := range f.Sitemaps {
			e := c.sitemap(url)
			e.gone, e.rec = e.old != nil, nil
		}
		for _, url := range f.CleanSitemaps {
			if e := c.sitemap(url); e.rec != nil {
				e.rec.Source = record.Forgotten
			}
		}
		for _, url := range f.Looks {
			if err := c.forgetTarget(url); err != nil {
				return err
			}
		}
		for _, url := range f.Outside {
			e, err := c.outsideEntry(url)
			if err != nil {
				return err
			}
			e.gone, e.rec = e.old != nil, nil
		}
		return nil
	})
}

// forgetTarget has the looks at a stored page no longer name where it redirects to.
func (c *change) forgetTarget(url string) error {
	e, err := c.entry(url)
	if err != nil || e.rec == nil {
		return err
	}
	l, err := record.DecodeLook(e.key, c.w.Get(record.BucketLook, e.key))
	if err != nil {
		return err
	}
	l.Target = ""
	c.keepLook(e, &l)
	return nil
}

// ForgetOrigins drops the robots.txt answers of origins, and the URLs of scope, for which gone
// returns true.
func (x *Index) ForgetOrigins(ctx context.Context, origin func(string) bool, url func(string) (bool, error)) error {
	drop := func(bucket []byte, gone func(key string) (bool, error)) error {
		var keys [][]byte
		flush := func() error {
			err := x.write(func(tx *bolt.Tx) error {
				in := boltfile.Values{Tx: tx}
				for _, k := range keys {
					if err := in.Delete(bucket, k); err != nil {
						return err
					}
				}
				return nil
			})
			keys = keys[:0]
			return err
		}
		err := x.file.Scan(ctx, bucket, nil, func(k, _ []byte) error {
			yes, err := gone(string(k))
			if err != nil || !yes {
				return err
			}
			if keys = append(keys, bytes.Clone(k)); len(keys) < reopenURLs {
				return nil
			}
			return flush()
		})
		if err != nil || len(keys) == 0 {
			return err
		}
		return flush()
	}
	err := drop(record.BucketRobots, func(key string) (bool, error) { return origin(key), nil })
	if err == nil {
		err = drop(record.BucketScope, url)
	}
	return err
}
