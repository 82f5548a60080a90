package storage

import (
	"bytes"
	"errors"

	bolt "go.etcd.io/bbolt"

	"urltree/internal/seen"

	"urltree/storage/boltfile"
	"urltree/storage/record"
)

// Keys of the bucket of seeds begin with a letter that says what follows.
const (
	seedOrigin = 'o' // a [record.Origin] of seeds
	seedArea   = 'a' // one of [record.Link.Areas]
)

// putSeed keeps what is asked of a seed besides its record, and reports whether an area is new.
func (w *writer) putSeed(l *record.Link) (grown bool) {
	if l.Via == "" {
		w.putSeedRow(seedOrigin, record.Origin(l.URL))
	}
	return w.putAreas(l.Areas)
}

func (w *writer) putAreas(areas []string) (grown bool) {
	for _, area := range areas {
		grown = w.putSeedRow(seedArea, area) || grown
	}
	return grown
}

// putSeedRow writes a row of the bucket of seeds, and reports whether it was not there.
func (w *writer) putSeedRow(kind byte, text string) (added bool) {
	key := append([]byte{kind}, text...)
	if added = w.Get(record.BucketSeed, key) == nil; added {
		w.put(record.BucketSeed, key, record.Seal(nil, key))
	}
	return added
}

// putScope keeps a URL as a seed whose record does not say so.
func (w *writer) putScope(url string) {
	w.put(record.BucketScope, []byte(url), record.Seal(nil, []byte(url)))
}

// AddAreas keeps areas as those of a seed's link would be kept, in one transaction. Stored pages
// need not be parsed again for them.
func (g Seeds) AddAreas(areas []string) error {
	if len(areas) == 0 {
		return nil
	}
	if err := g.x.lock(); err != nil {
		return err
	}
	defer g.x.mu.Unlock()
	return g.x.file.Update(func(tx *bolt.Tx) error {
		w := writer{Values: boltfile.Values{Tx: tx}}
		w.putAreas(areas)
		return w.err
	})
}

// Read returns what the last [record.Outcome] with Seeds said.
func (g Seeds) Read() (s record.Seeds, err error) {
	s, _, err = boltfile.Read(g.x.file, record.BucketSys, record.KeySeeds, record.DecodeSeeds)
	return s, err
}

// Forget drops origins and areas of seeds, and what Read returns: the list is to be read again.
func (g Seeds) Forget() error {
	return g.x.write(func(tx *bolt.Tx) error {
		return errors.Join(boltfile.Empty(tx, record.BucketSeed), tx.Bucket(record.BucketSys).Delete(record.KeySeeds))
	})
}

// HasArea reports whether a committed seed, or a target of a seed's redirect, has this area.
func (g Seeds) HasArea(area string) (bool, error) { return g.hasRow(seedArea, area) }

// HasOrigin reports whether a committed seed, no target of a redirect, has this [record.Origin].
func (g Seeds) HasOrigin(origin string) (bool, error) { return g.hasRow(seedOrigin, origin) }

func (g Seeds) hasRow(kind byte, text string) (bool, error) {
	return g.x.file.Has(record.BucketSeed, append([]byte{kind}, text...))
}

// HasHost reports whether a committed seed, not the target of a seed's redirect, has this
// [record.Host], at any scheme and port.
func (g Seeds) HasHost(host string) (yes bool, err error) {
	err = g.x.file.View(func(tx *bolt.Tx) error {
		seeds := tx.Bucket(record.BucketSeed)
		for _, scheme := range []string{"http://", "https://"} {
			key := append([]byte{seedOrigin}, scheme+host...)
			port := append(key, ':')
			k, _ := seeds.Cursor().Seek(port)
			yes = yes || seeds.Get(key) != nil || bytes.HasPrefix(k, port)
		}
		return nil
	})
	return yes, err
}

// Has reports whether a canonical URL is that of a committed seed, or of the target of a seed's
// redirect that scope depends on.
func (g Seeds) Has(url string) (yes bool, err error) {
	if !g.x.opts.ReadOnly && g.x.filter.Lookup(g.x.filter.Fingerprint(url)) == seen.Unknown {
		return false, nil // it has no record
	}
	if yes, err = g.x.file.Has(record.BucketScope, []byte(url)); yes || err != nil {
		return yes, err
	}
	rec, err := g.x.Record(url)
	if errors.Is(err, ErrNotFound) || errors.Is(err, record.ErrCorrupt) || errors.Is(err, record.ErrKey) {
		return false, nil // a damaged record is for check to name
	}
	return rec.Source == record.Seed, err
}
