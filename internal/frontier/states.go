package frontier

import "time"

// hostsAtATime is how many hosts EachHost looks at before it lets others have the lock.
const hostsAtATime = 512

// The states of a host, see HostState.
const (
	HostAsked   = "asked"    // something of it is being asked
	HostReady   = "ready"    // something may be asked now, or is being read from the disk
	HostResting = "resting"  // it may be asked later
	HostGivenUp = "given up" // it is not asked any more in this run
	HostIdle    = "idle"     // nothing of it waits
)

// HostStates are all of them.
var HostStates = []string{HostAsked, HostReady, HostResting, HostGivenUp, HostIdle}

// A HostState is what a host does at the moment.
type HostState struct {
	Name    string
	State   string
	Pending int64         // rows of range Now and Later
	Rest    time.Duration // until its next turn; 0: now, or it has none
	Delay   time.Duration // between two requests
	Fails   uint32        // in a row
	Cause   string        // of the last one, "" if there is none
}

// EachHost calls fn with each host in memory, in no order. Hosts that come or go meanwhile may be
// left out or come twice.
func (f *Frontier) EachHost(fn func(HostState)) {
	group := make([]HostState, 0, hostsAtATime)
	for at := -1; at != 0; { // from the end: what leaves is replaced by what was seen
		group = group[:0]
		f.mu.Lock()
		now := f.clock.now()
		if n := len(f.hosts.list); at < 0 || at > n {
			at = n
		}
		for ; at > 0 && len(group) < hostsAtATime; at-- {
			group = append(group, f.stateLocked(f.hosts.list[at-1], now))
		}
		f.mu.Unlock()
		for _, h := range group {
			fn(h)
		}
	}
}

// Host returns what a host does, and whether it is in memory.
func (f *Frontier) Host(name string) (HostState, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.hosts.byName[name]
	if h == nil {
		return HostState{}, false
	}
	return f.stateLocked(h, f.clock.now()), true
}

func (f *Frontier) stateLocked(h *host, now int64) HostState {
	s := HostState{
		Name: h.name, State: HostIdle, Pending: h.stock.count, Delay: h.pace.wait(&f.opts), Fails: h.pace.fails, Cause: h.pace.cause,
	}
	switch {
	case h.pace.givenUp:
		s.State = HostGivenUp
	case h.lending.borrowers > 0 || len(h.out) > 0:
		s.State = HostAsked
	case h.seat.due(now) || h.refill.waits():
		s.State = HostReady
	case h.seat.taken():
		s.State, s.Rest = HostResting, time.Duration(h.seat.at-now)
	}
	return s
}
