// Package faultfs puts faults and a count of calls before the disk of a tree, and has a disk in
// memory that can lose its power. Tests only.
package faultfs

import (
	"io/fs"
	"os"
	"path"
	"sync"

	"urltree/iut"
)

// An FS passes calls on to another file system, counts them and lets one fail.
type FS struct {
	// Once lets the calls after the failed one through. Without it all of them fail too, as
	// on a disk that is gone. All fields are set before the first call.
	Once bool
	// Short lets a failing Write write the first half of its bytes.
	Short bool
	// Only, if not "", is the one operation of which calls count and may fail, such as "write".
	Only string
	// Base, if not "", is the last element of the names whose calls count and may fail.
	Base string
	// Cut is called at the call that fails, before anything of it is done and while all other
	// calls wait: it may take pictures of what a power cut would leave. nil: nothing is.
	Cut func()

	under iut.FS
	at    int // the call that fails, from 0; negative: none
	err   error

	mu    sync.Mutex
	calls []string // guarded by mu
}

// FailAfter lets k calls through and fails the next one with err, as an error of the system.
// Calls are those of the FS and of its files; Free, SyncMode and Adopt do not count. What
// fails has no effect, but a file that fails to close is closed.
func FailAfter(under iut.FS, k int, err error) *FS { return &FS{under: under, at: k, err: err} }

// Count lets all calls through.
func Count(under iut.FS) *FS { return FailAfter(under, -1, nil) }

// Calls returns all calls so far, each as its operation and name: "mkdir a/b", or "create",
// "open", "write", "rename", "remove", "list", "stat", "sync", "close" and so on.
func (f *FS) Calls() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.calls...)
}

// Failed reports whether the call that was to fail has come.
func (f *FS) Failed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.at >= 0 && len(f.calls) > f.at
}

func (f *FS) call(op, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.Only != "" && op != f.Only || f.Base != "" && path.Base(name) != f.Base {
		return nil
	}
	n := len(f.calls)
	f.calls = append(f.calls, op+" "+name)
	if n == f.at && f.Cut != nil {
		f.Cut()
	}
	if f.at < 0 || n < f.at || n > f.at && f.Once {
		return nil
	}
	return &fs.PathError{Op: op, Path: name, Err: f.err}
}

func (f *FS) Mkdir(name string) error {
	if err := f.call("mkdir", name); err != nil {
		return err
	}
	return f.under.Mkdir(name)
}

func (f *FS) Open(name string, flag int) (iut.File, error) {
	op := "open"
	if flag&os.O_CREATE != 0 {
		op = "create"
	}
	if err := f.call(op, name); err != nil {
		return nil, err
	}
	under, err := f.under.Open(name, flag)
	if err != nil {
		return nil, err
	}
	return &file{fs: f, name: name, under: under}, nil
}

func (f *FS) Rename(from, to string) error {
	if err := f.call("rename", from+" "+to); err != nil {
		return err
	}
	return f.under.Rename(from, to)
}

func (f *FS) Remove(name string) error {
	if err := f.call("remove", name); err != nil {
		return err
	}
	return f.under.Remove(name)
}

func (f *FS) RemoveFolder(name string) error {
	if err := f.call("remove", name); err != nil {
		return err
	}
	return f.under.RemoveFolder(name)
}

func (f *FS) List(name string) ([]iut.Entry, error) {
	if err := f.call("list", name); err != nil {
		return nil, err
	}
	return f.under.List(name)
}

func (f *FS) Stat(name string) (iut.Entry, error) {
	if err := f.call("stat", name); err != nil {
		return iut.Entry{}, err
	}
	return f.under.Stat(name)
}

func (f *FS) SyncDir(name string) error {
	if err := f.call("syncdir", name); err != nil {
		return err
	}
	return f.under.SyncDir(name)
}

func (f *FS) SyncAll() error {
	if err := f.call("syncall", "."); err != nil {
		return err
	}
	return f.under.SyncAll()
}

func (f *FS) Adopt(name string) { f.under.Adopt(name) }

func (f *FS) Free() (bytes, inodes uint64, err error) { return f.under.Free() }

func (f *FS) SyncMode() string { return f.under.SyncMode() }

type file struct {
	fs    *FS
	name  string
	under iut.File
}

func (f *file) Read(b []byte) (int, error) {
	if err := f.fs.call("read", f.name); err != nil {
		return 0, err
	}
	return f.under.Read(b)
}

func (f *file) ReadAt(b []byte, offset int64) (int, error) {
	if err := f.fs.call("read", f.name); err != nil {
		return 0, err
	}
	return f.under.ReadAt(b, offset)
}

func (f *file) Write(b []byte) (int, error) {
	if err := f.fs.call("write", f.name); err != nil {
		if !f.fs.Short {
			return 0, err
		}
		n, err2 := f.under.Write(b[:len(b)/2])
		if err2 != nil {
			return n, err2
		}
		return n, err
	}
	return f.under.Write(b)
}

func (f *file) Close() error {
	err := f.fs.call("close", f.name)
	if err2 := f.under.Close(); err2 != nil {
		return err2
	}
	return err
}

func (f *file) Sync() error {
	if err := f.fs.call("sync", f.name); err != nil {
		return err
	}
	return f.under.Sync()
}

func (f *file) Truncate(size int64) error {
	if err := f.fs.call("truncate", f.name); err != nil {
		return err
	}
	return f.under.Truncate(size)
}

func (f *file) Map(size int) ([]byte, func() error, error) {
	if err := f.fs.call("map", f.name); err != nil {
		return nil, nil, err
	}
	return f.under.Map(size)
}
