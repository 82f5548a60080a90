package frontier

import (
	"slices"

	"urltree/storage/record"
)

// Withdraw drops all rows that are not being asked: those that are out count as done once they come
// back, whatever has become of them. All wait in the Store, which must not return them until they
// are added again.
func (f *Frontier) Withdraw() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.withdrawn = true
	f.withdrawLocked()
	f.wakeLocked()
}

// withdrawLocked drops rows, if Withdraw was called: at once, and what readings of the Store that
// were under way have brought.
func (f *Frontier) withdrawLocked() {
	if !f.withdrawn {
		return
	}
	for _, h := range f.turns.needs {
		h.refill.queued = false
	}
	f.turns.needs = nil
	for _, h := range slices.Clone(f.hosts.list) {
		h.plain = sorted{}
		h.win = f.newWindow(&h.plain)
		h.stock.more, h.stock.due = false, 0
		if h.side != nil {
			h.side.rows = nil
		}
		h.repeats = nil
		out := map[record.Kind]int64{}
		for _, o := range h.out {
			out[o.kind]++
		}
		if h.side != nil {
			f.countLocked(h, record.SitemapRow, out[record.SitemapRow]-h.side.count)
		}
		f.countLocked(h, record.PageRow, int64(len(h.out))-h.stock.count)
		f.placeLocked(h)
	}
	f.counts.live = f.hosts.rows
}
