package iut

import "urltree/internal/disk"

// An FS is the disk below the root of one tree: the seam at which tests let a disk fail. Names are
// slash paths relative to the root, valid by [io/fs.ValidPath]; no call follows a symbolic link
// below the root or leaves it. All methods may be called at the same time. [Disk] is one, and shows
// what each method has to do.
type FS = disk.FS

// A File is an open file of an FS. It is used by one goroutine at a time.
type File = disk.Handle

// An Entry is a name in a folder, its type and, of Stat alone, its size.
type Entry = disk.Entry

// Sync says what SyncAll of a [Disk] does.
type Sync uint8

const (
	// SyncFull makes everything durable by one syncfs where that is known to report errors
	// (Linux 5.8 or later, local file systems), elsewhere like SyncFiles. The default.
	SyncFull Sync = iota
	// SyncFiles makes every file and folder durable by an fsync of its own.
	SyncFiles
	// SyncNone syncs nothing: safe against a killed process, not against a power cut.
	SyncNone
)
