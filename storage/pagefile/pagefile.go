// Package pagefile reads a file of bbolt page by page, without bbolt, which trusts what it reads:
// of a damaged file it would panic, fault, never come back, or write over a page that is needed.
// Check looks at the structure before bbolt opens the file; a Collector takes from a damaged one
// what can still be reached.
//
// Both read the file and not the map, so that nothing in it can end the process. All that a file
// says is checked before it is used.
package pagefile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/bits"
)

// ErrDamaged says that a file is not a whole one of bbolt, as opposed to one that cannot be read:
// the error of a read that fails is the reader's, except for io.EOF, for a file that is too short
// is damaged.
var ErrDamaged = errors.New("damaged")

// damage is an error that is ErrDamaged and does not say so: callers do, with the name of the file.
type damage string

func (d damage) Error() string { return string(d) }

func (damage) Is(target error) bool { return target == ErrDamaged }

// The layout of a bbolt file, version 2, in the byte order of the machine: pages 0 and 1 are meta
// pages, of which the valid one with the higher transaction number counts. Each page has a header
// (number 8, kind 2, count 2, further pages that belong to it 4); elements follow, and behind them
// what they point to, by its distance from the element.
const (
	pageHeader   = 16
	kindBranch   = 0x01 // elements: position 4, key size 4, page 8
	kindLeaf     = 0x02 // elements: flags 4, position 4, key size 4, value size 4
	kindFreelist = 0x10 // page numbers of 8 bytes; a count of 0xFFFF: the first of them is the count
	elementSize  = 16
	flagBucket   = 0x01 // of a leaf element: its value is a bucket
	bucketHeader = 16   // page of its root 8, of which 0 means that a page follows here; sequence 8
	metaSize     = 64   // magic 4, version 4, page size 4, flags 4, root 16, freelist 8, pages 8, transaction 8, FNV-1a 8
	metaMagic    = 0xED0CDAED
	noFreelist   = 1<<64 - 1
	mostLevels   = 32 // of branches: more cannot be in a file that memory can map
)

// Check walks the pages of a file of so many bytes and returns the first thing that is wrong with
// them, as ErrDamaged with the page: a page that is not what its parent says or is used twice, keys
// that are not in order, a list of free pages that names one in use.
//
// Without leaves it does not read the pages that hold the entries, which are most of the file, and
// finds all that could make bbolt go in circles or overwrite what is in use.
func Check(f io.ReaderAt, size int64, leaves bool) error {
	m, err := readMeta(f, size)
	if err != nil {
		return err
	}
	if m.pages < 2 || m.pages > uint64(size)/uint64(m.pageSize) {
		return damage(fmt.Sprintf("%d bytes, its %d pages need %d", size, m.pages, m.pages*uint64(m.pageSize)))
	}
	s := &structure{meta: m, f: f, leaves: leaves, used: make([]uint64, m.pages/64+1)}
	s.mark(0, 1)
	s.mark(1, 1)
	if err = s.freelist(); err == nil {
		err = s.mark(m.root, 1)
	}
	if err == nil {
		err = s.tree(m.root, nil, nil, true, 0) // visits all buckets
	}
	if err != nil || !leaves { // else the further pages of leaves were counted as well
		return err
	}
	for id := uint64(0); id < m.pages; id++ {
		if s.used[id/64]&(1<<(id%64)) == 0 {
			return s.bad(id, "is neither in use nor free")
		}
	}
	return nil
}

type meta struct {
	pageSize                           int
	root, freelist, pages, transaction uint64
}

// readMeta returns the meta page that counts. One that cannot be read may be the one.
func readMeta(f io.ReaderAt, size int64) (meta, error) {
	var best meta
	var failed error
	take := func(at int64) int {
		var b [metaSize]byte
		if _, err := f.ReadAt(b[:], at+pageHeader); err != nil {
			if !errors.Is(err, io.EOF) {
				failed = err
			}
			return 0
		}
		m, ok := parseMeta(b[:])
		if ok && (best.pageSize == 0 || m.transaction > best.transaction) {
			best = m
		}
		return m.pageSize
	}
	// The size of a page is known from a meta page only: the second may be at any power of two.
	if first := take(0); first != 0 {
		take(int64(first))
	} else {
		for at := int64(1 << 10); at <= 16<<20 && at < size; at *= 2 {
			take(at)
		}
	}
	if failed != nil {
		return best, failed
	}
	if best.pageSize == 0 {
		return best, damage("it has no valid meta page")
	}
	return best, nil
}

func parseMeta(b []byte) (m meta, ok bool) {
	e := binary.NativeEndian
	sum := fnv.New64a()
	sum.Write(b[:metaSize-8])
	if e.Uint32(b) != metaMagic || e.Uint32(b[4:]) != 2 || sum.Sum64() != e.Uint64(b[metaSize-8:]) {
		return m, false
	}
	m = meta{int(e.Uint32(b[8:])), e.Uint64(b[16:]), e.Uint64(b[32:]), e.Uint64(b[40:]), e.Uint64(b[48:])}
	return m, m.pageSize >= 1<<10 && bits.OnesCount(uint(m.pageSize)) == 1
}

// A structure is one walk over the pages of a file.
type structure struct {
	meta
	f      io.ReaderAt
	leaves bool
	used   []uint64 // a bit for each page that was met, in use or free
}

func (s *structure) bad(id uint64, format string, args ...any) error {
	return damage(fmt.Sprintf("page %d %s", id, fmt.Sprintf(format, args...)))
}

// unread is for a page of which a read has failed.
func (s *structure) unread(id uint64, err error) error {
	if errors.Is(err, io.EOF) {
		return s.bad(id, "cannot be read: %v", err)
	}
	return fmt.Errorf("page %d: %w", id, err)
}

// mark notes n pages as met. The error names the first that was met before or does not exist.
func (s *structure) mark(id, n uint64) error {
	if id >= s.pages || n > s.pages-id {
		return s.bad(id, "and the %d behind it lie beyond the %d of the file", n-1, s.pages)
	}
	for ; n > 0; n, id = n-1, id+1 {
		if s.used[id/64]&(1<<(id%64)) != 0 {
			return s.bad(id, "is used twice, or free and in use")
		}
		s.used[id/64] |= 1 << (id % 64)
	}
	return nil
}

// A page is the bytes of a page and of those that belong to it.
type page struct {
	id    uint64
	kind  uint16
	count int
	body  []byte // from the header on
}

// read returns a page that has not been marked yet, and marks the further ones that belong to it.
func (s *structure) read(id uint64) (page, error) {
	if id < 2 || id >= s.pages {
		return page{}, s.bad(id, "is named, and the file has %d", s.pages)
	}
	body := make([]byte, s.pageSize)
	if _, err := s.f.ReadAt(body, int64(id)*int64(s.pageSize)); err != nil {
		return page{}, s.unread(id, err)
	}
	p, err := parsePage(s, id, body)
	if err != nil {
		return p, err
	}
	if e := binary.NativeEndian; e.Uint64(body) != id {
		return p, s.bad(id, "says that it is page %d", e.Uint64(body))
	}
	if more := uint64(binary.NativeEndian.Uint32(body[12:])); more > 0 {
		if err := s.mark(id+1, more); err != nil {
			return p, err
		}
		p.body = make([]byte, (1+more)*uint64(s.pageSize))
		if _, err := s.f.ReadAt(p.body, int64(id)*int64(s.pageSize)); err != nil {
			return p, s.unread(id, err)
		}
	}
	return p, nil
}

func parsePage(s *structure, id uint64, body []byte) (page, error) {
	if len(body) < pageHeader {
		return page{}, s.bad(id, "has a bucket of %d bytes", len(body))
	}
	e := binary.NativeEndian
	return page{id: id, kind: e.Uint16(body[8:]), count: int(e.Uint16(body[10:])), body: body}, nil
}

func (s *structure) freelist() error {
	if s.meta.freelist == noFreelist {
		return damage("it has no list of free pages")
	}
	if err := s.mark(s.meta.freelist, 1); err != nil {
		return err
	}
	p, err := s.read(s.meta.freelist)
	if err != nil {
		return err
	}
	list, n := p.body[pageHeader:], uint64(p.count)
	if n == 0xFFFF {
		n, list = binary.NativeEndian.Uint64(list), list[8:]
	}
	if p.kind != kindFreelist || n > uint64(len(list)/8) {
		return s.bad(p.id, "is no list of free pages")
	}
	for i := range n {
		if err := s.mark(binary.NativeEndian.Uint64(list[8*i:]), 1); err != nil {
			return fmt.Errorf("%w (list of free pages)", err)
		}
	}
	return nil
}

// tree visits the page of a tree, which is marked, and all below it. Its first key is low, by which
// its parent knows it, and all are less than high; nil: any.
func (s *structure) tree(id uint64, low, high []byte, top bool, level int) error {
	p, err := s.read(id)
	switch {
	case err != nil:
		return err
	case p.kind == kindLeaf:
		return s.leaf(p, low, high, top)
	case p.kind != kindBranch || p.count == 0 || level >= mostLevels:
		return s.bad(id, "is no page of a bucket")
	}
	keys, err := s.keys(p, low, high)
	if err != nil {
		return err
	}
	// All children are marked before the first is read: none may be met again further down.
	child := make([]uint64, p.count)
	for i := range child {
		child[i] = binary.NativeEndian.Uint64(p.body[pageHeader+i*elementSize+8:])
		if err := s.mark(child[i], 1); err != nil {
			return fmt.Errorf("%w (below page %d)", err, id)
		}
	}
	for i := range child {
		next := high
		if i+1 < len(keys) {
			next = keys[i+1]
		}
		if i == 1 && !s.leaves && !top {
			// Branches have all their leaves on one level, so the first child tells for all.
			if first, err := s.kindOf(child[0]); err != nil || first == kindLeaf {
				return err
			}
		}
		if err := s.tree(child[i], keys[i], next, top, level+1); err != nil {
			return err
		}
	}
	return nil
}

func (s *structure) kindOf(id uint64) (uint16, error) {
	var b [2]byte
	if _, err := s.f.ReadAt(b[:], int64(id)*int64(s.pageSize)+8); err != nil {
		return 0, s.unread(id, err)
	}
	return binary.NativeEndian.Uint16(b[:]), nil
}

// leaf looks at the keys and values of a leaf. Those of the top are the buckets.
func (s *structure) leaf(p page, low, high []byte, top bool) error {
	keys, err := s.keys(p, low, high)
	if err != nil {
		return err
	}
	e := binary.NativeEndian
	for i, key := range keys {
		at := pageHeader + i*elementSize
		element := p.body[at:]
		from := uint64(at) + uint64(e.Uint32(element[4:])) + uint64(e.Uint32(element[8:]))
		to := from + uint64(e.Uint32(element[12:]))
		if to > uint64(len(p.body)) || (e.Uint32(element) == flagBucket) != top || e.Uint32(element) > flagBucket {
			return s.bad(p.id, "has no whole value under %q", key)
		}
		if !top {
			continue
		}
		value := p.body[from:to]
		if len(value) < bucketHeader {
			return s.bad(p.id, "has no whole bucket %q", key)
		}
		if root := e.Uint64(value); root != 0 {
			if err := s.mark(root, 1); err != nil {
				return fmt.Errorf("%w (root of bucket %s)", err, key)
			}
			if err := s.tree(root, nil, nil, false, 0); err != nil {
				return fmt.Errorf("%w (bucket %s)", err, key)
			}
			continue
		}
		inside, err := parsePage(s, p.id, value[bucketHeader:])
		if err != nil {
			return err
		}
		if inside.kind != kindLeaf {
			return s.bad(p.id, "has no whole bucket %q", key)
		}
		if err := s.leaf(inside, nil, nil, false); err != nil {
			return fmt.Errorf("%w (bucket %s)", err, key)
		}
	}
	return nil
}

// keys returns the keys of a branch or leaf, which must ascend. A first key that is not low, only
// greater, passes bbolt's check; but a page that it replaces would stay beside its new version.
func (s *structure) keys(p page, low, high []byte) ([][]byte, error) {
	if pageHeader+p.count*elementSize > len(p.body) {
		return nil, s.bad(p.id, "has %d elements, more than it has room for", p.count)
	}
	keys := make([][]byte, p.count)
	for i := range keys {
		at := pageHeader + i*elementSize
		element := p.body[at:]
		if p.kind == kindLeaf {
			element = element[4:]
		}
		e := binary.NativeEndian
		from := uint64(at) + uint64(e.Uint32(element))
		to := from + uint64(e.Uint32(element[4:]))
		if to > uint64(len(p.body)) || from < uint64(pageHeader+p.count*elementSize) {
			return nil, s.bad(p.id, "has a key outside of it")
		}
		keys[i] = p.body[from:to]
		if i > 0 && bytes.Compare(keys[i-1], keys[i]) >= 0 || i == 0 && low != nil && !bytes.Equal(keys[0], low) ||
			high != nil && bytes.Compare(keys[i], high) >= 0 {
			return nil, s.bad(p.id, "has a key out of place: %.100q", keys[i])
		}
	}
	return keys, nil
}
