package crawler

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"urltree/crawler/scope"
	"urltree/iut"
	"urltree/storage"
)

// openScratchTree makes the tree of a run with Options.NoTree, in memory.
func (e *engine) openScratchTree() (err error) {
	// What a second look at a stored page may need is kept: where depth or scope can change.
	files := &scratch{files: map[string]*scratchFile{}, keep: e.opts.MaxDepth > 0 || e.opts.Scope != scope.Any}
	e.store.tree, err = iut.Open("", iut.Options{FS: files, Identity: e.opts.identity()})
	return err
}

// openScratchIndex makes the index of such a run: a file in the system's folder for temporary
// files, whose name is gone once it is open.
func (e *engine) openScratchIndex(opts storage.Options) error {
	opts.NoSync = true
	dir, err := os.MkdirTemp("", "urltree-")
	if err != nil {
		return fmt.Errorf("%w: %w", iut.ErrDisk, err)
	}
	file := filepath.Join(dir, "index.db")
	e.store.index, err = storage.New(file, opts)
	if err = errors.Join(err, os.RemoveAll(dir)); err != nil {
		return fmt.Errorf("%w: %w", iut.ErrDisk, err)
	}
	e.store.index.Filter().SetComplete()
	return nil
}

// scratch is the disk of a tree that nobody is to have afterwards: all files lie in memory, and
// those of pages are dropped as they are written unless keep is set. Every folder is there, and
// new: a page comes once.
type scratch struct {
	keep bool

	mu    sync.Mutex
	files map[string]*scratchFile // guarded by mu
}

func (s *scratch) Mkdir(string) error { return nil }

func (s *scratch) Open(name string, flag int) (iut.File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.files[name]
	switch {
	case f == nil && flag&os.O_CREATE == 0:
		return nil, missing("open", name)
	case f != nil && flag&os.O_EXCL != 0:
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.EEXIST}
	case f == nil && !s.keep && isPageFile(name):
		f = &scratchFile{dropped: true}
	case f == nil:
		f = new(scratchFile)
		s.files[name] = f
	case flag&os.O_TRUNC != 0:
		f.data = nil
	}
	return &scratchHandle{scratchFile: f}, nil
}

func missing(op, name string) error {
	return &fs.PathError{Op: op, Path: name, Err: syscall.ENOENT}
}

// isPageFile reports whether a file is one of a page, not of the root or of tmp/.
func isPageFile(name string) bool { return strings.Count(name, "/") > 1 }

func (s *scratch) Rename(from, to string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.files[from]
	if f == nil {
		return missing("rename", from)
	}
	delete(s.files, from)
	if s.keep || !isPageFile(to) {
		s.files[to] = f
	}
	return nil
}

func (s *scratch) Remove(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.files[name] == nil {
		return missing("remove", name)
	}
	delete(s.files, name)
	return nil
}

// RemoveFolder is asked by nobody.
func (s *scratch) RemoveFolder(name string) error { return missing("remove", name) }

// List is asked for what is there at the start: nothing.
func (s *scratch) List(name string) ([]iut.Entry, error) {
	if name == "." {
		return nil, nil
	}
	return nil, missing("list", name)
}

func (s *scratch) Stat(name string) (iut.Entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.files[name]
	if f == nil {
		return iut.Entry{}, missing("stat", name)
	}
	return iut.Entry{Name: path.Base(name), Size: int64(len(f.data))}, nil
}

func (s *scratch) SyncDir(string) error { return nil }
func (s *scratch) SyncAll() error       { return nil }
func (s *scratch) Adopt(string)         {}
func (s *scratch) SyncMode() string     { return "none" }

func (s *scratch) Free() (bytes, inodes uint64, err error) {
	return math.MaxUint64, math.MaxUint64, nil
}

// A scratchFile has one writer, and only then readers: the tree writes a file and closes it.
type scratchFile struct {
	data    []byte
	dropped bool // it keeps nothing
}

func (f *scratchFile) Write(b []byte) (int, error) {
	if !f.dropped {
		f.data = append(f.data, b...)
	}
	return len(b), nil
}

func (f *scratchFile) ReadAt(b []byte, offset int64) (int, error) {
	return bytes.NewReader(f.data).ReadAt(b, offset)
}

func (f *scratchFile) Truncate(size int64) error { f.data = f.data[:size]; return nil }
func (f *scratchFile) Sync() error               { return nil }
func (f *scratchFile) Close() error              { return nil }

func (f *scratchFile) Map(size int) ([]byte, func() error, error) {
	return f.data[:size], func() error { return nil }, nil
}

// A scratchHandle is an open scratchFile.
type scratchHandle struct {
	*scratchFile
	pos int
}

func (h *scratchHandle) Read(b []byte) (int, error) {
	if h.pos >= len(h.data) {
		return 0, io.EOF
	}
	n := copy(b, h.data[h.pos:])
	h.pos += n
	return n, nil
}
