package iut

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"urltree/internal/warc"
	"urltree/storage/record"
)

// ErrConverting says that a [Conversion] of the tree has not ended.
var ErrConverting = errors.New("iut: there is an unfinished conversion")

// A Conversion brings the pages of a tree into its other store. FORMAT says how far it is:
//
//	store A                   pages are in A
//	store A, converting B     pages are in A, and some of them in B
//	store B, converting B     pages are in B, and some of them still in A
//	store B                   pages are in B
//
// So the store that FORMAT names is whole at any time, and the other one, if there is a line
// converting, is that of nobody but a conversion. A conversion is given up by converting = A: then
// what is in B goes.
//
// It is used by one goroutine, which alone uses the tree meanwhile.
type Conversion struct {
	tree  *Tree
	other *Tree // has the store that FORMAT does not name; all else is of tree
}

// Convert begins a conversion, or goes on with one that says the same: FORMAT says so when it
// returns. With the store that the tree has, what is in the other one is to go. The error is
// [ErrTree] if something else lies where pages are to come, and those of Keep. Close ends it.
func (t *Tree) Convert(store string) (*Conversion, error) {
	format := t.Format()
	if err := t.writable(); err != nil {
		return nil, err
	}
	if err := t.keepsCase(); err != nil {
		return nil, err
	}
	to := StoreWARC
	if format.Store == StoreWARC {
		to = StoreFolders
	}
	if format.Converting == "" && to == StoreWARC {
		if err := t.lacksSegments(); err != nil {
			return nil, err
		}
	}
	if err := t.change(func(f *Format) { f.Converting = store }); err != nil {
		return nil, err
	}
	other := &Tree{root: t.root, fs: t.fs, paths: t.paths, segments: t.segments, format: format}
	var err error
	other.segments.About = append(slices.Clip(t.segments.About), warc.Field{
		Name: "description", Value: "pages of a tree of folders, which had not kept the headers of their answers",
	})
	other.pages, err = other.openPages(to)
	return &Conversion{tree: t, other: other}, err
}

// lacksSegments returns ErrTree if there is a file that would pass for a segment.
func (t *Tree) lacksSegments() error {
	s := newSegments(t.fs, t.segments)
	if _, err := s.list(); err != nil {
		return err
	}
	for _, name := range s.names {
		return fmt.Errorf("%w: %s/%s is in the way of the pages; move it away", ErrTree, t.root, name)
	}
	return nil
}

// Free returns how many bytes and inodes are left on the disk to this user.
func (t *Tree) Free() (bytes, inodes uint64, err error) { return t.fs.Free() }

// Other returns a tree with the other store, whose pages may be read and recovered.
func (c *Conversion) Other() *Tree { return c.other }

// Close lets go of the other store.
func (c *Conversion) Close() error { return c.other.Close() }

// inMemory is the length of a body that Copy holds in memory, in bytes.
const inMemory = 1 << 20

// Copy brings a page into the other store, where the next Sync of Other covers it, and returns its
// facts there. Errors are those of Load, if the page is not whole, and of Store; [ErrTree] says
// that another page is in its place.
func (c *Conversion) Copy(at Facts) (Facts, error) {
	p, temp, err := c.read(at)
	if err != nil {
		return p.Facts, err
	}
	line := p.AppendLine(nil)
	res, err := c.other.Store(p)
	if err != nil && temp != nil {
		err = errors.Join(err, temp.Discard())
	}
	switch {
	case errors.Is(err, ErrPage):
		return res.Facts, fmt.Errorf("%w: %w", ErrTree, err)
	case err == nil && !bytes.Equal(res.Facts.AppendLine(nil), line):
		where, _ := c.other.Where(res.Facts)
		return res.Facts, fmt.Errorf("%w: %s/%s holds another page of %s; move it away", ErrTree, c.tree.root, where, at.URL)
	}
	return res.Facts, err
}

// read reads a page for Store, its SHA-256 compared. temp is the file with its body, if one was
// made.
func (c *Conversion) read(at Facts) (p *Page, temp *TempFile, err error) {
	p = &Page{}
	if at.Bytes <= inMemory {
		p.Facts, p.Body, err = c.tree.Load(at)
		return p, nil, err
	}
	if p.Facts, err = c.tree.facts(at, true); err != nil {
		return p, nil, err
	}
	if d, ok := c.tree.pages.(*folders); ok {
		rel, err := d.paths.Path(at.URL)
		p.Temp, p.lasts = rel+"/"+contentName+at.suffix(), true
		return p, nil, err
	}
	r, err := c.tree.Content(p.Facts)
	if err != nil {
		return p, nil, err
	}
	defer r.Close()
	if temp, err = c.tree.Temp(nil); err != nil {
		return p, nil, err
	}
	p.Temp = temp.Name()
	_, err = io.Copy(temp, r)
	if err = errors.Join(err, temp.Close()); err != nil {
		err = errors.Join(err, temp.Discard())
	}
	return p, temp, err
}

// Rest calls fn with the pages that may be whole and of which the index need not know: of a tree of
// segments, those that Recover has found, else all of them. What of folders is not whole gets names
// that end in .damaged, or is removed, as RemoveTorn has it.
func (c *Conversion) Rest(fn func(Facts) error) error {
	switch p := c.tree.pages.(type) {
	case *segments:
		for _, f := range p.loose {
			if err := fn(Facts{URL: f.URL, Page: record.Page{Bytes: f.Bytes}}); err != nil {
				return err
			}
		}
	case *folders:
		return c.tree.Walk(func(_, rel string, st PageStatus, f Facts) error {
			switch st.Kind {
			case PageComplete:
				return fn(f)
			case PageTorn:
				_, err := p.takeAway(rel, false)
				return err
			}
			return nil
		})
	}
	return nil
}

// Switch makes the other store that of the tree, once all pages are durable there: what is in the
// old one is to go from then on. It is durable when Switch returns.
func (c *Conversion) Switch() error {
	err := c.tree.change(func(f *Format) {
		if f.Store = f.Converting; f.Store == StoreFolders {
			f.Store = "" // as FORMAT says it
		}
	})
	if err == nil {
		c.tree.pages, c.other.pages = c.other.pages, c.tree.pages
	}
	return err
}

// End removes the pages in the other store, and the folders that are empty then, and ends the
// conversion: FORMAT does not speak of it any more. What is not of this program stays, and what has
// been damaged under names that end in .damaged. It calls each after each page or segment, and ends
// with its error.
func (c *Conversion) End(each func() error) error {
	if err := c.other.pages.clear(each); err != nil {
		return err
	}
	// Without it a page could come back after a power cut, and be taken for a new one.
	if err := c.other.Sync(); err != nil {
		return err
	}
	return c.tree.change(func(f *Format) { f.Converting = "" })
}

// KeepDamaged has a page of the tree that is not whole, and that the index calls stored, outlast
// the conversion under a name that ends in .damaged: of a tree of folders its files, else its
// segment.
func (c *Conversion) KeepDamaged(at Facts) error {
	s, ok := c.tree.pages.(*segments)
	if !ok {
		_, err := c.tree.RemoveTorn(at, true)
		return err
	}
	name, err := s.nameOf(at.Extent.Segment)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = writeFile(s.fs, name+damagedSuffix, os.O_CREATE, nil, true) // see clear
	}
	if err == nil {
		err = s.fs.SyncDir(segmentFolder)
	}
	return DiskError("keep "+name, err)
}

// clear removes all segments, but for those that KeepDamaged has named: they get that name.
func (s *segments) clear(each func() error) error {
	for number, name := range s.names {
		_, err := s.fs.Stat(name + damagedSuffix)
		switch {
		case err == nil:
			err = s.fs.Rename(name, name+damagedSuffix)
		case errors.Is(err, fs.ErrNotExist):
			err = s.fs.Remove(name)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return DiskError("remove "+name, err)
		}
		delete(s.names, number)
		if err := each(); err != nil {
			return err
		}
	}
	s.mu.Lock()
	s.dirty, s.named = map[string]bool{}, true // nothing is left to be synced
	s.mu.Unlock()
	return removeFolder(s.fs, segmentFolder)
}

// clear removes the pages but for defects, and the folders that are empty then. What was damaged
// has other names by now, see KeepDamaged and Rest.
func (d *folders) clear(each func() error) error {
	entries, err := d.fs.List(".")
	if err != nil {
		return DiskError("list", err)
	}
	for _, e := range entries {
		if e.Type.IsDir() && strings.HasPrefix(e.Name, "pr-") {
			if err := d.clearFolder(e.Name, nil, func(string, bool) error { return each() }); err != nil {
				return err
			}
		}
	}
	return nil
}

// clearFolder removes the pages of a folder and below it, and the folders that are empty then. With
// gone it removes those alone that gone reports, and their damaged files. It calls each after each
// page with its folder and whether it is gone: a defect is not.
func (d *folders) clearFolder(rel string, gone func(url string) (bool, error), each func(folder string, removed bool) error) error {
	if _, _, isFolder := decodePath(rel); !isFolder && !isOverlong(rel) {
		return nil
	}
	entries, err := d.fs.List(rel)
	if err != nil {
		return DiskError("list", err)
	}
	url, err := d.paths.URLOf(rel)
	isPage := err == nil || isOverlong(rel)
	found := false
	for _, e := range entries {
		name := e.Name
		if gone != nil {
			name = strings.TrimSuffix(name, damagedSuffix)
		}
		version, _ := versionName(name)
		found = found || name == contentName || name == sourceName || version != ""
	}
	if isPage && found && gone != nil {
		if url == "" {
			var st PageStatus
			if url, st, _ = d.status(rel, ""); errors.Is(st.Err, ErrDisk) {
				return st.Err
			}
			if url == "" { // of a long path that nothing names any more: it goes with its host
				url, _ = d.paths.URLOf(path.Dir(rel))
			}
		}
		if found, err = gone(url); err != nil {
			return err
		}
	}
	if isPage && found {
		removed, err := d.clearPage(rel, url, gone != nil)
		if err == nil {
			err = each(rel, removed)
		}
		if err != nil {
			return err
		}
	}
	for _, e := range entries {
		if !e.Type.IsDir() {
			continue
		}
		if err := d.clearFolder(rel+"/"+e.Name, gone, each); err != nil {
			return err
		}
	}
	return removeFolder(d.fs, rel)
}

// clearPage removes the files of a page, be it torn: after a power cut either may be there alone.
// With damaged those go as well that were kept as damaged. Those of a defect stay.
func (d *folders) clearPage(rel, url string, damaged bool) (removed bool, err error) {
	_, st, _ := d.status(rel, url)
	switch {
	case errors.Is(st.Err, ErrDisk):
		return false, st.Err
	case st.Kind == PageDefect:
		return false, nil
	}
	names := []string{sourceName, contentName}
	if damaged {
		names = append(names, sourceName+damagedSuffix, contentName+damagedSuffix)
	}
	for _, base := range names {
		name := path.Join(rel, base)
		e, err := d.fs.Stat(name)
		if err == nil && e.Type == 0 {
			err = d.fs.Remove(name)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, DiskError("remove "+rel, err)
		}
	}
	entries, err := d.fs.List(rel)
	if err != nil {
		return false, DiskError("list", err)
	}
	for _, v := range versionsIn(entries) {
		if err := d.removeVersion(rel, v); err != nil {
			return false, err
		}
	}
	return true, nil
}

// removeFolder removes a folder if it is empty.
func removeFolder(disk FS, name string) error {
	err := disk.RemoveFolder(name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) { // ENOTEMPTY is among these
		return nil
	}
	return DiskError("remove "+name, err)
}
