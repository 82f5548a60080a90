package storage

import (
	"encoding/binary"
	"os"
)

// A collector reads the entries of a damaged index file, page by page, past whatever is wrong in
// it. A read that fails ends it: what is there may be whole.
type collector struct {
	meta
	f       *os.File
	skipped int // pages, entries and buckets that were passed over so far
}

// newCollector fails with ErrDamaged if the file does not even say where its buckets are.
func newCollector(f *os.File) (*collector, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	m, err := readMeta(f, info.Size())
	if err != nil {
		return nil, err
	}
	m.pages = min(m.pages, uint64(info.Size())/uint64(m.pageSize))
	return &collector{meta: m, f: f}, nil
}

// bucket calls each for every entry of a bucket that can be reached, whole or not, in no certain
// order. The slices are valid during the call. An entry may come twice, or be one of another bucket
// or of an earlier time: only its checksum says that it is one.
func (c *collector) bucket(name []byte, each func(k, value []byte) error) error {
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

// get returns the value of one key, nil if it cannot be found.
func (c *collector) get(name, key []byte) (found []byte, err error) {
	err = c.bucket(name, func(k, value []byte) error {
		if string(k) == string(key) {
			found = append([]byte(nil), value...)
		}
		return nil
	})
	return found, err
}

// tree goes through the page of a tree and all below it that were not met before.
func (c *collector) tree(s *structure, id uint64, level int, each func(k, value []byte) error) error {
	if level > mostLevels || s.mark(id, 1) != nil {
		c.skipped++
		return nil
	}
	p, err := s.read(id)
	switch {
	case ofSystem(err):
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
func (c *collector) entries(p *page, each func(k, value []byte) error) error {
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
