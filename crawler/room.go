package crawler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"urltree/internal/words"
	"urltree/storage/record"
)

// lookForRoom is how often a room is looked at besides at each commit and each body in a file.
const lookForRoom = time.Second

// errNoRoom says that a body found no place in memory while the disk is nearly full. Its URL is
// asked again later.
var errNoRoom = errors.New("no room on the disk")

// A room watches the file system of the tree, as the disk monitor of the crawler Heritrix does:
// below a mark fetching pauses, and it goes on when an eighth more than the mark is free. What was
// fetched before goes its way meanwhile.
//
// The index must never meet a full disk. What it is still to write to move what its inbox holds
// stays free above the mark. Between two looks at most what the buffers hold and what is in flight
// comes to the disk, for bytes and permits go back after a write and after a commit, and each of
// these has a look. If somebody else looks just then, what a builder wrote last comes besides, and
// reserve counts bodies twice. So the disk has room as long as the mark is above what
// [Options.reserve] reckons. Bodies in files are not in that sum: each of their writes has a look
// first, and below the mark they are given up.
//
// That sum is an estimate: what a page with very many or very long links adds to the index may be
// more than all else. So while there is less room than that, or than was reckoned, each transaction
// waits until there is room for it, see [engine.roomToCommit].
//
// The nil room watches nothing and is always wide.
type room struct {
	free          func() (bytes, inodes uint64, err error)
	bytes, inodes uint64       // the marks; 0: any number will do
	owed          func() int64 // see owes; nil: none
	pages         int64        // bytes that pages may bring to the disk while fetching pauses
	ample         bool         // above the mark there is room for all that may come
	log           *slog.Logger
	over          <-chan struct{} // closed once nobody waits in enough any more; nil: fetching has not begun
	patience      time.Duration   // for which may be waited in all before fetching begins; 0: no limit
	waited        time.Duration   // before fetching began, by the one goroutine that opens the tree

	looking sync.Mutex // held over free, which hangs when the disk does; nobody waits for it before end

	mu      sync.Mutex
	changed chan struct{} // guarded by mu; closed and replaced by each look
	pauses  int64         // guarded by mu; since the start
	has     uint64        // guarded by mu; bytes that were free at the last look
	needs   uint64        // guarded by mu; for which all wait who are in enough, 0: nobody does
	failed  bool          // guarded by mu; it was told that free fails

	narrow atomic.Pointer[string] // what there is too little of; nil: there is room
}

// room returns the room that the options ask for, nil if they ask for none.
func (o *Options) room(free func() (bytes, inodes uint64, err error)) *room {
	if o.MinFree <= 0 && o.MinFreeInodes <= 0 {
		return nil
	}
	least, _ := o.reserve()
	if o.MinFree > 0 && o.MinFree < least {
		o.Log.Warn("the disk may become full while fetching pauses: buffers may bring more to it than is to stay free",
			"to stay free", Bytes(o.MinFree), "buffers", Bytes(least))
	}
	return &room{
		free: free, bytes: uint64(max(o.MinFree, 0)), inodes: uint64(max(o.MinFreeInodes, 0)),
		pages: min(o.pages(), o.MinFree/2), ample: o.MinFree >= least, patience: o.Time,
		log: o.Log, changed: make(chan struct{}),
		has: math.MaxUint64, // as long as there is no answer: the writes will tell
	}
}

// reserve returns the bytes and inodes that may come to the disk after the last look at it.
//
// Of a page there are its body, once or twice, and its links, each of which the index keeps in
// about four times the bytes that it takes in memory: record, pending row, counters, in pages that
// are half full. An item also takes up to four blocks of 4 KiB beyond what it holds, and eight
// inodes, twice as many as usual. One transaction touches up to 60 MiB of pages of the index, and
// its file grows by 4 MiB.
func (o *Options) reserve() (bytes, inodes int64) {
	return 3*(int64(o.Buffers)*o.BufferBytes+o.MemoryBodies) + o.pages() + 64<<20, 8 * o.items()
}

// pages returns the bytes of that which are not the index's.
func (o *Options) pages() int64 {
	return int64(o.Buffers)*o.BufferBytes + o.MemoryBodies + o.items()*(16<<10)
}

// items returns the most URLs that are in flight, parsed or in buffers.
func (o *Options) items() int64 {
	return int64(o.Crawlers)*int64(o.Downloads) + int64(o.QueueSize) + int64(o.Buffers)*int64(o.BufferSize)
}

// owes says what tells how many bytes are to stay free above the mark. Nobody else may use the room
// yet.
func (r *room) owes(owed func() int64) {
	if r != nil {
		r.owed = owed
	}
}

// until says what is closed once fetching is over: from then on nobody waits in enough. Nobody else
// may use the room yet.
func (r *room) until(over <-chan struct{}) {
	if r != nil {
		r.over = over
	}
}

// low reports whether fetching pauses.
func (r *room) low() bool { return r != nil && r.narrow.Load() != nil }

// String returns what there is too little of, "" if there is room.
func (r *room) String() string {
	if r == nil {
		return ""
	}
	why := r.narrow.Load()
	if why == nil {
		return ""
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.needs > 0 {
		return *why + fmt.Sprintf("; what was fetched waits for %s", Bytes(int64(r.needs)))
	}
	return *why
}

// count returns how often fetching has paused.
func (r *room) count() int64 {
	if r == nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pauses
}

// run looks at the room from time to time until ctx ends.
func (r *room) run(ctx context.Context) {
	if r == nil {
		return
	}
	ticker := time.NewTicker(lookForRoom)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			r.look()
		case <-ctx.Done():
			return
		}
	}
}

// look asks how much room there is, and waits for the answer, but not long. While somebody else
// asks it does nothing.
func (r *room) look() {
	if r == nil || !r.looking.TryLock() {
		return
	}
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		defer r.looking.Unlock() // before whoever waits looks again
		r.ask()
	}()
	patience := time.NewTimer(roomPatience)
	defer patience.Stop()
	select {
	case <-answered:
	case <-patience.C:
	}
}

// roomPatience is how long one who looks waits for the answer. A disk that does not give it holds
// up nobody for longer: it is told of as a step that takes too long, and the writes will tell
// whether the disk is broken.
const roomPatience = 5 * time.Second

// end waits until nobody asks any more, and nobody will. For that the watchdog does not wait for
// ever.
func (r *room) end() {
	if r == nil {
		return
	}
	r.looking.Lock() // for good
}

// ask takes the answer. r.looking is held.
func (r *room) ask() {
	bytes, inodes, err := r.free()
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.changed)
	r.changed = make(chan struct{})
	if err != nil {
		// The writes will tell whether the disk is broken.
		r.has = math.MaxUint64
		if !r.failed {
			r.failed = true
			r.log.Warn("cannot tell how much room the disk has", "err", err)
		}
		return
	}
	was := r.narrow.Load()
	r.has = bytes
	least, leastInodes := r.bytes, r.inodes
	if least > 0 && r.owed != nil {
		least += uint64(r.owed())
	}
	least = max(least, r.needs)
	again, againInodes := least+least/8, leastInodes+leastInodes/8
	if was != nil {
		least, leastInodes = again, againInodes
	}
	var why string
	switch {
	case bytes < least:
		why = fmt.Sprintf("%s free on the disk of the tree, %s needed to go on (-min-free)", Bytes(int64(bytes)), Bytes(int64(again)))
	case inodes < leastInodes:
		why = fmt.Sprintf("%s free on the disk of the tree, %d needed to go on (-min-free-inodes)", words.Count(inodes, "inode"), againInodes)
	}
	switch {
	case why != "":
		r.narrow.Store(&why)
		if was == nil {
			r.pauses++
			r.log.Error("fetching pauses: the disk is nearly full; it goes on when there is room: "+why, "free", Bytes(int64(min(bytes, 1<<62))),
				"least", Bytes(int64(least)), "inodes free", inodes, "least inodes", r.inodes)
		}
	case was != nil:
		r.narrow.Store(nil)
		r.log.Warn("fetching goes on: there is room on the disk again")
	}
}

// wait waits while there is no room and left says that there is something to fetch. It is false
// when ctx ends first.
func (r *room) wait(ctx context.Context, left func() bool) bool {
	for r.low() {
		r.mu.Lock()
		changed := r.changed
		r.mu.Unlock()
		if !r.low() || !left() {
			break
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return false
		}
	}
	return true
}

// await is for what comes to the disk without having been fetched: it looks, and waits until there
// is room. It asks ctx before each look, so waiting is no step that stands still. Before fetching
// begins, no more than Options.Time is waited in all; then the error is errTime.
func (r *room) await(ctx context.Context) error {
	for r.look(); r.low(); r.look() {
		if err := r.pause(ctx, nil); err != nil {
			return err
		}
	}
	return nil
}

// pause waits until it is time for another look, or over is closed.
func (r *room) pause(ctx context.Context, over <-chan struct{}) error {
	begun := time.Now()
	select {
	case <-time.After(lookForRoom):
	case <-over:
	case <-ctx.Done():
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if r.over == nil && r.patience > 0 {
		if r.waited += time.Since(begun); r.waited >= r.patience {
			return errTime
		}
	}
	return nil
}

// enough waits until there are so many bytes of room, or fetching is over, and is the error of ctx
// when that ends first. Meanwhile fetching pauses below what all need who wait. It asks ctx, and
// may end, as await does.
func (r *room) enough(ctx context.Context, bytes int64) error {
	if r == nil || r.bytes == 0 {
		return nil
	}
	r.mu.Lock()
	r.needs += uint64(bytes)
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		r.needs -= uint64(bytes)
		r.mu.Unlock()
	}()
	for {
		r.look()
		r.mu.Lock()
		there := r.has >= uint64(bytes)
		r.mu.Unlock()
		if there {
			return nil
		}
		if err := r.pause(ctx, r.over); err != nil {
			return err
		}
		select {
		case <-r.over:
			return nil
		default:
		}
	}
}

// roomToCommit waits, before a transaction, until there is room for what it adds to the index, and
// for the pages that builders may bring meanwhile. Once fetching is over nothing is waited for.
func (e *engine) roomToCommit(set []*record.Outcome) error {
	if e.room == nil || e.room.ample && !e.room.low() {
		return nil
	}
	bytes, err := e.index.Growth(set)
	if err != nil {
		return err
	}
	return e.room.enough(e.alive, bytes+e.room.pages)
}
