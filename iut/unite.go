package iut

import (
	"bytes"
	"crypto/sha1"
	"encoding/base32"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"strings"

	"urltree/internal/warc"
	"urltree/storage/record"
)

// ErrUniting says that a tree is being made of others, or that this was cut off: see
// [Options.Uniting]. Nothing else may use it.
var ErrUniting = errors.New("iut: unfinished union of trees")

// startOver removes what an unfinished union has written, and makes FORMAT that of a new one.
func (t *Tree) startOver(made Format) error {
	none := func() error { return nil }
	s := newSegments(t.fs, t.segments)
	if _, err := s.list(); err != nil {
		return err
	}
	d := &folders{t.fs, Mapping{FoldCase: t.format.FoldCase}, newPathLocks()}
	if err := errors.Join(s.clear(none), d.clear(none)); err != nil {
		return err
	}
	for _, name := range []string{"index.db", "index.db.new", seedsName, edgesName, forgottenName, forgottenNewName} {
		if err := t.fs.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return DiskError("remove "+name, err)
		}
	}
	return t.writeFormatLocked(made)
}

// Unite ends the union: from then on FORMAT says that this is a tree, with these options. All of it
// must be durable.
func (t *Tree) Unite(links LinkOptions, kept Kept) error {
	return t.change(func(f *Format) { f.Links, f.Kept, f.Sync, f.Uniting = links, kept, t.fs.SyncMode(), false })
}

// CopyPage brings a page of another tree into this one, where the next Sync covers it, and returns
// its facts here. via is the URL that redirected to it, or "". A group of a segment is copied as it
// stands, without a look at its body, if it names no other group, its body is not here yet, and the
// segments of both trees are compressed or both are not; all else is read, and its SHA-256
// compared. Errors are those of Load for from, and of Store; [ErrTree] says that something else is
// in its place.
func (t *Tree) CopyPage(from *Tree, at Facts, via string) (Facts, error) {
	if e, ok, err := t.copyGroup(from, at, true); ok || err != nil {
		at.Extent = e
		return at, err
	}
	p, temp, err := t.readOf(from, at)
	if err != nil {
		return at, err
	}
	p.Extent = record.Extent{}
	if p.Via = via; at.Source == record.Forgotten {
		p.Source = at.Source // a segment has the old one
	}
	line := p.AppendLine(nil)
	res, err := t.Store(p)
	if err != nil && temp != nil {
		err = errors.Join(err, temp.Discard())
	}
	if err == nil && !bytes.Equal(res.Facts.AppendLine(nil), line) || errors.Is(err, ErrPage) {
		where, _ := t.Where(at)
		err = errors.Join(fmt.Errorf("%w: %s/%s is in the way of a page; move it away", ErrTree, t.root, where), err)
	}
	return res.Facts, err
}

// CopyAnswer brings the answer of a redirect of another tree into this one, and returns where it
// is; zero: one of the trees keeps none, or it is not whole. The error is [ErrDisk].
func (t *Tree) CopyAnswer(from *Tree, at Facts, via string) (record.Extent, error) {
	e, ok, err := t.copyGroup(from, at, false)
	_, segmented := t.pages.(*segments)
	if err == nil && !ok && segmented && !at.Extent.IsZero() {
		var body io.ReadCloser
		var answer *Answer
		if body, answer, err = from.Answer(at); err == nil {
			if err = body.Close(); err == nil && answer != nil {
				e, err = t.KeepAnswer(&Page{Facts: at, Via: via, Answer: answer})
			}
		}
	}
	if err != nil && !errors.Is(err, ErrDisk) {
		return record.Extent{}, nil // the record says all that is needed
	}
	return e, err
}

// readOf reads a page of another tree for Store, its SHA-256 compared: as it came, if this tree has
// segments. temp is the file with its body, if one was made.
func (t *Tree) readOf(from *Tree, at Facts) (p *Page, temp *TempFile, err error) {
	p = &Page{}
	_, segmented := t.pages.(*segments)
	_, was := from.pages.(*segments)
	asItCame := segmented && was
	if at.Bytes <= inMemory && !asItCame {
		p.Facts, p.Body, err = from.Load(at)
		return p, nil, err
	}
	if p.Facts, err = from.pages.facts(at, true); err != nil {
		return p, nil, err
	}
	var body io.ReadCloser
	if asItCame {
		body, p.Answer, err = from.Answer(p.Facts)
	} else {
		body, err = from.Content(p.Facts)
	}
	if err != nil {
		return p, nil, err
	}
	defer body.Close()
	if p.Body, err = io.ReadAll(io.LimitReader(body, inMemory+1)); err != nil || len(p.Body) <= inMemory {
		return p, nil, err
	}
	if temp, err = t.Temp(nil); err != nil {
		return p, nil, err
	}
	_, err = io.Copy(temp, io.MultiReader(bytes.NewReader(p.Body), body))
	p.Body, p.Temp = nil, temp.Name()
	if err = errors.Join(err, temp.Close()); err != nil {
		err = errors.Join(err, temp.Discard())
	}
	return p, temp, err
}

// copyGroup is CopyPage, or CopyAnswer, for a group that can be copied as it stands: ok is false
// for any other.
func (t *Tree) copyGroup(from *Tree, at Facts, page bool) (e record.Extent, ok bool, err error) {
	to, ok := t.pages.(*segments)
	s, segmented := from.pages.(*segments)
	if !ok || !segmented || at.Extent.IsZero() || at.Extent.About == 0 {
		return e, false, nil
	}
	name, err := s.nameOf(at.Extent.Segment)
	if err != nil || strings.HasSuffix(name, ".gz") == to.opts.Plain {
		return e, false, err
	}
	answer, err := s.record(at.Extent)
	if err != nil {
		return e, false, err
	}
	defer answer.close()
	digest := payloadOf(answer.rec)
	if answer.rec.Get(warc.FieldType) == warc.Revisit || answer.rec.Target() != at.URL || to.has(digest) {
		return e, false, nil
	}
	end, err := s.groupEnd(name, answer.file, at, page)
	if err != nil {
		return e, false, err
	}
	group := io.NewSectionReader(answer.file, at.Extent.Offset, end-at.Extent.Offset)
	e, err = to.appendGroup(group, at.Extent, digest)
	return e, err == nil, err
}

// groupEnd returns where a group ends, whose last record must be whole and, of a page, say what the
// index does.
func (s *segments) groupEnd(name string, file File, at Facts, page bool) (int64, error) {
	about := at.Extent.Offset + at.Extent.About
	in := warc.NewReader(io.NewSectionReader(file, about, math.MaxInt64-about), about)
	rec, err := in.Next()
	if err != nil {
		return 0, recordError(name, about, err)
	}
	if page {
		f, err := factsOf(rec)
		if err != nil {
			return 0, recordError(name, about, err)
		}
		if at.Source == record.Forgotten {
			f.Source = at.Source
		}
		if f.Extent = at.Extent; !bytes.Equal(f.AppendLine(nil), at.AppendLine(nil)) {
			return 0, tornf("%s at %d: other facts than those of the index", name, about)
		}
	}
	_, err = in.Next()
	if in.End() <= about || err == io.EOF && !in.Closed() {
		return 0, tornf("%s at %d: a group that does not end", name, about)
	}
	return in.End(), nil
}

// payloadOf returns the digest of the body of a response; nil: of any other record, and of a body
// that is empty.
func payloadOf(rec *warc.Record) (digest *[sha1.Size]byte) {
	text, ok := strings.CutPrefix(rec.Get(warc.FieldPayloadDigest), "sha1:")
	sum, err := base32.StdEncoding.DecodeString(text)
	if !ok || err != nil || len(sum) != sha1.Size || rec.Get(warc.FieldType) != warc.Response {
		return nil
	}
	if digest = (*[sha1.Size]byte)(sum); *digest == sha1.Sum(nil) {
		return nil
	}
	return digest
}

// has reports whether a body is kept already, so that it can be named.
func (s *segments) has(digest *[sha1.Size]byte) bool {
	if digest == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.kept.at[*digest]
	return ok
}

// appendGroup appends a whole group of another file, of which it reads all, and returns where it
// is. digest is that of its body, for later revisits; nil: there are none.
func (s *segments) appendGroup(group *io.SectionReader, was record.Extent, digest *[sha1.Size]byte) (record.Extent, error) {
	g, err := s.take()
	if err != nil {
		return record.Extent{}, err
	}
	e := record.Extent{Segment: g.number, Offset: g.out.Size(), Length: was.Length, About: was.About}
	if err = g.out.Copy(group, group.Size()); err == nil {
		err = g.buf.Flush()
	}
	if err != nil {
		return e, errors.Join(DiskError("write "+g.name, err), g.file.Close())
	}
	s.mu.Lock()
	s.dirty[g.name] = true
	if digest != nil && !s.opts.NoRevisit {
		s.kept.put(*digest, e)
	}
	s.mu.Unlock()
	return e, s.give(g)
}

// SumOf returns a digest of a page's answer as it stands in its segment, by which two copies of one
// page are told apart; in a tree of folders it is empty.
func (t *Tree) SumOf(at Facts) (sum string, err error) {
	s, ok := t.pages.(*segments)
	if !ok || at.Extent.IsZero() {
		return "", nil
	}
	name, err := s.nameOf(at.Extent.Segment)
	if err != nil {
		return "", err
	}
	f, err := s.fs.Open(name, os.O_RDONLY)
	if err != nil {
		return "", readError(name, err)
	}
	defer f.Close()
	h := sha1.New()
	if _, err := io.Copy(h, io.NewSectionReader(f, at.Extent.Offset, at.Extent.Length)); err != nil {
		return "", DiskError("read "+name, err)
	}
	return string(h.Sum(nil)), nil
}
