package mirror

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"net/http/httputil"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gofrs/flock"
)

const (
	// marker is the file that says that a folder is a mirror.
	marker = "urltree-mirror.txt"
	// fresh is the name of a file that is not complete.
	fresh = "urltree-mirror.new"

	markerText = "urltree mirror 1\n\n" +
		"crawler export -what mirror writes the files of this folder that urltree-mirror.list names. When it runs\n" +
		"again, it replaces them, and removes those of pages that are gone.\n"
)

var (
	// ErrForeign says that a folder, or a file in it, is none of a mirror.
	ErrForeign = errors.New("not of a mirror")
	// ErrBusy says that another process writes to the folder.
	ErrBusy = errors.New("another process writes to it")
)

// A Folder is a mirror on disk. It belongs to one process and one goroutine, but for the counts.
type Folder struct {
	root *os.Root
	lock *flock.Flock
	list *list
	all  bool // files that the stream does not have stay

	seeds []startSeed

	Of      atomic.Int64 // files that are to come, about; 0: it is not known
	Files   atomic.Int64 // that have come, first pages included
	Own     atomic.Int64 // first pages
	Bytes   atomic.Int64 // of all these
	Written atomic.Int64 // files that were not there, or had other bytes
	Removed atomic.Int64 // files that earlier runs have written
	Lacking atomic.Int64 // pages that cannot be read, and have no file or an older one
}

// A Part says what a run has of a tree.
type Part struct {
	Name  string // the same for the same part; "": all
	Timed bool   // only some of its pages: nothing is removed
}

// Open opens a mirror. A folder that is not there is made, and one that is empty becomes a mirror.
// Another one is [ErrForeign].
func Open(dir string, part Part) (*Folder, error) {
	if err := os.Mkdir(dir, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, cause(err)
	}
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		return nil, fmt.Errorf("%w: it is no folder", ErrForeign)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, cause(err)
	}
	f := &Folder{root: root, all: part.Timed}
	if err := f.begin(filepath.Join(dir, marker), part.Name); err != nil {
		return nil, errors.Join(cause(err), root.Close())
	}
	return f, nil
}

// begin makes the folder a mirror if it is empty, and locks it.
func (f *Folder) begin(path, part string) error {
	info, err := f.root.Lstat(marker)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := f.mark(); err != nil {
			return err
		}
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%w: %s is no regular file", ErrForeign, marker)
	}
	f.lock = flock.New(path, flock.SetFlag(os.O_RDWR))
	if held, err := f.lock.TryLock(); err != nil || !held {
		return errors.Join(err, f.lock.Close(), ErrBusy)
	}
	text, err := f.root.ReadFile(marker)
	if err == nil && !strings.HasPrefix(string(text), markerText[:strings.Index(markerText, "\n")+1]) {
		err = fmt.Errorf("%w: %s is of another version", ErrForeign, marker)
	}
	if err == nil {
		err = f.removeFresh()
	}
	if err == nil {
		f.list, err = openList(f.root, part)
	}
	if err != nil {
		return errors.Join(err, f.lock.Close())
	}
	return nil
}

// mark writes the marker into a folder that is empty, but for what a kill has left.
func (f *Folder) mark() error {
	dir, err := f.root.Open(".")
	if err != nil {
		return err
	}
	names, err := dir.Readdirnames(2)
	if err == io.EOF {
		err = nil
	}
	if len(names) > 1 || len(names) == 1 && names[0] != fresh {
		err = errors.Join(err, fmt.Errorf("%w: it has files, and no %s", ErrForeign, marker))
	}
	if err = errors.Join(err, dir.Close()); err == nil {
		err = f.removeFresh()
	}
	if err != nil {
		return err
	}
	return f.write(&Entry{Name: marker}, func(w io.Writer) error {
		_, err := io.WriteString(w, markerText)
		return err
	})
}

// Close releases the folder.
func (f *Folder) Close() error {
	return errors.Join(f.removeFresh(), f.list.w.Flush(), f.list.file.Close(), f.lock.Close(), f.root.Close())
}

// removeFresh removes a file that is not complete.
func (f *Folder) removeFresh() error {
	if err := f.root.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s cannot be removed: %w", fresh, cause(err))
	}
	return nil
}

// Receive reads a stream to its end and writes the files whose bytes are not there, and behind a
// whole one the first pages, which lead to all files of the folder. Each appears
// when it is complete. A file that has its bytes is not touched. Those of earlier runs that a whole
// stream does not have are removed. It ends between two files when ctx does. It is called once.
func (f *Folder) Receive(ctx context.Context, in *bufio.Reader) error {
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		line, err := in.ReadBytes('\n')
		if err == io.EOF && len(line) == 0 {
			return nil
		}
		if err != nil {
			return err
		}
		var e Entry
		if err := json.Unmarshal(line, &e); err != nil {
			return err
		}
		if e.Of != 0 {
			f.Of.Store(e.Of)
		}
		switch {
		case e.Last:
			err := f.writeStart(!f.all)
			if err == nil {
				err = f.settle(!f.all)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", f.root.Name(), err)
			}
			return nil
		case e.Seed != "":
			f.seeds = append(f.seeds, startSeed{e.Seed, e.Name})
			continue
		case e.Stays && e.Name == "":
			f.Lacking.Add(1)
			f.all = true
			continue
		case e.Stays:
			f.Lacking.Add(1)
			f.list.add(stays, e.Name)
			continue
		}
		body := &counted{r: httputil.NewChunkedReader(in), n: &f.Bytes, sum: sha256.New()}
		if err := f.file(&e, body); err != nil {
			if body.err != nil {
				return body.err // of the stream
			}
			return fmt.Errorf("%s: %w", filepath.Join(f.root.Name(), filepath.FromSlash(e.Name)), cause(err))
		}
		f.Files.Add(1)
	}
}

// file writes a file unless it is there with the bytes of body.
func (f *Folder) file(e *Entry, body *counted) (err error) {
	var kept int64  // bytes of the old file that are those of body
	var next []byte // bytes of body that were read behind them
	info, err := f.root.Lstat(e.Name)
	isThere := err == nil
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%w: it is no regular file", ErrForeign)
	}
	var old *os.File
	if isThere {
		if old, err = f.root.Open(e.Name); err != nil {
			return err
		}
		defer old.Close()
		var same bool
		if same, kept, next, err = compare(old, body); err != nil {
			return err
		}
		if same {
			f.list.add(body.hash(), e.Name)
			return nil
		}
	}
	f.Written.Add(1)
	return f.write(e, func(w io.Writer) error {
		if kept > 0 {
			if _, err := io.Copy(w, io.NewSectionReader(old, 0, kept)); err != nil {
				return err
			}
		}
		if _, err := w.Write(next); err != nil {
			return err
		}
		if _, err := io.Copy(w, body); err != nil {
			return err
		}
		f.list.add(body.hash(), e.Name)
		return f.list.w.Flush()
	})
}

// compare compares a file with what body has until they differ: kept is where, and next is what was
// read of body from there on.
func compare(old io.Reader, body *counted) (same bool, kept int64, next []byte, err error) {
	a, b := make([]byte, 32<<10), make([]byte, 32<<10)
	for {
		n, bodyErr := io.ReadFull(body, a)
		if body.err != nil {
			return false, 0, nil, body.err
		}
		isLast := bodyErr != nil
		m, oldErr := io.ReadFull(old, b[:n])
		if oldErr != nil && oldErr != io.EOF && oldErr != io.ErrUnexpectedEOF {
			return false, 0, nil, oldErr
		}
		if !bytes.Equal(a[:n], b[:m]) {
			return false, kept, a[:n], nil
		}
		kept += int64(n)
		if isLast {
			m, err := old.Read(b[:1])
			if err == io.EOF {
				err = nil
			}
			return m == 0, kept, nil, err
		}
	}
}

// write writes a file under another name, and gives it its own when it is complete.
func (f *Folder) write(e *Entry, fn func(io.Writer) error) error {
	file, err := f.root.OpenFile(fresh, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	err = errors.Join(fn(file), file.Close())
	if err == nil && e.Time != 0 {
		at := time.Unix(e.Time, 0)
		err = f.root.Chtimes(fresh, at, at)
	}
	if err == nil {
		err = f.root.MkdirAll(path.Dir(e.Name), 0o777)
	}
	if err == nil {
		err = f.root.Rename(fresh, e.Name)
	}
	if err != nil {
		return errors.Join(err, f.removeFresh())
	}
	return nil
}

// cause returns an error without the name of a file, which may be one that nobody knows.
func cause(err error) error {
	var of *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &of):
		return of.Err
	case errors.As(err, &link):
		return link.Err
	}
	return err
}

// counted counts what is read, and keeps its hash and the error.
type counted struct {
	r   io.Reader
	n   *atomic.Int64
	sum hash.Hash
	err error // but io.EOF
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.sum.Write(b[:n])
	c.n.Add(int64(n))
	if err != nil && err != io.EOF {
		c.err = err
	}
	return n, err
}

// hash returns the SHA-256 of what was read.
func (c *counted) hash() string { return hex.EncodeToString(c.sum.Sum(nil)) }
