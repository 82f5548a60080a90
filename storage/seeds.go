package storage

import (
	"bytes"
	"errors"

	bolt "go.etcd.io/bbolt"

	"urltree/internal/seen"

	"urltree/storage/record"
)

// Keys of the bucket of seeds begin with a letter that says what follows.
const (
	seedOrigin = 'o' // an origin of seeds, see Origin
	seedArea   = 'a' // see Link.Areas
)

// seeded keeps what is asked of a seed besides its record. It reports whether the seed has an area
// that none had before.
func (c *change) seeded(l *record.Link) (grown bool, err error) {
	if l.Via == "" {
		if _, err := c.putSeed(seedOrigin, record.Origin(l.URL)); err != nil {
			return false, err
		}
	}
	return c.putAreas(l.Areas)
}

func (c *change) putAreas(areas []string) (grown bool, err error) {
	for _, area := range areas {
		added, err := c.putSeed(seedArea, area)
		if err != nil {
			return false, err
		}
		grown = grown || added
	}
	return grown, nil
}

// putSeed writes a row of the bucket of seeds if it is not there.
func (c *change) putSeed(kind byte, text string) (added bool, err error) {
	key := append([]byte{kind}, text...)
	if c.values.Get(record.BucketSeed, key) != nil {
		return false, nil
	}
	return true, c.tx.Bucket(record.BucketSeed).Put(key, record.Seal(nil, key))
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
	return g.x.update(func(c *change) error {
		_, err := c.putAreas(areas)
		return err
	})
}

// Read returns what the last [record.Outcome] with Seeds said.
func (g Seeds) Read() (s record.Seeds, err error) {
	s, _, err = read(g.x, record.BucketSys, record.KeySeeds, record.DecodeSeeds)
	return s, err
}

// Forget drops all origins and areas of seeds, and what Read returns: the list is to be read
// again.
func (g Seeds) Forget() error {
	return g.x.write(func(tx *bolt.Tx) error {
		return errors.Join(empty(tx, record.BucketSeed), tx.Bucket(record.BucketSys).Delete(record.KeySeeds))
	})
}

// HasArea reports whether a committed seed, or a target of a seed's redirect, has this area.
func (g Seeds) HasArea(area string) (bool, error) { return g.x.hasSeed(seedArea, area) }

// HasOrigin reports whether a committed seed, not the target of a seed's redirect, has this
// [record.Origin].
func (g Seeds) HasOrigin(origin string) (bool, error) { return g.x.hasSeed(seedOrigin, origin) }

func (x *Index) hasSeed(kind byte, text string) (yes bool, err error) {
	err = x.file.View(func(tx *bolt.Tx) error {
		yes = tx.Bucket(record.BucketSeed).Get(append([]byte{kind}, text...)) != nil
		return nil
	})
	return yes, err
}

// HasHost reports whether a committed seed, not the target of a seed's redirect, has this
// [record.Host], at any scheme and port.
func (g Seeds) HasHost(host string) (yes bool, err error) {
	err = g.x.file.View(func(tx *bolt.Tx) error {
		c := tx.Bucket(record.BucketSeed).Cursor()
		for _, scheme := range []string{"http://", "https://"} {
			key := append([]byte{seedOrigin}, scheme+host...)
			k, _ := c.Seek(key)
			if yes = bytes.Equal(k, key); yes {
				return nil
			}
			key = append(key, ':')
			k, _ = c.Seek(key)
			if yes = bytes.HasPrefix(k, key); yes {
				return nil
			}
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
	err = g.x.file.View(func(tx *bolt.Tx) error {
		yes = tx.Bucket(record.BucketScope).Get([]byte(url)) != nil
		return nil
	})
	if yes || err != nil {
		return yes, err
	}
	rec, err := g.x.Record(url)
	if errors.Is(err, ErrNotFound) || errors.Is(err, record.ErrCorrupt) || errors.Is(err, record.ErrKey) {
		return false, nil // a damaged record is for check to name
	}
	return rec.Source == record.Seed, err
}
