package weburl

import "github.com/cespare/xxhash/v2"

// known has what some of the last references became: pages name one target again and again, and
// one with many fragments is one here. The place of a reference is its hash.
//
// Only what fast resolved is in it, and what clean leaves as it is: so behind a reference that is
// in it a fragment, or nothing, makes no difference.
type known [128]resolved

type resolved struct{ ref, url string }

// place gives where a reference without fragment is or will be; nil if there is no base.
func (b *Base) place(ref string) *resolved {
	if b == nil {
		return nil
	}
	if b.known == nil {
		b.known = new(known)
	}
	return &b.known[xxhash.Sum64String(ref)%uint64(len(b.known))]
}
