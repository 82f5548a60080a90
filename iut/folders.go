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
	"syscall"

	"urltree/storage/record"
)

// folders are pages in folders that mirror their URLs.
type folders struct {
	fs    FS
	paths Mapping
	locks *pathLocks
}

func (d *folders) store(p *Page, line []byte) (Result, error) {
	f := p.Facts
	if f.Earlier {
		return d.storeVersion(p, line)
	}
	rel, err := d.paths.Path(f.URL)
	if err != nil {
		return Result{}, fmt.Errorf("%w: %w", ErrPage, err)
	}
	unlock := d.locks.lock(rel)
	defer unlock()
	fresh, err := d.makeFolder(rel)
	if err != nil {
		return Result{}, d.pageError("make folder", rel, nameError{err})
	}
	if !fresh { // the second look: somebody may have been here since the URL was taken
		has, err := d.look(rel, f.URL, "", true)
		switch {
		case err == nil:
			d.fs.Adopt(rel)
			if p.Temp != "" {
				if err := d.fs.Remove(p.Temp); err != nil {
					return Result{}, DiskError("drop body", err)
				}
			}
			return Result{Facts: has, Adopted: true}, nil
		case has.URL != "" && has.URL != f.URL:
			return Result{}, fmt.Errorf("%w: %s holds %s: %w", ErrPage, rel, has.URL, err)
		case errors.Is(err, ErrTorn):
			// Before the body changes: the old line must not come to vouch for a new body.
			if err := d.fs.Remove(rel + "/" + sourceName); err != nil {
				return Result{}, d.pageError("replace", rel, err)
			}
		case !errors.Is(err, fs.ErrNotExist):
			return Result{}, err
		}
	}
	if err := d.writeContent(rel+"/"+contentName, p); err != nil {
		return Result{}, d.pageError("write content of", rel, err)
	}
	if err := writeFile(d.fs, rel+"/"+sourceName, os.O_CREATE|os.O_EXCL, line, false); err != nil {
		return Result{}, d.pageError("write source of", rel, err)
	}
	return Result{Facts: f}, nil
}

// redirect keeps nothing: the record of a redirect says all that folders keep.
func (d *folders) keepAnswer(*Page) (record.Extent, error) { return record.Extent{}, nil }

func (d *folders) answer(at Facts) (io.ReadCloser, *Answer, error) {
	r, err := d.content(at)
	return r, nil, err
}

// content opens content.html, its length compared.
func (d *folders) content(at Facts) (io.ReadCloser, error) {
	rel, err := d.paths.Path(at.URL)
	if err != nil {
		return nil, err
	}
	unlock := d.locks.rlock(rel)
	defer unlock()
	if _, err := d.look(rel, at.URL, at.suffix(), false); err != nil {
		return nil, d.missing(rel, err)
	}
	r, err := d.fs.Open(path.Join(rel, contentName)+at.suffix(), os.O_RDONLY)
	if err != nil {
		return nil, readError(rel, err)
	}
	return r, nil
}

func (d *folders) facts(at Facts, verify bool) (Facts, error) {
	rel, err := d.paths.Path(at.URL)
	if err != nil {
		return Facts{}, err
	}
	unlock := d.locks.rlock(rel)
	defer unlock()
	f, err := d.look(rel, at.URL, at.suffix(), verify)
	return f, d.missing(rel, err)
}

// adopt names the folder of a page to the disk.
func (d *folders) adopt(at Facts) error {
	rel, err := d.paths.Path(at.URL)
	if err == nil {
		d.fs.Adopt(rel)
	}
	return err
}

func (d *folders) where(at Facts) (string, error) {
	rel, err := d.paths.Path(at.URL)
	if err == nil && at.Earlier {
		rel = path.Join(rel, contentName) + at.suffix()
	}
	return rel, err
}

// sync does nothing: SyncAll of the disk covers folders.
func (d *folders) sync() error { return nil }

func (d *folders) close() error { return nil }

// removeTorn takes away what a kill left, a page without facts. The files of any other page that is
// not whole, and whatever is no file, get names that end in .damaged. Files that have those names
// are replaced.
func (d *folders) removeTorn(at Facts, stored bool) (kept bool, err error) {
	rel, err := d.paths.Path(at.URL)
	if err != nil {
		return false, err
	}
	unlock := d.locks.lock(rel)
	defer unlock()
	switch _, err := d.look(rel, at.URL, "", true); {
	case err == nil:
		return false, nil
	case !errors.Is(err, ErrTorn) && !errors.Is(err, fs.ErrNotExist):
		return false, err
	}
	return d.takeAway(rel, stored)
}

// takeAway is removeTorn for a page that is torn. The caller holds the lock of rel.
func (d *folders) takeAway(rel string, keep bool) (kept bool, err error) {
	names := []string{path.Join(rel, sourceName), path.Join(rel, contentName)}
	for i, name := range names {
		e, err := d.fs.Stat(name)
		keep = keep || err == nil && (e.Type != 0 || i == 0 && e.Size > 0)
	}
	take := func(name string) error {
		if !keep {
			return d.fs.Remove(name)
		}
		err := d.fs.Rename(name, name+damagedSuffix)
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
func (d *folders) makeFolder(rel string) (fresh bool, err error) {
	err = d.fs.Mkdir(rel)
	if errors.Is(err, fs.ErrNotExist) {
		if parent := path.Dir(rel); parent != "." {
			if _, err := d.makeFolder(parent); err != nil {
				return false, err
			}
			err = d.fs.Mkdir(rel)
		}
	}
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	return err == nil, err
}

func (d *folders) writeContent(name string, p *Page) error {
	if p.Temp != "" {
		if err := d.fs.Rename(p.Temp, name); err != nil {
			return nameError{err}
		}
		return nil
	}
	err := writeFile(d.fs, name, os.O_CREATE|os.O_EXCL, p.Body, false)
	if errors.Is(err, fs.ErrExist) {
		err = writeFile(d.fs, name, os.O_TRUNC, p.Body, false)
	}
	return err
}

// look reads the facts of a page and checks content.html against them. fs.ErrNotExist means
// no source.txt. The facts are also given when the line is right and something else is not.
// The names of an earlier version end in suffix. The caller holds the lock of rel.
func (d *folders) look(rel, url, suffix string, verify bool) (Facts, error) {
	line, err := readFile(d.fs, path.Join(rel, sourceName)+suffix)
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
	content := path.Join(rel, contentName) + suffix
	switch e, err := d.fs.Stat(content); {
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
		if err := d.verify(content, f.Digest); err != nil {
			return f, err
		}
	}
	return f, nil
}

func (d *folders) verify(name string, want [32]byte) error {
	r, err := d.fs.Open(name, os.O_RDONLY)
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
func (d *folders) missing(rel string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := d.fs.Stat(path.Join(rel, contentName)); err == nil {
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
func (d *folders) pageError(op, rel string, err error) error {
	switch {
	case d.isFullFolder(err):
		return fmt.Errorf("%w: full folder: %s %s: %w", ErrPage, op, rel, err)
	case isNotFile(err), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ENAMETOOLONG):
		return fmt.Errorf("%w: %s %s: %w", ErrPage, op, rel, err)
	}
	return DiskError(op+" "+rel, err)
}

// isFullFolder distinguishes a full folder from a full disk, which answers to a new name as well.
// Only the room that is left tells them apart.
func (d *folders) isFullFolder(err error) bool {
	var name nameError
	switch {
	case !errors.As(err, &name):
		return false
	case errors.Is(err, syscall.EMLINK):
		return true
	case !errors.Is(err, syscall.ENOSPC):
		return false
	}
	bytes, inodes, err := d.fs.Free()
	return err == nil && bytes >= 1<<20 && inodes >= 16
}
