// Package simhash makes fingerprints of texts, of 64 bits, that differ in few bits where the texts
// differ in few words, and finds those that are near each other.
//
// Each three words in a row, a shingle, are hashed. A bit of the fingerprint is set if it is set in
// more than half of the hashes; a shingle that stands there twice counts twice. Two texts without a
// shingle in common differ in 32 bits, give or take a dozen. Of a text of a thousand words, another
// word changes one or two bits.
package simhash

import (
	"encoding/binary"
	"math/bits"

	"github.com/cespare/xxhash/v2"
)

const shingle = 3

// A Hash takes the words of one text. The zero value has none.
type Hash struct {
	last  [shingle - 1]uint64 // hashes of the words before the next
	words int

	// counts[i] plus byte i%8 of lanes[i/8] is the number of shingles with bit i. A lane has eight
	// counters of one byte, which take one addition together.
	counts   [64]int
	lanes    [8]uint64
	inLanes  int // shingles counted in lanes, at most 255
	shingles int
}

// spread has, for each byte, its bits as bytes of 0 or 1, the lowest first.
var spread = func() (t [256]uint64) {
	for b := range t {
		for i := range 8 {
			t[b] |= uint64(b) >> i & 1 << (8 * i)
		}
	}
	return t
}()

// Add takes the next word.
func (h *Hash) Add(word []byte) {
	w := xxhash.Sum64(word)
	if h.words++; h.words >= shingle {
		h.count(h.last, w)
	}
	copy(h.last[:], h.last[1:])
	h.last[len(h.last)-1] = w
}

func (h *Hash) count(before [shingle - 1]uint64, w uint64) {
	var b [8 * shingle]byte
	for i, v := range before {
		binary.LittleEndian.PutUint64(b[8*i:], v)
	}
	binary.LittleEndian.PutUint64(b[8*len(before):], w)
	s := xxhash.Sum64(b[:])
	for i := range h.lanes {
		h.lanes[i] += spread[byte(s>>(8*i))]
	}
	h.shingles++
	if h.inLanes++; h.inLanes == 255 {
		h.empty()
	}
}

// empty moves the lanes to counts.
func (h *Hash) empty() {
	for i := range h.counts {
		h.counts[i] += int(byte(h.lanes[i/8] >> (8 * (i % 8))))
	}
	h.lanes, h.inLanes = [8]uint64{}, 0
}

// Sum returns the fingerprint of the words so far; ok is false when there are none.
func (h *Hash) Sum() (fingerprint uint64, ok bool) {
	if h.words == 0 {
		return 0, false
	}
	sum := *h
	if sum.shingles == 0 { // one word or two
		sum.count(sum.last, 0)
	}
	sum.empty()
	for i, n := range sum.counts {
		if 2*n > sum.shingles {
			fingerprint |= 1 << i
		}
	}
	return fingerprint, true
}

// Distance is the number of bits in which two fingerprints differ.
func Distance(a, b uint64) int { return bits.OnesCount64(a ^ b) }
