// Package buffer carries finished work from many crawlers to one builder.
//
// Crawlers Add items, a builder Takes them. Memory stays bounded when the disk is slow: Add waits,
// and so fetching slows down.
//
// It is figure 2 of source A (docs/sources.md), two semaphores and a mutex: Add takes one of N free
// places and gives a ready item; Take takes the ready items, all N or, when time, bytes or an idle
// frontier call for it, fewer. A place is free again when its batch is done, which is after the
// commit, not when it is taken. With a Batch below N, crawlers go on while what was taken is
// committed.
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

	// Weight returns the bytes that an item holds in memory, to several goroutines at a time. It is
	// asked for each Add and once more when the item is written, and an item heavier than Bytes counts
	// as Bytes. nil: nothing weighs anything.
	Weight func(T) int64

	// Wait is the flush interval: when the oldest item has waited so long, Flush is called.
	// 0: items wait until there are Batch of them, or until someone calls Flush.
	Wait time.Duration
}

// A Buffer holds items until a builder takes all of them at once. All methods may be called from
// any goroutine; of several calls of Take one works and the others wait for it.
//
// Owner: Add takes the item over when it returns nil. Take has the builder write it, which makes
// room for bytes, and hands it to the builder, whose [Batch.Done] says that it is committed and
// makes room for items. So an item waits, is written, is out, is done: one after the other, and
// items in the order of their Adds.
//
// Nobody waits forever if every batch gets its Done without waiting for another Take. Add waits for
// a place first and for bytes second, and an Add that has both waits for nothing, so the bytes that
// are missing belong to items that are here or out. While they do not suffice for all Adds that
// wait, what is here is written and then, if that gave back too little, taken at once; what is out
// gets its Done. As no item asks for more than Options.Bytes, the oldest waiting Add gets its
// bytes. The same holds for places: they belong to items that are here, items out, or an Add that
// waits for bytes.
type Buffer[T any] struct {
	opts Options[T] // with their defaults

	// Invariant, whenever nobody is inside a method:
	//
	//	permits of crawlerSem + permits of builderSem + items out == Size
	//	permits of builderSem == items here
	//	permits of byteSem + bytes here + bytes out == Bytes
	//	nothing that is out was not written
	//
	// Lock order: place, bytes, mu. Nobody waits for a permit while holding mu.
	crawlerSem *semaphore.Weighted // permits are free places: Size at the start
	builderSem *semaphore.Weighted // permits are items that are here: none at the start
	byteSem    *semaphore.Weighted // permits are free bytes: Bytes at the start

	turn chan struct{} // holds a token while a Take runs: one at a time

	closing context.Context // ended by Close, under mu; ends the waiting of Add
	close   context.CancelFunc

	mu      sync.Mutex
	here    waiting[T]  // guarded by mu, as is all below
	out     taken       // and not done
	removed int64       // items that are done, since New
	flush   bool        // the items are to be taken though they are few; never set without items
	wanted  int64       // bytes that Adds wait for
	wake    func()      // makes the running Take look again; may be called at any time
	timer   *time.Timer // calls Flush when the first of items has waited long enough
}

// waiting are the items that are here.
type waiting[T any] struct {
	items   []T   // oldest first
	written int   // of these, from the oldest on: written, or given to write just now
	bytes   int64 // taken from byteSem for items
	fresh   int64 // of these, for the items that are not written
	writing int64 // of these, for the items that write was called for last
}

// taken is how many items are out, and the bytes that are taken from byteSem for them.
type taken struct {
	items int
	bytes int64
}

// New returns an empty buffer.
func New[T any](opts Options[T]) *Buffer[T] {
	opts.Size = cmp.Or(opts.Size, 1000)
	opts.Batch = min(cmp.Or(opts.Batch, opts.Size), opts.Size)
	opts.Bytes = cmp.Or(opts.Bytes, 16<<20)
	opts.Burst = cmp.Or(opts.Burst, max(1, opts.Bytes/8))
	b := &Buffer[T]{
		opts:       opts,
		crawlerSem: semaphore.NewWeighted(int64(opts.Size)),
		builderSem: semaphore.NewWeighted(int64(opts.Size)),
		byteSem:    semaphore.NewWeighted(opts.Bytes),
		turn:       make(chan struct{}, 1),
		wake:       func() {},
	}
	b.builderSem.TryAcquire(int64(opts.Size)) // nothing to build yet
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
	b.here.items = append(b.here.items, item)
	b.here.bytes += bytes
	b.here.fresh += bytes
	// Item and permit appear under the same lock, so Take finds as many of one as of the other.
	b.builderSem.Release(1)
	if len(b.here.items) == 1 && b.opts.Wait > 0 {
		b.timer = time.AfterFunc(b.opts.Wait, b.Flush)
	}
	b.wakeLocked()
	return nil
}

// weigh returns the bytes that an item counts for.
func (b *Buffer[T]) weigh(item T) int64 {
	if b.opts.Weight == nil {
		return 0
	}
	return max(0, min(b.opts.Weight(item), b.opts.Bytes))
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
	b.flush = len(b.here.items) > 0
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
		case batch == nil && err == nil && b.builderSem.Acquire(wait, int64(b.opts.Batch)) == nil:
			b.builderSem.Release(int64(b.opts.Batch))
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
		unwritten = b.here.items[b.here.written:]
		b.here.written, b.here.writing, b.here.fresh = len(b.here.items), b.here.fresh, 0
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
	free := max(0, b.here.writing-rest)
	b.here.bytes -= free
	b.byteSem.Release(free)
	return nil
}

func (b *Buffer[T]) toWriteLocked() bool {
	return b.here.written < len(b.here.items) && (b.here.fresh >= b.opts.Burst || b.toTakeLocked())
}

func (b *Buffer[T]) toTakeLocked() bool {
	return len(b.here.items) > 0 && (b.flush || b.shortLocked() || b.closing.Err() != nil)
}

// shortLocked reports whether the bytes that Adds wait for are more than there are beside those of
// the items. An Add that has got its bytes and does not know it yet still counts as waiting, so
// that there is no hurry after a write that gave back enough.
func (b *Buffer[T]) shortLocked() bool {
	return b.wanted > 0 && b.here.bytes+b.out.bytes+b.wanted > b.opts.Bytes
}

// wakeLocked ends the waiting of a Take that now has something to do.
func (b *Buffer[T]) wakeLocked() {
	if b.toWriteLocked() || b.toTakeLocked() || b.closing.Err() != nil {
		b.wake()
	}
}

// takeLocked hands out all items.
func (b *Buffer[T]) takeLocked() *Batch[T] {
	if !b.builderSem.TryAcquire(int64(len(b.here.items))) {
		panic("buffer: fewer permits than items")
	}
	if b.timer != nil {
		b.timer.Stop() // one that fires right now only flushes early
	}
	batch := &Batch[T]{Items: b.here.items, n: len(b.here.items), bytes: b.here.bytes, from: b}
	b.out.items += batch.n
	b.out.bytes += batch.bytes
	b.here, b.flush = waiting[T]{}, false
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
	b.out.items -= t.n
	b.out.bytes -= t.bytes
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
	waiting := len(b.here.items)
	return Counts{Added: b.removed + int64(waiting+b.out.items), Removed: b.removed, Waiting: waiting, Out: b.out.items}
}
