// Package buffer carries finished work from many crawlers to one builder.
//
// Fed by the crawlers' Add, feeds the builder's Take. Memory stays bounded when the disk is
// slow: Add waits, and so fetching slows down.
//
// It is source A's figure 2, two semaphores and a mutex: Add takes one of N free places and gives a
// ready item; Take takes the ready items, all N or, when time, bytes or an idle frontier call for
// it, fewer. A place is free again when its batch is done, which is after the commit, not when it
// is taken. With a Batch below N, crawlers go on while what was taken is committed.
//
// Items are many for the sake of the commit, which is dear. What is large of an item, its body,
// need not wait for that: Take has items written as soon as some bytes of them are there, a burst,
// and then gives back the bytes that they do not hold any longer. A body is written while it is
// still in the processor's cache, and few of them are in memory.
package buffer

import (
	"cmp"
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// ErrClosed is returned by Add once Close was called.
var ErrClosed = errors.New("buffer: closed")

// Options of a Buffer. The zero value is a buffer of 1,000 items whose bytes are not counted.
type Options[T any] struct {
	Size  int   // items in the buffer or taken and not yet done; 0: 1,000
	Batch int   // so many items are reason to take them; 0: Size, which is the most
	Bytes int64 // limit of their bytes together; 0: 16 MiB
	Burst int64 // so many bytes of items are written before there is reason to take them; 0: an eighth of Bytes

	// Weight returns the bytes that an item holds in memory. It is asked for each Add and once more
	// when the item is written, and an item heavier than Bytes counts as Bytes. nil: nothing weighs
	// anything.
	Weight func(T) int64

	// Wait is the flush interval: when the oldest item has waited so long, Flush is called.
	// 0: items wait until there are Batch of them, or until someone calls Flush.
	Wait time.Duration
}

// A Buffer holds items until a builder takes all of them at once. All methods may be called
// from any goroutine.
//
// Owner: Add takes the item over when it returns nil. Take has the builder write it, which makes
// room for bytes, and hands it to the builder, whose Done says that it is committed and makes room
// for items. So an item waits, is written, is out, is done: one after the other, and items in the
// order of their Adds.
//
// Invariant, whenever nobody is inside a method:
//
//	permits of crawlerSem + permits of builderSem + items out == size
//	permits of builderSem == len(items)
//	permits of byteSem + bytes of items + bytes out == limit
//	nothing that is out was not written
//
// Nobody waits forever if every batch gets its Done without waiting for another Take. Add
// waits for a place first and for bytes second. Who has bytes waits for nothing but mu, so
// the bytes that are missing belong to items that are here or out. While they do not suffice for
// all Adds that wait (shortLocked), what is here is written and then, if that gave back too little,
// taken at once; what is out gets its Done. As no item asks for more than the limit, the oldest
// waiting Add gets its bytes. The same holds for places: they belong to items that are here, items
// out, or an Add that waits for bytes.
//
// Lock order: place, bytes, mu. Nobody waits for a permit while holding mu.
type Buffer[T any] struct {
	size   int64
	batch  int64
	limit  int64
	burst  int64
	weight func(T) int64
	wait   time.Duration

	crawlerSem *semaphore.Weighted // permits are free places: size at the start
	builderSem *semaphore.Weighted // permits are items that are here: none at the start
	byteSem    *semaphore.Weighted // permits are free bytes: limit at the start

	turn chan struct{} // holds a token while a Take runs: one at a time

	closing context.Context // ended by Close, under mu; ends the waiting of Add
	close   context.CancelFunc

	mu       sync.Mutex
	items    []T         // oldest first
	written  int         // of these, from the oldest on: written, or given to write just now
	bytes    int64       // taken from byteSem for items
	fresh    int64       // of these, for the items that are not written
	writing  int64       // of these, for the items that write was called for last
	flush    bool        // the items are to be taken though they are few; never set without items
	wanted   int64       // bytes that Adds wait for
	wake     func()      // makes the running Take look again; may be called at any time
	timer    *time.Timer // calls Flush when the first of items has waited long enough
	added    int64       // ever, since New
	removed  int64       // of these, done
	out      int         // taken and not done
	bytesOut int64       // taken from byteSem for those
}

// New returns an empty buffer.
func New[T any](opts Options[T]) *Buffer[T] {
	b := &Buffer[T]{
		size:   int64(cmp.Or(opts.Size, 1000)),
		limit:  cmp.Or(opts.Bytes, 16<<20),
		weight: opts.Weight,
		wait:   opts.Wait,
		turn:   make(chan struct{}, 1),
		wake:   func() {},
	}
	b.batch = min(int64(opts.Batch), b.size)
	if b.batch == 0 {
		b.batch = b.size
	}
	b.burst = cmp.Or(opts.Burst, max(1, b.limit/8))
	b.crawlerSem = semaphore.NewWeighted(b.size)
	b.builderSem = semaphore.NewWeighted(b.size)
	b.builderSem.TryAcquire(b.size) // nothing to build yet
	b.byteSem = semaphore.NewWeighted(b.limit)
	b.closing, b.close = context.WithCancel(context.Background())
	return b
}

// Add puts item last. It waits for a free place, then for the item's bytes, until ctx ends or
// the buffer is closed ([ErrClosed]). After an error the caller still owns the item.
func (b *Buffer[T]) Add(ctx context.Context, item T) error {
	bytes := b.weigh(item)
	if err := b.acquire(ctx, b.crawlerSem, 1); err != nil {
		return err
	}
	if err := b.acquireBytes(ctx, bytes); err != nil {
		b.crawlerSem.Release(1)
		return err
	}

	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closing.Err() != nil {
		b.byteSem.Release(bytes)
		b.crawlerSem.Release(1)
		return ErrClosed
	}
	b.items = append(b.items, item)
	b.bytes += bytes
	b.fresh += bytes
	b.added++
	// Item and permit appear under the same lock, so Take finds as many of one as of the other.
	b.builderSem.Release(1)
	if len(b.items) == 1 && b.wait > 0 {
		b.timer = time.AfterFunc(b.wait, b.Flush)
	}
	b.wakeLocked()
	return nil
}

// weigh returns the bytes that an item counts for.
func (b *Buffer[T]) weigh(item T) int64 {
	if b.weight == nil {
		return 0
	}
	return max(0, min(b.weight(item), b.limit))
}

// acquire is sem.Acquire that also ends when the buffer closes.
func (b *Buffer[T]) acquire(ctx context.Context, sem *semaphore.Weighted, n int64) error {
	if ctx.Err() == nil && sem.TryAcquire(n) { // fails if others wait: nobody is overtaken
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(b.closing, cancel)()
	err := sem.Acquire(ctx, n)
	if err != nil && b.closing.Err() != nil {
		return ErrClosed
	}
	return err
}

// acquireBytes takes n bytes. While it waits, what is there is written or taken by the builder.
func (b *Buffer[T]) acquireBytes(ctx context.Context, n int64) error {
	if n == 0 || b.byteSem.TryAcquire(n) {
		return nil
	}
	b.mu.Lock()
	b.wanted += n
	b.wakeLocked()
	b.mu.Unlock()

	err := b.acquire(ctx, b.byteSem, n)

	b.mu.Lock()
	b.wanted -= n
	b.mu.Unlock()
	return err
}

// Flush makes Take return the items that are there now, with any that come until it does.
// With none there it does nothing and is not remembered: an item on its way, even one whose
// Add waits at this moment, wants a Flush of its own.
func (b *Buffer[T]) Flush() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.flush = len(b.items) > 0
	b.wakeLocked()
}

// Close ends adding: an Add that has not returned nil by then returns [ErrClosed]. Take gives
// out the rest. A second Close does nothing.
func (b *Buffer[T]) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.close()
	b.wakeLocked()
}

// Take waits until there is reason to build, and takes all items that are there. Reasons are:
// Options.Batch items are there; items are there and Flush was called since the last Take, the
// bytes that Adds wait for cannot be had otherwise, or the buffer is closed. It ends with the error
// of ctx, or with io.EOF when the buffer is closed and empty; nothing is taken then.
//
// Before that it has all of them written: it calls write with those that are not, oldest first,
// each item once, when a burst of bytes waits, when an Add waits for bytes, and before it takes
// them. An error of write ends Take: nothing is taken, and the items count as written. write may
// not change the slice, nor keep it; while it works, items may be added, and Take is not ended by
// ctx.
//
// The next Take may come before the Done of this batch, but while so many items are out that the
// rest of the places are fewer than Options.Batch, Take wants one of the other reasons or this
// Done.
func (b *Buffer[T]) Take(ctx context.Context, write func([]T) error) (*Batch[T], error) {
	select {
	case b.turn <- struct{}{}:
		defer func() { <-b.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	for ctx.Err() == nil {
		wait, cancel := context.WithCancel(ctx)
		unwritten, batch, err := b.next(cancel)
		switch {
		case unwritten != nil:
			err = b.write(unwritten, write)
		case batch == nil && err == nil && b.builderSem.Acquire(wait, b.batch) == nil:
			b.builderSem.Release(b.batch)
			b.Flush() // enough
		}
		cancel()
		if batch != nil || err != nil {
			return batch, err
		}
	}
	return nil, ctx.Err()
}

// next returns what there is reason for, as far as the builder's semaphore does not know of it:
// items to write, then the batch, at the end io.EOF. Without a reason it gives nothing, and wake is
// called as soon as there is one.
func (b *Buffer[T]) next(wake func()) (unwritten []T, batch *Batch[T], err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.toWriteLocked():
		unwritten = b.items[b.written:]
		b.written, b.writing, b.fresh = len(b.items), b.fresh, 0
		return unwritten, nil, nil
	case b.toTakeLocked():
		return nil, b.takeLocked(), nil
	case b.closing.Err() != nil:
		return nil, nil, io.EOF
	}
	b.wake = wake
	return nil, nil, nil
}

// write has items written and gives back the bytes that they do not hold any longer. An item may
// have become heavier, in place of what it was; that is not counted.
func (b *Buffer[T]) write(items []T, write func([]T) error) error {
	if err := write(items); err != nil {
		return err
	}
	var rest int64
	for _, item := range items {
		rest += b.weigh(item)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	free := max(0, b.writing-rest)
	b.bytes -= free
	b.byteSem.Release(free)
	return nil
}

func (b *Buffer[T]) toWriteLocked() bool {
	return b.written < len(b.items) && (b.fresh >= b.burst || b.toTakeLocked())
}

func (b *Buffer[T]) toTakeLocked() bool {
	return len(b.items) > 0 && (b.flush || b.shortLocked() || b.closing.Err() != nil)
}

// shortLocked reports whether the bytes that Adds wait for are more than there are beside those of
// the items. An Add that has got its bytes and does not know it yet still counts as waiting, so
// that there is no hurry after a write that gave back enough.
func (b *Buffer[T]) shortLocked() bool {
	return b.wanted > 0 && b.bytes+b.bytesOut+b.wanted > b.limit
}

// wakeLocked ends the waiting of a Take that now has something to do.
func (b *Buffer[T]) wakeLocked() {
	if b.toWriteLocked() || b.toTakeLocked() || b.closing.Err() != nil {
		b.wake()
	}
}

// takeLocked hands out all items.
func (b *Buffer[T]) takeLocked() *Batch[T] {
	if !b.builderSem.TryAcquire(int64(len(b.items))) {
		panic("buffer: fewer permits than items")
	}
	if b.timer != nil {
		b.timer.Stop() // one that fires right now only flushes early
	}
	batch := &Batch[T]{Items: b.items, n: len(b.items), bytes: b.bytes, from: b}
	b.out += batch.n
	b.bytesOut += batch.bytes
	b.items, b.written, b.bytes, b.flush = nil, 0, 0, false
	return batch
}

// A Batch is what one Take took.
type Batch[T any] struct {
	Items []T // oldest first, at least one; the builder's own

	from  *Buffer[T]
	n     int
	bytes int64
	done  bool // guarded by from.mu
}

// Done says that the items' transaction has committed, and gives their places back to the crawlers,
// and what bytes they still hold. It never waits. A second Done does nothing.
func (t *Batch[T]) Done() {
	b := t.from
	b.mu.Lock()
	defer b.mu.Unlock()
	if t.done {
		return
	}
	t.done = true
	b.out -= t.n
	b.bytesOut -= t.bytes
	b.removed += int64(t.n)
	b.byteSem.Release(t.bytes)
	b.crawlerSem.Release(int64(t.n))
}

// Counts are the statistics of a buffer. At any instant Added == Removed + Waiting + Out.
type Counts struct {
	Added   int64 // items ever added
	Removed int64 // of these, committed (Done)
	Waiting int   // in the buffer, written or not
	Out     int   // taken and not yet committed
}

// Counts returns the counts of this instant.
func (b *Buffer[T]) Counts() Counts {
	b.mu.Lock()
	defer b.mu.Unlock()
	return Counts{Added: b.added, Removed: b.removed, Waiting: len(b.items), Out: b.out}
}
