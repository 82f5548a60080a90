package fetch

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"math/bits"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

const (
	defaultBudget = 64 << 20
	minBuffer     = 4 << 10  // bytes of the smallest buffer
	firstBuffer   = 64 << 10 // most that a body may wait for
	maxBuffer     = 1 << 20  // most that a body holds in memory
)

// A Budget bounds the memory of bodies. It may be shared by several clients.
//
// Invariant: a body that waits for it holds none of it, so whoever holds some goes on and gives it
// back. That may take until its server's time is up. So that others can begin meanwhile, a quarter
// is for first buffers alone, and a body that has gone to a file keeps no more than one of these.
type Budget struct {
	sem   *semaphore.Weighted
	limit int64
	used  atomic.Int64
	pools [9]sync.Pool // of *[]byte, by size: minBuffer << i
}

// NewBudget makes a budget of so many bytes, at least 64 KiB; 0: 64 MiB.
func NewBudget(bytes int64) *Budget {
	if bytes <= 0 {
		bytes = defaultBudget
	}
	bytes = max(bytes, firstBuffer)
	return &Budget{sem: semaphore.NewWeighted(bytes), limit: bytes}
}

// take returns a buffer of n bytes, a power of two, if there is room at once.
func (b *Budget) take(n int64) *[]byte {
	if !b.sem.TryAcquire(n) {
		return nil
	}
	return b.taken(n)
}

// takeMore is take for a body that grows.
func (b *Budget) takeMore(n int64) *[]byte {
	if b.used.Load()+n > b.limit-b.limit/4 {
		return nil
	}
	return b.take(n)
}

// shrink returns a buffer of n bytes for a larger one.
func (b *Budget) shrink(p *[]byte, n int64) *[]byte {
	b.recycle(p)
	b.release(int64(len(*p)) - n)
	return b.buffer(n)
}

// wait returns a buffer of n bytes. The caller must hold none.
func (b *Budget) wait(ctx context.Context, n int64) (*[]byte, error) {
	if err := b.sem.Acquire(ctx, n); err != nil {
		return nil, err
	}
	return b.taken(n), nil
}

func (b *Budget) taken(n int64) *[]byte {
	b.used.Add(n)
	return b.buffer(n)
}

func (b *Budget) buffer(n int64) *[]byte {
	if p, ok := b.pool(n).Get().(*[]byte); ok {
		return p
	}
	p := make([]byte, n)
	return &p
}

// recycle takes a buffer back whose bytes were given back already.
func (b *Budget) recycle(p *[]byte) { b.pool(int64(len(*p))).Put(p) }

func (b *Budget) release(n int64) {
	b.used.Add(-n)
	b.sem.Release(n)
}

func (b *Budget) pool(n int64) *sync.Pool { return &b.pools[bits.TrailingZeros64(uint64(n/minBuffer))] }

// bufferSize returns the size of the smallest buffer that holds n bytes; beyond maxBuffer it is
// only larger than that.
func bufferSize(n int64) int64 {
	switch {
	case n <= minBuffer:
		return minBuffer
	case n > maxBuffer:
		return 2 * maxBuffer
	}
	return 1 << bits.Len64(uint64(n-1))
}

// A Temp is a file for a body that memory has no room for.
type Temp interface {
	io.Writer
	Name() string           // its path, as Body.Temp shows it
	Bytes() ([]byte, error) // maps what was written; valid until Discard
	Discard() error         // unmaps, closes and, if it still has its name, removes the file
}

// A Body is the decoded content of an answer. It has one owner at a time and no lock. The bytes are
// valid until Release. The zero value is an empty body.
type Body struct {
	budget *Budget
	mem    *[]byte      // pooled; its length is the size of the buffer. nil: nothing in memory
	held   atomic.Int64 // what mem takes of the budget: its size, or 0 after HandOver
	size   int64
	digest [sha256.Size]byte

	temp   Temp
	mapped []byte

	coded *Body // what it was decoded from, which it owns; nil: not kept. Set before others see it
}

// Bytes returns the content. It must not be changed.
func (b *Body) Bytes() []byte {
	switch {
	case b.mapped != nil:
		return b.mapped
	case b.mem != nil:
		return (*b.mem)[:b.size]
	}
	return nil
}

// Len returns the number of bytes.
func (b *Body) Len() int64 { return b.size }

// Digest returns the SHA-256 of the content.
func (b *Body) Digest() [sha256.Size]byte {
	if b.size == 0 {
		return sha256.Sum256(nil)
	}
	return b.digest
}

// Temp returns the path of the file that the content is in, or "".
func (b *Body) Temp() string {
	if b.temp == nil {
		return ""
	}
	return b.temp.Name()
}

// HandOver returns the budget while the bytes stay: from here on somebody else accounts for
// Weight, such as the buffer to the builder. It may be called while the new owner uses or releases
// the body. It does the same for Wire.Coded.
func (b *Body) HandOver() {
	if b.coded != nil {
		b.coded.HandOver()
	}
	if n := b.held.Swap(0); n > 0 {
		b.budget.release(n)
	}
}

// Release returns budget and memory, also those of Wire.Coded, and discards the file, whose Temp
// knows whether somebody has taken it over. The body is empty then; a second call does nothing. A
// file that cannot be removed is left to the next start, which empties its folder.
func (b *Body) Release() {
	b.HandOver()
	if b.mem != nil {
		b.budget.recycle(b.mem)
	}
	if b.temp != nil {
		_ = b.temp.Discard()
	}
	if b.coded != nil {
		b.coded.Release()
	}
	// budget, held and coded stay: HandOver may be using them.
	b.mem, b.size, b.temp, b.mapped = nil, 0, nil, nil
}

// filling says how fill reads a body.
type filling struct {
	size       int64  // bytes to come, or -1
	limit      int64  // most bytes to take
	keepBroken bool   // a body that breaks off is good as far as it came
	keepLarge  bool   // so is the beginning of one that passes limit
	coded      bool   // decoded next: no digest, and the size of the buffer matters to Options.Wire alone
	wait       *watch // to wait for the first buffer; nil: do not wait,
	scratch    []byte // and copy to the file by way of this one where there is no room
}

// fill reads src to its end into a new body. cut tells that the body is only the first part.
func (c *Client) fill(src io.Reader, o filling) (body *Body, cut bool, err error) {
	f := filler{Body: &Body{budget: c.opts.Bodies}, client: c, want: o}
	whole := false
	defer func() {
		if !whole { // also after a panic
			f.Release()
		}
	}()
	if o.size == 0 {
		whole = true
		return f.Body, false, nil
	}
	if err := f.start(); err != nil {
		return nil, false, err
	}
	for err == nil {
		var p []byte
		if p, err = f.room(); err != nil {
			return nil, false, err
		}
		var n int
		n, err = src.Read(p)
		if rest := o.limit - f.size; int64(n) > rest {
			if !o.keepLarge {
				return nil, false, &Error{TooLarge, false, fmt.Errorf("more than %d bytes", o.limit)}
			}
			n, err, cut = int(rest), io.EOF, true
		}
		if err := f.took(p[:n]); err != nil {
			return nil, false, err
		}
	}
	if err != io.EOF {
		if !o.keepBroken || !brokenOff(err) {
			return nil, false, err
		}
		cut = true
	}
	if err := f.finish(); err != nil {
		return nil, false, err
	}
	whole = true
	return f.Body, cut, nil
}

// A filler is a body while it is read. It begins in memory; once temp is set all bytes are there,
// and mem or scratch is what they are copied by.
type filler struct {
	*Body
	client *Client
	want   filling
	hash   hash.Hash // of what is in temp; nil for a coded body
}

func (f *filler) setBuffer(p *[]byte) {
	f.mem = p
	f.held.Store(int64(len(*p)))
}

func (f *filler) dropBuffer() {
	f.HandOver()
	if f.mem != nil {
		f.budget.recycle(f.mem)
		f.mem = nil
	}
}

// start takes the first buffer.
func (f *filler) start() error {
	first := int64(firstBuffer)
	if f.want.size > 0 {
		first = min(first, bufferSize(min(f.want.size, maxBuffer)+1)) // one more, to see the end
	}
	if p := f.budget.take(first); p != nil {
		f.setBuffer(p)
		return nil
	}
	if f.want.wait == nil {
		return f.spill()
	}
	return f.want.wait.pause(func(ctx context.Context) error {
		p, err := f.budget.wait(ctx, first)
		if err == nil {
			f.setBuffer(p)
		}
		return err
	})
}

// room returns the place for the next bytes and is where a body grows.
func (f *filler) room() ([]byte, error) {
	if f.temp == nil && f.size == int64(len(*f.mem)) {
		if err := f.grow(); err != nil {
			return nil, err
		}
	}
	switch {
	case f.temp == nil:
		return (*f.mem)[f.size:], nil
	case f.mem != nil:
		return *f.mem, nil
	}
	return f.want.scratch, nil
}

// grow takes a larger buffer, if there is room at once, or goes to a file. Both buffers are paid
// for while one is copied into the other.
func (f *filler) grow() error {
	next := max(2*f.size, bufferSize(min(f.want.size, maxBuffer)+1))
	if next <= maxBuffer {
		if p := f.budget.takeMore(next); p != nil {
			copy(*p, *f.mem)
			f.dropBuffer()
			f.setBuffer(p)
			return nil
		}
	}
	return f.spill()
}

func (f *filler) spill() error {
	if f.client.opts.Temp == nil {
		return &Error{TooLarge, true, errors.New("no room in memory, and no place for files")}
	}
	temp, err := f.client.opts.Temp()
	if err != nil {
		return diskError("create", err)
	}
	f.temp = temp
	if !f.want.coded {
		f.hash = sha256.New()
	}
	if f.mem == nil {
		return nil
	}
	if err := f.write((*f.mem)[:f.size]); err != nil {
		return err
	}
	if len(*f.mem) > firstBuffer {
		f.setBuffer(f.budget.shrink(f.mem, firstBuffer))
	}
	return nil
}

// took counts bytes that were read into room.
func (f *filler) took(p []byte) error {
	f.size += int64(len(p))
	if f.temp == nil {
		return nil
	}
	return f.write(p)
}

func (f *filler) write(p []byte) error {
	if f.hash != nil {
		f.hash.Write(p)
	}
	if _, err := f.temp.Write(p); err != nil {
		return diskError("write", err)
	}
	return nil
}

// finish takes the digest and gives back what is not needed any more.
func (f *filler) finish() error {
	if f.temp != nil {
		f.dropBuffer()
		if f.hash != nil {
			f.hash.Sum(f.digest[:0])
		}
		if f.size == 0 {
			return nil
		}
		var err error
		if f.mapped, err = f.temp.Bytes(); err != nil {
			return diskError("map", err)
		}
		return nil
	}
	if f.size == 0 {
		f.dropBuffer()
		return nil
	}
	switch {
	case !f.want.coded:
		f.digest = sha256.Sum256((*f.mem)[:f.size])
	case !f.client.opts.Wire:
		return nil // it goes as soon as it is decoded
	}
	if fit := bufferSize(f.size); fit < int64(len(*f.mem)) {
		if p := f.budget.take(fit); p != nil {
			copy(*p, (*f.mem)[:f.size])
			f.dropBuffer()
			f.setBuffer(p)
		}
	}
	return nil
}

func diskError(what string, err error) error {
	return &Error{Disk, false, fmt.Errorf("%w: %s: %w", ErrDisk, what, err)}
}
