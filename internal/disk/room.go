package disk

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"urltree/internal/words"
)

const (
	// lookForRoom is how often a room looks besides at each transaction and each body in a file.
	lookForRoom = time.Second
	// roomPatience is how long a caller of look waits for the answer. A disk that does not give it
	// holds up nobody for longer: it is reported as a call that hangs, and the writes will show
	// whether the disk is broken.
	roomPatience = 5 * time.Second
)

// A Space says how much room is to stay free on the disk of the tree. It is watched as the disk
// monitor of the crawler Heritrix does: below a mark fetching pauses, and it goes on when an eighth
// more than the mark is free. What was fetched before goes its way meanwhile.
//
// The index must not meet a full disk, so each transaction asks first: while nothing has been
// fetched it waits for the mark, and then for as much as a transaction may write, or half of the
// mark if that is less. Once fetching is over nothing waits.
type Space struct {
	Bytes, Inodes uint64 // the marks, below which fetching pauses; 0: any number will do
	Transaction   uint64 // bytes that one transaction of the index may write
	// Patience is how long Ask waits in all before Begin, then its error is Late; 0: without limit.
	Patience time.Duration
	Late     error
}

// Low asks how much room there is, and reports whether fetching pauses for it.
func (w *Watch) Low() bool { return w.room.look() }

// TooLittle returns what there is too little of on the disk for fetching to go on, "" if there is
// room.
func (w *Watch) TooLittle() string { return w.room.String() }

// Room returns the bytes that were free on the disk at the last look, -1 if that is not known, and
// the mark below which fetching pauses.
func (w *Watch) Room() (free, least int64) {
	r := w.room
	if r == nil {
		return -1, 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.has > math.MaxInt64 {
		return -1, int64(r.space.Bytes)
	}
	return int64(r.has), int64(r.space.Bytes)
}

// Ask waits until there is room for a transaction, see [Space]. The error is the cause of the
// context that has ended meanwhile, or Space.Late.
func (w *Watch) Ask() error {
	if w == nil {
		return nil
	}
	return w.room.ask()
}

// A room watches a [Space]. The nil room watches nothing and is always wide. All methods may be
// called from any goroutine.
type room struct {
	space Space
	free  func() (bytes, inodes uint64, err error)
	log   *slog.Logger

	looks   sync.WaitGroup         // of begin
	looking sync.Mutex             // held over free, which hangs when the disk does
	narrow  atomic.Pointer[string] // what there is too little of; nil: there is room

	mu      sync.Mutex
	ctx     context.Context // guarded by mu; ends waiting
	over    <-chan struct{} // guarded by mu; closed once fetching is over; nil: it has not begun
	has     uint64          // guarded by mu; bytes that were free at the last look
	pauses  int64           // guarded by mu; since the start
	waiting int             // guarded by mu; calls of ask that wait
	waited  time.Duration   // guarded by mu; of Space.Patience
	failed  bool            // guarded by mu; it was logged that free fails
}

// newRoom returns the room of a disk, of which free returns what is left; nil if no mark is set.
// Waiting ends with ctx, until begin says otherwise.
func newRoom(ctx context.Context, space Space, free func() (bytes, inodes uint64, err error), log *slog.Logger) *room {
	if space.Bytes == 0 && space.Inodes == 0 {
		return nil
	}
	space.Transaction = min(space.Transaction, space.Bytes/2)
	return &room{
		space: space, free: free, log: log, ctx: ctx,
		has: math.MaxUint64, // as long as there is no answer: the writes will show
	}
}

// begin says that fetching begins, and is over when over is closed: meanwhile it looks at the room
// from time to time. Waiting ends with ctx.
func (r *room) begin(ctx context.Context, over <-chan struct{}) {
	if r == nil {
		return
	}
	r.mu.Lock()
	r.ctx, r.over = ctx, over
	r.mu.Unlock()
	r.look()
	r.looks.Go(func() {
		ticker := time.NewTicker(lookForRoom)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				r.look()
			case <-over:
				return
			case <-ctx.Done():
				return
			}
		}
	})
}

func (r *room) low() bool { return r != nil && r.narrow.Load() != nil }

// String returns what there is too little of, "" if there is room.
func (r *room) String() string {
	if !r.low() {
		return ""
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	why := r.narrow.Load()
	switch {
	case why == nil:
		return ""
	case r.waiting > 0 && r.over != nil:
		return *why + "; what was fetched waits for " + words.Bytes(int64(r.space.Transaction))
	}
	return *why
}

func (r *room) paused() int64 {
	if r == nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pauses
}

// look asks how much room there is, and waits for the answer, but not long. While another goroutine
// asks it does not. It reports whether fetching pauses.
func (r *room) look() (low bool) {
	if r == nil || !r.looking.TryLock() {
		return r.low()
	}
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		defer r.looking.Unlock() // before the caller looks again
		r.answer(r.free())
	}()
	patience := time.NewTimer(roomPatience)
	defer patience.Stop()
	select {
	case <-answered:
	case <-patience.C:
	}
	return r.low()
}

// close waits until no call asks any more, and none will. Fetching is over.
func (r *room) close() {
	if r != nil {
		r.looks.Wait()
		r.looking.Lock() // for good
	}
}

func (r *room) answer(bytes, inodes uint64, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.has = math.MaxUint64
		if !r.failed {
			r.failed = true
			r.log.Warn("cannot tell how much room the disk has", "err", err)
		}
		return
	}
	r.has = bytes
	was := r.narrow.Load()
	least, leastInodes := r.space.Bytes, r.space.Inodes
	again, againInodes := least+least/8, leastInodes+leastInodes/8
	if was != nil {
		least, leastInodes = again, againInodes
	}
	var why string
	switch {
	case bytes < least:
		why = fmt.Sprintf("%s free on the disk of the tree, %s needed to go on (-min-free)", words.Bytes(int64(bytes)), words.Bytes(int64(again)))
	case inodes < leastInodes:
		why = fmt.Sprintf("%s free on the disk of the tree, %d needed to go on (-min-free-inodes)", words.Count(inodes, "inode"), againInodes)
	}
	switch {
	case why != "":
		r.narrow.Store(&why)
		if was == nil {
			r.pauses++
			r.log.Error("fetching pauses: the disk is nearly full; it goes on when there is room: "+why, "free", words.Bytes(int64(min(bytes, 1<<62))),
				"least", words.Bytes(int64(least)), "inodes free", inodes, "least inodes", r.space.Inodes)
		}
	case was != nil:
		r.narrow.Store(nil)
		r.log.Warn("fetching goes on: there is room on the disk again")
	}
}

// ask is [Watch.Ask].
func (r *room) ask() error {
	if r == nil {
		return nil
	}
	if r.look(); r.enough() {
		return nil
	}
	r.mu.Lock()
	r.waiting++
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		r.waiting--
		r.mu.Unlock()
	}()
	for {
		if err := r.pause(); err != nil {
			return err
		}
		if r.look(); r.enough() {
			return nil
		}
	}
}

// enough reports whether a transaction may begin.
func (r *room) enough() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over == nil {
		return r.narrow.Load() == nil
	}
	select {
	case <-r.over:
		return true
	default:
		return r.has >= r.space.Transaction
	}
}

// pause waits until it is time for another look, or fetching is over.
func (r *room) pause() error {
	r.mu.Lock()
	ctx, over := r.ctx, r.over
	r.mu.Unlock()
	begun := time.Now()
	select {
	case <-time.After(lookForRoom):
	case <-over:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if over == nil && r.space.Patience > 0 {
		if r.waited += time.Since(begun); r.waited >= r.space.Patience {
			return r.space.Late
		}
	}
	return nil
}
