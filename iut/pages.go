package iut

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"urltree/storage/record"
)

// pages is where the pages of a tree are: in [folders], or in [segments]. All methods may be called
// at the same time, but close at the end. A page is named by its URL and, once it is in a segment,
// by its Extent: the other facts of at do not count.
type pages interface {
	// store is Store, for a page whose facts are clean and complete, as in line.
	store(p *Page, line []byte) (Result, error)
	// revise is Revise, likewise, given how many versions are kept.
	revise(p *Page, line []byte, versions int) (Result, error)
	// facts returns what is kept with a page, and compares its SHA-256 if verify is set. The facts are
	// also returned when they are right and something else is not. Errors are those of Load.
	facts(at Facts, verify bool) (Facts, error)
	// redirect is Redirect.
	keepAnswer(p *Page) (record.Extent, error)
	// answer is Answer.
	answer(at Facts) (io.ReadCloser, *Answer, error)
	// content opens the body of a page.
	content(at Facts) (io.ReadCloser, error)
	// adopt has the next sync cover a page of an earlier process.
	adopt(at Facts) error
	// removeTorn is RemoveTorn.
	removeTorn(at Facts, stored bool) (kept bool, err error)
	// where returns the place of a page below the root, for people.
	where(at Facts) (string, error)
	// walk is Walk.
	walk(fn WalkFunc) error
	// clear removes all pages, see [Conversion.End].
	clear(each func() error) error
	// sync makes durable what SyncAll of the disk does not cover.
	sync() error
	close() error
}

// A Result is what Store did.
type Result struct {
	Facts   Facts // as source.txt has them
	Adopted bool  // the page was there, complete, and what was given is dropped
	Kept    bool  // of Revise: what the tree had stays, as an earlier version
}

// Store writes a page, unless the tree has it: once, however many ask for it at the same
// moment. It is durable after the next Sync. A torn page is written anew.
//
// The error is [ErrPage] when only this page cannot be stored, else [ErrDisk]. On success
// p.Temp is used up; after an error it may be.
func (t *Tree) Store(p *Page) (Result, error) {
	page, line, err := t.prepare(p)
	if err != nil {
		return Result{}, err
	}
	return t.pages.store(page, line)
}

// prepare returns a page with its facts as they are kept, and their line.
func (t *Tree) prepare(p *Page) (*Page, []byte, error) {
	if err := t.writable(); err != nil {
		return nil, nil, err
	}
	f := p.Facts
	if p.Temp == "" && p.Answer == nil {
		f.Bytes = int64(len(p.Body))
		if f.Digest == ([32]byte{}) {
			f.Digest = sha256.Sum256(p.Body)
		}
	}
	f = f.clean()
	if _, err := t.paths.Path(f.URL); err != nil || f.URL != p.URL || f.Source != p.Source {
		return nil, nil, fmt.Errorf("%w: not a canonical URL: %q from %q", ErrPage, p.URL, p.Source)
	}
	line := f.AppendLine(make([]byte, 0, 512))
	if len(line) > maxLine {
		return nil, nil, fmt.Errorf("%w: facts of %d bytes, at most %d: %.200s", ErrPage, len(line), maxLine, f.URL)
	}
	page := *p
	page.Facts = f
	return &page, line, nil
}

// KeepAnswer keeps, in a tree of segments, an answer that is no page, such as a redirect, and
// returns where. It is durable after the next Sync. On success p.Temp is used up. The error is
// [ErrDisk].
func (t *Tree) KeepAnswer(p *Page) (record.Extent, error) {
	if err := t.writable(); err != nil {
		return record.Extent{}, err
	}
	return t.pages.keepAnswer(p)
}

// Load returns a page, its SHA-256 compared. The error is fs.ErrNotExist when nothing is there,
// [ErrTorn] when the page is not whole, [ErrPath] for what is no canonical URL, else [ErrDisk].
//
// Of the facts that name a page, here and below, the URL counts and, in a tree of segments, the
// Extent. One without an Extent is looked for among the pages of earlier runs of which the index
// does not know, see Recover.
func (t *Tree) Load(at Facts) (Facts, []byte, error) {
	f, err := t.facts(at, false)
	if err != nil {
		return f, nil, err
	}
	r, err := t.pages.content(f)
	if err != nil {
		return f, nil, err
	}
	defer r.Close()
	body := make([]byte, f.Bytes)
	switch _, err := io.ReadFull(r, body); {
	case errors.Is(err, ErrTorn):
		return f, nil, err
	case err != nil:
		return f, nil, DiskError("read content of "+f.URL, err)
	}
	if sha256.Sum256(body) != f.Digest {
		return f, nil, tornf("SHA-256 of the content of %s", f.URL)
	}
	return f, body, nil
}

// facts returns the facts of a page, without a source that is forgotten: a segment may have it yet.
func (t *Tree) facts(at Facts, verify bool) (Facts, error) {
	f, err := t.pages.facts(at, verify)
	f.Earlier = at.Earlier
	if err == nil {
		f.Source, err = t.Forgotten().Source(f.Source)
	}
	return f, err
}

// Content opens the content of a page. Errors, of the reader as well, are those of Load; the
// SHA-256 is not compared.
func (t *Tree) Content(at Facts) (io.ReadCloser, error) { return t.pages.content(at) }

// Answer opens the body of a page as it came, and returns how it came; in a tree of folders, or
// where only its content is known, that is nil, and the body is the content. Errors, of the reader
// as well, are those of Load; the SHA-256 is not compared.
func (t *Tree) Answer(at Facts) (io.ReadCloser, *Answer, error) { return t.pages.answer(at) }

// Complete reports whether a page is complete; with verify the SHA-256 is compared too. A page
// that is not there or torn is no error. Errors are [ErrPath] and [ErrDisk].
func (t *Tree) Complete(at Facts, verify bool) (Facts, bool, error) {
	f, err := t.facts(at, verify)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrTorn) {
		return f, false, nil
	}
	return f, err == nil, err
}

// Has reports whether the tree seems to hold a complete page of a URL that the index does not call
// stored. Adopt makes sure. A failing disk is [ErrDisk].
func (t *Tree) Has(url string) (bool, error) {
	_, ok, err := t.Complete(Facts{URL: url}, false)
	if errors.Is(err, ErrDisk) {
		return false, err
	}
	return ok && err == nil, nil
}

// Adopt returns a complete page that the index does not know of yet, its SHA-256 compared, and
// lets the next Sync cover it: it may be younger than the last one. Errors are those of Load.
func (t *Tree) Adopt(at Facts) (Facts, []byte, error) {
	facts, body, err := t.Load(at)
	if err == nil {
		err = t.pages.adopt(facts)
	}
	return facts, body, err
}

// RemoveTorn takes away a page that is torn, so that another one can take its place. It leaves a
// complete page alone. What was whole and has been damaged is kept, and kept is true: so is the
// page of any URL that the index calls stored, as stored says. Errors are [ErrPath] and [ErrDisk].
func (t *Tree) RemoveTorn(at Facts, stored bool) (kept bool, err error) {
	if err := t.writable(); err != nil {
		return false, err
	}
	return t.pages.removeTorn(at, stored)
}

// committed returns Outcome.Open for outcomes that are committed together.
func (t *Tree) committed(set []*record.Outcome) map[uint32]int64 {
	s, ok := t.pages.(*segments)
	if !ok {
		return nil
	}
	var extents []record.Extent
	for _, o := range set {
		if !o.Page.Extent.IsZero() {
			extents = append(extents, o.Page.Extent)
		}
	}
	return s.committed(extents)
}

// Where returns where a page is, or would be, below the root: its folder, or the file of its
// segment, and offset and length of its record there. The error is [ErrPath] for what is no
// canonical URL, and fs.ErrNotExist for a page that is in no segment.
func (t *Tree) Where(at Facts) (string, error) { return t.pages.where(at) }

// Walk calls fn for every page of the tree, and for every file or folder that is not of this
// program, with its path. Of folders, one comes before what is below it, the names in one in byte
// order; of segments, the URLs come in byte order. It compares lengths, not the SHA-256.
//
// The url is empty for foreign files, and where only the page could tell it and cannot: for a torn
// page in an ov- folder or in a segment. An error of fn ends the walk and is returned; other errors
// are [ErrDisk]. Memory is bounded. Files in the root itself are not looked at, and pages that are
// forgotten are passed over.
func (t *Tree) Walk(fn WalkFunc) error {
	list := t.Forgotten()
	if list.Empty() {
		return t.pages.walk(fn)
	}
	return t.pages.walk(func(url, rel string, st PageStatus, f Facts) error {
		gone, err := list.Has(url)
		if err == nil && !gone {
			if f.Source, err = list.Source(f.Source); err == nil {
				err = fn(url, rel, st, f)
			}
		}
		return err
	})
}
