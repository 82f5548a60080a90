package disk

import (
	"io"
	"io/fs"
)

// An FS is the disk below the root of one tree: the seam at which tests let a disk fail.
// Names are slash paths relative to the root, valid by [fs.ValidPath]; "." is the root. No
// call follows a symbolic link below the root or leaves it. Errors wrap the system's error
// number, so that [errors.Is] finds [fs.ErrNotExist], [fs.ErrExist] or syscall.ENOSPC.
//
// All methods may be called at the same time.
type FS interface {
	// Mkdir makes one folder. Its parent must exist, itself must not.
	Mkdir(name string) error
	// Open opens a file, never a folder. Flags are those of package os; with os.O_EXCL the
	// file must be new.
	Open(name string, flag int) (Handle, error)
	// Rename renames a file and replaces what has the new name.
	Rename(from, to string) error
	// Remove removes a file, not a folder.
	Remove(name string) error
	// RemoveFolder removes an empty folder.
	RemoveFolder(name string) error
	// List returns what a folder holds, by name. Size is not filled in.
	List(name string) ([]Entry, error)
	// Stat returns type and size.
	Stat(name string) (Entry, error)
	// SyncDir makes the names in one folder durable.
	SyncDir(name string) error
	// SyncAll makes durable all that was written, made and renamed before the call, and what
	// Adopt named.
	SyncAll() error
	// Adopt names a folder whose page an earlier process wrote: the next SyncAll covers its
	// files and the folders above it as if they had been written now.
	Adopt(name string)
	// Free returns how many bytes and inodes are left to this user. A file system that does not
	// count inodes has math.MaxUint64 of them.
	Free() (bytes, inodes uint64, err error)
	// SyncMode says how SyncAll works: "syncfs", "fsync" or "none".
	SyncMode() string
}

// A Handle is an open file of an FS. It is used by one goroutine at a time.
type Handle interface {
	io.ReadWriteCloser
	io.ReaderAt
	// Sync makes the file's bytes durable, not its name.
	Sync() error
	Truncate(size int64) error
	// Map returns the first size bytes, read-only, until unmap; they stay valid after Close.
	Map(size int) (b []byte, unmap func() error, err error)
}

// An Entry is a name in a folder.
type Entry struct {
	Name string      // the last element of the path
	Type fs.FileMode // type bits only: 0 for a regular file
	Size int64       // in bytes
}
