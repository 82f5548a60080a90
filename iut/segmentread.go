package iut

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"urltree/internal/archive"
	"urltree/internal/coding"
	"urltree/internal/spool"
	"urltree/internal/warc"
	"urltree/storage/record"
)

// An openRecord is a record that is read.
type openRecord struct {
	in   *warc.Reader
	rec  *warc.Record
	name string // of the segment
	file File
}

func (r *openRecord) close() error { return r.file.Close() }

// record opens the record that begins at an extent. Errors are fs.ErrNotExist for a segment that is
// not there, ErrTorn and ErrDisk.
func (s *segments) record(at record.Extent) (*openRecord, error) {
	name, err := s.nameOf(at.Segment)
	if err != nil {
		return nil, err
	}
	file, err := s.fs.Open(name, os.O_RDONLY)
	if err != nil {
		return nil, readError(name, err)
	}
	r := &openRecord{name: name, file: file, in: warc.NewReader(io.NewSectionReader(file, at.Offset, math.MaxInt64-at.Offset), at.Offset)}
	r.rec, err = r.in.Next()
	if err != nil {
		return nil, errors.Join(recordError(name, at.Offset, err), file.Close())
	}
	return r, nil
}

// ended goes behind the record, and returns an error of warc if it does not end as it must.
func (r *openRecord) ended() error {
	at := r.in.End()
	switch _, err := r.in.Next(); {
	case err == io.EOF && !r.in.Closed():
		return warc.ErrTorn
	case r.in.End() == at:
		return err
	}
	return nil // whatever comes behind it
}

// recordError returns an error of a record as ErrTorn, but for one of the file.
func recordError(name string, offset int64, err error) error {
	switch {
	case errors.Is(err, warc.ErrTorn), errors.Is(err, warc.ErrFormat), err == io.EOF:
		return tornf("%s at %d: %v", name, offset, err)
	case isNotFile(err):
		return readError(name, err)
	}
	return DiskError("read "+name, err)
}

// facts returns what the metadata record of a page says.
func (s *segments) facts(at Facts, verify bool) (Facts, error) {
	if at.Extent.IsZero() {
		s.mu.Lock()
		loose, ok := s.loose[at.URL]
		s.mu.Unlock()
		if !ok {
			return Facts{}, readError(at.URL, os.ErrNotExist)
		}
		at = loose
	}
	about := at.Extent
	about.Offset += about.About
	r, err := s.record(about)
	if err != nil {
		return Facts{}, err
	}
	defer r.close()
	f, err := factsOf(r.rec)
	if err == nil {
		err = r.ended()
	}
	switch {
	case err != nil:
		return Facts{}, recordError(r.name, about.Offset, err)
	case f.URL != at.URL:
		return f, fmt.Errorf("%w: %w: %s at %d names %s", ErrTorn, ErrDefect, r.name, about.Offset, f.URL)
	}
	f.Extent = at.Extent
	if verify {
		return f, s.verify(f)
	}
	return f, nil
}

func (s *segments) verify(f Facts) error {
	r, err := s.content(f)
	if err != nil {
		return err
	}
	defer r.Close()
	h := sha256.New()
	if _, err := io.Copy(h, r); err != nil {
		return err
	}
	if [32]byte(h.Sum(nil)) != f.Digest {
		return tornf("SHA-256 of the content of %s", f.URL)
	}
	return nil
}

// errNoFacts says that a metadata record is not that of a page.
var errNoFacts = fmt.Errorf("%w: no facts of a page", ErrTorn)

// factsOf reads a metadata record.
func factsOf(rec *warc.Record) (Facts, error) {
	if rec.Get(warc.FieldType) != warc.Metadata || rec.Length > 2*maxLine {
		return Facts{}, errNoFacts
	}
	block, err := io.ReadAll(rec)
	if err != nil {
		return Facts{}, err
	}
	return factsIn(block)
}

// factsIn reads the block of a metadata record.
func factsIn(block []byte) (Facts, error) {
	for line := range bytes.SplitSeq(block, []byte("\r\n")) {
		if facts, ok := bytes.CutPrefix(line, []byte(factsField+": ")); ok {
			return parseLine(append(facts[:len(facts):len(facts)], '\n'))
		}
	}
	return Facts{}, errNoFacts
}

// content opens the body of a page, decoded.
func (s *segments) content(at Facts) (io.ReadCloser, error) {
	c, head, err := s.answered(at)
	if err != nil {
		return nil, err
	}
	codings, err := coding.Parse(archive.Codings(head))
	if err != nil {
		return nil, errors.Join(recordError(c.name, c.at, err), c.Close())
	}
	c.body, c.left = c.decoder.Reader(codings, c.body), c.want
	return c, nil
}

// answer opens the body of a page as it came, and returns how it came.
func (s *segments) answer(at Facts) (io.ReadCloser, *Answer, error) {
	c, head, err := s.answered(at)
	if err != nil || head == nil {
		return c, nil, err
	}
	a := &Answer{Head: head, Protocol: c.header.Get(warc.FieldProtocol)}
	a.Time, _ = c.header.Date() // this program wrote it
	a.Peer, _ = netip.ParseAddr(c.header.Get(warc.FieldIP))
	a.Request, err = s.request(at.Extent, c.header.Get(warc.FieldID))
	if err != nil {
		return nil, nil, errors.Join(err, c.Close())
	}
	return c, a, nil
}

// request returns the request that stands behind an answer.
func (s *segments) request(at record.Extent, answer string) ([]byte, error) {
	at.Offset += at.Length
	r, err := s.record(at)
	if err != nil {
		return nil, err
	}
	defer r.close()
	if r.rec.Get(warc.FieldType) != warc.Request || r.rec.Get(warc.FieldConcurrentTo) != answer || r.rec.Length > maxLine {
		return nil, nil
	}
	b, err := io.ReadAll(r.rec)
	if err != nil {
		return nil, recordError(r.name, at.Offset, err)
	}
	return b, nil
}

// answered opens the body of a page as it came, and returns the head of its answer; nil: only the
// body is known.
func (s *segments) answered(at Facts) (c *content, head []byte, err error) {
	if at.Extent.IsZero() {
		if at, err = s.facts(at, false); err != nil {
			return nil, nil, err
		}
	}
	r, err := s.record(at.Extent)
	if err != nil {
		return nil, nil, err
	}
	c = &content{openRecord: r, header: r.rec.Header, at: at.Extent.Offset, body: r.rec, want: at.Bytes, left: math.MaxInt64}
	switch kind := r.rec.Get(warc.FieldType); kind {
	case warc.Response, warc.Revisit:
		if head, err = c.readHead(); err == nil && kind == warc.Revisit {
			if c.openRecord, err = s.original(r); err != nil {
				return nil, nil, err
			}
			_, err = c.readHead() // the same body came behind another one
		}
		if err != nil {
			return nil, nil, errors.Join(recordError(c.name, c.at, err), c.Close())
		}
	}
	return c, head, nil
}

// original opens the record that has the body of a revisit, which it closes.
func (s *segments) original(r *openRecord) (*openRecord, error) {
	defer r.close()
	number, ok := segmentNumber(r.rec.Get(warc.FieldRefersToFile))
	offset, err := strconv.ParseInt(r.rec.Get(warc.FieldRefersToOffset), 10, 64)
	if !ok || err != nil {
		return nil, tornf("%s: a revisit that names no record", r.name)
	}
	o, err := s.record(record.Extent{Segment: number, Offset: offset})
	switch {
	case err != nil:
		return nil, err
	case o.rec.Get(warc.FieldID) != r.rec.Get(warc.FieldRefersTo):
		return nil, errors.Join(tornf("%s at %d is not the record that a revisit names", o.name, offset), o.close())
	}
	return o, nil
}

// A content is the body of a page that is read: decoded, where it ends after the bytes that the
// facts name, since the record of an answer that was cut may have more; or as it came.
type content struct {
	*openRecord // that has the body
	header      warc.Header
	at          int64
	want, left  int64 // bytes that the decoded body has, and that may yet be read
	body        io.Reader
	decoder     coding.Decoder
}

func (c *content) Read(b []byte) (int, error) {
	if c.left == 0 {
		return 0, io.EOF
	}
	n, err := c.body.Read(b[:min(int64(len(b)), c.left)])
	c.left -= int64(n)
	switch {
	case err == nil || c.left == 0:
		return n, nil
	case err == io.EOF && c.left > c.want: // as it came
		return n, io.EOF
	case err == io.EOF:
		return n, tornf("%s at %d: the content is %d bytes short", c.name, c.at, c.left)
	}
	return n, c.failed(err)
}

// failed returns the error of a body: one of its coding counts as torn.
func (c *content) failed(err error) error {
	if _, ok := errors.AsType[*os.PathError](err); ok {
		return DiskError("read "+c.name, err)
	}
	return tornf("%s at %d: %v", c.name, c.at, err)
}

func (c *content) Close() error {
	c.decoder.Close()
	return c.openRecord.close()
}

// readHead reads the head of an answer, behind which the body stands.
func (c *content) readHead() (head []byte, err error) {
	in := bufio.NewReaderSize(c.rec, 4<<10)
	c.body = in
	for {
		line, err := in.ReadSlice('\n')
		if head = append(head, line...); len(head) > maxLine {
			return nil, tornf("a header of more than %d bytes", maxLine)
		}
		switch {
		case err == nil && len(bytes.TrimRight(line, "\r\n")) == 0:
			return head, nil
		case err != nil && err != bufio.ErrBufferFull:
			return nil, err
		}
	}
}

// Committed is what the index knows of segments: where the last answer of each ends that it has,
// and where the first page begins that it lacks, if that may stand before the other. Has reports
// whether it has the page that stands at an extent.
type Committed struct {
	Ends, Open map[uint32]int64
	Has        func(url string, at record.Extent) bool
}

// Recover has a tree of segments find what earlier runs wrote and no commit covers: whole pages are
// found by Has and Adopt from now on, and a torn end is cut off behind the last whole one. It is
// called once, before the first Store. Of a tree of folders it does nothing. Errors are
// [record.ErrDamaged] for a segment that is shorter than its committed part, and [ErrDisk].
func (t *Tree) Recover(c Committed) error {
	s, ok := t.pages.(*segments)
	if !ok || t.readOnly {
		return nil
	}
	short, err := s.short(c.Ends)
	if err != nil {
		return err
	}
	for _, number := range slices.Sorted(maps.Keys(short)) {
		name := cmp.Or(s.names[number], fmt.Sprintf("segment %d", number))
		return fmt.Errorf("%w: %s has %d bytes, the index knows of pages up to %d", record.ErrDamaged, name, short[number], c.Ends[number])
	}
	return s.recover(c, t.Forgotten())
}

// Short returns the size of each segment that is shorter than its committed part. The error is
// [ErrDisk].
func (t *Tree) Short(ends map[uint32]int64) (map[uint32]int64, error) {
	s, ok := t.pages.(*segments)
	if !ok {
		return nil, nil
	}
	return s.short(ends)
}

func (s *segments) short(ends map[uint32]int64) (map[uint32]int64, error) {
	short := map[uint32]int64{}
	for number, end := range ends {
		size := int64(0)
		if name := s.names[number]; name != "" {
			e, err := s.fs.Stat(name)
			if err != nil {
				return nil, DiskError("look at "+name, err)
			}
			size = e.Size
		}
		if size < end {
			short[number] = size
		}
	}
	return short, nil
}

// recover is Recover. The next sync covers each segment that has pages which no commit covers: one
// that is adopted may name a body in another segment. What is forgotten is not found.
func (s *segments) recover(c Committed, forgotten *Forgotten) error {
	clear(s.dirty)
	for number, name := range s.names {
		committed := c.Ends[number]
		from := committed
		if at, ok := c.Open[number]; ok {
			from = min(from, at)
		}
		end, err := s.scan(number, from, func(f Facts) error {
			if gone, err := forgotten.Has(f.URL); gone || err != nil {
				return err
			}
			if f.Extent.Offset >= committed || !c.Has(f.URL, f.Extent) {
				s.loose[f.URL], s.dirty[name] = f, true
				s.waiting[number] = append(s.waiting[number], f.Extent.Offset)
			}
			return nil
		})
		if errors.Is(err, ErrTorn) && end >= committed {
			err = s.cut(number, name, end)
		}
		if err != nil && !errors.Is(err, ErrTorn) { // what is torn before is damage, which check finds
			return err
		}
	}
	s.named = len(s.dirty) == 0
	return nil
}

// cut cuts a segment, and removes one of which nothing is left.
func (s *segments) cut(number uint32, name string, size int64) error {
	if size == 0 {
		delete(s.names, number)
		return DiskError("remove "+name, s.fs.Remove(name))
	}
	f, err := s.fs.Open(name, os.O_WRONLY)
	if err != nil {
		return DiskError("cut "+name, err)
	}
	return DiskError("cut "+name, errors.Join(f.Truncate(size), f.Sync(), f.Close()))
}

// A group is an answer in a segment with what stands behind it.
type group struct {
	header warc.Header   // of the answer
	at     record.Extent // of the answer; its Length is 0 if nothing stands behind it
	end    int64         // of the group
	about  []byte        // the block of the metadata record that ends it
	page   Facts         // if it is that of a page; else without a URL
}

// scan calls fn with each whole page of a segment, as scanGroups does.
func (s *segments) scan(number uint32, from int64, fn func(Facts) error) (end int64, err error) {
	return s.scanGroups(number, from, func(g *group) error {
		if g.page.URL == "" {
			return nil
		}
		return fn(g.page)
	})
}

// scanGroups calls fn with each whole group of a segment from an offset on, where a record begins,
// and returns where the last one ends. Errors are those of fn, ErrTorn for a segment that does not
// go on, and ErrDisk.
func (s *segments) scanGroups(number uint32, from int64, fn func(*group) error) (end int64, err error) {
	name, err := s.nameOf(number)
	if err != nil {
		return from, err
	}
	file, err := s.fs.Open(name, os.O_RDONLY)
	if err != nil {
		return from, readError(name, err)
	}
	defer file.Close()
	var (
		in     = warc.NewReader(io.NewSectionReader(file, from, math.MaxInt64-from), from)
		answer string // ID of the record that the present group begins with; "": behind a group
		g      group
		last   bool // the latest record ends its group, if it is whole
	)
	for end = from; ; {
		before := in.End()
		rec, err := in.Next()
		if err == io.EOF && !in.Closed() {
			err = warc.ErrTorn
		} else if in.End() > before { // the record before is whole, whatever comes now
			if g.end = in.End(); last {
				if err := fn(&g); err != nil {
					return end, err
				}
			}
			if last || answer == "" {
				answer, end = "", in.End()
			}
			last = false
		}
		switch {
		case err == io.EOF && answer != "":
			return end, tornf("%s at %d: a group that does not end", name, end)
		case err == io.EOF:
			return end, nil
		case err != nil:
			return end, recordError(name, in.End(), err)
		}
		switch kind := rec.Get(warc.FieldType); {
		case kind == warc.Response, kind == warc.Revisit, kind == warc.Resource:
			answer = rec.Get(warc.FieldID)
			g = group{header: rec.Header, at: record.Extent{Segment: number, Offset: rec.Offset}}
			continue
		case answer == "":
			continue // of the group that ends at from, or about the file
		case g.at.Length == 0:
			g.at.Length = rec.Offset - g.at.Offset
		}
		if last = rec.Get(warc.FieldType) == warc.Metadata; last {
			g.at.About = rec.Offset - g.at.Offset
			if rec.Length <= 2*maxLine {
				if g.about, err = io.ReadAll(rec); err != nil {
					return end, recordError(name, rec.Offset, err)
				}
			}
			if g.page, err = factsIn(g.about); err != nil && err != errNoFacts {
				return end, recordError(name, rec.Offset, err)
			}
			g.page.Extent = g.at
		}
	}
}

// walk finds the latest group of each URL, by sorting those of all segments.
func (s *segments) walk(fn WalkFunc) (err error) {
	foreign, err := s.list()
	if err != nil {
		return err
	}
	for _, name := range foreign {
		if err := fn("", name, PageStatus{PageForeign, errNotSegment}, Facts{}); err != nil {
			return err
		}
	}
	all := spool.NewSorter(16<<20, 16)
	defer func() { err = errors.Join(err, all.Close()) }()
	s.mu.Lock()
	numbers := slices.Sorted(maps.Keys(s.names))
	s.mu.Unlock()
	for _, number := range numbers {
		if err := s.walkSegment(number, all, fn); err != nil {
			return err
		}
	}
	next := all.Sorted()
	row, err := next()
	for err == nil {
		latest := row
		if row, err = next(); err == nil && row.Key == latest.Key {
			continue
		}
		if err != nil && err != io.EOF {
			return err
		}
		f, bad := parseLine([]byte(latest.Values[0]))
		if bad != nil {
			return bad // it was read so from the segment
		}
		f.Extent = extentOf(latest.Sub)
		where, whereErr := s.where(f)
		if whereErr != nil {
			return whereErr
		}
		if err := fn(f.URL, where, PageStatus{Kind: PageComplete}, f); err != nil {
			return err
		}
	}
	if err == io.EOF {
		return nil
	}
	return err
}

var errNotSegment = errors.New("iut: not a segment")

// walkSegment adds the pages of a segment to all. Behind damage it goes on with the next record
// that it finds.
func (s *segments) walkSegment(number uint32, all *spool.Sorter, fn WalkFunc) error {
	for from := int64(0); ; {
		end, err := s.scan(number, from, func(f Facts) error {
			return all.Add(spool.Row{Key: f.URL, Sub: subOf(f.Extent), Values: [2]string{string(f.AppendLine(nil))}})
		})
		if !errors.Is(err, ErrTorn) {
			return err
		}
		name, nameErr := s.nameOf(number)
		if nameErr != nil {
			return nameErr
		}
		if err := fn("", name, PageStatus{PageTorn, err}, Facts{}); err != nil {
			return err
		}
		if from, err = s.nextRecord(name, end+1); err != nil || from < 0 {
			return err
		}
	}
}

// nextRecord returns where the next record with an answer begins, from an offset on; -1: none does.
func (s *segments) nextRecord(name string, from int64) (int64, error) {
	file, err := s.fs.Open(name, os.O_RDONLY)
	if err != nil {
		return 0, DiskError("read "+name, err)
	}
	defer file.Close()
	begin := []byte("WARC/1.1\r\n")
	if strings.HasSuffix(name, ".gz") {
		begin = []byte{0x1f, 0x8b, 8}
	}
	buf := make([]byte, 1<<20)
	for {
		n, err := file.ReadAt(buf, from)
		if err != nil && err != io.EOF {
			return 0, DiskError("read "+name, err)
		}
		for at := 0; ; at++ {
			i := bytes.Index(buf[at:n], begin)
			if i < 0 {
				break
			}
			at += i
			offset := from + int64(at)
			rec, err := warc.NewReader(io.NewSectionReader(file, offset, math.MaxInt64-offset), offset).Next()
			if err == nil && rec.Get(warc.FieldType) != warc.Request && rec.Get(warc.FieldType) != warc.Metadata {
				return offset, nil
			}
		}
		if err == io.EOF {
			return -1, nil
		}
		from += int64(n - len(begin))
	}
}

// subOf writes an extent so that later ones sort behind.
func subOf(e record.Extent) string {
	var b []byte
	for _, v := range []uint64{uint64(e.Segment), uint64(e.Offset), uint64(e.Length), uint64(e.About)} {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	return string(b)
}

func extentOf(sub string) record.Extent {
	v := func(i int) uint64 { return binary.BigEndian.Uint64([]byte(sub[8*i:])) }
	return record.Extent{Segment: uint32(v(0)), Offset: int64(v(1)), Length: int64(v(2)), About: int64(v(3))}
}
