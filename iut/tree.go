// Package iut keeps every page of a crawl exactly once, in folders that mirror its URL.
//
//	iut/                             root of the tree
//	  LOCK                           one process may write; holds its pid
//	  FORMAT                         rules the tree was made by, options of the latest run
//	  seeds.txt                      every seed of every run, one URL per line
//	  forgotten.txt                  what is kept out of the tree, see [Forgotten]
//	  index.db, ctl.sock             see packages storage, internal/ctl
//	  edges                          the link graph, with -edges: see package internal/edges
//	  rank                           after crawler rank: see package internal/rank
//	  tmp/                           bodies too large for memory, emptied at start
//	  pr-https/                      scheme
//	    do-example/do-org/           host labels, in the order of the URL
//	      po-8080/                   port, if not the scheme's own
//	        dr-docs/dr-/             path segments; a trailing slash is an empty one
//	          qu-page=2/             query
//	            content.html         body as received, content decoding undone
//	            source.txt           one line of facts, written last: the page is complete
//	            *.damaged            these two, as merge found them damaged
//	      ov-<sha256>/               page whose path would exceed 900 bytes
//
// A folder is a page, a way to other pages, or both. [Mapping] says how names are made.
//
// A page is complete when source.txt is one whole line with a right checksum and content.html
// has the length it names; who relies on a page that no index vouches for compares the
// SHA-256 as well. Any other page is torn, and is written anew.
//
// Write order: content.html, source.txt in one write, then Sync for a set of pages, and only
// then the index. So a kill leaves at most pages that the index does not know: whole ones are
// adopted when they come again, torn ones replaced.
//
// Lock order: Committer.adopting, then the lock of a page's path, under which nothing is waited for
// but the disk. The mutexes of Tree guard its own fields.
package iut

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"urltree/internal/disk"
	"urltree/storage"
)

const (
	lockName      = "LOCK"
	formatName    = "FORMAT"
	formatNewName = "FORMAT.new"
	seedsName     = "seeds.txt"
	tempFolder    = "tmp"
	probeName     = tempFolder + "/Case" // an empty file, see foldsCase
	contentName   = "content.html"
	sourceName    = "source.txt"
	damagedSuffix = ".damaged" // of the files of a page, see RemoveTorn
)

var (
	// ErrDisk says that the file system failed, below the tree or its index: the crawl should end.
	// The system's error is wrapped, such as syscall.ENOSPC.
	ErrDisk = storage.ErrDisk
	// ErrPage says that this one page cannot be stored, while others can.
	ErrPage = errors.New("iut: page cannot be stored")
)

// Options open a tree.
type Options struct {
	// FS is the disk; nil: a [Disk] at the root, with Sync. The tree never closes it.
	FS   FS
	Sync Sync
	// ReadOnly shares the tree with other readers. Whatever would write gives fs.ErrPermission.
	ReadOnly bool
	// Upgrade accepts a FORMAT of an older version. Open writes it anew in this version.
	Upgrade bool
	// Watch reports calls to the disk that hang; nil: nothing does.
	Watch *disk.Watch
	// Identity makes the tree if there is none, and must agree with the one there is.
	// nil: take the tree as it is; fs.ErrNotExist if there is none.
	Identity *Identity
	// Segments say how a tree of segments writes new ones.
	Segments SegmentOptions
	// Converting accepts a tree whose [Conversion] has not ended. Without it such a tree can only
	// be read.
	Converting bool
	// Forgetting accepts a tree from which not all is removed yet that is to be forgotten, see
	// [Tree.Forget]. Without it such a tree can only be read.
	Forgetting bool
	// Uniting makes a tree, with Identity, that is to be made of others: until [Tree.Unite] FORMAT
	// says so, and nothing but another such call opens it, which removes what this one has written.
	// The error is fs.ErrExist if there is a tree.
	Uniting bool
}

// A Tree is an open tree. All methods may be called at the same time, but Close at the end.
type Tree struct {
	root     string
	fs       FS
	disk     *Disk  // to be closed; nil if the caller brought the FS
	owner    *owner // nil without a root
	readOnly bool
	upgrade  bool // see Options.Upgrade
	uniting  bool // see Options.Uniting
	older    bool // FORMAT is of an older version; of Open alone
	segments SegmentOptions
	paths    Mapping
	pages    pages
	temps    atomic.Uint64
	closing  sync.Once

	mu     sync.Mutex
	format Format // guarded by mu; Identity never changes, but by a Conversion
	// forgotten is what forgotten.txt says; guarded by mu, nil: there is none.
	forgotten *Forgotten

	syncMu  sync.Mutex
	syncErr error // guarded by syncMu; the first failed sync, which no later one can make good
}

// Open opens or makes the tree in the folder root. It takes LOCK, reads FORMAT, empties tmp/,
// writes FORMAT if there is none, and cuts a torn last line off seeds.txt: in this order, so that a
// kill in between leaves what the next Open completes. Then come seeds, the index and SetLinks.
//
// Nothing is made or changed in a folder before it is known for a tree, by FORMAT, or for one that
// may become one, by its names.
//
// With root "" there is no LOCK, and the tree is in opts.FS alone.
//
// The errors are [ErrBusy], [ErrFormat], [ErrOlder], [ErrConverting], [ErrForgetting],
// [ErrUniting], [ErrIdentity], [ErrTree] and [ErrDisk], fs.ErrNotExist if there is no tree and no
// Identity to make one, and those of the system for a root that is no folder.
func Open(root string, opts Options) (*Tree, error) {
	t := &Tree{root: root, fs: opts.FS, readOnly: opts.ReadOnly, upgrade: opts.Upgrade && !opts.ReadOnly, uniting: opts.Uniting, segments: opts.Segments}
	if err := t.open(opts); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

func (t *Tree) open(opts Options) (err error) {
	create := opts.Identity != nil && !opts.ReadOnly
	t.fs, err = opts.Watch.FS(t.root, func() (FS, error) {
		err := t.openRoot(opts, create)
		return t.fs, err
	})
	if err != nil {
		return err
	}
	if err := t.openFormat(opts, create); err != nil {
		return err
	}
	if err := t.openForgotten(); err != nil {
		return err
	}
	t.paths = Mapping{FoldCase: t.format.FoldCase}
	if t.pages, err = t.openPages(t.format.Store); err != nil || opts.ReadOnly {
		return err
	}
	return t.cutSeeds()
}

// openPages opens a store.
func (t *Tree) openPages(store string) (pages, error) {
	if store != StoreWARC {
		return &folders{t.fs, t.paths, newPathLocks()}, nil
	}
	s := newSegments(t.fs, t.segments)
	return s, s.find(!t.readOnly)
}

// openRoot looks at the root, makes it if there is none and create is set, opens the disk, and
// takes LOCK.
func (t *Tree) openRoot(opts Options, create bool) (err error) {
	if t.root != "" && create {
		if err := makeRoot(t.root, opts.Sync != SyncNone); err != nil {
			return DiskError("make the tree", err)
		}
	}
	if t.fs == nil {
		if err := t.openDisk(opts.Sync); err != nil {
			return err
		}
	}
	if t.root == "" {
		return nil
	}
	if err := checkRoot(t.root); err != nil {
		return err
	}
	// LOCK in a folder of somebody else's is not ours to make or to write to.
	if _, _, err := t.readFormat(create); err != nil {
		return err
	}
	t.owner, err = lockTree(t.root, opts.ReadOnly)
	return err
}

// openDisk opens the root, which must be there.
func (t *Tree) openDisk(sync Sync) (err error) {
	t.disk, err = OpenDisk(t.root, sync)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return fmt.Errorf("iut: no tree in %s: %w", t.root, err)
	}
	t.fs = t.disk
	return DiskError("open the tree", err)
}

// ReadFormat reads FORMAT of the tree in the folder root, without its LOCK: a crawl may have it.
// Errors are fs.ErrNotExist if there is no tree, [ErrBusy] while another process makes it,
// [ErrFormat], [ErrOlder], [ErrUniting], [ErrTree], [ErrDisk], and those of the system for a root
// that is no folder.
func ReadFormat(root string) (f Format, err error) {
	t := &Tree{root: root, readOnly: true}
	if err = t.openDisk(SyncNone); err == nil {
		err = checkRoot(root)
	}
	if err == nil {
		f, _, err = t.readFormat(false)
	}
	return f, errors.Join(err, t.Close())
}

// Close releases the tree. It syncs nothing. A second call does nothing: what the first one gave
// back may be somebody else's by then. The errors are those of the system.
func (t *Tree) Close() (err error) {
	t.closing.Do(func() {
		if t.pages != nil {
			err = t.pages.close()
		}
		err = errors.Join(err, DiskError("close "+forgottenName, t.Forgotten().Close()))
		if t.disk != nil {
			err = errors.Join(err, t.disk.Close())
		}
		if t.owner != nil {
			err = errors.Join(err, t.owner.release())
		}
	})
	return err
}

// Root returns the folder that Open was given.
func (t *Tree) Root() string { return t.root }

// Format returns what FORMAT says now.
func (t *Tree) Format() Format {
	t.mu.Lock()
	defer t.mu.Unlock()
	format := t.format
	if format.Forgotten = t.forgotten; format.Forgotten.Empty() {
		format.Forgotten = nil
	}
	return format
}

// Path returns the folder of a URL, below the root, see [Mapping]. The error is [ErrPath].
func (t *Tree) Path(url string) (string, error) { return t.paths.Path(url) }

// URLOf returns the URL of a folder, see [Mapping]. The error is [ErrPath].
func (t *Tree) URLOf(rel string) (string, error) { return t.paths.URLOf(rel) }

// Sync makes durable all pages whose Store has returned before the call, adopted ones
// included. Once it has failed it always fails: the system may have dropped what it could not
// write, so that another try would succeed without it. The error is [ErrDisk].
func (t *Tree) Sync() error {
	t.syncMu.Lock()
	defer t.syncMu.Unlock()
	if t.syncErr == nil {
		if err := errors.Join(t.pages.sync(), t.fs.SyncAll()); err != nil {
			t.syncErr = DiskError("sync", err)
		}
	}
	return t.syncErr
}

// SetLinks puts the link options of this run, and how it syncs, into FORMAT. Errors are those of
// Keep.
func (t *Tree) SetLinks(links LinkOptions) error {
	return t.change(func(f *Format) { f.Links, f.Sync = links, t.fs.SyncMode() })
}

// Keep puts kept into FORMAT, in place of what was kept there. A kill leaves the old or the new.
// The error is [ErrDisk], or [ErrFormat] for more than FORMAT can hold.
func (t *Tree) Keep(kept Kept) error { return t.change(func(f *Format) { f.Kept = kept }) }

// change replaces FORMAT, unless that changes nothing.
func (t *Tree) change(edit func(*Format)) error {
	if err := t.writable(); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	next := t.format
	edit(&next)
	if string(next.append(nil)) == string(t.format.append(nil)) {
		return nil
	}
	return t.writeFormatLocked(next)
}

func (t *Tree) openFormat(opts Options, create bool) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	want := opts.Identity
	format, there, err := t.readFormat(create)
	if err != nil {
		return err
	}
	if there && opts.Uniting && !format.Uniting {
		return fmt.Errorf("iut: %s is a tree already: %w", t.root, fs.ErrExist)
	}
	if format.Converting != "" && !t.readOnly && !opts.Converting {
		return fmt.Errorf("%w of %s", ErrConverting, t.root)
	}
	if format.Forgetting && !t.readOnly && !opts.Forgetting {
		return fmt.Errorf("%w of %s", ErrForgetting, t.root)
	}
	if !t.readOnly {
		if err := t.emptyTemp(); err != nil {
			return err
		}
	}
	if t.format = format; there && !opts.Uniting {
		if t.older {
			if err := t.writeFormatLocked(format); err != nil {
				return err
			}
		}
		if want == nil {
			return nil
		}
		if err := t.format.SameRules(*want); err != nil {
			return err
		}
		return t.keepsCase()
	}
	made := Format{Identity: *want, Links: LinkOptions{MaxDepth: -1}, Sync: t.fs.SyncMode(), Uniting: opts.Uniting}
	if made.Store == StoreFolders {
		made.Store = "" // as FORMAT says it
	}
	if made.FoldCase, err = t.foldsCase(); err != nil {
		return err
	}
	if there {
		return t.startOver(made)
	}
	return t.writeFormatLocked(made)
}

// writeFormatLocked replaces FORMAT as a whole: a kill leaves the old one or the new one.
func (t *Tree) writeFormatLocked(next Format) error {
	text := next.append(nil)
	if len(text) > maxLine {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrFormat, len(text), maxLine)
	}
	err := writeFile(t.fs, formatNewName, os.O_CREATE|os.O_TRUNC, text, true)
	if err == nil {
		err = t.fs.Rename(formatNewName, formatName)
	}
	if err == nil {
		err = t.fs.SyncDir(".")
	}
	if err != nil {
		return DiskError("write FORMAT", err)
	}
	t.format = next
	return nil
}

// keepsCase refuses a file system that takes names which differ in case for one, if the tree comes
// from one that does not: two pages would share a folder.
func (t *Tree) keepsCase() error {
	if t.format.FoldCase {
		return nil
	}
	if _, err := t.fs.Stat(strings.ToLower(formatName)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	switch folds, err := t.foldsCase(); {
	case err != nil:
		return err
	case folds:
		return fmt.Errorf("%w: %s comes from a file system that keeps capital letters apart, and this one does not", ErrIdentity, t.root)
	}
	return nil
}

// foldsCase finds out whether two names that differ in case are one.
func (t *Tree) foldsCase() (bool, error) {
	const probe, other = probeName, tempFolder + "/cASE"
	if err := writeFile(t.fs, probe, os.O_CREATE|os.O_TRUNC, nil, false); err != nil {
		return false, DiskError("probe", err)
	}
	_, err := t.fs.Stat(other)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, DiskError("probe", err)
	}
	if err := t.fs.Remove(probe); err != nil {
		return false, DiskError("probe", err)
	}
	return err == nil, nil
}

// emptyTemp removes what a killed run left in tmp/, but for what Finish is for. Folders there are
// not of this program.
func (t *Tree) emptyTemp() error {
	entries, err := t.fs.List(tempFolder)
	if errors.Is(err, fs.ErrNotExist) {
		return DiskError("make", t.fs.Mkdir(tempFolder))
	}
	if err != nil {
		return DiskError("list", err)
	}
	for _, e := range entries {
		if e.Type.IsDir() || isRevision(e.Name) {
			continue
		}
		if err := t.fs.Remove(tempFolder + "/" + e.Name); err != nil {
			return DiskError("empty tmp", err)
		}
	}
	return nil
}

func (t *Tree) writable() error {
	if t.readOnly {
		return fmt.Errorf("iut: %s is open for reading: %w", t.root, fs.ErrPermission)
	}
	return nil
}

// writeFile writes a file in one write.
func writeFile(disk FS, name string, flag int, b []byte, durable bool) error {
	f, err := disk.Open(name, flag|os.O_WRONLY)
	if err != nil && flag&os.O_CREATE != 0 {
		return nameError{err}
	}
	if err != nil {
		return err
	}
	if len(b) > 0 {
		_, err = f.Write(b)
	}
	if err == nil && durable {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// readFile reads a small file. What is larger than a line of source.txt may be is cut.
func readFile(disk FS, name string) ([]byte, error) {
	f, err := disk.Open(name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxLine+1))
}

// DiskError returns an error of the disk as ErrDisk with what was done, nil for a nil err.
func DiskError(op string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %s: %w", ErrDisk, op, err)
}
