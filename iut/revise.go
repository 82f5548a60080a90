package iut

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"urltree/storage/record"
)

// A stored page that has other content now is a new version of it. In a tree of segments that is
// one more group. In folders it is written beside the tree first: the body to a file in tmp/, and
// its line to a list there, of all new versions of one set. Sync makes both durable, one
// transaction makes the index say so, and only then copies of both replace content.html and
// source.txt. List and body go after the next Sync, so that until then [Tree.Finish] can do the
// same again: a disk may lose both names of a file that it has renamed. A kill leaves the old
// version, the new one, or a list that says which is due.

const (
	listPrefix = "revised-" // of lists of lines, in tmp/
	bodyPrefix = "new-"     // of bodies, in tmp/
)

// isRevision reports whether a file in tmp/ is one that Finish is for.
func isRevision(name string) bool {
	return strings.HasPrefix(name, listPrefix) || strings.HasPrefix(name, bodyPrefix)
}

// bodyName returns the name of the new body of a page. Another version has another one, for the
// list of one may go while the other is written.
func bodyName(f *Facts) string {
	sum := sha256.Sum256(append(f.Digest[:], f.URL...))
	return tempFolder + "/" + bodyPrefix + hex.EncodeToString(sum[:])
}

// Revise is Store for a page that the tree has, whose content is another one now. In folders, until
// a Committer has committed it, the tree has the one that it had.
func (t *Tree) Revise(p *Page) (Result, error) {
	page, line, err := t.prepare(p)
	if err != nil {
		return Result{}, err
	}
	return t.pages.revise(page, line, t.Versions())
}

func (d *folders) revise(p *Page, _ []byte, versions int) (Result, error) {
	res := Result{Facts: p.Facts}
	if err := d.writeContent(bodyName(&p.Facts), p); err != nil || versions == 1 {
		return res, DiskError("write a new version", err)
	}
	rel, err := d.paths.Path(p.URL)
	if err != nil {
		return res, fmt.Errorf("%w: %w", ErrPage, err)
	}
	unlock := d.locks.lock(rel)
	defer unlock()
	if res.Kept, err = d.keepVersion(rel, p.URL); err != nil {
		err = d.pageError("keep the version in", rel, err)
	}
	return res, err
}

func (s *segments) revise(p *Page, line []byte, _ int) (Result, error) {
	res, err := s.store(p, line)
	res.Kept = true // what is in a segment stays there
	return res, err
}

// announce lists the new versions in a set, before the sync that makes them durable.
func (c *Committer) announce(items []*Item) error {
	if _, ok := c.Tree.pages.(*folders); !ok {
		return nil
	}
	var lines []byte
	names := []string{tempFolder + "/" + listPrefix + strconv.FormatUint(c.Tree.temps.Add(1), 10)}
	for _, it := range items {
		if it.revises() {
			f := it.facts()
			lines = f.AppendLine(lines)
			names = append(names, bodyName(&f))
		}
	}
	if lines == nil {
		return nil
	}
	c.listed = append(c.listed, names...)
	return DiskError("list new versions", writeFile(c.Tree.fs, names[0], os.O_CREATE|os.O_TRUNC, lines, false))
}

// settled removes the first n files of c.listed: their new versions are in their folders, and
// durable.
func (c *Committer) settled(n int) error {
	for _, name := range c.listed[:n] {
		if err := c.Tree.fs.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return DiskError("remove a list", err)
		}
	}
	c.listed = append(c.listed[:0], c.listed[n:]...)
	return nil
}

// install brings the new versions among items, which a transaction has made those of the index,
// into their folders.
func (c *Committer) install(items []*Item) error {
	d, ok := c.Tree.pages.(*folders)
	for _, it := range items {
		if !ok || !it.revises() {
			continue
		}
		if err := d.install(it.facts(), c.Tree.trims()); err != nil {
			return err
		}
	}
	return nil
}

// end makes the last new versions durable.
func (c *Committer) end() error {
	if len(c.listed) == 0 {
		return nil
	}
	if err := c.Tree.Sync(); err != nil {
		return err
	}
	return c.settled(len(c.listed))
}

// install puts the new version of a page in the place of the old one, and removes the oldest ones
// of which there are too many then, given how many are kept. A folder that cannot take it is left
// for check to name.
func (d *folders) install(f Facts, versions int) error {
	rel, err := d.paths.Path(f.URL)
	if err != nil {
		return nil
	}
	body := bodyName(&f)
	unlock := d.locks.lock(rel)
	defer unlock()
	err = d.copyFile(body, body+".copy")
	if err == nil {
		err = d.fs.Rename(body+".copy", rel+"/"+contentName)
	}
	if err == nil {
		err = writeFile(d.fs, body+".line", os.O_CREATE|os.O_TRUNC, f.AppendLine(nil), false)
	}
	if err == nil {
		err = d.fs.Rename(body+".line", rel+"/"+sourceName)
	}
	if err == nil {
		return d.trim(rel, versions)
	}
	if err = d.pageError("replace", rel, nameError{err}); errors.Is(err, ErrPage) {
		return nil
	}
	return err
}

// Finish completes what a kill has left of new versions: those that the index has come into their
// folders, and others go. known returns the record of a URL; nil: there is no index, and each new
// version that is whole counts. It is called once the tree is open for writing, before anything
// else is done to its pages. The error is [ErrDisk].
func (t *Tree) Finish(known func(url string) (record.Record, error)) error {
	d, ok := t.pages.(*folders)
	if !ok || t.readOnly {
		return nil
	}
	entries, err := d.fs.List(tempFolder)
	if err != nil {
		return DiskError("list", err)
	}
	var lists, bodies []string
	for _, e := range entries {
		switch name := tempFolder + "/" + e.Name; {
		case e.Type != 0 || !isRevision(e.Name):
		case strings.HasPrefix(e.Name, listPrefix):
			lists = append(lists, name)
		default:
			bodies = append(bodies, name)
		}
	}
	for _, name := range lists {
		if err := d.finish(name, known, t.trims()); err != nil {
			return err
		}
	}
	if len(lists) > 0 {
		if err := t.Sync(); err != nil {
			return err
		}
	}
	for _, name := range append(lists, bodies...) {
		if err := d.fs.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return DiskError("remove", err)
		}
	}
	return nil
}

// finish brings the new versions of a list into their folders. A line that is torn, or whose body
// is, is of a set that no transaction has.
func (d *folders) finish(list string, known func(url string) (record.Record, error), versions int) error {
	file, err := d.fs.Open(list, os.O_RDONLY)
	if err != nil {
		return DiskError("open a list", err)
	}
	defer file.Close()
	in := bufio.NewScanner(file)
	in.Buffer(nil, maxLine+1)
	for in.Scan() {
		f, err := ParseFacts(in.Text())
		if err != nil {
			continue
		}
		if known != nil {
			if r, err := known(f.URL); err != nil || r.State != record.Stored || r.Digest != f.Digest || r.Time != f.Time {
				if err := d.dropCopy(f.URL); err != nil {
					return err
				}
				continue
			}
		}
		err = d.verify(bodyName(&f), f.Digest)
		if err == nil {
			err = d.install(f, versions)
		}
		if errors.Is(err, ErrDisk) {
			return err
		}
	}
	if err := in.Err(); err != nil && !errors.Is(err, bufio.ErrTooLong) {
		return DiskError("read a list", err)
	}
	return nil
}
