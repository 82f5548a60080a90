package storage

import (
	"encoding/binary"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"urltree/storage/boltfile"
	"urltree/storage/record"
)

// Upgrade changes the index at path from the schema of the version before to this one, in one
// transaction: a kill leaves the old or the new one. It reports whether it did: an index that has
// this schema already stays as it is. ErrSchema says that it has another one, ErrDamaged and
// ErrDisk that it cannot be read.
//
// All that the index knows stays. What differs from schema 6:
//   - hosts have a pace, which is none at first, and a kind of address, not known at first;
//   - a record says whether one of the redirects that led to it set a cookie: none did at first;
//   - the hosts of each domain are counted.
//
// Values in which nothing was added are the same bytes in both.
func Upgrade(path string, noSync bool) (changed bool, err error) {
	file, err := boltfile.Open(path, boltfile.Options{NoSync: noSync})
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	var version uint64
	err = file.View(func(tx *bolt.Tx) (err error) {
		version, err = schemaOf(tx)
		return err
	})
	switch {
	case err != nil:
		return false, fmt.Errorf("upgrade %s: %w", path, boltfile.OnDisk(err))
	case version == Schema:
		return false, nil // not even a new transaction number
	case version != Schema-1:
		return false, fmt.Errorf("%w: schema %d, this program upgrades %d", ErrSchema, version, Schema-1)
	}
	err = file.Update(func(tx *bolt.Tx) error {
		for _, name := range buckets {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		return errors.Join(countHosts(tx), putSchema(tx))
	})
	if err != nil {
		return false, fmt.Errorf("upgrade %s: %w", path, boltfile.OnDisk(err))
	}
	return true, nil
}

// countHosts counts each host that has URLs which are not held towards its domain.
func countHosts(tx *bolt.Tx) error {
	domains := map[string]record.DomainRow{}
	var puts, counts boltfile.Puts
	err := tx.Bucket(record.BucketHost).ForEach(func(k, v []byte) error {
		h, err := record.DecodeHost(string(k), v)
		if err != nil || h.Used() == 0 {
			return nil // a damaged value is for verify to name
		}
		name, ok := record.Registrable(h.Name)
		if !ok {
			return nil
		}
		domains[name] = record.DomainRow{Hosts: domains[name].Hosts + 1}
		h.Counted = 1
		puts.Put([]byte(h.Name), h.Append(nil))
		return nil
	})
	for name, d := range domains {
		counts.Put([]byte(name), d.Append(nil, []byte(name)))
	}
	values := boltfile.Values{Tx: tx}
	return errors.Join(err, values.Write(record.BucketHost, puts), values.Write(record.BucketDomain, counts))
}

// schemaOf returns the schema of an index; ErrDamaged if it does not say.
func schemaOf(tx *bolt.Tx) (uint64, error) {
	sys := tx.Bucket(record.BucketSys)
	if sys == nil {
		return 0, fmt.Errorf("%w: no bucket %q", record.ErrDamaged, record.BucketSys)
	}
	body, err := record.Unseal(sys.Get(record.KeySchema), nil)
	if err != nil {
		return 0, fmt.Errorf("%w: schema: %w", record.ErrDamaged, err)
	}
	version, _ := binary.Uvarint(body)
	return version, nil
}

func putSchema(tx *bolt.Tx) error {
	return tx.Bucket(record.BucketSys).Put(record.KeySchema, record.Seal(binary.AppendUvarint(nil, Schema), nil))
}
