package seen

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// The file of a filter, all numbers little-endian:
//
//	8  magic "urltseen"
//	8  version
//	8  key check: the fingerprint of a fixed text under the filter's key
//	8  transaction number of the index that the filter belongs to
//	8  n, number of fingerprints
//	8n fingerprints, ascending
//	4  CRC-32C of all that stands before
const (
	magic       = "urltseen"
	version     = 1
	keyCheck    = "urltree seen filter"
	headerBytes = 40
)

var (
	// ErrStale says that a saved filter is whole, as far as looked at, and not the one asked
	// for: another format, tree or state of the index.
	ErrStale = errors.New("saved seen filter belongs to something else")
	// ErrCorrupt says that a saved filter is not what was written.
	ErrCorrupt = errors.New("saved seen filter is damaged")
	// ErrIncomplete is returned by Save: who loads the file trusts its misses.
	ErrIncomplete = errors.New("seen filter is not complete")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (f *Filter) header(tx, n uint64) []byte {
	b := make([]byte, 0, headerBytes)
	b = append(b, magic...)
	for _, v := range []uint64{version, f.Fingerprint(keyCheck), tx, n} {
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
	n := 0
	for i := range f.parts { // locked in this order; nobody else holds two
		f.parts[i].mu.Lock()
		defer f.parts[i].mu.Unlock()
		n += f.parts[i].n
	}
	sum := crc32.New(castagnoli)
	out := bufio.NewWriterSize(io.MultiWriter(w, sum), 1<<16)
	out.Write(f.header(tx, uint64(n))) // Flush gives the error of any of these
	for i := range f.parts {
		for _, fp := range f.parts[i].slots {
			if fp != 0 {
				out.Write(binary.LittleEndian.AppendUint64(out.AvailableBuffer(), fp))
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

// Load replaces what the filter holds by what Save wrote with the same key and tx, and makes
// it complete. If the file holds more than Memory admits, the filter is Full after it, holds
// a part, and is not complete; that is no error. After an error ([ErrStale], [ErrCorrupt] or
// the reader's) the filter is empty and not complete.
func (f *Filter) Load(r io.Reader, tx uint64) error {
	f.reset()
	if err := f.load(r, tx); err != nil {
		f.reset()
		return fmt.Errorf("loading the seen filter: %w", err)
	}
	f.SetComplete()
	return nil
}

func (f *Filter) reset() {
	f.clear()
	f.loaded.Store(false)
	f.full.Store(false)
}

func (f *Filter) load(r io.Reader, tx uint64) error {
	in := bufio.NewReaderSize(r, 1<<16)
	buf := make([]byte, 1<<12)
	head := buf[:headerBytes]
	if err := readFull(in, head); err != nil {
		return err
	}
	n := binary.LittleEndian.Uint64(head[headerBytes-8:])
	if want := f.header(tx, n); string(head) != string(want) {
		if string(head[:len(magic)]) != magic {
			return fmt.Errorf("%w: first bytes", ErrCorrupt)
		}
		return ErrStale
	}
	sum := crc32.Checksum(head, castagnoli)
	for last := uint64(0); n > 0; {
		chunk := buf[:8*min(n, uint64(len(buf)/8))]
		if err := readFull(in, chunk); err != nil {
			return err
		}
		sum = crc32.Update(sum, castagnoli, chunk)
		n -= uint64(len(chunk) / 8)
		for ; len(chunk) > 0; chunk = chunk[8:] {
			fp := binary.LittleEndian.Uint64(chunk)
			if fp <= last {
				return fmt.Errorf("%w: order", ErrCorrupt)
			}
			last = fp
			f.Add(fp)
		}
	}
	if err := readFull(in, buf[:4]); err != nil {
		return err
	}
	if binary.LittleEndian.Uint32(buf) != sum {
		return fmt.Errorf("%w: checksum", ErrCorrupt)
	}
	switch _, err := in.ReadByte(); err {
	case io.EOF:
		return nil
	case nil:
		return fmt.Errorf("%w: bytes behind the end", ErrCorrupt)
	default:
		return err
	}
}

// readFull fills b; a file that ends before is corrupt.
func readFull(r io.Reader, b []byte) error {
	_, err := io.ReadFull(r, b)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return fmt.Errorf("%w: too short", ErrCorrupt)
	}
	return err
}
