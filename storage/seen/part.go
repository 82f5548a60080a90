package seen

import (
	"math/bits"
	"sync"
)

// spare slots stand behind the last home, so that no run has to go on at the front. They cost
// nothing at scale; a run that would need more makes the table grow.
const spare = 64

// A part is the set of the fingerprints that share their first byte: a hash table with open
// addressing whose order is that of the fingerprints.
//
// Invariants: a fingerprint's home grows with its value; it stands at its home or behind, with
// no empty slot (0) between; from front to back the fingerprints ascend; the last slot is
// empty. So a look-up ends at the first slot that is empty or greater: a miss, which is the
// usual answer for a new URL, costs no more than a hit even in a nearly full table.
type part struct {
	mu     sync.Mutex
	slots  []uint64 // guarded by mu
	n      int      // fingerprints in slots; guarded by mu
	mapped []byte   // what slots lie in, to be unmapped; nil if they are among the initial ones; guarded by mu
	_      [64]byte // keeps the locks of neighbours in different cache lines
}

// home gives the slot of fp in a table of n slots that is otherwise empty.
func home(fp uint64, n int) int {
	i, _ := bits.Mul64(fp<<8, uint64(max(0, n-spare)))
	return int(i)
}

// find gives the slot where fp is, or where it belongs.
func (p *part) find(fp uint64) (i int, ok bool) {
	for i = home(fp, len(p.slots)); i < len(p.slots); i++ {
		if at := p.slots[i]; at == 0 || at >= fp {
			return i, at == fp
		}
	}
	return i, false
}

// insert puts fp, which is not there, at slot i, which find gave. It does nothing and returns
// false if the table is too full for one more.
func (p *part) insert(i int, fp uint64) bool {
	if (p.n+1)*100 > (len(p.slots)-spare)*85 {
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
		i := max(next, home(fp, len(to)))
		if i >= len(to)-1 {
			return false
		}
		to[i] = fp
		next = i + 1
	}
	return true
}
