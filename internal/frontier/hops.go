package frontier

import "urltree/storage/record"

// A hop is a request for the robots.txt of an origin to which a redirect has led: it waits for the
// turn of the host that it asks. Meanwhile the host of the origin lends nothing else but hops that
// lead to it.
type hop struct {
	origin string
	url    string
	n      int // redirects so far
}

// Hops that wait at a host, first come first served, and by turns with what else the host has.
type hops struct {
	wait []hop
	rest bool // the last loan was one of these
}

// hopBytes is about what a hop takes besides its texts.
const hopBytes = 128

// Redirected says that the answer to the robots.txt of a loan leads to a URL, which is lent as the
// next hop of that robots.txt when its own host has its turn. It reports whether that is so: there
// is not room for any number of them. It is called before Return, and not without a request.
func (f *Frontier) Redirected(l *Loan, url string) (bool, error) {
	name := record.Host(url)
	f.mu.Lock()
	there := f.hosts[name] != nil
	f.mu.Unlock()
	var stored record.HostRow
	var tx uint64
	if !there {
		var err error
		if stored, tx, err = f.opts.Store.HostAt(name); err != nil {
			return false, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	size := int64(len(url) + len(l.Robots) + hopBytes)
	h := f.hosts[name]
	if f.hopBytes+size > f.opts.Memory/16 || h == nil && there {
		return false, nil
	}
	if h == nil {
		f.wantsLocked(&stored) // without sitemaps that do not count
		h = f.loadLocked(&stored, tx)
	}
	if h.hops == nil {
		h.hops = &hops{}
	}
	f.hopBytes += size
	h.hops.wait = append(h.hops.wait, hop{l.Robots, url, l.Hop + 1})
	h.leaving = false
	l.onward = true
	if l.Hop == 0 {
		l.h.away++
		f.placeLocked(l.h)
	}
	f.placeLocked(h)
	f.wakeLocked()
	return true, nil
}

// lendHopLocked puts the next hop into a loan, if it is the turn of one.
func (f *Frontier) lendHopLocked(h *host, rows source, l *Loan) bool {
	if h.hops == nil {
		return false
	}
	others := h.away == 0 && !h.alone && !h.givenUp && (rows.first() != nil || h.maps != nil && len(h.maps.next) > 0)
	if h.hops.rest && others {
		h.hops.rest = false
		return false
	}
	next := h.hops.wait[0]
	h.hops.rest = true
	if h.hops.wait = h.hops.wait[1:]; len(h.hops.wait) == 0 {
		h.hops = nil
	}
	f.hopBytes -= int64(len(next.url) + len(next.origin) + hopBytes)
	l.Robots, l.RobotsURL, l.Hop = next.origin, next.url, next.n
	if h.givenUp {
		l.Lost, l.used = f.holdReason(h, nil), true
	}
	return true
}

// returnHopLocked takes back a hop that was not asked, or ends the way of a robots.txt that leads
// no further.
func (f *Frontier) returnHopLocked(l *Loan) {
	switch {
	case !l.used:
		if l.h.hops == nil {
			l.h.hops = &hops{}
		}
		f.hopBytes += int64(len(l.RobotsURL) + len(l.Robots) + hopBytes)
		l.h.hops.wait = append([]hop{{l.Robots, l.RobotsURL, l.Hop}}, l.h.hops.wait...)
	case !l.onward:
		h := f.hosts[record.Host(l.Robots+"/")]
		h.away--
		f.placeLocked(h)
	}
}

// Times returns the times of a host of a loan, to be stored.
func (f *Frontier) Times(host string) record.HostTimes {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.hostLocked(host)
	h.seq++
	return h.times()
}
