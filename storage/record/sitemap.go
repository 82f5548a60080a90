package record

import (
	"bytes"
	"encoding/binary"
)

// The states of a sitemap on disk, at their numbers.
var sitemapStates = [...]State{1: Pending, 2: Read, 3: Failed}

// Absent reports whether a sitemap was only looked for in the usual place, and is not there.
func (r *Record) Absent() bool {
	return r.Kind == SitemapRow && r.State == Failed && r.Source == "" && r.Reason == "http-4xx"
}

// Narrowed reports whether the record is of a sitemap that named URLs which got no record.
func (r *Record) Narrowed() bool { return r.State == Read && r.Cut > 0 }

// SitemapKey returns the key of a sitemap: those of a host stand together.
func SitemapKey(url string) []byte { return append(SitemapPrefix(Host(url)), url...) }

// SitemapPrefix begins the keys of the sitemaps of a host.
func SitemapPrefix(host string) []byte { return append([]byte(host), 0) }

// SitemapWaits reports whether a value of the sitemap bucket is of one that is to be read. The
// first byte says it: sitemaps that are done are passed over quickly.
func SitemapWaits(value []byte) bool { return len(value) > 0 && value[0] == byte(Pending) }

// AppendSitemap appends the value of a sitemap's record.
func (r *Record) AppendSitemap(b []byte) []byte {
	for n, state := range sitemapStates {
		if state == r.State {
			b = append(b, byte(n), byte(r.Depth), r.Hops)
		}
	}
	for _, v := range []uint64{
		r.packTries(), uint64(r.Due), uint64(r.Time), uint64(r.Status), uint64(r.Bytes), uint64(r.Cut),
	} {
		b = binary.AppendUvarint(b, v)
	}
	return Seal(appendString(appendString(b, r.Source), r.Reason), SitemapKey(r.URL))
}

// DecodeSitemap reads a value of the sitemap bucket. The strings of the result are copies.
func DecodeSitemap(key, value []byte) (Record, error) {
	_, url, _ := bytes.Cut(key, []byte{0})
	r := Record{Row: Row{URL: string(url), Kind: SitemapRow}}
	d := unseal(value, key)
	state := d.byte()
	r.Depth, r.Hops = uint32(d.byte()), d.byte()
	r.Tries, r.Spared, r.Generation = d.tries()
	r.Due, r.Time = int64(d.uvarint()), int64(d.uvarint())
	r.Status, r.Bytes, r.Cut = uint16(d.uint(16)), int64(d.uint(32)), uint32(d.uint(32))
	r.Source, r.Reason = d.string(), d.string()
	if state == 0 || int(state) >= len(sitemapStates) {
		d.bad = true
	} else if r.State = sitemapStates[state]; r.State == Pending {
		r.Range = Later
	}
	return r, d.end("sitemap ", r.URL)
}
