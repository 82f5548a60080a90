package seen

import (
	"math/bits"
	"slices"
	"sync"
)

const (
	// spare slots stand behind the last home of a table, so that no run has to go on at the front:
	// these many, or a quarter of a small table. They cost nothing at scale; a run that would need
	// more makes the table grow.
	spare = 64

	// A block of a Bloom filter and a set of a cache have this many words: a cache line each.
	line = 8

	// marks is the number of bits of a fingerprint in its block. A part is turned when its table
	// is nearly full, and has some 38 bits for a fingerprint then; false positives are 1 in 6000
	// at first, 1 in 60 with four times as many fingerprints, 1 in 5 with ten times as many. More
	// marks would be better for few, fewer for many.
	marks = 4
)

// A part holds the fingerprints that share their first byte: all of them in a table, until there
// is no memory for a larger one, and then in a Bloom filter and a cache.
//
// The table is a hash table with open addressing whose order is that of the fingerprints.
// Invariants: a fingerprint's home grows with its value; it stands at its home or behind, with
// no empty slot (0) between; from front to back the fingerprints ascend; the last slot is
// empty. So a look-up ends at the first slot that is empty or greater: a miss, which is the
// usual answer for a new URL, costs no more than a hit even in a nearly full table.
//
// Turned, the first half of the slots are blocks of a Bloom filter, the second half as many sets
// of exact fingerprints, the newest first. A fingerprint has one block and one set, which have
// the same number. Invariants: what was added is marked in its block; what is in a set was added.
type part struct {
	mu     sync.Mutex
	slots  []uint64 // the table, or blocks and then sets; guarded by mu
	lines  int      // number of blocks, and of sets; 0: slots is a table; guarded by mu
	n      int      // fingerprints added that were not found; guarded by mu
	mapped []byte   // what slots lie in, to be unmapped; nil if they are among the initial ones; guarded by mu
	stats  Stats    // of this part, Turned left out; guarded by mu
	_      [64]byte // keeps the locks of neighbours in different cache lines
}

// homes returns the number of homes in a table of n slots.
func homes(n int) int { return n - min(spare, n/4) }

// place returns the number of fp's place among n, which grows with fp.
func place(fp uint64, n int) int {
	i, _ := bits.Mul64(fp<<8, uint64(n))
	return int(i)
}

// find returns the slot of the table where fp is, or where it belongs.
func (p *part) find(fp uint64) (i int, ok bool) {
	for i = place(fp, homes(len(p.slots))); i < len(p.slots); i++ {
		if at := p.slots[i]; at == 0 || at >= fp {
			return i, at == fp
		}
	}
	return i, false
}

// look reports whether fp is known or may be: neither is a miss.
func (p *part) look(fp uint64) (known, maybe bool) {
	if p.lines == 0 {
		_, known = p.find(fp)
		return known, false
	}
	maybe = marked(p.block(fp), fp)
	return maybe && slices.Contains(p.set(fp), fp), maybe
}

// insert puts fp, which is not there, at slot i, which find gave. It does nothing and returns
// false if the table is too full for one more.
func (p *part) insert(i int, fp uint64) bool {
	if (p.n+1)*100 > homes(len(p.slots))*85 {
		return false
	}
	end := i
	for p.slots[end] != 0 {
		end++
	}
	if end == len(p.slots)-1 {
		return false
	}
	copy(p.slots[i+1:end+1], p.slots[i:end])
	p.slots[i] = fp
	p.n++
	return true
}

// spread copies the fingerprints of one table to another, which is empty and larger. It
// returns false if they do not fit, which only values that are no hashes come to.
func spread(to, from []uint64) bool {
	next := 0
	for _, fp := range from {
		if fp == 0 {
			continue
		}
		i := max(next, place(fp, homes(len(to))))
		if i >= len(to)-1 {
			return false
		}
		to[i] = fp
		next = i + 1
	}
	return true
}

// turn makes of the table a Bloom filter of the same fingerprints and an empty cache, where it
// stands. A block is written when the fingerprint of a later one, number l, has been read. That one
// stands at its home or behind, and there are more than line homes for a block, so all that is
// overwritten, up to slot line*l, has been read before.
func (p *part) turn() {
	p.lines = len(p.slots) / (2 * line)
	var block [line]uint64
	next := 0
	writeUpTo := func(l int) {
		for ; next < l; next++ {
			copy(p.slots[next*line:], block[:])
			clear(block[:])
		}
	}
	for _, fp := range p.slots {
		if fp != 0 {
			writeUpTo(place(fp, p.lines))
			mark(block[:], fp)
		}
	}
	writeUpTo(p.lines)
	clear(p.slots[p.lines*line:])
}

// block returns the block of fp, and set the set of exact fingerprints, in a part that is turned.
func (p *part) block(fp uint64) []uint64 { return p.slots[place(fp, p.lines)*line:][:line] }

func (p *part) set(fp uint64) []uint64 { return p.slots[(p.lines+place(fp, p.lines))*line:][:line] }

// mark sets the bits of fp in its block and reports whether one was not set.
func mark(block []uint64, fp uint64) (fresh bool) {
	for range marks {
		word, bit := &block[fp/64%line], uint64(1)<<(fp%64)
		fresh = fresh || *word&bit == 0
		*word |= bit
		fp >>= 9 // the low bits: place looks at the high ones
	}
	return fresh
}

func marked(block []uint64, fp uint64) bool {
	for range marks {
		if block[fp/64%line]>>(fp%64)&1 == 0 {
			return false
		}
		fp >>= 9
	}
	return true
}

// keep adds fp in a part that is turned: to the Bloom filter, and to the cache in place of the
// oldest of its set.
func (p *part) keep(fp uint64) {
	if mark(p.block(fp), fp) {
		p.n++
	}
	if set := p.set(fp); !slices.Contains(set, fp) {
		copy(set[1:], set)
		set[0] = fp
	}
}
