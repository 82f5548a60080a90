// Package seen is the filter that knows which URLs the index has, as far as that can be known
// without asking the index.
//
// A URL is remembered as a 64-bit fingerprint under a key of its tree, so that no outsider
// can make URLs that collide. Two URLs of n share one with a probability of n²/2^65 in all:
// the second would be taken for known and lost ([Filter.ExpectedLosses]).
//
// The fingerprints stand in 256 tables outside the Go heap: the collector never looks at them,
// and a table that has grown gives its old memory back at once. A table grows by a quarter, so
// that all of them together, and the copy being made, stay below 16 bytes for a known URL,
// apart from the half MiB that a filter starts with and a page for each table.
//
// A table that has no memory left to grow is turned where it stands: half of it becomes a Bloom
// filter, which never forgets and now and then has what was not added, and half a cache of exact
// fingerprints, which has only what was added and forgets the oldest. What the cache has is known;
// what only the Bloom filter has, the index must be asked about.
package seen

import (
	"cmp"
	"encoding/binary"
	"errors"
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
	initialSlots = 256 // of each part; 512 KiB for all. Fewer if Memory is less
)

// DefaultMemory is what a filter may take if Options.Memory is 0.
const DefaultMemory = 256 << 20

// Options of a Filter. The zero value is the usual one.
type Options struct {
	// Memory is the most that the filter may take, in bytes, the copy made while a table grows
	// included. 0: 256 MiB; less than 32 KiB: 32 KiB.
	Memory int64
}

// An Answer is what a filter says of a fingerprint.
type Answer uint8

const (
	// Maybe: the index has to be asked, and its answer passed to [Filter.Confirm].
	Maybe Answer = iota
	// Unknown: the index does not have it.
	Unknown
	// Known: the index has it, durably, within ExpectedLosses.
	Known
)

// A Filter is a set of fingerprints, those of the URLs that the index holds durably. All methods
// may be called from any goroutine, save that nothing else may be called while Close runs.
type Filter struct {
	k0, k1 uint64 // the key of Fingerprint
	memory int64

	initial []byte // the first tables of all parts, in one mapping
	parts   [parts]part

	bytes  atomic.Int64 // mapped now
	peak   atomic.Int64 // the most that was mapped at once
	loaded atomic.Bool  // all that the index knows has been added
}

// Stats count what a filter could not answer by itself since New.
type Stats struct {
	Turned         int   // parts that are a Bloom filter and a cache, of 256
	Asked          int64 // answers of the index, passed to Confirm
	Confirmed      int64 // of these: it has the URL
	BloomHits      int64 // of these: the Bloom filter had the fingerprint; the others were asked for want of a complete filter
	FalsePositives int64 // Bloom hits of which the index does not have the URL
}

// New returns an empty filter, not complete. The key belongs to the tree: with another one the
// fingerprints are others. The error is the system's, when it has no memory.
func New(key [16]byte, opts Options) (*Filter, error) {
	f := &Filter{
		k0:     binary.LittleEndian.Uint64(key[:8]),
		k1:     binary.LittleEndian.Uint64(key[8:]),
		memory: cmp.Or(opts.Memory, DefaultMemory),
	}
	// Whole lines: a block and a set at least.
	slots := min(initialSlots, max(1, f.memory/(parts*2*line*slotBytes))*2*line)
	f.memory = max(f.memory, parts*slots*slotBytes)
	var err error
	if f.initial, err = mapMemory(int(parts * slots * slotBytes)); err != nil {
		return nil, fmt.Errorf("seen filter: %w", err)
	}
	f.count(int64(len(f.initial)))
	all := slotsOf(f.initial)
	n := len(all) / parts
	for i := range f.parts {
		f.parts[i].slots = all[i*n : (i+1)*n]
	}
	return f, nil
}

// Close frees the memory. After that the filter takes nothing, and answers Maybe to everything. A
// second Close does nothing.
func (f *Filter) Close() error {
	if f.initial == nil {
		return nil
	}
	f.loaded.Store(false)
	var err error
	for i := range f.parts {
		p := &f.parts[i]
		err = errors.Join(err, f.unmap(p.mapped))
		*p = part{}
	}
	err = errors.Join(err, f.unmap(f.initial))
	f.initial = nil
	if err != nil {
		return fmt.Errorf("seen filter: %w", err)
	}
	return nil
}

// Fingerprint returns the fingerprint of a canonical URL under the filter's key. It is never 0.
func (f *Filter) Fingerprint(url string) uint64 {
	// The hash only reads; a copy of every link would cost more than the hash.
	return max(1, siphash.Hash(f.k0, f.k1, unsafe.Slice(unsafe.StringData(url), len(url))))
}

// Lookup returns what the filter knows of fp, a value of Fingerprint.
func (f *Filter) Lookup(fp uint64) Answer {
	// Before the look: what was added in between would count as complete and yet be missed.
	miss := Maybe
	if f.loaded.Load() {
		miss = Unknown
	}
	p := &f.parts[fp>>56]
	p.mu.Lock()
	known, maybe := p.look(fp)
	p.mu.Unlock()
	switch {
	case known:
		return Known
	case maybe:
		return Maybe
	}
	return miss
}

// Add adds fp, a value of Fingerprint, of a URL that the index holds durably.
func (f *Filter) Add(fp uint64) {
	p := &f.parts[fp>>56]
	p.mu.Lock()
	defer p.mu.Unlock()
	f.add(p, fp)
}

// add is Add; the caller holds p.mu.
func (f *Filter) add(p *part, fp uint64) {
	if p.slots == nil {
		return // closed
	}
	for p.lines == 0 {
		i, ok := p.find(fp)
		if ok || p.insert(i, fp) {
			return
		}
		if !f.grow(p) {
			p.turn()
		}
	}
	p.keep(fp)
}

// Confirm passes on what the index answered when Lookup(fp) had been Maybe: whether it
// holds the URL, durably.
func (f *Filter) Confirm(fp uint64, known bool) {
	p := &f.parts[fp>>56]
	p.mu.Lock()
	defer p.mu.Unlock()
	hit := p.lines > 0 && marked(p.block(fp), fp)
	p.stats.Asked++
	if hit {
		p.stats.BloomHits++
	}
	if known {
		p.stats.Confirmed++
		f.add(p, fp)
	} else if hit {
		p.stats.FalsePositives++
	}
}

// Stats returns the counters.
func (f *Filter) Stats() (sum Stats) {
	for i := range f.parts {
		p := &f.parts[i]
		p.mu.Lock()
		if p.lines > 0 {
			sum.Turned++
		}
		sum.Asked += p.stats.Asked
		sum.Confirmed += p.stats.Confirmed
		sum.BloomHits += p.stats.BloomHits
		sum.FalsePositives += p.stats.FalsePositives
		p.mu.Unlock()
	}
	return sum
}

// Len returns the number of fingerprints that were added. Those that a Bloom filter seemed to have
// already are not counted.
func (f *Filter) Len() (n int) {
	for i := range f.parts {
		p := &f.parts[i]
		p.mu.Lock()
		n += p.n
		p.mu.Unlock()
	}
	return n
}

// Bytes returns the memory that the filter takes now.
func (f *Filter) Bytes() int64 { return f.bytes.Load() }

// Peak returns the most that Bytes has been at any instant.
func (f *Filter) Peak() int64 { return f.peak.Load() }

// SetComplete says that everything the index knows has been added: after a scan of the index,
// or at once if it is empty.
func (f *Filter) SetComplete() { f.loaded.Store(true) }

// Complete reports whether everything has been added, so that a miss means Unknown.
func (f *Filter) Complete() bool { return f.loaded.Load() }

// ExpectedLosses returns the number of URLs that are expected to be taken for known though they
// are not, among as many as the filter holds.
func (f *Filter) ExpectedLosses() float64 {
	n := float64(f.Len())
	return n * n / (1 << 65)
}

// grow makes the table of p a quarter larger, within Memory. The caller holds p.mu.
func (f *Filter) grow(p *part) bool {
	page := os.Getpagesize()
	mapped := f.allot((len(p.slots)*slotBytes*5/4 + page - 1) / page * page)
	if mapped == nil {
		return false
	}
	slots := slotsOf(mapped)
	if !spread(slots, p.slots) {
		_ = f.unmap(mapped)
		return false
	}
	_ = f.unmap(p.mapped)
	p.slots, p.mapped = slots, mapped
	return true
}

// allot maps size bytes, or returns nil if that would pass Memory or the system has no more, which
// is as if Memory were smaller.
func (f *Filter) allot(size int) []byte {
	if !f.count(int64(size)) {
		return nil
	}
	mapped, err := mapMemory(size)
	if err != nil {
		f.count(-int64(size))
		return nil
	}
	return mapped
}

// count changes bytes by n, unless that passes Memory.
func (f *Filter) count(n int64) bool {
	var now int64
	for swapped := false; !swapped; {
		before := f.bytes.Load()
		if now = before + n; now > f.memory {
			return false
		}
		swapped = f.bytes.CompareAndSwap(before, now)
	}
	for peak := f.peak.Load(); now > peak && !f.peak.CompareAndSwap(peak, now); peak = f.peak.Load() {
	}
	return true
}

// unmap unmaps a mapping; nil: there is none, as the initial tables of a part have none of their
// own. What the system does not take, for it may have to split what it has put together, stays
// counted.
func (f *Filter) unmap(mapped []byte) error {
	if mapped == nil {
		return nil
	}
	if err := unix.Munmap(mapped); err != nil {
		return err
	}
	f.count(-int64(len(mapped)))
	return nil
}

func mapMemory(size int) ([]byte, error) {
	return unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
}

func slotsOf(b []byte) []uint64 {
	return unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/slotBytes)
}
