// Package block keeps an array of records on disk with a bounded part of it in memory.
//
// The file is divided into blocks of equal size, each with as many records as fit. The blocks
// used last are in memory; one that has to make room is written if it was changed. The file is
// scratch: it is never synced, and only the Array that wrote it can read it.
package block

import (
	"fmt"
	"io"
)

// A File is what an Array needs of a file. Its first contents do not matter.
type File interface {
	io.ReaderAt
	io.WriterAt
}

// A Codec turns records into Size bytes each and back.
type Codec[T any] struct {
	Size int
	Put  func(b []byte, v *T)
	Get  func(b []byte, v *T)
}

// leastFrames is how many blocks are in memory at least. Who swaps two records and reads a
// third must not lose the first meanwhile.
const leastFrames = 4

// Where a block is, if it is in no frame.
const (
	nowhere int32 = -1 // never set, or dropped: its records are zero
	onDisk  int32 = -2
)

// An Array is an array of records on a File. It is not safe for use by several goroutines.
//
// The first failed read or write stays in Err. From then on nothing is read or written, the
// records that were lost are zero, and calls still return; callers ask for Err at the end of an
// operation instead of after each access.
//
// Invariant: a block is in at most one frame, and place tells which; frames that hold no block
// stand last in the order of use.
type Array[T any] struct {
	file  File
	codec Codec[T]
	per   int // records in a block
	limit int // greatest number of frames

	place  []int32 // of each block: its frame, nowhere or onDisk
	frames []frame[T]
	newest int32 // frame used last; -1: there is none
	oldest int32
	buf    []byte // one block

	err           error
	reads, writes int64
}

type frame[T any] struct {
	records      []T
	block        int // -1: none
	dirty        bool
	saved        bool  // the file holds the block, maybe an older version of it
	newer, older int32 // neighbours in the order of use; -1: none
}

// New makes an empty Array with blocks of size bytes, of which at most memory bytes stay in
// memory, but at least four blocks. A size that has no room for a record is made larger.
func New[T any](file File, codec Codec[T], size int, memory int64) *Array[T] {
	per := max(size/codec.Size, 1)
	size = max(size, codec.Size)
	return &Array[T]{
		file: file, codec: codec, per: per,
		limit:  int(min(max(memory/int64(size), leastFrames), 1<<30)),
		newest: -1, oldest: -1,
		buf: make([]byte, size),
	}
}

// PerBlock is the number of records in a block.
func (a *Array[T]) PerBlock() int { return a.per }

// Err is the first error of the file, or nil.
func (a *Array[T]) Err() error { return a.err }

// IO returns the number of blocks read and written so far.
func (a *Array[T]) IO() (reads, writes int64) { return a.reads, a.writes }

// Grow makes room for the positions below n. New records are zero.
func (a *Array[T]) Grow(n int) {
	for len(a.place)*a.per < n {
		a.place = append(a.place, nowhere)
	}
}

// At returns the record at pos to look at. The pointer is good until records of three other
// blocks have been asked for.
func (a *Array[T]) At(pos int) *T {
	b := pos / a.per
	return &a.frame(b).records[pos-b*a.per]
}

// Set replaces the record at pos.
func (a *Array[T]) Set(pos int, v T) {
	b := pos / a.per
	f := a.frame(b)
	f.records[pos-b*a.per] = v
	f.dirty = true
}

// Read copies the records from pos on into dst.
func (a *Array[T]) Read(pos int, dst []T) {
	for len(dst) > 0 {
		b := pos / a.per
		n := copy(dst, a.frame(b).records[pos-b*a.per:])
		pos, dst = pos+n, dst[n:]
	}
}

// Write copies src to the records from pos on. Blocks that it replaces as a whole are not read.
func (a *Array[T]) Write(pos int, src []T) {
	a.Drop(pos, pos+len(src))
	for len(src) > 0 {
		b := pos / a.per
		f := a.frame(b)
		n := copy(f.records[pos-b*a.per:], src)
		f.dirty = true
		pos, src = pos+n, src[n:]
	}
}

// Drop frees the records from first to behind-1. Blocks wholly
// among them are zero from now on, which costs neither a read nor a write.
func (a *Array[T]) Drop(first, behind int) {
	for b := (first + a.per - 1) / a.per; (b+1)*a.per <= behind; b++ {
		if i := a.place[b]; i >= 0 {
			f := &a.frames[i]
			f.block, f.dirty = -1, false
			clear(f.records)
			a.unlink(i)
			a.linkOldest(i)
		}
		a.place[b] = nowhere
	}
}

// frame returns the frame of a block, which becomes the newest.
func (a *Array[T]) frame(b int) *frame[T] {
	i := a.place[b]
	switch {
	case i >= 0 && i == a.newest:
		return &a.frames[i]
	case i >= 0:
		a.unlink(i)
	default:
		i = a.room()
		a.load(i, b)
	}
	a.linkNewest(i)
	return &a.frames[i]
}

// room returns a frame that holds no block and is not linked.
func (a *Array[T]) room() int32 {
	if len(a.frames) < a.limit && (a.oldest < 0 || a.frames[a.oldest].block >= 0) {
		a.frames = append(a.frames, frame[T]{records: make([]T, a.per), block: -1})
		return int32(len(a.frames) - 1)
	}
	i := a.oldest
	f := &a.frames[i]
	a.unlink(i)
	if f.block >= 0 {
		a.evict(f)
	}
	return i
}

func (a *Array[T]) evict(f *frame[T]) {
	if f.dirty && a.err == nil {
		for i := range f.records {
			a.codec.Put(a.buf[i*a.codec.Size:][:a.codec.Size], &f.records[i])
		}
		if _, err := a.file.WriteAt(a.buf, int64(f.block)*int64(len(a.buf))); err != nil {
			a.err = fmt.Errorf("block: write of block %d: %w", f.block, err)
		}
		a.writes++
		f.saved = true
	}
	a.place[f.block] = nowhere
	if f.saved {
		a.place[f.block] = onDisk
	}
	f.block, f.dirty = -1, false
	clear(f.records)
}

// load puts block b into frame i, which holds none.
func (a *Array[T]) load(i int32, b int) {
	f := &a.frames[i]
	f.block, f.saved = b, a.place[b] == onDisk
	a.place[b] = i
	if !f.saved || a.err != nil {
		return
	}
	a.reads++
	if n, err := a.file.ReadAt(a.buf, int64(b)*int64(len(a.buf))); n < len(a.buf) {
		a.err = fmt.Errorf("block: read of block %d: %w", b, err)
		return
	}
	for j := range f.records {
		a.codec.Get(a.buf[j*a.codec.Size:][:a.codec.Size], &f.records[j])
	}
}

func (a *Array[T]) unlink(i int32) {
	f := &a.frames[i]
	if f.newer >= 0 {
		a.frames[f.newer].older = f.older
	} else {
		a.newest = f.older
	}
	if f.older >= 0 {
		a.frames[f.older].newer = f.newer
	} else {
		a.oldest = f.newer
	}
}

func (a *Array[T]) linkNewest(i int32) {
	a.frames[i].newer, a.frames[i].older = -1, a.newest
	if a.newest >= 0 {
		a.frames[a.newest].newer = i
	} else {
		a.oldest = i
	}
	a.newest = i
}

func (a *Array[T]) linkOldest(i int32) {
	a.frames[i].newer, a.frames[i].older = a.oldest, -1
	if a.oldest >= 0 {
		a.frames[a.oldest].older = i
	} else {
		a.newest = i
	}
	a.oldest = i
}
