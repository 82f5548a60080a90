package frontier

import (
	"fmt"

	"urltree/storage/record"
)

// fewSitemaps is how many sitemaps of a host are read from the store at a time.
const fewSitemaps = 16

// Sitemaps to be read are rows of a host as well, in a queue of their own. One is given out alone,
// before the URLs that wait, but not two in a row while URLs wait: a host with many sitemaps gets
// on with both.
//
// Invariant while no refill of the host is reading: each sitemap that AddSitemaps or New has told
// of is in next, or out, or on disk only. If one is on disk only, due is set and not after its Due.
//
// Of a host that is given up the sitemaps are forgotten: they wait for the next run.
type sitemaps struct {
	count int64            // that are to be read, those that are out included
	next  []record.Sitemap // may be asked at once
	out   map[string]bool  // URLs lent, neither returned nor done
	due   int64            // see above; 1: at once; 0: none
	rest  bool             // the last loan was one of these
}

// openSitemapsLocked takes note of the sitemaps that a host has as it comes in.
func (f *Frontier) openSitemapsLocked(h *host, n int64) {
	if n <= 0 {
		return
	}
	if h.givenUp {
		f.live -= n
		f.forgotten[h.name] = true
		return
	}
	m := h.sitemapsOf()
	m.count = n
	m.dueBy(0)
	f.resident += n
}

// sitemapsOf returns the sitemaps of a host, to be changed.
func (h *host) sitemapsOf() *sitemaps {
	if h.maps == nil {
		h.maps = &sitemaps{out: map[string]bool{}}
	}
	return h.maps
}

// dueBy notes that a sitemap on disk is due at due.
func (m *sitemaps) dueBy(due int64) {
	due = max(due, 1)
	if m.due == 0 || due < m.due {
		m.due = due
	}
}

// turn is when a sitemap may be asked for at the earliest, the host's own times aside.
func (m *sitemaps) turn() (at int64, ok bool) {
	switch {
	case m == nil:
		return 0, false
	case len(m.next) > 0:
		return 0, true
	}
	return m.due, m.due != 0
}

// needRead reports whether the store must be read before one can be lent.
func (m *sitemaps) needRead(now int64) bool {
	return m != nil && len(m.next) == 0 && m.due != 0 && m.due <= now
}

// countSitemapsLocked changes the number of a host's sitemaps.
func (f *Frontier) countSitemapsLocked(h *host, by int64) {
	h.maps.count += by
	f.live += by
	f.resident += by
	if h.maps.count == 0 && len(h.maps.out) == 0 && len(h.maps.next) == 0 && h.reading == nil {
		h.maps = nil
	}
}

// AddSitemaps adds sitemaps that are to be read and were not before, durable since
// transaction tx.
func (f *Frontier) AddSitemaps(list []record.Sitemap, tx uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range list {
		name := record.Host(list[i].URL)
		h := f.hosts[name]
		switch {
		case f.forgotten[name] && (h == nil || h.without):
			continue
		case h == nil && f.newsOutsideLocked():
			f.live++
			continue
		case h == nil:
			h = f.hostLocked(name)
		case tx <= h.tx:
			f.live++ // it was read from the store with this one
			continue
		}
		if h.givenUp {
			f.forgotten[name] = true
			continue
		}
		h.sitemapsOf().dueBy(list[i].Due)
		f.countSitemapsLocked(h, 1)
		f.placeLocked(h)
	}
	f.wakeLocked()
}

// DoneSitemaps records that outcomes of sitemaps are committed, which are now as list says: to be
// read as before, or done. Those that are not out are ignored.
func (f *Frontier) DoneSitemaps(list []record.Sitemap) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range list {
		s := &list[i]
		h := f.hosts[record.Host(s.URL)]
		if h == nil || !f.sitemapBackLocked(h, s.URL) {
			continue
		}
		if s.State == record.SitemapOpen && !h.givenUp {
			h.maps.dueBy(s.Due)
		} else {
			f.countSitemapsLocked(h, -1)
		}
		if !f.leaveLocked(h) {
			f.placeLocked(h)
		}
	}
	f.wakeLocked()
}

func (f *Frontier) sitemapBackLocked(h *host, url string) bool {
	if h.maps == nil || !h.maps.out[url] {
		return false
	}
	delete(h.maps.out, url)
	f.out--
	return true
}

// Expect changes the number of commits that may bring rows though no row is out for them, such as
// that of a robots.txt: n more, or -n fewer. No Take ends before there are none.
func (f *Frontier) Expect(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.expected += int64(n)
	f.changes++ // what is expected may wait in a buffer: another reason for Idle
	f.wakeLocked()
}

// lendSitemapLocked puts a sitemap into a loan of a host that has its turn, or the robots.txt that
// must be asked for before. It is false when no sitemap is next; rows are those that could be lent.
func (f *Frontier) lendSitemapLocked(h *host, rows source, l *Loan) bool {
	m := h.maps
	if m == nil || len(m.next) == 0 || m.rest && rows.first() != nil {
		return false
	}
	if f.opts.NeedRobots != nil {
		if origin := record.Origin(m.next[0].URL); f.opts.NeedRobots(origin) {
			h.alone = true
			if h.borrowers == 0 {
				l.Robots = origin
			}
			return true
		}
	}
	s := m.next[0]
	m.next = m.next[1:]
	m.out[s.URL] = true
	m.rest = true
	f.out++
	l.Sitemap = &s
	return true
}

// returnSitemapLocked takes back what a loan has not brought to an outcome.
func (f *Frontier) returnSitemapLocked(h *host, s *record.Sitemap) {
	switch {
	case !f.sitemapBackLocked(h, s.URL):
	case h.givenUp:
		f.countSitemapsLocked(h, -1)
	default:
		h.maps.next = append(h.maps.next, *s)
	}
}

// forgetSitemapsLocked drops all that are not out.
func (f *Frontier) forgetSitemapsLocked(h *host) {
	if h.maps == nil {
		return
	}
	f.forgotten[h.name] = true
	h.maps.next, h.maps.due = nil, 0
	f.countSitemapsLocked(h, int64(len(h.maps.out))-h.maps.count)
}

// readSitemapsLocked reads sitemaps of a host that has joined needs, as refillLocked does rows.
// What is out is skipped to the end, whatever becomes of it meanwhile.
func (f *Frontier) readSitemapsLocked(h *host) {
	m := h.maps
	skip := make(map[string]bool, len(m.out))
	for url := range m.out {
		skip[url] = true
	}
	m.due = 0
	h.queued, h.reading = false, new(reading)
	f.readers++
	f.refills++
	f.mu.Unlock()
	list, due, err := f.opts.Store.Sitemaps(h.name, f.time(), fewSitemaps, func(url string) bool { return skip[url] })
	f.mu.Lock()
	f.readers--
	added := h.reading.added
	h.reading = nil
	switch {
	case err != nil:
		m.dueBy(0) // as for rows: none may seem to be gone
		if f.err == nil {
			f.err = fmt.Errorf("frontier: sitemaps of %s: %w", h.name, err)
		}
	case h.givenUp:
	default:
		m.next = append(m.next, list...)
		if due != 0 {
			m.dueBy(due)
		}
	}
	if n := int64(len(m.out)) - m.count; len(m.next) == 0 && m.due == 0 && n < 0 {
		// The index has fewer than it said. Nobody may wait for the others.
		f.missing -= n
		f.countSitemapsLocked(h, n)
	}
	sortRows(added)
	f.insertLocked(h, added)
	f.placeLocked(h)
	f.wakeLocked()
}
