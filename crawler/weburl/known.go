package weburl

import "github.com/cespare/xxhash/v2"

// known has what some of the last references became: pages name one target again and again, and
// one with many fragments is one here. Only what fast resolved is in it; the place of a reference
// is its hash.
type known [128]struct{ ref, url string }

// place gives where ref is or will be, in a table that is made if need be.
func (b *Base) place(ref string) *struct{ ref, url string } {
	if b.known == nil {
		b.known = new(known)
	}
	return &b.known[xxhash.Sum64String(ref)%uint64(len(b.known))]
}
