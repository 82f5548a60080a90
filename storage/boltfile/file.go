// Package boltfile opens a bbolt file that it does not trust, and keeps it usable.
//
// bbolt believes what it reads: a damaged page can make it panic, fault or run without end. A
// [File] checks the structure before bbolt opens the file, and returns a panic or a memory fault of
// a transaction as [record.ErrDamaged]. An error of the file system is [ErrDisk]. After a commit
// that failed nothing more is written.
//
// A read transaction keeps pages of the file from being reused, so that long scans are cut into
// short transactions: see [File.Scan]. [Values] and [Values.Write] read and write many keys of one
// transaction.
package boltfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
	"golang.org/x/sys/unix"

	"urltree/internal/disk"
	"urltree/storage/pagefile"
	"urltree/storage/record"
)

// AllocSize is the number of bytes by which the file grows at once.
const AllocSize = 4 << 20

// Options say how a file is opened.
type Options struct {
	ReadOnly bool // several processes may read a file at once
	NoSync   bool // leave out all syncing
	// Watch reports transactions and other calls to the disk that hang; nil: nothing does.
	Watch *disk.Watch
}

// A File is an open bbolt file. All methods may be called from any goroutine, but for Update and
// Broken, of which one call at a time may be running, and Close.
type File struct {
	path   string
	db     *bolt.DB
	file   *os.File // of db
	noSync bool
	watch  *disk.Watch
	looked atomic.Int64 // see Looked
	allocs allocs       // of the writer

	dated  bool  // of the writer; see date
	broken error // of the writer; a write met damage, and bbolt may still hold its locks
	// The first commit that failed, ErrDisk; of the writer. A sync that is tried again may succeed
	// although the pages of the one that failed are lost: the system gives them up (Rebello et al.,
	// Can Applications Recover from fsync Failures?, USENIX ATC 2020).
	failed error
}

// Open opens the file at path, which must exist. The error is [record.ErrDamaged] if its structure
// is not sound, [ErrDisk] if the file system failed, and bbolt's ErrTimeout if another process has
// it open for writing.
func Open(path string, opts Options) (*File, error) {
	info, err := Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() == 0 {
		return nil, fmt.Errorf("%w: %s is empty", record.ErrDamaged, path) // bbolt would make a new one of it
	}
	bo := &bolt.Options{Timeout: 2 * time.Second, ReadOnly: opts.ReadOnly, NoSync: opts.NoSync}
	if !opts.ReadOnly {
		// A map that never has to move: growing it would wait for all readers.
		bo.InitialMmapSize = mmapSize
	}
	f := &File{path: path, noSync: opts.NoSync, watch: opts.Watch}
	err = f.call("open", func() (err error) {
		f.db, f.file, err = openWhole(path, bo)
		return err
	})
	if err != nil {
		return nil, err
	}
	f.db.AllocSize = AllocSize
	f.allocs = allocsOf(f.db)
	err = f.View(func(tx *bolt.Tx) error {
		if size := info.Size(); tx.Size() > size {
			return fmt.Errorf("%s: %w: %d bytes, its pages need %d", path, record.ErrDamaged, size, tx.Size())
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Stat is os.Stat for a path that must be a file or a link to one: anything else there is damage.
func Stat(path string) (fs.FileInfo, error) {
	info, err := os.Stat(path)
	if err != nil {
		nowhere := errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR)
		if link, lerr := os.Lstat(path); nowhere && lerr == nil && link.Mode().Type() == fs.ModeSymlink {
			return nil, fmt.Errorf("%w: a link that leads nowhere: %v", record.ErrDamaged, err)
		}
		return nil, OnDisk(err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: %s is no file", record.ErrDamaged, path)
	}
	return info, nil
}

// openWhole opens a file whose structure is whole. ErrDamaged and ErrDisk say why it cannot.
func openWhole(path string, bo *bolt.Options) (*bolt.DB, *os.File, error) {
	if err := checkBefore(path, bo.ReadOnly); err != nil {
		return nil, nil, err
	}
	db, file, err := openBolt(path, bo)
	switch {
	case err == nil:
		return db, file, nil
	case errors.Is(err, record.ErrDamaged):
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	case errors.Is(err, berrors.ErrTimeout):
		return nil, nil, fmt.Errorf("open %s: %w", path, err)
	}
	// bbolt calls a meta page damaged that it could not read: checkBefore has seen whether one is.
	if err := checkBefore(path, bo.ReadOnly); err != nil {
		return nil, nil, err
	}
	if !errors.As(err, new(*fs.PathError)) {
		err = fmt.Errorf("open %s: %w", path, err)
	}
	return nil, nil, failure{err}
}

// openBolt opens the file, and returns a panic of bbolt as an error.
func openBolt(path string, bo *bolt.Options) (db *bolt.DB, file *os.File, err error) {
	bo.OpenFile = func(name string, flag int, mode os.FileMode) (f *os.File, err error) {
		f, err = os.OpenFile(name, flag, mode)
		file = f
		return f, err
	}
	panicked := Guard(func() { db, err = bolt.Open(path, 0o644, bo) })
	if panicked != nil {
		return nil, nil, errors.Join(panicked, leave(file))
	}
	return db, file, err
}

// leave abandons a file that bbolt cannot close any more: its mapping would keep the lock.
func leave(file *os.File) error {
	return errors.Join(unix.Flock(int(file.Fd()), unix.LOCK_UN), file.Close())
}

// wholeCheck is the size in bytes up to which a file is checked whole before it is opened for
// writing, which takes a moment. Of a damaged leaf bbolt may free four billion other pages.
const wholeCheck = 64 << 20

// checkBefore checks the structure of a file before it is used, unless another process writes to
// it: bbolt would follow inner pages that lead back to each other without end. For reading, and in
// large files, it checks inner pages alone: a hundredth of the file.
func checkBefore(path string, readOnly bool) error {
	f, err := os.Open(path)
	if err != nil {
		return OnDisk(err)
	}
	defer f.Close()
	switch err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); {
	case errors.Is(err, unix.EWOULDBLOCK):
		return nil // bbolt says so, after some time
	case err != nil:
		return OnDisk(fmt.Errorf("lock %s: %w", path, err))
	}
	info, err := f.Stat()
	if err != nil {
		return OnDisk(err)
	}
	return Check(f, !readOnly && info.Size() <= wholeCheck)
}

// Check is [pagefile.Check] of a file. The error is [record.ErrDamaged] or [ErrDisk].
func Check(f *os.File, leaves bool) error {
	info, err := f.Stat()
	if err != nil {
		return OnDisk(err)
	}
	if err := pagefile.Check(f, info.Size(), leaves); err != nil {
		return OnDisk(fmt.Errorf("%s: %w", f.Name(), Damaged(err)))
	}
	return nil
}

// Damaged makes damage that pagefile has found [record.ErrDamaged], and leaves other errors alone.
func Damaged(err error) error {
	if errors.Is(err, pagefile.ErrDamaged) {
		return fmt.Errorf("%w: %w", record.ErrDamaged, err)
	}
	return err
}

// Check checks the structure of all pages of the file.
func (f *File) Check() error { return Check(f.file, true) }

// View runs fn, which calls nothing but bbolt and decoders, in a read transaction.
func (f *File) View(fn func(*bolt.Tx) error) (err error) {
	panicked := Guard(func() { err = f.call("read", func() error { return f.db.View(fn) }) })
	if panicked != nil {
		return panicked
	}
	return err
}

// call calls fn, which uses the file and may hang with the disk.
func (f *File) call(what string, fn func() error) error { return f.watch.Disk(what, f.path, fn) }

// Update runs fn in a write transaction. After a panic bbolt may be left with its locks held, so
// that nothing is written any more; nor is it after a commit that failed.
func (f *File) Update(fn func(*bolt.Tx) error) error {
	return f.call("write", func() error { return f.update(fn) })
}

func (f *File) update(fn func(*bolt.Tx) error) (err error) {
	switch {
	case f.broken != nil:
		return f.broken
	case f.failed != nil:
		return fmt.Errorf("nothing more is written: %w", f.failed)
	}
	if err := f.date(); err != nil {
		f.failed = failure{fmt.Errorf("date %s: %w", f.path, err)}
		return f.failed
	}
	done := false
	f.broken = Guard(func() {
		err = f.db.Update(func(tx *bolt.Tx) error {
			if err := fn(tx); err != nil {
				return err
			}
			done = true
			return nil
		})
	})
	if f.broken != nil {
		return f.broken
	}
	if err != nil && done { // what is left after fn is to write and to sync
		f.failed = failure{fmt.Errorf("commit to %s: %w", f.path, err)}
		return f.failed
	}
	f.allocs.shrink()
	return err
}

// Broken reports whether a write has met damage: bbolt may still use what it was handed then.
func (f *File) Broken() bool { return f.broken != nil }

// date makes the modification time of the file durable before the first change: bbolt syncs data
// alone. Readers of the tree compare this time with that of results, to detect older ones also
// after a power cut.
func (f *File) date() error {
	if f.dated || f.noSync {
		return nil
	}
	now := unix.NsecToTimeval(time.Now().UnixNano())
	if err := unix.Futimes(int(f.file.Fd()), []unix.Timeval{now, now}); err != nil {
		return err
	}
	f.dated = true
	return f.file.Sync()
}

// Guard runs fn, which reads the mapped file, and returns its panic or memory fault as an error.
func Guard(fn func()) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", record.ErrDamaged, r)
		}
	}()
	fn()
	return nil
}

// Close closes the file. No other method may be running.
func (f *File) Close() error {
	if f.broken != nil {
		return leave(f.file)
	}
	return OnDisk(f.call("close", f.db.Close))
}

// Written returns the number of the system's pages that transactions have written since Open.
func (f *File) Written() int64 {
	stats := f.db.Stats()
	return stats.TxStats.GetPageAlloc() / int64(f.db.Info().PageSize)
}

// Looked returns the number of keys that scans have looked at since Open.
func (f *File) Looked() int64 { return f.looked.Load() }

// Transaction returns the number of the last committed transaction.
func (f *File) Transaction() (id uint64, err error) {
	err = f.View(func(tx *bolt.Tx) error {
		id = uint64(tx.ID())
		return nil
	})
	return id, err
}
