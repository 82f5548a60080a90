package frontier

import (
	"iter"

	"urltree/internal/frontier/queue"
)

// turns are the hosts in memory whose turn has a time, the earliest first, and those whose turn it
// is but of which rows must be read before. A host stands in the tournament, or in needs, or has no
// turn.
type turns struct {
	tournament queue.Tournament[*host]
	needs      []*host
}

// A seat is the place of a host in the tournament, and in the list of all.
type seat struct {
	at     int64    // Unix nanoseconds when the host has its turn
	id     queue.ID // 0: it has none
	listed int32    // its place in hosts.list
}

// taken reports whether the host has a turn.
func (s *seat) taken() bool { return s.id != 0 }

// due reports whether the host has its turn now.
func (s *seat) due(now int64) bool { return s.taken() && s.at <= now }

// first returns the host that has the earliest turn, or nil.
func (t *turns) first() *host {
	item, _ := t.tournament.First()
	return item.Value
}

// place moves a host to the turn at a time, or takes its turn away if ok is false.
func (t *turns) place(h *host, at int64, ok bool) {
	s := &h.seat
	item := queue.Item[*host]{Value: h, Key: uint64(at)}
	switch {
	case ok && !s.taken():
		s.id = t.tournament.Add(item)
	case ok && s.at != at:
		t.tournament.Update(s.id, item)
	case !ok && s.taken():
		t.tournament.Remove(s.id)
		s.id = 0
	}
	s.at = at
}

// due yields at most so many hosts that have their turn now, in no order.
func (t *turns) due(now int64, limit int) iter.Seq[*host] {
	return t.tournament.UpTo(uint64(now), limit)
}

// count returns how many hosts have their turn now, counted up to limit.
func (t *turns) count(now int64, limit int) (n int) {
	for range t.due(now, limit) {
		n++
	}
	return n
}

// need puts a host that has its turn among those of which rows must be read.
func (t *turns) need(h *host) {
	h.refill.queued = true
	t.needs = append(t.needs, h)
}

// needed takes the first of them out.
func (t *turns) needed() *host {
	h := t.needs[0]
	t.needs[0] = nil
	t.needs = t.needs[1:]
	return h
}
