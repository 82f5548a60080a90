package iut

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"syscall"
)

// A Result is what Store did.
type Result struct {
	Facts   Facts // as source.txt has them
	Adopted bool  // the page was there, complete, and what was given is dropped
}

// Store writes a page, unless the tree has it: once, however many ask for it at the same
// moment. It is durable after the next Sync. A torn page is written anew.
//
// The error is [ErrPage] when only this page cannot be stored, else [ErrDisk]. On success
// p.Temp is used up; after an error it may be.
func (t *Tree) Store(p *Page) (Result, error) {
	if err := t.writable(); err != nil {
		return Result{}, err
	}
	f := p.Facts
	if p.Temp == "" {
		f.Bytes = int64(len(p.Body))
		if f.Digest == ([32]byte{}) {
			f.Digest = sha256.Sum256(p.Body)
		}
	}
	f = f.clean()
	rel, err := t.paths.Path(f.URL)
	if err != nil || f.URL != p.URL || f.Source != p.Source {
		return Result{}, fmt.Errorf("%w: not a canonical URL: %q from %q", ErrPage, p.URL, p.Source)
	}
	line := f.AppendLine(make([]byte, 0, 512))
	if len(line) > maxLine {
		return Result{}, fmt.Errorf("%w: facts of %d bytes, at most %d: %s", ErrPage, len(line), maxLine, rel)
	}

	unlock := t.locks.lock(rel)
	defer unlock()
	fresh, err := t.makeFolder(rel)
	if err != nil {
		return Result{}, t.pageError("make folder", rel, nameError{err})
	}
	if !fresh { // the second look: somebody may have been here since the URL was taken
		has, err := t.look(rel, f.URL, true)
		switch {
		case err == nil:
			t.fs.Adopt(rel)
			if p.Temp != "" {
				if err := t.fs.Remove(p.Temp); err != nil {
					return Result{}, DiskError("drop body", err)
				}
			}
			return Result{Facts: has, Adopted: true}, nil
		case has.URL != "" && has.URL != f.URL:
			return Result{}, fmt.Errorf("%w: %s holds %s: %w", ErrPage, rel, has.URL, err)
		case errors.Is(err, ErrTorn):
			// Before the body changes: the old line must not come to vouch for a new body.
			if err := t.fs.Remove(rel + "/" + sourceName); err != nil {
				return Result{}, t.pageError("replace", rel, err)
			}
		case !errors.Is(err, fs.ErrNotExist):
			return Result{}, err
		}
	}
	if err := t.writeContent(rel+"/"+contentName, p); err != nil {
		return Result{}, t.pageError("write content of", rel, err)
	}
	if err := t.writeFile(rel+"/"+sourceName, os.O_CREATE|os.O_EXCL, line, false); err != nil {
		return Result{}, t.pageError("write source of", rel, err)
	}
	return Result{Facts: f}, nil
}

// Load returns a page, its SHA-256 compared. The error is fs.ErrNotExist when nothing is there,
// [ErrTorn] when the page is not whole, [ErrPath] for what is no canonical URL, else [ErrDisk].
func (t *Tree) Load(url string) (Facts, []byte, error) {
	r, f, err := t.Content(url)
	if err != nil {
		return f, nil, err
	}
	defer r.Close()
	body := make([]byte, f.Bytes)
	if _, err := io.ReadFull(r, body); err != nil {
		return f, nil, DiskError("read content of "+url, err)
	}
	if sha256.Sum256(body) != f.Digest {
		return f, nil, tornf("SHA-256 of content.html: %s", url)
	}
	return f, body, nil
}

// Content opens content.html of a page, its length compared. Errors are those of Load.
func (t *Tree) Content(url string) (io.ReadCloser, Facts, error) {
	rel, err := t.paths.Path(url)
	if err != nil {
		return nil, Facts{}, err
	}
	unlock := t.locks.rlock(rel)
	defer unlock()
	f, err := t.look(rel, url, false)
	if err != nil {
		return nil, f, t.missing(rel, err)
	}
	r, err := t.fs.Open(path.Join(rel, contentName), os.O_RDONLY)
	if err != nil {
		return nil, f, readError(rel, err)
	}
	return r, f, nil
}

// Complete reports whether a page is complete; with verify the SHA-256 is compared too. A page
// that is not there or torn is no error. Errors are [ErrPath] and [ErrDisk].
func (t *Tree) Complete(url string, verify bool) (Facts, bool, error) {
	rel, err := t.paths.Path(url)
	if err != nil {
		return Facts{}, false, err
	}
	unlock := t.locks.rlock(rel)
	defer unlock()
	f, err := t.look(rel, url, verify)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrTorn) {
		return f, false, nil
	}
	return f, err == nil, err
}

// RemoveTorn takes the files of a torn page away, not its folder. It leaves a complete page alone.
// What a kill leaves, a page without facts, is removed. A page that has facts was whole and has
// been damaged: its files get names that end in .damaged, and kept is true. So do those of any page
// that the index calls stored, as stored says, and whatever is no file. Files that have those names
// are replaced. Errors are [ErrPath] and [ErrDisk].
func (t *Tree) RemoveTorn(url string, stored bool) (kept bool, err error) {
	if err := t.writable(); err != nil {
		return false, err
	}
	rel, err := t.paths.Path(url)
	if err != nil {
		return false, err
	}
	unlock := t.locks.lock(rel)
	defer unlock()
	switch _, err := t.look(rel, url, true); {
	case err == nil:
		return false, nil
	case !errors.Is(err, ErrTorn) && !errors.Is(err, fs.ErrNotExist):
		return false, err
	}
	names := []string{path.Join(rel, sourceName), path.Join(rel, contentName)}
	keep := stored
	for i, name := range names {
		e, err := t.fs.Stat(name)
		keep = keep || err == nil && (e.Type != 0 || i == 0 && e.Size > 0)
	}
	take := func(name string) error {
		if !keep {
			return t.fs.Remove(name)
		}
		err := t.fs.Rename(name, name+damagedSuffix)
		kept = kept || err == nil
		return err
	}
	if keep {
		// After a kill in between the facts are still there, so that the next time goes on; and whoever
		// stores the page instead has no old body to write over.
		slices.Reverse(names)
	}
	for _, name := range names {
		if err := take(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return kept, DiskError("remove torn "+rel, err)
		}
	}
	return kept, nil
}

// makeFolder makes a folder and those it lacks above it, trying the deepest first: most
// pages come into a folder that is there.
func (t *Tree) makeFolder(rel string) (fresh bool, err error) {
	err = t.fs.Mkdir(rel)
	if errors.Is(err, fs.ErrNotExist) {
		if parent := path.Dir(rel); parent != "." {
			if _, err := t.makeFolder(parent); err != nil {
				return false, err
			}
			err = t.fs.Mkdir(rel)
		}
	}
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	return err == nil, err
}

func (t *Tree) writeContent(name string, p *Page) error {
	if p.Temp != "" {
		if err := t.fs.Rename(p.Temp, name); err != nil {
			return nameError{err}
		}
		return nil
	}
	err := t.writeFile(name, os.O_CREATE|os.O_EXCL, p.Body, false)
	if errors.Is(err, fs.ErrExist) {
		err = t.writeFile(name, os.O_TRUNC, p.Body, false)
	}
	return err
}

// look reads the facts of a page and checks content.html against them. fs.ErrNotExist means
// no source.txt. The facts are also given when the line is right and something else is not.
// The caller holds the lock of rel.
func (t *Tree) look(rel, url string, verify bool) (Facts, error) {
	line, err := t.readFile(path.Join(rel, sourceName))
	if err != nil {
		return Facts{}, readError(rel, err)
	}
	if len(line) > maxLine {
		return Facts{}, tornf("source.txt of more than %d bytes: %s", maxLine, rel)
	}
	f, err := parseLine(line)
	switch {
	case err != nil:
		return Facts{}, fmt.Errorf("%w: %s", err, rel)
	case f.URL != url && url != "":
		return f, fmt.Errorf("%w: %w: %s names %s", ErrTorn, ErrDefect, rel, f.URL)
	}
	content := path.Join(rel, contentName)
	switch e, err := t.fs.Stat(content); {
	case errors.Is(err, fs.ErrNotExist):
		return f, tornf("no content.html: %s", rel)
	case err != nil:
		return f, readError(rel, err)
	case e.Type != 0:
		return f, tornf("content.html is not a file: %s", rel)
	case e.Size != f.Bytes:
		return f, tornf("content.html has %d bytes, want %d: %s", e.Size, f.Bytes, rel)
	}
	if verify {
		if err := t.verify(content, f.Digest); err != nil {
			return f, err
		}
	}
	return f, nil
}

func (t *Tree) verify(name string, want [32]byte) error {
	r, err := t.fs.Open(name, os.O_RDONLY)
	if err != nil {
		return readError(name, err)
	}
	defer r.Close()
	h := sha256.New()
	if _, err := io.Copy(h, r); err != nil {
		return readError(name, err)
	}
	if [32]byte(h.Sum(nil)) != want {
		return tornf("SHA-256 of %s", name)
	}
	return nil
}

// missing distinguishes a folder without a page from one with a body and no facts.
func (t *Tree) missing(rel string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := t.fs.Stat(path.Join(rel, contentName)); err == nil {
			return tornf("no source.txt: %s", rel)
		}
	}
	return err
}

// readError returns fs.ErrNotExist where no page can be, ErrTorn where something else is in its
// place, and ErrDisk for the rest.
func readError(rel string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ENAMETOOLONG):
		return fmt.Errorf("iut: %s: %w", rel, fs.ErrNotExist)
	case isNotFile(err):
		return fmt.Errorf("%w: not a file: %s: %w", ErrTorn, rel, err)
	}
	return DiskError("read "+rel, err)
}

// isNotFile knows the errors of a symbolic link, folder or device where a file should be.
func isNotFile(err error) bool {
	return errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.EISDIR) ||
		errors.Is(err, syscall.EXDEV) || errors.Is(err, syscall.ENXIO)
}

// A nameError says that a folder did not take a new name.
type nameError struct{ error }

func (e nameError) Unwrap() error { return e.error }

// pageError sorts out whether a failure is this page's or the disk's.
func (t *Tree) pageError(op, rel string, err error) error {
	switch {
	case t.isFullFolder(err):
		return fmt.Errorf("%w: full folder: %s %s: %w", ErrPage, op, rel, err)
	case isNotFile(err), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ENAMETOOLONG):
		return fmt.Errorf("%w: %s %s: %w", ErrPage, op, rel, err)
	}
	return DiskError(op+" "+rel, err)
}

// isFullFolder distinguishes a full folder from a full disk, which answers to a new name as well.
// Only the room that is left tells them apart.
func (t *Tree) isFullFolder(err error) bool {
	var name nameError
	switch {
	case !errors.As(err, &name):
		return false
	case errors.Is(err, syscall.EMLINK):
		return true
	case !errors.Is(err, syscall.ENOSPC):
		return false
	}
	bytes, inodes, err := t.fs.Free()
	return err == nil && bytes >= 1<<20 && inodes >= 16
}

// A TempFile takes a body too large for memory. It is used by one goroutine at a time, and ends by
// Discard, whether a page has taken it by its name or not.
type TempFile struct {
	tree  *Tree
	name  string
	file  File // nil once closed
	may   func() error
	size  int
	unmap func() error // nil: it is not mapped
}

// Temp makes a file in tmp/. The error is [ErrDisk]. Each Write calls may, if it is not nil, and
// fails with its error.
func (t *Tree) Temp(may func() error) (*TempFile, error) {
	if err := t.writable(); err != nil {
		return nil, err
	}
	name := tempFolder + "/" + strconv.FormatUint(t.temps.Add(1), 10)
	f, err := t.fs.Open(name, os.O_RDWR|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return nil, DiskError("make "+name, err)
	}
	return &TempFile{tree: t, name: name, file: f, may: may}, nil
}

// Write appends to the file. An error is [ErrDisk], or that of may, see Temp.
func (f *TempFile) Write(b []byte) (int, error) {
	if f.may != nil {
		if err := f.may(); err != nil {
			return 0, err
		}
	}
	n, err := f.file.Write(b)
	f.size += n
	return n, DiskError("write "+f.name, err)
}

// Name is what [Page].Temp takes.
func (f *TempFile) Name() string { return f.name }

// Bytes maps what was written and closes the file: many large bodies need no descriptors. It must
// not be written to, and stays valid until Discard, wherever the file goes. The error is [ErrDisk].
func (f *TempFile) Bytes() (b []byte, err error) {
	if b, f.unmap, err = f.file.Map(f.size); err != nil {
		return nil, DiskError("map "+f.name, err)
	}
	return b, f.Close()
}

// Close ends writing and keeps the file. Once closed it does nothing.
func (f *TempFile) Close() error {
	if f.file == nil {
		return nil
	}
	err := f.file.Close()
	f.file = nil
	return DiskError("close "+f.name, err)
}

// Discard unmaps and closes the file, and removes it if no page has taken it. The error is
// [ErrDisk].
func (f *TempFile) Discard() error {
	err := f.Close()
	if f.unmap != nil {
		err, f.unmap = errors.Join(err, DiskError("unmap "+f.name, f.unmap())), nil
	}
	if rerr := f.tree.fs.Remove(f.name); !errors.Is(rerr, fs.ErrNotExist) {
		err = errors.Join(err, DiskError("remove "+f.name, rerr))
	}
	return err
}
