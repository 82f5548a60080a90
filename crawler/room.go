package crawler

import (
	"errors"

	"urltree/internal/disk"
	"urltree/storage"
)

// errNoRoom says that a body found no place in memory while the disk is nearly full. Its URL is
// asked again later.
var errNoRoom = errors.New("no room on the disk")

// space returns the room that is to stay free on the disk.
func (o *Options) space() disk.Space {
	if least, _ := o.reserve(); o.MinFree > 0 && o.MinFree < least {
		o.Log.Warn("the disk may become full while fetching pauses: buffers may bring more to it than is to stay free",
			"to stay free", Bytes(o.MinFree), "buffers", Bytes(least))
	}
	return disk.Space{
		Bytes: uint64(max(o.MinFree, 0)), Inodes: uint64(max(o.MinFreeInodes, 0)), Transaction: storage.MostWritten,
		Patience: o.Time, Late: errTime,
	}
}

// reserve returns the bytes and inodes that may come to the disk once fetching pauses. Of a page
// there are its body, once or twice, and its links, each of which the index keeps in about four
// times the bytes that it takes in memory: record, pending row, counters, in pages that are half
// full. An item also takes up to four blocks of 4 KiB beyond what it holds, and eight inodes, twice
// as many as usual. Behind all that there is to be room for one more transaction.
func (o *Options) reserve() (bytes, inodes int64) {
	return 4*(int64(o.Buffers)*o.BufferBytes+o.MemoryBodies) + o.items()*(16<<10) + storage.MostWritten, 8 * o.items()
}

// items returns the most URLs that are in flight, parsed or in buffers.
func (o *Options) items() int64 {
	return int64(o.Crawlers)*int64(o.Downloads) + int64(o.QueueSize) + int64(o.Buffers)*int64(o.BufferSize)
}

// hasRoom fails with errNoRoom while the disk has little room: of bodies in files there may be many
// large ones.
func (e *ends) hasRoom() error {
	if e.watch.Low() {
		return errNoRoom
	}
	return nil
}
