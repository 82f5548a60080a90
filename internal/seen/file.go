package seen

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
)

// The file of a filter, all numbers little-endian:
//
//	8  magic "urltseen"
//	8  version
//	8  key check: the fingerprint of a fixed text under the filter's key
//	8  transaction number of the index that the filter belongs to
//	8  Memory, if a part is turned, else 0
//	for each of the 256 parts:
//	  8  s, number of slots
//	  8  n, number of fingerprints
//	  8  1 if the part is turned, else 0
//	  8n fingerprints, ascending; or 8s slots of a part that is turned
//	4  CRC-32C of all that stands before
const (
	magic       = "urltseen"
	version     = 2
	keyCheck    = "urltree seen filter"
	headerBytes = 40
	partBytes   = 24 // before the fingerprints or slots
)

var (
	// ErrStale says that a saved filter is whole, as far as looked at, and not the one asked
	// for: another format, tree, state of the index or size.
	ErrStale = errors.New("saved seen filter belongs to something else")
	// ErrCorrupt says that a saved filter is not what was written.
	ErrCorrupt = errors.New("saved seen filter is damaged")
	// ErrIncomplete is returned by Save: a filter that is loaded trusts its misses.
	ErrIncomplete = errors.New("seen filter is not complete")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (f *Filter) header(tx, memory uint64) []byte {
	b := make([]byte, 0, headerBytes)
	b = append(b, magic...)
	for _, v := range []uint64{version, f.Fingerprint(keyCheck), tx, memory} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return b
}

// Save writes a complete filter ([ErrIncomplete] otherwise) that holds what the index knows as
// of transaction tx. Every other call waits meanwhile. Syncing the file is the caller's.
func (f *Filter) Save(w io.Writer, tx uint64) error {
	if !f.Complete() {
		return ErrIncomplete
	}
	memory := uint64(0)
	for i := range f.parts { // locked in this order; nothing else holds two
		p := &f.parts[i]
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.lines > 0 {
			memory = uint64(f.memory)
		}
	}
	sum := crc32.New(castagnoli)
	out := bufio.NewWriterSize(io.MultiWriter(w, sum), 1<<16)
	number := func(v uint64) { // Flush returns the error of any of these
		out.Write(binary.LittleEndian.AppendUint64(out.AvailableBuffer(), v))
	}
	out.Write(f.header(tx, memory))
	for i := range f.parts {
		p := &f.parts[i]
		number(uint64(len(p.slots)))
		number(uint64(p.n))
		number(uint64(min(1, p.lines)))
		for _, fp := range p.slots {
			if fp != 0 || p.lines > 0 {
				number(fp)
			}
		}
	}
	err := out.Flush()
	if err == nil {
		_, err = w.Write(binary.LittleEndian.AppendUint32(nil, sum.Sum32()))
	}
	if err != nil {
		return fmt.Errorf("saving the seen filter: %w", err)
	}
	return nil
}

// Load adds what Save wrote with the same key and tx, and makes the filter complete. It may be in
// use meanwhile: the file is read beside it, which takes as much memory again as the filter has by
// then, and what was added since stays. A file that does not fit into Memory is stale, and so is
// one with parts that were turned under another limit: a scan fills all parts alike, and as well as
// Memory allows. After an error ([ErrStale], [ErrCorrupt] or the reader's) the filter is as if Load
// had not been called.
func (f *Filter) Load(r io.Reader, tx uint64) error {
	g := &Filter{k0: f.k0, k1: f.k1, memory: f.memory}
	err := g.allocate()
	if err == nil {
		err = g.load(r, tx)
	}
	if err == nil {
		err = f.adopt(g)
	}
	if err != nil {
		return fmt.Errorf("loading the seen filter: %w", errors.Join(err, g.Close()))
	}
	f.SetComplete()
	return nil
}

// adopt takes over the tables of g, which nobody else uses, with what f holds itself. What a part
// that is turned holds is not known one by one, so f must have none.
func (f *Filter) adopt(g *Filter) error {
	for i := range f.parts { // locked in this order, as in Save
		p := &f.parts[i]
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.lines > 0 {
			return fmt.Errorf("%w: part %d is turned already", ErrStale, i)
		}
	}
	for i := range f.parts {
		p, q := &f.parts[i], &g.parts[i]
		for _, fp := range p.slots {
			if fp != 0 {
				g.add(q, fp)
			}
		}
		_ = f.unmap(p.mapped)
		p.slots, p.lines, p.n, p.mapped = q.slots, q.lines, q.n, q.mapped
	}
	_ = f.unmap(f.initial)
	f.initial = g.initial
	f.bytes.Add(g.Bytes())
	f.raisePeak(max(g.Peak(), f.Bytes()))
	return nil
}

// A loader reads a file, and sums it.
type loader struct {
	in  *bufio.Reader
	sum uint32
	buf [1 << 12]byte
}

func (f *Filter) load(r io.Reader, tx uint64) error {
	l := &loader{in: bufio.NewReaderSize(r, 1<<16)}
	head, err := l.next(headerBytes)
	if err != nil {
		return err
	}
	memory := binary.LittleEndian.Uint64(head[headerBytes-8:])
	if want := f.header(tx, memory); string(head) != string(want) {
		if string(head[:len(magic)]) != magic {
			return fmt.Errorf("%w: first bytes", ErrCorrupt)
		}
		return ErrStale
	}
	if memory != 0 && memory != uint64(f.memory) {
		return fmt.Errorf("%w: turned for %d bytes of memory", ErrStale, memory)
	}
	turned := false
	for i := range f.parts {
		p := &f.parts[i]
		if err := f.loadPart(l, p, uint64(i)); err != nil {
			return err
		}
		turned = turned || p.lines > 0
	}
	if turned != (memory != 0) {
		return fmt.Errorf("%w: memory", ErrCorrupt)
	}
	sum := l.sum
	switch end, err := l.next(4); {
	case err != nil:
		return err
	case binary.LittleEndian.Uint32(end) != sum:
		return fmt.Errorf("%w: checksum", ErrCorrupt)
	}
	switch _, err := l.in.ReadByte(); err {
	case io.EOF:
		return nil
	case nil:
		return fmt.Errorf("%w: bytes behind the end", ErrCorrupt)
	default:
		return err
	}
}

// loadPart reads part number i into p, which is empty and has its initial slots.
func (f *Filter) loadPart(l *loader, p *part, i uint64) error {
	head, err := l.next(partBytes)
	if err != nil {
		return err
	}
	slots, n := binary.LittleEndian.Uint64(head), binary.LittleEndian.Uint64(head[8:])
	turned := binary.LittleEndian.Uint64(head[16:])
	if turned > 1 || turned == 0 && n > slots || n > 1<<48 {
		return fmt.Errorf("%w: part %d", ErrCorrupt, i)
	}
	if slots != uint64(len(p.slots)) {
		size := slots * slotBytes
		if slots == 0 || slots > uint64(f.memory)/slotBytes || size%uint64(os.Getpagesize()) != 0 {
			return fmt.Errorf("%w: part %d has %d slots", ErrStale, i, slots)
		}
		if p.mapped = f.allot(int(size)); p.mapped == nil {
			return fmt.Errorf("%w: more than %d bytes", ErrStale, f.memory)
		}
		p.slots = slotsOf(p.mapped)
	}
	if turned == 1 {
		p.lines, p.n = len(p.slots)/(2*line), int(n)
		at := 0
		return l.numbers(slots, func(v uint64) error {
			p.slots[at] = v
			at++
			return nil
		})
	}
	last := uint64(0)
	return l.numbers(n, func(fp uint64) error {
		if fp <= last || fp>>56 != i {
			return fmt.Errorf("%w: order", ErrCorrupt)
		}
		last = fp
		if at, _ := p.find(fp); !p.insert(at, fp) {
			return fmt.Errorf("%w: part %d is too full", ErrCorrupt, i)
		}
		return nil
	})
}

// numbers calls fn with the next n numbers.
func (l *loader) numbers(n uint64, fn func(uint64) error) error {
	for n > 0 {
		chunk, err := l.next(int(8 * min(n, uint64(len(l.buf)/8))))
		if err != nil {
			return err
		}
		n -= uint64(len(chunk) / 8)
		for ; len(chunk) > 0; chunk = chunk[8:] {
			if err := fn(binary.LittleEndian.Uint64(chunk)); err != nil {
				return err
			}
		}
	}
	return nil
}

// next returns the next n bytes, at most those of buf; a file that ends before is corrupt.
func (l *loader) next(n int) ([]byte, error) {
	b := l.buf[:n]
	_, err := io.ReadFull(l.in, b)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return nil, fmt.Errorf("%w: too short", ErrCorrupt)
	}
	l.sum = crc32.Update(l.sum, castagnoli, b)
	return b, err
}
