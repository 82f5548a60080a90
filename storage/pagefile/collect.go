package pagefile

import (
	"encoding/binary"
	"errors"
	"io"
)

// A Collector reads the entries of a damaged file, page by page, past whatever is wrong in it. A
// read that fails ends it with the reader's error: what is there may be whole. One goroutine uses
// it.
type Collector struct {
	meta
	f       io.ReaderAt
	skipped int
}

// Collect returns a Collector of a file of so many bytes. ErrDamaged: it finds not even buckets.
func Collect(f io.ReaderAt, size int64) (*Collector, error) {
	m, err := readMeta(f, size)
	if err != nil {
		return nil, err
	}
	m.pages = min(m.pages, uint64(size)/uint64(m.pageSize))
	return &Collector{meta: m, f: f}, nil
}

// Skipped returns the number of pages, entries and buckets that were passed over so far.
func (c *Collector) Skipped() int { return c.skipped }

// Bucket calls each for every entry of a bucket that can be reached, whole or not, in no certain
// order. The slices stay valid; they must not be changed. An entry may come twice, or be one of
// another bucket or of an earlier time: only its checksum says that it is one.
func (c *Collector) Bucket(name []byte, each func(k, value []byte) error) error {
	s := &structure{meta: c.meta, f: c.f, leaves: true, used: make([]uint64, c.pages/64+1)}
	found := false
	err := c.tree(s, c.meta.root, 0, func(k, value []byte) error {
		if string(k) != string(name) || len(value) < bucketHeader {
			return nil
		}
		found = true
		if root := binary.NativeEndian.Uint64(value); root != 0 {
			return c.tree(s, root, 0, each)
		}
		p, err := parsePage(s, 0, value[bucketHeader:])
		if err != nil {
			c.skipped++
			return nil
		}
		return c.entries(&p, each)
	})
	if !found {
		c.skipped++
	}
	return err
}

// tree goes through the page of a tree and all below it that were not met before.
func (c *Collector) tree(s *structure, id uint64, level int, each func(k, value []byte) error) error {
	if level > mostLevels || s.mark(id, 1) != nil {
		c.skipped++
		return nil
	}
	p, err := s.read(id)
	switch {
	case err != nil && !errors.Is(err, ErrDamaged):
		return err
	case err != nil || p.kind != kindLeaf && p.kind != kindBranch:
		c.skipped++
		return nil
	case p.kind == kindLeaf:
		return c.entries(&p, each)
	}
	for i := range p.count {
		at := pageHeader + i*elementSize
		if at+elementSize > len(p.body) {
			c.skipped++
			return nil
		}
		if err := c.tree(s, binary.NativeEndian.Uint64(p.body[at+8:]), level+1, each); err != nil {
			return err
		}
	}
	return nil
}

// entries calls each for the entries of a leaf that lie within it.
func (c *Collector) entries(p *page, each func(k, value []byte) error) error {
	e := binary.NativeEndian
	for i := range p.count {
		at := pageHeader + i*elementSize
		if at+elementSize > len(p.body) {
			c.skipped++
			return nil
		}
		from := uint64(at) + uint64(e.Uint32(p.body[at+4:]))
		split := from + uint64(e.Uint32(p.body[at+8:]))
		to := split + uint64(e.Uint32(p.body[at+12:]))
		if to > uint64(len(p.body)) {
			c.skipped++
			continue
		}
		if err := each(p.body[from:split:split], p.body[split:to:to]); err != nil {
			return err
		}
	}
	return nil
}
