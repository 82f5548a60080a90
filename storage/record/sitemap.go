package record

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// A SitemapState says what is known of a sitemap.
type SitemapState uint8

const (
	SitemapOpen   SitemapState = 1 + iota // to be read
	SitemapRead                           // all that counts of its content is in the index
	SitemapFailed                         // gave no usable answer, or must not be asked
)

func (s SitemapState) String() string {
	switch s {
	case SitemapOpen:
		return "to be read"
	case SitemapRead:
		return "read"
	case SitemapFailed:
		return "failed"
	}
	return fmt.Sprintf("sitemap state(%d)", uint8(s))
}

// A Sitemap is what the index keeps of a sitemap, which has no record. One that is to be read
// waits in the queue of its host.
type Sitemap struct {
	URL    string // canonical
	State  SitemapState
	Level  uint8  // 1: named by a robots.txt, or where sitemaps usually are; else one more than the index that named it
	Hops   uint8  // redirects since then
	Source string // the URL of the robots.txt, or of the sitemap, that named it
	Tries  uint16 // requests made so far
	Spared uint8  // see Row.Spared
	Due    int64  // Unix nanoseconds before which it is not asked again; 0: at once
	// Of the last answer:
	Time    int64  // Unix seconds; 0: there was none
	Status  uint16 // HTTP status; 0: none
	Reason  string // why it failed, is asked again, or gave nothing
	Locs    uint32 // URLs that it names
	Outside uint32 // of these, the ones that got no record: scope or Limits.MaxHeld turned them away
}

// Absent reports whether it was only looked for in the usual place, and is not there.
func (s *Sitemap) Absent() bool {
	return s.State == SitemapFailed && s.Source == "" && s.Reason == "http-4xx"
}

// Narrowed reports whether it was read and named URLs that got no record then.
func (s *Sitemap) Narrowed() bool { return s.State == SitemapRead && s.Outside > 0 }

// SitemapKey keeps the sitemaps of a host together.
func SitemapKey(url string) []byte { return append(SitemapPrefix(Host(url)), url...) }

// SitemapPrefix begins the keys of the sitemaps of a host.
func SitemapPrefix(host string) []byte { return append([]byte(host), 0) }

// Append writes the state first: rows that are done are passed over by that byte alone.
func (s *Sitemap) Append(b []byte) []byte {
	b = append(b, byte(s.State), s.Level, s.Hops)
	for _, v := range []uint64{
		packTries(s.Tries, s.Spared), uint64(s.Due), uint64(s.Time), uint64(s.Status), uint64(s.Locs), uint64(s.Outside),
	} {
		b = binary.AppendUvarint(b, v)
	}
	return Seal(appendString(appendString(b, s.Source), s.Reason), SitemapKey(s.URL))
}

// DecodeSitemap reads a value of the sitemap bucket. The strings of the result are copies.
func DecodeSitemap(key, value []byte) (Sitemap, error) {
	_, url, _ := bytes.Cut(key, []byte{0})
	s := Sitemap{URL: string(url)}
	body, err := Unseal(value, key)
	if err != nil {
		return s, fmt.Errorf("sitemap %s: %w", url, err)
	}
	d := decoder{b: body}
	s.State, s.Level, s.Hops = SitemapState(d.byte()), d.byte(), d.byte()
	s.Tries, s.Spared = d.tries()
	s.Due, s.Time = int64(d.uvarint()), int64(d.uvarint())
	s.Status, s.Locs, s.Outside = uint16(d.uint(16)), uint32(d.uint(32)), uint32(d.uint(32))
	s.Source, s.Reason = d.string(), d.string()
	if s.State < SitemapOpen || s.State > SitemapFailed {
		d.bad = true
	}
	return s, d.end("sitemap " + s.URL)
}
