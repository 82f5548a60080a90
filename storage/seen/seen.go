// Package seen is the filter that tells which URLs are known, without asking the index.
//
// A URL is remembered as a 64-bit fingerprint under a key of its tree, so that nobody outside
// can make URLs that collide. Two URLs of n share one with a probability of n²/2^65 in all:
// the second would be taken for known and lost ([Filter.ExpectedLosses]).
//
// The fingerprints stand in 256 tables outside the Go heap: the collector never looks at them,
// and a table that has grown gives its old memory back at once. A table grows by a quarter, so
// that all of them together, and the copy being made, stay below 16 bytes for a known URL,
// apart from the half MiB that a filter starts with and a page for each table.
package seen

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"github.com/dchest/siphash"
	"golang.org/x/sys/unix"
)

const (
	parts        = 256
	slotBytes    = 8
	initialSlots = 256 // of each part; 512 KiB for all
)

// Options of a Filter. The zero value is the usual one.
type Options struct {
	// Memory is the most that the tables may take, in bytes, the copy made while growing
	// included. 0: 256 MiB; the 512 KiB that a filter starts with are never refused.
	Memory int64
}

// A Filter is a set of fingerprints. All methods may be called from any goroutine, save that
// nothing else may be called while Load or Close runs.
//
// A hit may always be trusted, within ExpectedLosses. A miss may be trusted while Complete
// says so, and Complete must be asked after the miss: then a fingerprint that was refused in
// between shows.
type Filter struct {
	k0, k1 uint64 // the key of Fingerprint
	memory int64

	initial []byte // the first tables of all parts, in one mapping
	parts   [parts]part

	bytes  atomic.Int64 // mapped now
	peak   atomic.Int64 // the most that was mapped at once
	full   atomic.Bool  // a table wanted to grow and could not; never goes back but by Load
	loaded atomic.Bool  // all that the index knows has been added
}

// New returns an empty filter, not complete. The key belongs to the tree: with another one the
// fingerprints are others. The error is the system's, when it has no memory.
func New(key [16]byte, opts Options) (*Filter, error) {
	f := &Filter{
		k0:     binary.LittleEndian.Uint64(key[:8]),
		k1:     binary.LittleEndian.Uint64(key[8:]),
		memory: cmp.Or(opts.Memory, 256<<20),
	}
	var err error
	if f.initial, err = mapMemory(parts * initialSlots * slotBytes); err != nil {
		return nil, fmt.Errorf("seen filter: %w", err)
	}
	f.count(int64(len(f.initial)))
	all := slotsOf(f.initial)
	for i := range f.parts {
		f.parts[i].slots = all[i*initialSlots : (i+1)*initialSlots]
	}
	return f, nil
}

// Close gives the memory back. The filter is empty then and refuses everything. A second
// Close does nothing.
func (f *Filter) Close() error {
	if f.initial == nil {
		return nil
	}
	f.full.Store(true)
	f.clear()
	for i := range f.parts {
		f.parts[i].slots = nil
	}
	f.count(-int64(len(f.initial)))
	err := unix.Munmap(f.initial)
	f.initial = nil
	if err != nil {
		return fmt.Errorf("seen filter: %w", err)
	}
	return nil
}

// clear forgets all fingerprints and gives back what the tables have grown by.
func (f *Filter) clear() {
	clear(f.initial)
	all := slotsOf(f.initial)
	for i := range f.parts {
		p := &f.parts[i]
		f.unmap(p.mapped)
		*p = part{slots: all[i*initialSlots : (i+1)*initialSlots]}
	}
}

// Fingerprint gives the fingerprint of a canonical URL under the filter's key. It is never 0.
func (f *Filter) Fingerprint(url string) uint64 {
	// The hash only reads; a copy of every link would cost more than the hash.
	return max(1, siphash.Hash(f.k0, f.k1, unsafe.Slice(unsafe.StringData(url), len(url))))
}

// Has tells whether fp, a value of Fingerprint, was added.
func (f *Filter) Has(fp uint64) bool {
	p := &f.parts[fp>>56]
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.find(fp)
	return ok
}

// Add adds fp, a value of Fingerprint, and tells whether it was new. When the tables have
// reached Memory, it is refused: false, and Full is true from then on.
func (f *Filter) Add(fp uint64) (fresh bool) {
	p := &f.parts[fp>>56]
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		i, ok := p.find(fp)
		if ok || f.full.Load() {
			return false
		}
		if p.insert(i, fp) {
			return true
		}
		if !f.grow(p) {
			f.full.Store(true)
		}
	}
}

// AddMany adds all fps and tells how many were new.
func (f *Filter) AddMany(fps []uint64) (fresh int) {
	for _, fp := range fps {
		if f.Add(fp) {
			fresh++
		}
	}
	return fresh
}

// Len returns the number of fingerprints.
func (f *Filter) Len() (n int) {
	for i := range f.parts {
		p := &f.parts[i]
		p.mu.Lock()
		n += p.n
		p.mu.Unlock()
	}
	return n
}

// Bytes returns the memory that the tables take now.
func (f *Filter) Bytes() int64 { return f.bytes.Load() }

// Peak returns the most that Bytes has been at any instant.
func (f *Filter) Peak() int64 { return f.peak.Load() }

// Full tells whether an Add was refused because the tables had reached Memory.
func (f *Filter) Full() bool { return f.full.Load() }

// SetComplete says that everything the index knows has been added: after a scan of the index,
// or at once if it is empty.
func (f *Filter) SetComplete() { f.loaded.Store(true) }

// Complete tells whether a miss may be trusted: everything has been added or loaded, and
// nothing was refused.
func (f *Filter) Complete() bool { return f.loaded.Load() && !f.full.Load() }

// ExpectedLosses gives the number of URLs that are expected to be taken for known though they
// are not, among as many as the filter holds.
func (f *Filter) ExpectedLosses() float64 {
	n := float64(f.Len())
	return n * n / (1 << 65)
}

// grow makes the table of p a quarter larger, within Memory. The caller holds p.mu.
func (f *Filter) grow(p *part) bool {
	page := os.Getpagesize()
	size := (len(p.slots)*slotBytes*5/4 + page - 1) / page * page
	if !f.count(int64(size)) {
		return false
	}
	mapped, err := mapMemory(size)
	if err != nil {
		f.count(-int64(size)) // as if Memory were smaller
		return false
	}
	slots := slotsOf(mapped)
	if !spread(slots, p.slots) {
		f.unmap(mapped)
		return false
	}
	f.unmap(p.mapped)
	p.slots, p.mapped = slots, mapped
	return true
}

// count changes bytes by n, unless that passes Memory. What New maps is not refused.
func (f *Filter) count(n int64) bool {
	now := f.bytes.Add(n)
	if n > 0 && now > max(f.memory, int64(len(f.initial))) {
		f.bytes.Add(-n)
		return false
	}
	for peak := f.peak.Load(); now > peak && !f.peak.CompareAndSwap(peak, now); peak = f.peak.Load() {
	}
	return true
}

// unmap gives the table of a part back. The initial tables have no mapping of their own.
func (f *Filter) unmap(mapped []byte) {
	if mapped == nil {
		return
	}
	if err := unix.Munmap(mapped); err != nil {
		panic(fmt.Sprintf("seen filter: giving memory back: %v", err)) // not what mapMemory gave
	}
	f.count(-int64(len(mapped)))
}

func mapMemory(size int) ([]byte, error) {
	return unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
}

func slotsOf(b []byte) []uint64 {
	return unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/slotBytes)
}
