package iut

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math"
	"net/netip"
	"os"
	"strconv"

	"urltree/internal/archive"
	"urltree/internal/coding"
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
