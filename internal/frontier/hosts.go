package frontier

import "strings"

// hosts are the hosts in memory, with the sums over all of them.
//
// Invariant: each host of byName is in list, at its place seat.listed.
type hosts struct {
	byName map[string]*host
	list   []*host
	hand   int   // where in list rounds go on: to shrink windows, and for hosts that may leave
	rows   int64 // the sum of the counts of their stocks
	busy   int   // hosts with a count above 0

	names     int64 // bytes of the names
	windows   int64 // bytes of all windows
	redirects int64 // bytes of all redirects that wait
}

// add puts in a host without rows, of a name that is not there.
func (hs *hosts) add(name string) *host {
	h := &host{name: strings.Clone(name), seat: seat{listed: int32(len(hs.list))}} // a part of a URL would keep all of it
	hs.names += int64(len(h.name))
	hs.byName[h.name] = h
	hs.list = append(hs.list, h)
	return h
}

// remove takes a host out.
func (hs *hosts) remove(h *host) {
	hs.count(h, -h.stock.count)
	hs.windows -= h.bytes
	hs.names -= int64(len(h.name))
	last := len(hs.list) - 1
	hs.list[h.seat.listed] = hs.list[last]
	hs.list[h.seat.listed].seat.listed = h.seat.listed
	hs.list[last] = nil
	hs.list = hs.list[:last]
	delete(hs.byName, h.name)
}

// next returns the next host of the round over all.
func (hs *hosts) next() *host {
	hs.hand = (hs.hand + 1) % len(hs.list)
	return hs.list[hs.hand]
}

// count changes the number of a host's rows.
func (hs *hosts) count(h *host, by int64) {
	if h.stock.count > 0 {
		hs.busy--
	}
	h.stock.count += by
	hs.rows += by
	if h.stock.count > 0 {
		hs.busy++
	}
}

// weigh counts what the window of a host takes now.
func (hs *hosts) weigh(h *host) {
	bytes := h.win.bytes()
	hs.windows += bytes - h.bytes
	h.bytes = bytes
}
