package inbox

// A table finds rows of a list by the fingerprint of their URL. It may find rows of other URLs as
// well. A row is named by its place, which is its number of discovery less that of the first row of
// the list. The zero value is empty.
//
// Of the fingerprint it uses the upper half. While there are few rows all of that is kept, so that
// the table can grow; then it gets the size for good, and keeps what it has room for.
type table struct {
	few  []uint64 // upper half of the fingerprint, place + 1; 0: free. nil: there are many
	many []uint32 // the last bits of that half, place + 1; 0: free
	n    int
}

const (
	placeBits = 26
	maxPlace  = 1<<placeBits - 2
)

// add takes a row in, at a place of at most maxPlace. A table has at most capacity(most) rows.
func (t *table) add(fp, place uint64, most int) {
	if t.many == nil && 4*(t.n+1) > 3*len(t.few) {
		old := t.few
		if t.n >= max(most/32, 1<<10) {
			t.few, t.many = nil, make([]uint32, capacity(most)/3*4+4)
		} else {
			t.few = make([]uint64, max(1<<11, 2*len(old)))
		}
		for _, s := range old {
			if s != 0 {
				t.put(s)
			}
		}
	}
	t.n++
	t.put(fp>>32<<32 | place + 1)
}

// capacity is how many rows a table has at most that is for so many.
func capacity(most int) int { return most + most/16 }

// put takes a slot.
func (t *table) put(s uint64) {
	if t.many == nil {
		*free(t.few, s) = s
	} else {
		*free(t.many, s) = short(s)
	}
}

// free returns the place for a slot.
func free[T uint32 | uint64](slots []T, s uint64) *T {
	i := home(s, len(slots))
	for slots[i] != 0 {
		i = (i + 1) % len(slots)
	}
	return &slots[i]
}

// home returns where the search for a slot begins among so many.
func home(s uint64, slots int) int { return int(s >> 32 * uint64(slots) >> 32) }

// short returns a slot of few as one of many.
func short(s uint64) uint32 { return uint32(s>>32)<<placeBits | uint32(s)&(1<<placeBits-1) }

// find appends numbers of discovery of rows that may have a fingerprint; first is that of place 0.
func (t *table) find(seqs []uint64, fp, first uint64) []uint64 {
	switch {
	case t.n == 0:
	case t.many == nil:
		for i := home(fp, len(t.few)); t.few[i] != 0; i = (i + 1) % len(t.few) {
			if s := t.few[i]; s>>32 == fp>>32 {
				seqs = append(seqs, first+s&(1<<32-1)-1)
			}
		}
	default:
		for i := home(fp, len(t.many)); t.many[i] != 0; i = (i + 1) % len(t.many) {
			if s := t.many[i]; s>>placeBits == short(fp)>>placeBits {
				seqs = append(seqs, first+uint64(s&(1<<placeBits-1))-1)
			}
		}
	}
	return seqs
}
