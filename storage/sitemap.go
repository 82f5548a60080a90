package storage

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"
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

// mostSitemaps bounds the sitemaps of a host that are to be read; what it names beyond them is left
// out. An index of indexes may name 2.5 thousand million.
const mostSitemaps = 50_000

// sitemapAge is how old an answer must be for a sitemap to be read again when it is named again,
// in seconds. A robots.txt is asked for again after a day, and that is when its sitemaps are due.
const sitemapAge = int64(12 * time.Hour / time.Second)

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

// sitemapKey keeps the sitemaps of a host together.
func sitemapKey(url string) []byte { return append(sitemapPrefix(Host(url)), url...) }

func sitemapPrefix(host string) []byte { return append([]byte(host), 0) }

// append writes the state first: rows that are done are passed over by that byte alone.
func (s *Sitemap) append(b []byte) []byte {
	b = append(b, byte(s.State), s.Level, s.Hops)
	for _, v := range []uint64{
		packTries(s.Tries, s.Spared), uint64(s.Due), uint64(s.Time), uint64(s.Status), uint64(s.Locs), uint64(s.Outside),
	} {
		b = binary.AppendUvarint(b, v)
	}
	return seal(appendString(appendString(b, s.Source), s.Reason), sitemapKey(s.URL))
}

// decodeSitemap reads a value of the sitemap bucket. The strings of the result are copies.
func decodeSitemap(key, value []byte) (Sitemap, error) {
	_, url, _ := bytes.Cut(key, []byte{0})
	s := Sitemap{URL: string(url)}
	body, err := unseal(value, key)
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

// A sitemapEntry is a row of a sitemap as a change sees it.
type sitemapEntry struct {
	old  Sitemap // State 0: there was none
	row  Sitemap
	told bool // its outcome is in this set
}

// sitemap returns the row of a URL; State 0 where there is none. A damaged one counts as absent.
func (c *change) sitemap(url string) *sitemapEntry {
	if e := c.sitemaps[url]; e != nil {
		return e
	}
	e := &sitemapEntry{row: Sitemap{URL: url}}
	key := sitemapKey(url)
	if v := c.tx.Bucket(bucketSitemap).Get(key); v != nil {
		if s, err := decodeSitemap(key, v); err == nil {
			e.old, e.row = s, s
		}
	}
	if c.sitemaps == nil {
		c.sitemaps = map[string]*sitemapEntry{}
	}
	c.sitemaps[url] = e
	return e
}

// cutSitemap notes that links of a sitemap which is being read got no record.
func (c *change) cutSitemap(url string, links int) {
	if c.cut == nil {
		c.cut = map[string]uint32{}
	}
	c.cut[url] += uint32(links)
}

// endSitemap takes what a sitemap has come to. Its links, or part of them, may have been committed
// before, and cut.
func (c *change) endSitemap(s *Sitemap) {
	e := c.sitemap(s.URL)
	open := e.row.State == SitemapOpen
	e.row, e.told = *s, true
	if open && s.State == SitemapRead {
		e.row.Outside += c.x.cut[s.URL] + c.cut[s.URL]
	}
}

// cutsDone keeps, after the commit, what was cut of the sitemaps that are still being read.
func (c *change) cutsDone() {
	for url, n := range c.cut {
		c.x.cut[url] += n
	}
	for url, e := range c.sitemaps {
		if e.told {
			delete(c.x.cut, url)
		}
	}
}

// nameSitemap sees to it that a sitemap which something names is read, unless it was lately.
func (c *change) nameSitemap(s *Sitemap) {
	row := &c.sitemap(s.URL).row
	switch {
	case row.State == 0 && c.fullOfSitemaps(Host(s.URL)):
	case row.State == 0:
		*row = Sitemap{URL: s.URL, State: SitemapOpen, Level: s.Level, Hops: s.Hops, Source: s.Source}
	case row.State == SitemapOpen && s.Level < row.Level:
		row.Level, row.Hops, row.Source = s.Level, s.Hops, s.Source
	case row.State == SitemapOpen:
	case row.State == SitemapFailed && s.Level == 1, c.now-row.Time >= sitemapAge,
		row.State == SitemapRead && s.Level < row.Level: // what it names may have been too deep
		if c.reopenSitemap(row) {
			row.Level, row.Hops, row.Source = s.Level, s.Hops, s.Source
		}
	}
}

// reopenSitemap opens a row that is done, unless its host has as many to be read as it may: then it
// stays as it is.
func (c *change) reopenSitemap(row *Sitemap) bool {
	if c.fullOfSitemaps(Host(row.URL)) {
		return false
	}
	row.State, row.Tries, row.Spared, row.Due, row.Outside = SitemapOpen, 0, 0, 0, 0
	return true
}

// fullOfSitemaps counts one more sitemap of a host, unless it has as many to be read as it may.
func (c *change) fullOfSitemaps(host string) bool {
	h := c.host(host)
	row, err := c.stored(host, h)
	if err == nil && row.Sitemaps+h.named >= mostSitemaps {
		return true
	}
	h.named++
	return false
}

// settleSitemaps records what became of the sitemaps that a set has to do with.
func (c *change) settleSitemaps(done *Committed) {
	for _, e := range c.sitemaps {
		switch {
		case e.told:
			done.Sitemaps = append(done.Sitemaps, e.row)
		case e.row.State == SitemapOpen && e.old.State != SitemapOpen:
			done.NewSitemaps = append(done.NewSitemaps, e.row)
		}
	}
}

func (c *change) flushSitemaps() error {
	puts := make([]put, 0, len(c.sitemaps))
	for url, e := range c.sitemaps {
		if open, was := e.row.State == SitemapOpen, e.old.State == SitemapOpen; open != was {
			by := int64(1)
			if was {
				by = -1
			}
			c.host(Host(url)).maps += by
			c.totals.Sitemaps += by
		}
		if e.row != e.old && e.row.State != 0 {
			puts = append(puts, put{sitemapKey(url), e.row.append(nil)})
		}
	}
	return c.write(bucketSitemap, puts)
}

// Sitemap returns the row of a sitemap; ok is false where there is none.
func (x *Index) Sitemap(url string) (s Sitemap, ok bool, err error) {
	err = x.view(func(tx *bolt.Tx) error {
		key := sitemapKey(url)
		if v := tx.Bucket(bucketSitemap).Get(key); v != nil {
			ok = true
			s, err = decodeSitemap(key, v)
		}
		return err
	})
	return s, ok, err
}

// EachSitemap calls fn for the row of each sitemap; damaged ones are left out. No transaction is
// open while fn runs.
func (x *Index) EachSitemap(ctx context.Context, fn func(Sitemap)) error {
	return x.scan(ctx, bucketSitemap, nil, func(k, v []byte) error {
		if s, err := decodeSitemap(k, v); err == nil {
			fn(s)
		}
		return nil
	})
}

// Sitemaps reads sitemaps of one host that are to be read and due, without those that skip names,
// at most n. due is the earliest time at which there may be another one, in Unix nanoseconds; 0:
// there is none.
func (x *Index) Sitemaps(host string, now time.Time, n int, skip func(url string) bool) (list []Sitemap, due int64, err error) {
	err = x.scan(context.Background(), bucketSitemap, sitemapPrefix(host), func(k, v []byte) error {
		if len(v) == 0 || SitemapState(v[0]) != SitemapOpen {
			return nil
		}
		s, err := decodeSitemap(k, v)
		if err != nil || skip(s.URL) {
			return nil // damage costs one sitemap
		}
		at := max(s.Due, 1)
		switch {
		case at > now.UnixNano() || len(list) >= n:
			if due == 0 || at < due {
				due = at
			}
		default:
			list = append(list, s)
		}
		return nil
	})
	return list, due, err
}

// RereadSitemaps opens sitemaps again, those that are done and for which pick is true, and gives
// their number. fresh is told of them once that is durable; nil: nobody is. Those of a host that
// has as many to be read as it may stay as they are.
func (x *Index) RereadSitemaps(ctx context.Context, pick func(*Sitemap) bool, fresh func(list []Sitemap, tx uint64)) (int, error) {
	n := 0
	var urls []string
	flush := func() error {
		if len(urls) == 0 {
			return nil
		}
		done, err := x.reread(urls)
		if err != nil {
			return err
		}
		if fresh != nil && len(done.NewSitemaps) > 0 {
			fresh(done.NewSitemaps, done.Tx)
		}
		n, urls = n+len(done.NewSitemaps), urls[:0]
		return nil
	}
	err := x.scan(ctx, bucketSitemap, nil, func(k, v []byte) error {
		s, err := decodeSitemap(k, v)
		if err != nil || s.State == SitemapOpen || !pick(&s) {
			return nil
		}
		if urls = append(urls, s.URL); len(urls) >= scanKeys {
			return flush()
		}
		return nil
	})
	if err == nil {
		err = flush()
	}
	return n, err
}

func (x *Index) reread(urls []string) (Committed, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	var done Committed
	err := x.update(func(c *change) error {
		for _, url := range urls {
			if row := &c.sitemap(url).row; row.State != 0 && row.State != SitemapOpen {
				c.reopenSitemap(row)
			}
		}
		c.settleSitemaps(&done)
		done.Tx = uint64(c.tx.ID())
		return nil
	})
	if err != nil {
		return done, fmt.Errorf("sitemaps to be read again: %w", err)
	}
	return done, nil
}

// sitemaps checks that every row is whole and under its own key, and counts those to be read by
// host.
func (v *verifier) sitemaps(ctx context.Context) error {
	v.toRead = map[string]int64{}
	return v.x.scan(ctx, bucketSitemap, nil, func(k, value []byte) error {
		s, err := decodeSitemap(k, value)
		if err != nil {
			v.damage(err)
		} else if _, err := Key(s.URL); err != nil || !bytes.Equal(sitemapKey(s.URL), k) {
			v.fault(fmt.Sprintf("sitemap under the key %q", k))
		} else if s.State == SitemapOpen {
			v.toRead[Host(s.URL)]++
		}
		return nil
	})
}
