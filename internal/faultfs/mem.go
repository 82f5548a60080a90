package faultfs

import (
	"bytes"
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

// A Mem is a file system in memory that knows what a power cut would leave of it: what was
// synced, for File.Sync, SyncDir and SyncAll each as little as it promises. It has no links and
// never folds case.
type Mem struct {
	// ByFile has SyncAll work file by file, as iut.Disk does where the system knows no syncfs: it
	// covers files that were written and closed, folders whose names changed, and what Adopt names.
	// It is set before the first call.
	ByFile bool

	mu    sync.Mutex
	root  *node              // guarded by mu, with all below
	noted map[*node]struct{} // guarded by mu; what the next SyncAll covers if it is ByFile
}

// A node is a file or a folder, as it is and as it may be found after a power cut.
type node struct {
	folder bool

	data, safe []byte   // of a file: its bytes, and those that the last sync covered
	log        []change // of a file: what was done to safe since

	names map[string]*node   // of a folder
	past  map[string][]*node // of a folder: for each name changed since the last sync, what it was before each change, oldest first; nil: nothing
}

// A change is one write or truncation of a file.
type change struct {
	pos   int
	bytes []byte // nil: the file was cut, or lengthened by zeros, to pos
}

// NewMem makes an empty one.
func NewMem() *Mem { return &Mem{root: newFolder()} }

func newFolder() *node { return &node{folder: true, names: map[string]*node{}} }

// set makes a name in a folder that of child, or of nothing.
func (n *node) set(name string, child *node) {
	if n.past == nil {
		n.past = map[string][]*node{}
	}
	n.past[name] = append(n.past[name], n.names[name])
	if child == nil {
		delete(n.names, name)
	} else {
		n.names[name] = child
	}
}

// apply does a change to the bytes of a file.
func apply(data []byte, c change) []byte {
	if grow := c.pos + len(c.bytes) - len(data); grow > 0 {
		data = append(data, make([]byte, grow)...)
	}
	if c.bytes == nil {
		return data[:c.pos]
	}
	copy(data[c.pos:], c.bytes)
	return data
}

func (n *node) change(c change) {
	n.data = apply(n.data, c)
	n.log = append(n.log, c)
}

// Crash returns a file system as a power cut might leave it: all that was synced, and of the
// rest what chance will have. Each name by itself is what it was at the last sync or after any
// change since, so a renamed file may have both names or none. Each file by itself, however its
// name fared, is as it was synced; or as it is now; or so up to some point, of one that was only
// appended to behind what was synced, with or without zeros behind it; or any of the blocks
// written since have arrived, and any of the truncations.
func (m *Mem) Crash(rng *rand.Rand) *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &Mem{root: m.root.crash(rng)}
}

// block is the number of bytes that arrive together, or do not. A disk's is larger; this one is
// such that small pages have several.
const block = 64

func (n *node) crash(rng *rand.Rand) *node {
	if !n.folder {
		data := n.crashData(rng)
		return &node{data: data, safe: slices.Clone(data)}
	}
	left := newFolder()
	all := slices.Collect(maps.Keys(n.names))
	for name := range n.past {
		if n.names[name] == nil {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	for _, name := range all {
		child := n.names[name]
		if past := n.past[name]; len(past) > 0 {
			if i := rng.IntN(2 * len(past)); i < len(past) {
				child = past[i]
			}
		}
		if child != nil {
			left.names[name] = child.crash(rng)
		}
	}
	return left
}

func (n *node) crashData(rng *rand.Rand) []byte {
	if len(n.log) == 0 {
		return slices.Clone(n.data)
	}
	switch rng.IntN(4) {
	case 0:
		return slices.Clone(n.safe)
	case 1:
		return slices.Clone(n.data)
	case 2:
		kept := len(n.safe) // what nobody has touched since
		for _, c := range n.log {
			kept = min(kept, c.pos)
		}
		data := slices.Clone(n.data[:kept+rng.IntN(len(n.data)-kept+1)])
		if rng.IntN(2) == 0 {
			data = append(data, make([]byte, len(n.data)-len(data))...)
		}
		return data
	}
	data := slices.Clone(n.safe)
	for _, c := range n.log {
		if c.bytes == nil {
			if rng.IntN(2) == 0 {
				data = apply(data, c)
			}
			continue
		}
		pos := c.pos
		for b := range slices.Chunk(c.bytes, block) {
			if rng.IntN(2) == 0 {
				data = apply(data, change{pos, b})
			}
			pos += len(b)
		}
	}
	return data
}

// sync makes what a node is now what a power cut leaves.
func (n *node) sync() {
	if len(n.log) > 0 {
		n.safe, n.log = slices.Clone(n.data), nil
	}
	n.past = nil
}

func (n *node) syncAll() {
	n.sync()
	for _, child := range n.names {
		child.syncAll()
	}
}

// find returns a node. The caller holds mu.
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
		parent.set(base, newFolder())
		m.noteFolders(name)
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
			parent.set(base, n)
		case flag&os.O_EXCL != 0:
			return syscall.EEXIST
		case n.folder:
			return syscall.EISDIR
		case flag&os.O_TRUNC != 0:
			n.change(change{})
		}
		if f.node = n; flag&os.O_CREATE != 0 {
			m.noteFolders(path.Dir(name))
		}
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
		oldParent.set(path.Base(from), nil)
		parent.set(base, moved)
		m.note(moved)
		m.noteFolders(path.Dir(to))
		m.noteFolders(path.Dir(from))
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
		parent.set(base, nil)
		m.noteFolders(path.Dir(name))
		return nil
	})
}

func (m *Mem) RemoveFolder(name string) error {
	return m.at("remove", name, func(parent *node, base string, n *node) error {
		switch {
		case n == nil:
			return syscall.ENOENT
		case !n.folder:
			return syscall.ENOTDIR
		case len(n.names) > 0:
			return syscall.ENOTEMPTY
		}
		parent.set(base, nil)
		m.noteFolders(path.Dir(name))
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
	n.past = nil
	return nil
}

func (m *Mem) SyncAll() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.ByFile {
		m.root.syncAll()
	}
	for n := range m.noted {
		n.sync()
	}
	m.noted = nil
	return nil
}

// Forget has the next SyncAll, if it is ByFile, cover nothing of what was done before: that was by
// a process which is gone.
func (m *Mem) Forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.noted = nil
}

// note has the next SyncAll cover a node. The caller holds mu.
func (m *Mem) note(n *node) {
	if m.noted == nil {
		m.noted = map[*node]struct{}{}
	}
	m.noted[n] = struct{}{}
}

// noteFolders notes a folder and all above it. The caller holds mu.
func (m *Mem) noteFolders(name string) {
	for ; ; name = path.Dir(name) {
		if n, err := m.find(name); err == nil {
			m.note(n)
		}
		if name == "." {
			return
		}
	}
}

func (m *Mem) Adopt(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if folder, err := m.find(name); err == nil {
		for _, n := range folder.names {
			m.note(n)
		}
	}
	m.noteFolders(name)
}

func (m *Mem) Free() (bytes, inodes uint64, err error) { return math.MaxUint64, math.MaxUint64, nil }

func (m *Mem) SyncMode() string {
	if m.ByFile {
		return "fsync"
	}
	return "syncfs"
}

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

func (f *memFile) ReadAt(b []byte, offset int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	return bytes.NewReader(f.node.data).ReadAt(b, offset)
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
	if len(b) > 0 {
		f.node.change(change{f.pos, slices.Clone(b)})
	}
	f.pos += len(b)
	return len(b), nil
}

func (f *memFile) Truncate(size int64) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.node.change(change{pos: int(size)})
	return nil
}

func (f *memFile) Sync() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	f.node.sync()
	return nil
}

func (f *memFile) Close() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if f.flag&(os.O_WRONLY|os.O_RDWR) != 0 {
		f.fs.note(f.node)
	}
	return nil
}

func (f *memFile) Map(size int) ([]byte, func() error, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	return slices.Clone(f.node.data[:size]), func() error { return nil }, nil
}
