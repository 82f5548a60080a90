package iut

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"encoding/base32"
	"errors"
	"io"
	"io/fs"
	"path"
	"strings"

	"urltree/internal/archive"
	"urltree/internal/warc"
	"urltree/storage/record"
)

// A Capture is an answer in a segment that a [Compaction] looks at or moves, with all that stands
// behind it.
type Capture struct {
	URL    string
	Extent record.Extent
	Bytes  int64  // of the answer and all behind it
	ID     string // of the record with the answer
	Page   bool   // it is that of a page
	Source string // of the page, or of another answer; "": none is named
	Via    string // the URL that redirected to it; "": none did
	Body   uint32 // the segment that has the body; 0: none, or that of the answer itself

	group *group
}

// A Compaction writes segments anew, without some of the captures in them. It is used by one
// goroutine, which alone uses the tree meanwhile.
type Compaction struct {
	tree  *Tree
	s     *segments
	infos map[[2]uint32]bool // segments whose warcinfo record stands in another one
}

// Compact begins a compaction; nil: the tree is one of folders.
func (t *Tree) Compact() *Compaction {
	s, ok := t.pages.(*segments)
	if !ok {
		return nil
	}
	return &Compaction{tree: t, s: s, infos: map[[2]uint32]bool{}}
}

// Segments returns the numbers of all segments, with their lengths in bytes.
func (c *Compaction) Segments() (map[uint32]int64, error) {
	sizes := map[uint32]int64{}
	for number, name := range c.s.names {
		e, err := c.s.fs.Stat(name)
		if err != nil {
			return nil, DiskError("look at "+name, err)
		}
		sizes[number] = e.Size
	}
	return sizes, nil
}

// Name returns the name of a segment below the root.
func (c *Compaction) Name(segment uint32) string { return c.s.names[segment] }

// Each calls fn with the captures of a segment, in its order. Errors are those of fn, ErrTorn for
// one that is damaged, and ErrDisk.
func (c *Compaction) Each(segment uint32, fn func(*Capture) error) error {
	_, err := c.s.scanGroups(segment, 0, func(g *group) error {
		k := &Capture{
			URL: g.header.Target(), Extent: g.at, Bytes: g.end - g.at.Offset, ID: g.header.Get(warc.FieldID), Page: g.page.URL != "", group: g,
			Source: aboutField(g.about, viaField), Via: aboutField(g.about, fromField),
		}
		if k.Page {
			k.URL, k.Source = g.page.URL, g.page.Source
		}
		if g.header.Get(warc.FieldType) == warc.Revisit {
			k.Body, _ = segmentNumber(g.header.Get(warc.FieldRefersToFile))
		}
		return fn(k)
	})
	return err
}

// aboutField returns a field of the block of a metadata record.
func aboutField(block []byte, name string) string {
	for line := range bytes.SplitSeq(block, []byte("\r\n")) {
		if value, ok := bytes.CutPrefix(line, []byte(name+": ")); ok {
			return string(value)
		}
	}
	return ""
}

// Move writes a capture into a new segment, where the next Sync of the tree covers it, and returns
// where. Source and Via may differ from what Each has said; else its records are the same bytes.
// With unfold a revisit gets its body, or names another record that has it, since the one that it
// names will go.
func (c *Compaction) Move(k *Capture, unfold bool) (record.Extent, error) {
	about, err := k.about()
	if err != nil {
		return record.Extent{}, err
	}
	g, err := c.s.take()
	if err != nil {
		return record.Extent{}, err
	}
	at := record.Extent{Segment: g.number}
	if err = c.info(g, k.Extent.Segment); err == nil {
		if unfold || !bytes.Equal(about, k.group.about) {
			at, err = c.write(g, k, about)
		} else {
			at, err = c.copy(g, k)
		}
	}
	if err == nil {
		err = DiskError("write "+g.name, g.buf.Flush())
	}
	if err != nil {
		return at, errors.Join(err, DiskError("close "+g.name, g.file.Close()))
	}
	c.s.mu.Lock()
	c.s.dirty[g.name] = true
	c.s.mu.Unlock()
	return at, c.s.give(g)
}

// about returns the block of the metadata record with Source and Via as they are now.
func (k *Capture) about() ([]byte, error) {
	g := k.group
	was := aboutField(g.about, viaField)
	if k.Page {
		was = g.page.Source
	}
	if k.Source == was && k.Via == aboutField(g.about, fromField) {
		return g.about, nil
	}
	var h warc.Header
	for line := range bytes.SplitSeq(g.about, []byte("\r\n")) {
		name, value, _ := strings.Cut(string(line), ": ")
		switch name {
		case viaField:
			value = k.Source
		case fromField:
			value = k.Via
		case factsField:
			f := g.page
			f.Source = k.Source
			value = strings.TrimSuffix(string(f.AppendLine(nil)), "\n")
		}
		h = append(h, warc.Field{Name: name, Value: value})
	}
	return archive.Fields(h), nil
}

// info copies the warcinfo record that the records of a segment name into another one.
func (c *Compaction) info(to *segment, from uint32) error {
	if pair := [2]uint32{to.number, from}; !c.infos[pair] {
		c.infos[pair] = true
		first := record.Extent{Segment: from}
		r, err := c.s.record(first)
		if err != nil {
			return err
		}
		in := warc.NewReader(io.NewSectionReader(r.file, 0, 1<<62), 0)
		rec, err := in.Next()
		if err == nil && rec.Get(warc.FieldType) == warc.Info {
			if _, err = in.Next(); err == io.EOF {
				err = nil
			}
			if err == nil {
				err = c.raw(to, r.file, 0, in.End())
			}
		}
		return errors.Join(recordErrorOf(r.name, err), DiskError("close "+r.name, r.close()))
	}
	return nil
}

func recordErrorOf(name string, err error) error {
	if err == nil || errors.Is(err, ErrDisk) {
		return err
	}
	return recordError(name, 0, err)
}

// copy copies the records of a capture.
func (c *Compaction) copy(g *segment, k *Capture) (record.Extent, error) {
	r, err := c.s.record(k.Extent)
	if err != nil {
		return record.Extent{}, err
	}
	defer r.close()
	at := k.Extent
	at.Segment, at.Offset = g.number, g.out.Size()
	if err := c.raw(g, r.file, k.Extent.Offset, k.Bytes); err != nil {
		return at, err
	}
	c.keeps(k, at)
	return at, nil
}

// keeps notes that a body is in a new segment, for revisits that come.
func (c *Compaction) keeps(k *Capture, at record.Extent) {
	if h := k.group.header; h.Get(warc.FieldType) == warc.Response {
		sum, _ := strings.CutPrefix(h.Get(warc.FieldPayloadDigest), "sha1:")
		if digest, err := base32.StdEncoding.DecodeString(sum); err == nil && len(digest) == sha1.Size {
			c.s.mu.Lock()
			c.s.kept.put([sha1.Size]byte(digest), at)
			c.s.mu.Unlock()
		}
	}
}

func (c *Compaction) raw(g *segment, from File, offset, n int64) error {
	in := bufio.NewReaderSize(io.NewSectionReader(from, offset, n), 256<<10)
	if err := g.out.Copy(in, n); err != nil {
		return DiskError("copy into "+g.name, err)
	}
	return nil
}

// write writes the records of a capture anew.
func (c *Compaction) write(g *segment, k *Capture, about []byte) (record.Extent, error) {
	h := k.group.header
	facts := Facts{URL: k.URL, Page: record.Page{Extent: k.Extent}}
	open := func() (io.ReadCloser, *Answer, error) { return c.s.answer(facts) }
	body, answer, err := open()
	if err != nil {
		return record.Extent{}, err
	}
	date, err := h.Date()
	w := archive.Capture{
		URL: k.URL, Time: date, Media: h.Get(warc.FieldContentType), Answer: answer, About: about, Truncated: h.Get(warc.FieldTruncated) != "",
	}
	if answer != nil {
		w.Coded = len(archive.Codings(answer.Head)) > 0
	}
	if err == nil {
		err = w.Sum(body)
	}
	if err = errors.Join(err, DiskError("close "+g.name, body.Close())); err != nil {
		return record.Extent{}, err
	}
	if h.Get(warc.FieldType) == warc.Revisit {
		if w.Same, err = c.s.same(&w); err != nil {
			return record.Extent{}, err
		}
	}
	if body, _, err = open(); err != nil {
		return record.Extent{}, err
	}
	w.Body = body
	place, err := g.out.Write(&w)
	at := record.Extent{Segment: g.number, Offset: place.Offset, Length: place.Length, About: place.About}
	if err = errors.Join(err, body.Close()); err != nil {
		return at, DiskError("write "+g.name, err)
	}
	if w.Same == nil && answer != nil && w.Size > 0 {
		c.s.mu.Lock()
		c.s.kept.put(w.Digest, at)
		c.s.mu.Unlock()
	}
	return at, nil
}

// Remove removes a segment, once nothing in it is needed.
func (c *Compaction) Remove(number uint32) error {
	name := c.s.names[number]
	if err := c.s.fs.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return DiskError("remove "+name, err)
	}
	c.s.mu.Lock()
	delete(c.s.names, number)
	delete(c.s.dirty, name)
	c.s.mu.Unlock()
	return DiskError("remove "+name, c.s.fs.SyncDir(path.Dir(name)))
}
