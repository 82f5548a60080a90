package faultfs

import (
	"io"
	"io/fs"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"

	"urltree/iut"
)

// A Mem is a file system in memory that knows what a power cut would leave of it. It has no
// links and never folds case.
type Mem struct {
	mu   sync.Mutex
	root *node // guarded by mu, with all below
}

// A node is a file or a folder, as it is and as it is on stable storage.
type node struct {
	folder bool

	data, safeData   []byte           // of a file
	names, safeNames map[string]*node // of a folder
}

// NewMem makes an empty one.
func NewMem() *Mem { return &Mem{root: newFolder()} }

func newFolder() *node {
	return &node{folder: true, names: map[string]*node{}, safeNames: map[string]*node{}}
}

// Crash gives a file system as a power cut might leave it: all that was synced, and of the
// rest what chance will have. A name that changed is the old or the new one. A file that
// changed is the old one, or the new one up to some point, with or without zeros behind it.
func (m *Mem) Crash(rng *rand.Rand) *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &Mem{root: m.root.crash(rng)}
}

func (n *node) crash(rng *rand.Rand) *node {
	if !n.folder {
		data := n.safeData
		if string(n.data) != string(n.safeData) && rng.IntN(3) > 0 {
			data = slices.Clone(n.data[:rng.IntN(len(n.data)+1)])
			if rng.IntN(2) == 0 {
				data = append(data, make([]byte, len(n.data)-len(data))...)
			}
		}
		return &node{data: slices.Clone(data), safeData: slices.Clone(data)}
	}
	left := newFolder()
	all := maps.Clone(n.names)
	maps.Copy(all, n.safeNames)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		child := n.names[name]
		if child != n.safeNames[name] && rng.IntN(2) == 0 {
			child = n.safeNames[name]
		}
		if child != nil {
			left.names[name] = child.crash(rng)
		}
	}
	left.safeNames = maps.Clone(left.names)
	return left
}

func (n *node) syncAll() {
	n.safeData, n.safeNames = slices.Clone(n.data), maps.Clone(n.names)
	for _, child := range n.names {
		child.syncAll()
	}
}

// find gives a node. The caller holds mu.
func (m *Mem) find(name string) (*node, error) {
	if !fs.ValidPath(name) {
		return nil, syscall.EINVAL
	}
	n := m.root
	if name == "." {
		return n, nil
	}
	for part := range strings.SplitSeq(name, "/") {
		if !n.folder {
			return nil, syscall.ENOTDIR
		}
		if n = n.names[part]; n == nil {
			return nil, syscall.ENOENT
		}
	}
	return n, nil
}

// at calls do with the parent of name, its last element and what has that name, or nil.
func (m *Mem) at(op, name string, do func(parent *node, base string, n *node) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	parent, err := m.find(path.Dir(name))
	switch {
	case err != nil:
	case !fs.ValidPath(name) || name == ".":
		err = syscall.EINVAL
	case !parent.folder:
		err = syscall.ENOTDIR
	default:
		base := path.Base(name)
		err = do(parent, base, parent.names[base])
	}
	if err != nil {
		return &fs.PathError{Op: op, Path: name, Err: err}
	}
	return nil
}

func (m *Mem) Mkdir(name string) error {
	return m.at("mkdir", name, func(parent *node, base string, n *node) error {
		if n != nil {
			return syscall.EEXIST
		}
		parent.names[base] = newFolder()
		return nil
	})
}

func (m *Mem) Open(name string, flag int) (iut.File, error) {
	f := &memFile{fs: m, flag: flag}
	err := m.at("open", name, func(parent *node, base string, n *node) error {
		switch {
		case n == nil && flag&os.O_CREATE == 0:
			return syscall.ENOENT
		case n == nil:
			n = &node{}
			parent.names[base] = n
		case flag&os.O_EXCL != 0:
			return syscall.EEXIST
		case n.folder:
			return syscall.EISDIR
		case flag&os.O_TRUNC != 0:
			n.data = nil
		}
		f.node = n
		return nil
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (m *Mem) Rename(from, to string) error {
	return m.at("rename", to, func(parent *node, base string, n *node) error {
		oldParent, err := m.find(path.Dir(from))
		if err != nil {
			return err
		}
		if !oldParent.folder {
			return syscall.ENOTDIR
		}
		moved := oldParent.names[path.Base(from)]
		switch {
		case moved == nil:
			return syscall.ENOENT
		case moved.folder || n != nil && n.folder:
			return syscall.EISDIR
		}
		delete(oldParent.names, path.Base(from))
		parent.names[base] = moved
		return nil
	})
}

func (m *Mem) Remove(name string) error {
	return m.at("remove", name, func(parent *node, base string, n *node) error {
		switch {
		case n == nil:
			return syscall.ENOENT
		case n.folder:
			return syscall.EISDIR
		}
		delete(parent.names, base)
		return nil
	})
}

func (m *Mem) List(name string) ([]iut.Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find(name)
	if err == nil && !n.folder {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return nil, &fs.PathError{Op: "list", Path: name, Err: err}
	}
	var entries []iut.Entry
	for _, base := range slices.Sorted(maps.Keys(n.names)) {
		entries = append(entries, entry(base, n.names[base]))
	}
	return entries, nil
}

func (m *Mem) Stat(name string) (iut.Entry, error) {
	var e iut.Entry
	err := m.at("stat", name, func(_ *node, base string, n *node) error {
		if n == nil {
			return syscall.ENOENT
		}
		e = entry(base, n)
		return nil
	})
	return e, err
}

func entry(name string, n *node) iut.Entry {
	if n.folder {
		return iut.Entry{Name: name, Type: fs.ModeDir}
	}
	return iut.Entry{Name: name, Size: int64(len(n.data))}
}

func (m *Mem) SyncDir(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find(name)
	if err != nil {
		return &fs.PathError{Op: "sync", Path: name, Err: err}
	}
	n.safeNames = maps.Clone(n.names)
	return nil
}

func (m *Mem) SyncAll() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.root.syncAll()
	return nil
}

// Adopt does nothing: SyncAll covers everything.
func (m *Mem) Adopt(string) {}

func (m *Mem) Free() (bytes, inodes uint64, err error) { return math.MaxUint64, math.MaxUint64, nil }

func (m *Mem) SyncMode() string { return "syncfs" }

// A memFile is an open file. It goes on working when its name is gone.
type memFile struct {
	fs   *Mem
	node *node // guarded by fs.mu
	flag int
	pos  int
}

func (f *memFile) Read(b []byte) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if f.pos >= len(f.node.data) {
		return 0, io.EOF
	}
	n := copy(b, f.node.data[f.pos:])
	f.pos += n
	return n, nil
}

func (f *memFile) Write(b []byte) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if f.flag&(os.O_WRONLY|os.O_RDWR) == 0 {
		return 0, syscall.EBADF
	}
	if f.flag&os.O_APPEND != 0 {
		f.pos = len(f.node.data)
	}
	if grow := f.pos + len(b) - len(f.node.data); grow > 0 {
		f.node.data = append(f.node.data, make([]byte, grow)...)
	}
	f.pos += copy(f.node.data[f.pos:], b)
	return len(b), nil
}

func (f *memFile) Truncate(size int64) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if grow := int(size) - len(f.node.data); grow > 0 {
		f.node.data = append(f.node.data, make([]byte, grow)...)
	}
	f.node.data = f.node.data[:size]
	return nil
}

func (f *memFile) Sync() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.node.safeData = slices.Clone(f.node.data)
	return nil
}

func (f *memFile) Close() error { return nil }

func (f *memFile) Map(size int) ([]byte, func() error, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	return slices.Clone(f.node.data[:size]), func() error { return nil }, nil
}
