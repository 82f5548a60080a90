package weburl

import (
	"hash/maphash"
	"strings"
)

// known has what some of the last references became, on this page and on those before: the pages of
// a site name the same targets again and again, and one with many fragments is one here. The place
// of a reference is its hash.
//
// Only what fast resolved is in it, and what clean leaves as it is: so behind a reference that is
// in it a fragment, or nothing, makes no difference.
type known struct {
	seed   maphash.Seed
	places [256]resolved
}

// A resolved reference stands for its URL on every page where it goes behind the same.
type resolved struct{ behind, ref, url string }

// maxKnown bounds what a base keeps from page to page, in bytes of chunks and of the bases that
// references went behind, not much more than a chunk beyond it.
const maxKnown = 128 << 10

// maxRef bounds a reference and its URL, in bytes: what one place keeps alive is a chunk at most.
const maxRef = 1 << 10

// behind returns what of a base a reference without fragment goes behind, as fast has it, or more
// of it than counts.
func (b *Base) behind(ref string) string {
	switch {
	case strings.HasPrefix(ref, "http://"), strings.HasPrefix(ref, "https://"):
		return ""
	case ref[0] == '/':
		return b.site
	case ref[0] == '?':
		return b.url
	}
	return b.folder
}

// place returns where a reference that is not empty and has no fragment is or will be; nil if there
// is no base.
func (b *Base) place(ref string) *resolved {
	if b == nil {
		return nil
	}
	if b.known == nil {
		b.known = &known{seed: maphash.MakeSeed()}
	}
	return &b.known.places[maphash.String(b.known.seed, ref)%uint64(len(b.known.places))]
}

// keep notes what a reference became. It may lie in memory that is written to later; url does not.
func (b *Base) keep(at *resolved, ref, url string) {
	if len(ref)+len(url) > maxRef {
		return
	}
	if rest, ok := strings.CutSuffix(url, ref); ok { // most do not climb
		ref = url[len(rest):]
	} else {
		ref = b.text.concat(ref, "")
	}
	*at = resolved{b.behind(ref), ref, url}
}

// forget makes b keep no more than maxKnown for a page whose URL has so many bytes.
func (b *Base) forget(size int) {
	if b.kept += size; b.known != nil && b.kept+b.text.made > maxKnown {
		clear(b.known.places[:])
		b.kept, b.text.made = size, 0
	}
}
