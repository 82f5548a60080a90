package rank

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"sort"
	"time"

	"golang.org/x/sys/unix"

	"urltree/internal/disk"
	"urltree/iut"
)

// The file of ranks in a tree's root, all numbers little-endian:
//
//	8   magic "urltrank"
//	8   version
//	16  key of the fingerprints
//	8   n, number of nodes
//	8   time, Unix nanoseconds
//	8   iterations
//	8   residual, as IEEE 754
//	8n  fingerprints, ascending: SipHash-2-4 of the canonical URL
//	8n  their ranks, as IEEE 754
//	4   CRC-32C of all that stands before
const (
	fileName    = "rank"
	magic       = "urltrank"
	version     = 1
	headerBytes = 64
)

// ErrDamaged says that a file of ranks is not what was written.
var ErrDamaged = errors.New("the file of ranks is damaged; crawler rank makes it anew")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Save writes the ranks into the root of a tree, whole or not at all. Errors are iut.ErrDisk.
func (r *Ranks) Save(root string) error {
	f, err := disk.Create(filepath.Join(root, fileName))
	if err != nil {
		return iut.DiskError("write ranks", err)
	}
	if err = r.write(f); err != nil {
		err = errors.Join(err, f.Discard())
	} else {
		err = f.Commit()
	}
	return iut.DiskError("write ranks", err)
}

func (r *Ranks) write(w io.Writer) error {
	sum := crc32.New(castagnoli)
	out := bufio.NewWriterSize(io.MultiWriter(w, sum), 1<<16)
	number := func(v uint64) { // Flush gives the error of any of these
		_, _ = out.Write(binary.LittleEndian.AppendUint64(out.AvailableBuffer(), v))
	}
	_, _ = out.WriteString(magic)
	number(version)
	_, _ = out.Write(r.graph.key[:])
	number(uint64(len(r.ranks)))
	number(uint64(time.Now().UnixNano()))
	number(uint64(r.Iterations))
	number(math.Float64bits(r.Residual))
	for _, fp := range r.graph.nodes {
		number(fp)
	}
	for _, rank := range r.ranks {
		number(math.Float64bits(rank))
	}
	if err := out.Flush(); err != nil {
		return err
	}
	_, err := w.Write(binary.LittleEndian.AppendUint32(nil, sum.Sum32()))
	return err
}

// A File is an open file of ranks. It is mapped into memory: what it takes there is page cache.
// All methods but Close may be called at the same time.
type File struct {
	Nodes int
	Time  time.Time // when it was made
	key   [16]byte
	b     []byte
}

// Open opens the ranks of the tree in the folder root. Errors: fs.ErrNotExist if there are none,
// ErrDamaged, or iut.ErrDisk.
func Open(root string) (*File, error) {
	f, err := os.OpenFile(filepath.Join(root, fileName), os.O_RDONLY|unix.O_NONBLOCK, 0) // a FIFO must not stop us
	if errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", iut.ErrDisk, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", iut.ErrDisk, err)
	}
	if !info.Mode().IsRegular() || info.Size() < headerBytes+4 {
		return nil, fmt.Errorf("%w: %d bytes", ErrDamaged, info.Size())
	}
	b, err := unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("%w: map ranks: %w", iut.ErrDisk, err)
	}
	r := &File{b: b}
	if err := r.check(); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

func (f *File) check() error {
	at := func(i int) uint64 { return binary.LittleEndian.Uint64(f.b[i:]) }
	body := f.b[:len(f.b)-4]
	switch n := uint64(len(body)-headerBytes) / 16; {
	case string(f.b[:8]) != magic || at(8) != version:
		return fmt.Errorf("%w: it has another format", ErrDamaged)
	case at(32) != n || uint64(len(body)) != headerBytes+16*n:
		return fmt.Errorf("%w: its length", ErrDamaged)
	case crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(f.b[len(body):]):
		return fmt.Errorf("%w: its checksum", ErrDamaged)
	default:
		f.Nodes, f.Time = int(n), time.Unix(0, int64(at(40)))
	}
	copy(f.key[:], f.b[16:])
	return nil
}

// Rank returns the rank of a URL; ok is false for one that was no node of the graph. The ranks of
// all nodes together are 1.
func (f *File) Rank(url string) (rank float64, ok bool) {
	fp := fingerprint(&f.key, url)
	at := func(i int) uint64 { return binary.LittleEndian.Uint64(f.b[headerBytes+8*i:]) }
	i, ok := sort.Find(f.Nodes, func(i int) int {
		switch v := at(i); {
		case fp < v:
			return -1
		case fp > v:
			return 1
		}
		return 0
	})
	if !ok {
		return 0, false
	}
	return math.Float64frombits(at(f.Nodes + i)), true
}

// Close unmaps the file.
func (f *File) Close() error { return unix.Munmap(f.b) }
