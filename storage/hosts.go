package storage

import (
	"context"

	bolt "go.etcd.io/bbolt"

	"urltree/storage/boltfile"
	"urltree/storage/record"
)

// Get returns the row of a host, a zero one with its name if there is none.
func (g Hosts) Get(name string) (record.HostRow, error) {
	h, _, err := g.x.Queues().HostAt(name)
	return h, err
}

// Each calls fn with each row of the host table, in the order of names.
func (g Hosts) Each(ctx context.Context, fn func(record.HostRow) error) error {
	return g.x.file.Scan(ctx, record.BucketHost, nil, func(k, v []byte) error {
		h, err := record.DecodeHost(string(k), v)
		if err != nil {
			return err
		}
		return fn(h)
	})
}

// hostRow returns the row of a host in a transaction, a zero one with its name if there is none.
func hostRow(in *boltfile.Values, name string) (h record.HostRow, err error) {
	if v := in.Get(record.BucketHost, []byte(name)); v != nil {
		return record.DecodeHost(name, v)
	}
	h.Name = name
	return h, nil
}

// Domain returns the row of a registrable domain, a zero one if there is none.
func (g Hosts) Domain(name string) (d record.DomainRow, err error) {
	d, _, err = boltfile.Read(g.x.file, record.BucketDomain, []byte(name), record.DecodeDomain)
	return d, err
}

// Robots returns the stored robots.txt answer of an origin; ok is false where there is none.
func (g Hosts) Robots(origin string) (r record.Robots, ok bool, err error) {
	return boltfile.Read(g.x.file, record.BucketRobots, []byte(origin), func(key, value []byte) (record.Robots, error) {
		return record.DecodeRobots(string(key), value)
	})
}

// ForgetRobots drops all robots.txt answers: they are asked for again.
func (g Hosts) ForgetRobots() error {
	return g.x.write(func(tx *bolt.Tx) error { return boltfile.Empty(tx, record.BucketRobots) })
}
