package crawler

import (
	"hash/maphash"

	"urltree/internal/extract"
)

// A reader reads one page after the other in the same memory. It is not for concurrent use.
type reader struct {
	extract.Parser
	seed  maphash.Seed
	page  uint64              // the page that is read, by number
	met   [256]metURL         // of all URLs so far some, by their hash: pages name most again and again
	fresh map[string]struct{} // URLs of this page that are not known
}

// maxFresh bounds what a reader keeps of fresh for the next page, in URLs.
const maxFresh = 1 << 10

// A metURL is one that was met lately. It has no pointers: what it holds is a copy, and takes
// no more than its place.
type metURL struct {
	text  [111]byte
	size  uint8  // of text that the URL takes; 0: there is none
	page  uint64 // on which it was met last
	known bool   // the index has it durably, which it will for as long as the reader is used
}

func newReader() *reader { return &reader{seed: maphash.MakeSeed()} }

func (m *metURL) is(url string) bool { return string(m.text[:m.size]) == url }

// begin begins a page.
func (r *reader) begin() {
	if len(r.fresh) > maxFresh {
		r.fresh = nil
	}
	clear(r.fresh)
	r.page++
}

// place returns where a URL is or will be.
func (r *reader) place(url string) *metURL {
	return &r.met[maphash.String(r.seed, url)%uint64(len(r.met))]
}

// isNew reports whether a URL has not been met on this page and is not known; nil: none is known.
// It must stay as it is until the next page begins.
func (r *reader) isNew(url string, known func(url string) bool) bool {
	m := r.place(url)
	if m.is(url) && (m.page == r.page || m.known && known != nil) {
		return false
	}
	isKnown := known != nil && known(url)
	if len(url) <= len(m.text) {
		m.size, m.page, m.known = uint8(copy(m.text[:], url)), r.page, isKnown
	}
	if isKnown {
		return false
	}
	if _, ok := r.fresh[url]; ok {
		return false
	}
	if r.fresh == nil {
		r.fresh = map[string]struct{}{}
	}
	r.fresh[url] = struct{}{}
	return true
}
