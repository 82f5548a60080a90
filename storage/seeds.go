package storage

import (
	"bytes"

	bolt "go.etcd.io/bbolt"
)

// Keys of the bucket of seeds begin with a letter that says what follows.
const seedOrigin = 'o' // an origin of seeds, see Origin

// seeded keeps what is asked of a seed besides its record.
func (c *change) seeded(l *Link) error {
	return c.putSeed(seedOrigin, Origin(l.URL))
}

// putSeed writes a row of the bucket of seeds if it is not there.
func (c *change) putSeed(kind byte, text string) error {
	key := append([]byte{kind}, text...)
	if c.values.get(bucketSeed, key) != nil {
		return nil
	}
	return c.tx.Bucket(bucketSeed).Put(key, seal(nil, key))
}

// SeedOrigin reports whether a committed seed, not the target of a seed's redirect, has this [Origin].
func (x *Index) SeedOrigin(origin string) (yes bool, err error) {
	err = x.view(func(tx *bolt.Tx) error {
		yes = tx.Bucket(bucketSeed).Get(append([]byte{seedOrigin}, origin...)) != nil
		return nil
	})
	return yes, err
}

// SeedHost reports whether a committed seed, not the target of a seed's redirect, has this [Host], at any
// scheme and port.
func (x *Index) SeedHost(host string) (yes bool, err error) {
	err = x.view(func(tx *bolt.Tx) error {
		c := tx.Bucket(bucketSeed).Cursor()
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
