//go:build linux || darwin

package iut

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

const noFollow = unix.O_NOFOLLOW

// A Disk is the real file system below one root descriptor. It is an [FS].
type Disk struct {
	root    int    // descriptor of the root; syncfs is called on it, so it sees every error since the start
	name    string // absolute path of the root
	beneath bool   // the kernel resolves names beneath the root
	mode    string // see SyncMode

	kept atomic.Pointer[folder] // nil: none, or somebody is using it

	// written lists what SyncAll has to sync where it works file by file. A file enters the list when
	// it is closed, not when it is made: a SyncAll in between would take it off the list before its
	// last byte. Folders enter when a name in them changes.
	mu      sync.Mutex
	written map[string]bool // guarded by mu; name to whether it is a folder; used by "fsync" only
}

// OpenDisk opens the folder root, which must exist and may be reached through symbolic links.
// Errors, of the methods too, are the system's.
func OpenDisk(root string, mode Sync) (*Disk, error) {
	name, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	fd, err := again(func() (int, error) {
		return unix.Open(name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: root, Err: err}
	}
	d := &Disk{root: fd, name: name, beneath: canResolveBeneath(fd), written: map[string]bool{}}
	switch {
	case mode == SyncNone:
		d.mode = "none"
	case mode == SyncFull && canSyncAll(fd):
		d.mode = "syncfs"
	default:
		d.mode = "fsync"
	}
	return d, nil
}

// Close closes the root descriptor. Nothing may be called after it.
func (d *Disk) Close() error {
	d.letGo()
	return unix.Close(d.root)
}

// SyncMode returns how SyncAll works: "syncfs", "fsync" or "none".
func (d *Disk) SyncMode() string { return d.mode }

// Mkdir makes one folder. Its parent must exist, itself must not.
func (d *Disk) Mkdir(name string) error {
	if err := d.mkdir(name); err != nil {
		return &fs.PathError{Op: "mkdir", Path: name, Err: err}
	}
	d.noteFolders(name)
	return nil
}

// Open opens a file, never a folder. Flags are those of package os; with os.O_EXCL the file must be
// new.
func (d *Disk) Open(name string, flag int) (File, error) {
	// Not blocking: a FIFO under this name must not stop the crawl.
	flag |= unix.O_NONBLOCK
	fd, ok := d.create(name, flag, 0o666)
	if !ok {
		var err error
		if fd, err = d.open(name, flag, 0o666); err != nil {
			return nil, &fs.PathError{Op: "open", Path: name, Err: err}
		}
	}
	f := &diskFile{disk: d, fd: fd, name: name, writes: flag&(os.O_WRONLY|os.O_RDWR) != 0}
	if flag&os.O_CREATE != 0 {
		d.noteAbove(name)
	}
	return f, nil
}

// Rename renames a file and replaces what has the new name.
func (d *Disk) Rename(from, to string) error {
	return d.in("rename", from, func(oldParent int, oldBase string) error {
		return d.in("rename", to, func(newParent int, newBase string) error {
			if err := againOnly(func() error { return unix.Renameat(oldParent, oldBase, newParent, newBase) }); err != nil {
				return err
			}
			d.note(to, false)
			d.noteAbove(to)
			d.noteAbove(from)
			return nil
		})
	})
}

// Remove removes a file, not a folder.
func (d *Disk) Remove(name string) error { return d.remove(name, 0) }

// RemoveFolder removes an empty folder.
func (d *Disk) RemoveFolder(name string) error { return d.remove(name, unix.AT_REMOVEDIR) }

func (d *Disk) remove(name string, flags int) error {
	return d.in("remove", name, func(parent int, base string) error {
		if err := againOnly(func() error { return unix.Unlinkat(parent, base, flags) }); err != nil {
			return err
		}
		d.noteAbove(name)
		return nil
	})
}

// List returns what a folder holds, by name, without sizes.
func (d *Disk) List(name string) ([]Entry, error) {
	fd, err := d.open(name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "list", Path: name, Err: err}
	}
	// The full name serves ReadDir on file systems that keep no types in folders.
	f := os.NewFile(uintptr(fd), filepath.Join(d.name, filepath.FromSlash(name)))
	defer f.Close()
	found, err := f.ReadDir(-1)
	if err != nil {
		return nil, err
	}
	entries := make([]Entry, len(found))
	for i, e := range found {
		entries[i] = Entry{Name: e.Name(), Type: e.Type()}
	}
	slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return entries, nil
}

// Stat returns type and size.
func (d *Disk) Stat(name string) (Entry, error) {
	var e Entry
	err := d.in("stat", name, func(parent int, base string) error {
		var st unix.Stat_t
		err := againOnly(func() error { return unix.Fstatat(parent, base, &st, unix.AT_SYMLINK_NOFOLLOW) })
		e = Entry{Name: base, Type: fileType(uint32(st.Mode)), Size: st.Size}
		return err
	})
	return e, err
}

// SyncDir makes the names in one folder durable.
func (d *Disk) SyncDir(name string) error {
	if d.mode == "none" {
		return nil
	}
	return d.syncOne(name, true)
}

// SyncAll makes durable all that was written, made and renamed before the call, and what Adopt
// named.
func (d *Disk) SyncAll() error {
	d.letGo()
	switch d.mode {
	case "none":
		return nil
	case "syncfs":
		return pathError("syncfs", d.name, syncAll(d.root))
	}
	d.mu.Lock()
	written := d.written
	d.written = make(map[string]bool, len(written))
	d.mu.Unlock()
	for name, folder := range written {
		// What is gone has been renamed, and its new name was noted, or was removed.
		if err := d.syncOne(name, folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Adopt names a folder whose page an earlier process wrote: the next SyncAll covers its files and
// the folders above it as if they had been written now.
func (d *Disk) Adopt(name string) {
	d.note(path.Join(name, contentName), false)
	d.note(path.Join(name, sourceName), false)
	d.noteFolders(name)
}

// Free returns how many bytes and inodes are left to this user, math.MaxUint64 inodes where the
// file system does not count them.
func (d *Disk) Free() (bytes, inodes uint64, err error) {
	var st unix.Statfs_t
	if err := againOnly(func() error { return unix.Fstatfs(d.root, &st) }); err != nil {
		return 0, 0, &fs.PathError{Op: "statfs", Path: d.name, Err: err}
	}
	inodes = st.Ffree
	if st.Files == 0 {
		inodes = ^uint64(0)
	}
	return st.Bavail * uint64(st.Bsize), inodes, nil
}

// note puts a name on the list of what the next SyncAll has to sync.
func (d *Disk) note(name string, folder bool) {
	if d.mode != "fsync" {
		return
	}
	d.mu.Lock()
	d.written[name] = folder
	d.mu.Unlock()
}

// noteFolders notes a folder and all above it: one that a killed process made may not be
// durable yet.
func (d *Disk) noteFolders(name string) {
	if d.mode != "fsync" {
		return
	}
	for ; name != "."; name = path.Dir(name) {
		d.note(name, true)
	}
	d.note(".", true)
}

// noteAbove notes the folders above a name.
func (d *Disk) noteAbove(name string) {
	if d.mode == "fsync" {
		d.noteFolders(path.Dir(name))
	}
}

func (d *Disk) syncOne(name string, folder bool) error {
	flag := unix.O_RDONLY | unix.O_NONBLOCK
	if folder {
		flag |= unix.O_DIRECTORY
	}
	fd, err := d.open(name, flag, 0)
	if err == nil {
		err = againOnly(func() error { return fsync(fd) })
		unix.Close(fd)
	}
	return pathError("sync", name, err)
}

// in calls do with the open parent of name and its last element.
func (d *Disk) in(op, name string, do func(parent int, base string) error) error {
	dir, base := path.Split(name)
	parent, err := d.root, error(nil)
	switch {
	case !fs.ValidPath(name) || name == ".":
		err = unix.EINVAL
	case dir != "":
		if parent, err = d.open(dir[:len(dir)-1], folderFlags, 0); err == nil {
			defer unix.Close(parent)
		}
	}
	if err == nil {
		err = do(parent, base)
	}
	if inner := (*fs.PathError)(nil); err == nil || errors.As(err, &inner) {
		return err
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// open opens a name below the root without following symbolic links.
func (d *Disk) open(name string, flag int, perm uint32) (int, error) {
	if !fs.ValidPath(name) {
		return -1, unix.EINVAL
	}
	return d.openBelow(d.root, name, flag|unix.O_CLOEXEC, perm)
}

// openBelow opens a valid name below an open folder.
func (d *Disk) openBelow(top int, name string, flag int, perm uint32) (int, error) {
	if d.beneath {
		return again(func() (int, error) { return openBeneath(top, name, flag, perm) })
	}
	at := top
	for {
		first, rest, more := strings.Cut(name, "/")
		want, mode := flag|unix.O_NOFOLLOW, perm
		if more {
			want, mode = folderFlags|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0
		}
		fd, err := again(func() (int, error) { return unix.Openat(at, first, want, mode) })
		if at != top {
			unix.Close(at)
		}
		if err != nil || !more {
			return fd, err
		}
		at, name = fd, rest
	}
}

// A diskFile is a bare descriptor. Regular files never wait for the poller, and [os.File]
// would spend calls on asking.
type diskFile struct {
	disk   *Disk
	fd     int
	name   string
	writes bool
}

func (f *diskFile) Read(b []byte) (int, error) {
	n, err := again(func() (int, error) { return unix.Read(f.fd, b) })
	switch {
	case err != nil:
		return 0, f.err("read", err)
	case n == 0 && len(b) > 0:
		return 0, io.EOF
	}
	return n, nil
}

func (f *diskFile) ReadAt(b []byte, offset int64) (int, error) {
	for done := 0; ; {
		n, err := again(func() (int, error) { return unix.Pread(f.fd, b[done:], offset+int64(done)) })
		if err != nil {
			return done, f.err("read", err)
		}
		if done += n; done == len(b) {
			return done, nil
		}
		if n == 0 {
			return done, io.EOF
		}
	}
}

func (f *diskFile) Write(b []byte) (int, error) {
	for done := 0; ; {
		n, err := again(func() (int, error) { return unix.Write(f.fd, b[done:]) })
		if err != nil {
			return done, f.err("write", err)
		}
		if done += n; done == len(b) {
			return done, nil
		}
		if n == 0 {
			return done, f.err("write", io.ErrShortWrite)
		}
	}
}

func (f *diskFile) Close() error {
	err := unix.Close(f.fd)
	f.fd = -1 // the number may soon belong to another file
	if err != nil && !errors.Is(err, unix.EINTR) {
		return f.err("close", err)
	}
	if f.writes {
		f.disk.note(f.name, false)
	}
	return nil
}

func (f *diskFile) Sync() error {
	if f.disk.mode == "none" {
		return nil
	}
	return f.err("sync", againOnly(func() error { return fsync(f.fd) }))
}

func (f *diskFile) Truncate(size int64) error {
	return f.err("truncate", againOnly(func() error { return unix.Ftruncate(f.fd, size) }))
}

func (f *diskFile) Map(size int) ([]byte, func() error, error) {
	if size == 0 { // an empty mapping is an error of the system's
		return nil, func() error { return nil }, nil
	}
	b, err := unix.Mmap(f.fd, 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, nil, f.err("map", err)
	}
	return b, func() error { return unix.Munmap(b) }, nil
}

func (f *diskFile) err(op string, err error) error { return pathError(op, f.name, err) }

// pathError says what the system was asked for, unless err is nil.
func pathError(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// again repeats a call that a signal interrupted. The kernel also asks for a repeat when a
// rename disturbed a look-up beneath the root.
func again(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if err != unix.EINTR && err != unix.EAGAIN {
			return n, err
		}
	}
}

func againOnly(call func() error) error {
	_, err := again(func() (int, error) { return 0, call() })
	return err
}

func fileType(mode uint32) fs.FileMode {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return 0
	case unix.S_IFDIR:
		return fs.ModeDir
	case unix.S_IFLNK:
		return fs.ModeSymlink
	}
	return fs.ModeIrregular
}
