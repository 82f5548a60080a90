package frontier

import (
	"bytes"
	"fmt"
	"slices"
	"sort"
	"strings"

	"urltree/storage/record"
)

// Order tree is source B's: each crawler is a worker with a place in the tree of all URLs, whose
// root is the sentinel. It asks an open page directly below its place, and stays in it if there are
// open pages below; else it goes down into a child with open pages below, the one with the fewest
// workers; else it climbs. An error takes it back to the sentinel.
//
// What is open is read from the index, in small steps and without the lock. What is out counts as
// processing, and so does all of a host that may not be asked now: a worker waits where it is while
// no host may be asked, and climbs out of such a host while others may.
//
// So the order only says which row of which ready host is next. A walk may miss one, for it looks
// at a bounded number of entries and the index changes meanwhile; then the frontier lends as in any
// other order, and the worker goes on from there. That the end is exact does not depend on walks.

const (
	firstLook = 16  // entries read at a time: at first
	mostLook  = 256 // and at most; enough to choose a child from
	fewLook   = 32  // enough if there is a child without a worker
	mostReads = 64  // reads of one walk
	mostReady = 256 // ready hosts that one walk chooses from
	mostDeep  = 64  // folders of one way that are counted
)

// A Tree reads the entries of folders in which something waits, see storage.Queues.
type Tree interface {
	OpenChildren(folder, after []byte, n int) (list []record.Child, next []byte, err error)
	OpenOf(keys [][]byte) ([]record.Child, error)
}

// A Taker takes for one crawler: in order tree it is a worker of source B.
type Taker struct {
	f  *Frontier
	at string // guarded by f.mu; the folder key of its place, "" is the sentinel
}

// Taker returns a place for a crawler, at the sentinel.
func (f *Frontier) Taker() *Taker { return &Taker{f: f} }

// A node is a folder with a worker at or below it, or with a row below it that is out. Others are
// not in memory, so closed subtrees cost nothing; nor are those that lie more than mostDeep deep.
type node struct {
	workers int    // at or below it
	out     int    // rows below it that are out
	from    string // the key of the child that was chosen last: the next look begins behind it
}

// A scan is a reading of the index on its way.
type scan struct {
	gone map[string]struct{} // URLs that were out and no longer are: what is read of them may be old
}

// walks are the folders and readings of order tree.
//
// Invariant: a node exists only while one of its counts is above 0.
type walks struct {
	nodes map[string]*node   // by folder key, the sentinel left out
	scans map[*scan]struct{} // all readings
	found int64              // loans that walks came to
}

// count adds to the counts of the nodes from the scheme down to a folder.
func (ws *walks) count(folder string, workers, out int) {
	for at, deep := 0, 0; at < len(folder) && deep < mostDeep; deep++ {
		at += strings.IndexByte(folder[at:], 0) + 1
		key := folder[:at] // not a copy: the nodes of one way share their text
		n := ws.nodes[key]
		if n == nil {
			n = &node{}
			ws.nodes[key] = n
		}
		n.workers += workers
		n.out += out
		if n.workers == 0 && n.out == 0 {
			delete(ws.nodes, key)
		}
	}
}

// node returns what is known of a folder; a zero node if nothing is.
func (ws *walks) node(key string) node {
	if n := ws.nodes[key]; n != nil {
		return *n
	}
	return node{}
}

// chosen notes the child of a folder behind which the next look begins.
func (ws *walks) chosen(folder, child string) {
	if n := ws.nodes[folder]; n != nil {
		n.from = child
	}
}

// parent is the folder above a folder or a page; that of a scheme is the sentinel.
func parent(key string) string { return key[:strings.LastIndexByte(key[:max(len(key)-1, 0)], 0)+1] }

// outLocked counts a row that goes out, or comes back, in the folders above it.
func (f *Frontier) outLocked(row *record.Row, by int) {
	if f.opts.Tree == nil || row.Kind != record.PageRow {
		return
	}
	if by < 0 {
		for s := range f.walks.scans {
			s.gone[row.URL] = struct{}{}
		}
	}
	key, err := record.Key(row.URL)
	if err != nil {
		return // no folder has such a row below it
	}
	f.walks.count(parent(string(key)), 0, by)
}

// moveLocked moves a worker.
func (f *Frontier) moveLocked(t *Taker, to string) {
	from := t.at
	t.at = to
	f.walks.count(to, 1, 0) // first: what both share must stay
	f.walks.count(from, -1, 0)
}

// stepLocked lends the next URL of the walk of a Taker, and where it has none one of a host that
// may be asked.
func (f *Frontier) stepLocked(t *Taker) []*Loan {
	for h := f.asideLocked(); h != nil && f.err == nil; h = f.asideLocked() {
		if l := f.serveLocked(h, f.clock.now()); l != nil {
			l.by = t
			return []*Loan{l}
		}
		if len(f.turns.needs) > 0 {
			f.refillLocked(f.turns.needed())
		}
	}
	if l := f.walkLocked(t); l != nil {
		f.walks.found++
		l.by = t
		return []*Loan{l}
	}
	loans := f.gatherLocked(1)
	for _, l := range loans {
		l.by = t
		for _, r := range l.Rows[:min(len(l.Rows), 1)] {
			if key, err := record.Key(r.URL); err == nil && r.Kind == record.PageRow {
				f.moveLocked(t, parent(string(key)))
			}
		}
	}
	return loans
}

// asideLocked returns a host that may be asked now and has something that no walk comes to: a row
// of the side of which it is the turn, rows that are not to be asked any more, or none, though it
// seemed so.
func (f *Frontier) asideLocked() *host {
	now := f.clock.now()
	for h := range f.turns.due(now, mostReady) {
		if h.stored.unread || h.pace.givenUp || h.stock.count <= int64(len(h.out)) || h.side.turn(h, now) {
			return h
		}
	}
	return nil
}

// asks reports whether a host may be asked now. The rows of one that is given up are not to be
// asked; they leave in any order.
func (h *host) asks(now int64) bool {
	return h != nil && h.seat.due(now) && !h.pace.givenUp && !h.stored.unread && h.redirects == nil
}

// labelsOf is the part of a key that names the host: the labels of its name.
func labelsOf(host string) []byte {
	b := append([]byte{record.Label}, strings.ReplaceAll(host, ".", "\x00"+string(record.Label))...)
	return append(b, 0)
}

// splitKey cuts a folder key below a scheme into the scheme, the labels and what follows.
func splitKey(key string) (scheme, labels, path string) {
	at := strings.IndexByte(key, 0) + 1
	end := at
	for end < len(key) && key[end] == record.Label {
		end += strings.IndexByte(key[end:], 0) + 1
	}
	return key[:at], key[at:end], key[end:]
}

// hostOf is the name that labels of a key spell.
func hostOf(labels string) string {
	return strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(labels, string(record.Label)), "\x00"), "\x00"+string(record.Label), ".")
}

// A walk is the way of a worker to its next loan.
type walk struct {
	f      *Frontier
	t      *Taker
	reads  int
	came   string          // the folder that it has come down to, which is known to have something open
	barren map[string]bool // folders in which this walk has found nothing
	ready  [][]byte        // labels of hosts that could be asked when it began, sorted; nil: not known yet
}

// walkLocked moves a worker until it comes to a row that may be asked, and lends it. It returns
// nil when no host may be asked, or when it has found none. It unlocks while the index is read.
func (f *Frontier) walkLocked(t *Taker) *Loan {
	w := &walk{f: f, t: t, barren: map[string]bool{}}
	for f.err == nil {
		now := f.clock.now()
		if top := f.turns.first(); top == nil || top.seat.at > now {
			return nil // all is processing
		}
		at := t.at
		loan, down, ok := w.lookLocked(at, now)
		switch {
		case loan != nil:
			return loan
		case !ok:
			return nil
		case t.at != at: // an error has sent it back meanwhile
		case down != "":
			f.walks.chosen(at, down)
			f.moveLocked(t, down)
			w.came = down
		case at == "":
			return nil
		default:
			w.barren[at] = true
			f.moveLocked(t, parent(at))
		}
	}
	return nil
}

// readyBelowLocked returns the keys of the children of a folder of labels, or of a scheme, that
// lead to hosts which may be asked.
func (w *walk) readyBelowLocked(at, labels string, now int64) (kids [][]byte) {
	if w.ready == nil {
		w.ready = [][]byte{}
		for h := range w.f.turns.due(now, mostReady) {
			if h.asks(now) {
				w.ready = append(w.ready, labelsOf(h.name))
			}
		}
		slices.SortFunc(w.ready, bytes.Compare)
	}
	first := sort.Search(len(w.ready), func(i int) bool { return string(w.ready[i]) >= labels })
	for _, r := range w.ready[first:] {
		name, below := bytes.CutPrefix(r, []byte(labels))
		if !below {
			break
		}
		if len(name) == 0 {
			continue // the host of this folder itself
		}
		kid := append([]byte(at), name[:bytes.IndexByte(name, 0)+1]...)
		if len(kids) == 0 || !bytes.Equal(kids[len(kids)-1], kid) {
			kids = append(kids, kid)
		}
	}
	return kids
}

// entriesLocked returns which entries of a folder may lead to something: some children by their
// keys, in order, and, with paths, all that are not labels.
func (w *walk) entriesLocked(at string, now int64) (kids [][]byte, paths bool) {
	if at == "" {
		return [][]byte{[]byte("http\x00"), []byte("https\x00")}, false
	}
	_, labels, path := splitKey(at)
	if path == "" {
		kids = w.readyBelowLocked(at, labels, now)
	}
	return kids, w.f.hosts.byName[hostOf(labels)].asks(now)
}

// lookLocked looks at the entries of a folder, from where the last look ended and once round. It
// lends an open page, or names the child to go down to, or neither. It is not ok when the walk has
// read enough.
func (w *walk) lookLocked(at string, now int64) (loan *Loan, down string, ok bool) {
	f := w.f
	kids, paths := w.entriesLocked(at, now)
	if len(kids) == 0 && !paths {
		return nil, "", true
	}
	if paths && at != w.came {
		// Where nothing is left, to find that out entry by entry may take long.
		w.reads++
		list, _, _ := w.readLocked(parent(at), [][]byte{[]byte(at)}, false, "", 1)
		if f.err != nil || w.t.at != at || len(list) == 0 || !f.openLocked(&list[0]) {
			return nil, "", f.err == nil
		}
	}
	start := f.walks.node(at).from
	fewest := 0
	seen, round := 0, start == ""
	for after, size := start, firstLook; ; size = min(4*size, mostLook) {
		if w.reads++; w.reads > mostReads {
			return nil, down, down != ""
		}
		list, next, s := w.readLocked(at, kids, paths, after, size)
		if f.err != nil || w.t.at != at {
			return nil, "", f.err == nil
		}
		now = f.clock.now()
		var picked []record.Child
		for i := range list {
			c := &list[i]
			key := string(c.Key)
			if round && start != "" && key > start {
				next = ""
				break
			}
			seen++
			if c.Record != nil && len(picked) < f.opts.PerLoan && f.pickableLocked(&c.Record.Row, picked, s, now) {
				picked = append(picked, *c)
			}
			if w.barren[key] {
				continue
			}
			workers := f.walks.node(key).workers
			if f.openLocked(c) && (down == "" || workers < fewest) {
				down, fewest = key, workers
			}
		}
		if loan := w.lendLocked(at, picked, now); loan != nil {
			return loan, "", true
		}
		switch {
		case down != "" && (seen >= mostLook || seen >= fewLook && fewest == 0):
			return nil, down, true
		case next != "":
			after = next
		case round:
			return nil, down, true
		default:
			after, round = "", true
		}
	}
}

// openLocked reports whether something below an entry is open and not out.
func (f *Frontier) openLocked(c *record.Child) bool {
	return c.Below.Open() > int64(f.walks.node(string(c.Key)).out)
}

// pickableLocked reports whether a row that was read may be lent now, with those that are picked
// already, which are of one host.
func (f *Frontier) pickableLocked(r *record.Row, picked []record.Child, s *scan, now int64) bool {
	name := record.Host(r.URL)
	h := f.hosts.byName[name]
	if !h.asks(now) || len(picked) > 0 && record.Host(picked[0].Record.URL) != name {
		return false
	}
	if r.Range == record.Later && r.Due > now {
		return false
	}
	_, out := f.lent.rows[r.URL]
	_, gone := s.gone[r.URL]
	return !out && !gone
}

// lendLocked lends pages of one host directly below a folder. Of the last of them the worker looks
// for the children next.
func (w *walk) lendLocked(at string, picked []record.Child, now int64) *Loan {
	if len(picked) == 0 {
		return nil
	}
	f := w.f
	h := f.hosts.byName[record.Host(picked[0].Record.URL)]
	rows := &picks{list: picked, win: h.win.(*sorted)} // order tree has no other windows
	l := f.lendLocked(h, rows, now)
	f.placeLocked(h)
	if taken := len(picked) - len(rows.list); taken > 0 {
		last := &picked[taken-1]
		f.walks.chosen(at, string(last.Key))
		if last.Below.Open() > 0 {
			f.moveLocked(w.t, string(last.Key))
		}
	}
	return l
}

// readLocked reads entries of a folder behind the key `after` ("": from the first), as
// storage.Queues.OpenChildren does: kids, then, with paths, what else is there. next is where to go
// on; "": there are no others. It unlocks meanwhile.
func (w *walk) readLocked(at string, kids [][]byte, paths bool, after string, n int) (list []record.Child, next string, s *scan) {
	f := w.f
	s = &scan{gone: map[string]struct{}{}}
	f.walks.scans[s] = struct{}{}
	f.mu.Unlock()
	// Ports, segments and queries stand behind all labels.
	pages := at + string(record.Label+1) + "\x00"
	first := sort.Search(len(kids), func(i int) bool { return string(kids[i]) > after })
	last := min(first+n, len(kids))
	var err error
	switch {
	case first < last:
		list, err = f.opts.Tree.OpenOf(kids[first:last])
		if last < len(kids) {
			next = string(kids[last-1])
		} else if paths {
			next = pages
		}
	case paths:
		var end []byte
		list, end, err = f.opts.Tree.OpenChildren([]byte(at), []byte(max(after, pages)), n)
		next = string(end)
	}
	f.mu.Lock()
	delete(f.walks.scans, s)
	if err != nil {
		f.failLocked(fmt.Errorf("folder %q: %w", at, err))
	}
	return list, next, s
}

// picks are open pages of one host that a walk has chosen. Some may stand in the window of their
// host.
type picks struct {
	list []record.Child
	win  *sorted
}

func (p *picks) first() *record.Row {
	if len(p.list) == 0 {
		return nil
	}
	return &p.list[0].Record.Row
}

func (p *picks) pop() record.Row {
	r := p.list[0].Record.Row
	p.list = p.list[1:]
	p.win.remove(r.URL)
	return r
}

// remove takes a row out, if it is there. Its place may not be that of the row in the index by now,
// so it is found by its URL; the windows of order tree are small.
func (w *sorted) remove(url string) {
	at := slices.IndexFunc(w.rows[w.head:], func(r record.Row) bool { return r.URL == url })
	if at < 0 {
		return
	}
	w.text -= rowText(&w.rows[w.head+at])
	w.rows = slices.Delete(w.rows, w.head+at, w.head+at+1)
	if w.len() == 0 {
		*w = sorted{}
	}
}
