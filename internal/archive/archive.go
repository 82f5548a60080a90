// Package archive writes the pages of a tree in the forms that archives have.
//
// A page becomes a WARC record of the type response, as it came, behind which its request stands.
// Of a tree of folders, which has no headers, it becomes one of the type resource, its body and
// media type. A metadata record behind it has what the crawl knows of it.
package archive

import (
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"urltree/internal/warc"
	"urltree/storage/record"
)

// An Answer is what is known of an answer besides its body.
type Answer struct {
	Request  []byte     // request line and header as sent, up to and with the empty line; secrets left out
	Head     []byte     // status line and header as received, or as HTTP/1.1 has them
	Protocol string     // such as h2; "": HTTP/1
	Peer     netip.Addr // who answered; zero: not known
	Time     time.Time  // when the request was sent
}

// A Capture is an answer that is to be written. Without an Answer only the body is known, and it
// becomes a record of the type resource.
type Capture struct {
	URL       string
	Time      time.Time // for a Capture without an Answer
	Media     string    // likewise: what its Content-Type says
	Answer    *Answer
	Body      io.Reader       // in the coding that the header names
	Size      int64           // of Body, in bytes
	Digest    [sha1.Size]byte // SHA-1 of Body
	Coded     bool            // Body is compressed already
	Truncated bool            // Body is only the first part
	Same      *Same           // the record that has this body already: it is named in place of being written; nil: none has
	About     []byte          // the block of the record with what the crawl knows, of named fields
}

// Sum computes the digest and the size of a body that it reads.
func (c *Capture) Sum(body io.Reader) (err error) {
	h := sha1.New()
	c.Size, err = io.Copy(h, body)
	h.Sum(c.Digest[:0])
	return err
}

// A Same names a record, by what that record says of itself and where it is.
type Same struct {
	ID, URL, Date string
	File          string
	Offset        int64
}

// A Place says where a Capture is in its file: in bytes, compressed if the file is.
type Place struct {
	Offset, Length int64 // of the record with the answer
	About          int64 // from Offset to the record with what the crawl knows
}

// A Writer writes captures into one WARC file. The names of records follow from what they say, so
// that the same captures give the same bytes.
type Writer struct {
	out    *warc.Writer
	plain  bool
	info   string // name of the warcinfo record
	body   bytes.Buffer
	header warc.Header // of one record, then of the next one
	named  []byte      // what the name of a record is made of, likewise
}

// NewWriter returns a Writer to w, which is empty, and writes the warcinfo record. The fields say
// what is in the file, made is its time, and name, if not "", what it is called. With plain it is
// not compressed.
func NewWriter(w io.Writer, plain bool, name string, made time.Time, fields warc.Header) (*Writer, error) {
	a := &Writer{out: warc.NewWriter(w, 0), plain: plain}
	block := Fields(fields)
	digest := warc.Digest(block)
	a.info = a.nameOf("warcinfo", name, digest)
	h := warc.Header{
		{Name: warc.FieldType, Value: warc.Info},
		{Name: warc.FieldID, Value: a.info},
		{Name: warc.FieldDate, Value: warc.FormatDate(made)},
		{Name: warc.FieldContentType, Value: warc.FieldsType},
	}
	if name != "" {
		h = append(h, warc.Field{Name: warc.FieldFilename, Value: name})
	}
	return a, a.write(h, block, digest)
}

// Size returns the number of bytes written.
func (a *Writer) Size() int64 { return a.out.Offset() }

// Write writes the records of a capture: the answer, its request if that is known, and what the
// crawl knows, which ends them.
func (a *Writer) Write(c *Capture) (Place, error) {
	at := Place{Offset: a.out.Offset()}
	made := c.Time
	if c.Answer != nil {
		made = c.Answer.Time
	}
	date, digest := warc.FormatDate(made), warc.DigestOf(c.Digest)
	id := a.nameOf(c.URL, date, digest)
	if err := a.answer(c, id, date, digest); err != nil {
		return at, fmt.Errorf("archive %s: %w", c.URL, err)
	}
	at.Length = a.out.Offset() - at.Offset
	if c.Answer != nil && len(c.Answer.Request) > 0 {
		if err := a.beside(warc.Request, c.URL, id, date, warc.RequestType, c.Answer.Request); err != nil {
			return at, err
		}
	}
	at.About = a.out.Offset() - at.Offset
	return at, a.beside(warc.Metadata, c.URL, id, date, warc.FieldsType, c.About)
}

// Copy appends records of n bytes as they stand in another file.
func (a *Writer) Copy(records io.Reader, n int64) error { return a.out.Copy(records, n) }

// begin returns the header of a record, to which more is appended. It is valid until the next call.
func (a *Writer) begin(kind, url, id, date string) warc.Header {
	a.header = append(a.header[:0],
		warc.Field{Name: warc.FieldType, Value: kind},
		warc.Field{Name: warc.FieldID, Value: id},
		warc.Field{Name: warc.FieldDate, Value: date},
		warc.Field{Name: warc.FieldTarget, Value: url},
		warc.Field{Name: warc.FieldInfoID, Value: a.info})
	return a.header
}

// beside writes a record that stands behind an answer, of which it has the date.
func (a *Writer) beside(kind, url, answer, date, media string, block []byte) error {
	digest := warc.Digest(block)
	h := a.begin(kind, url, a.nameOf(answer, digest), date)
	return a.write(append(h, warc.Field{Name: warc.FieldConcurrentTo, Value: answer}, warc.Field{Name: warc.FieldContentType, Value: media}), block, digest)
}

// answer writes the first record of a capture. Where a body stands behind a head the block has no
// digest of its own, which would take as long as that of the body and say no more of it.
func (a *Writer) answer(c *Capture, id, date, digest string) error {
	var (
		h     warc.Header
		head  []byte
		body  = c.Body
		size  = c.Size
		block = digest
	)
	if c.Answer == nil {
		h = a.begin(warc.Resource, c.URL, id, date)
		if c.Media != "" {
			h = append(h, warc.Field{Name: warc.FieldContentType, Value: c.Media})
		}
	} else {
		kind := warc.Response
		head, block = c.Answer.Head, ""
		if c.Same != nil {
			kind, body, size = warc.Revisit, nil, 0
		}
		if size == 0 {
			block = warc.Digest(head)
		}
		h = append(a.begin(kind, c.URL, id, date), warc.Field{Name: warc.FieldContentType, Value: warc.ResponseType})
		if c.Answer.Peer.IsValid() {
			h = append(h, warc.Field{Name: warc.FieldIP, Value: c.Answer.Peer.Unmap().String()})
		}
		if c.Answer.Protocol != "" {
			h = append(h, warc.Field{Name: warc.FieldProtocol, Value: c.Answer.Protocol})
		}
	}
	if c.Same != nil {
		h = append(h,
			warc.Field{Name: warc.FieldProfile, Value: warc.SamePayload},
			warc.Field{Name: warc.FieldRefersTo, Value: c.Same.ID},
			warc.Field{Name: warc.FieldRefersToTarget, Value: c.Same.URL},
			warc.Field{Name: warc.FieldRefersToDate, Value: c.Same.Date},
			warc.Field{Name: warc.FieldRefersToFile, Value: c.Same.File},
			warc.Field{Name: warc.FieldRefersToOffset, Value: strconv.FormatInt(c.Same.Offset, 10)})
	}
	if c.Truncated {
		h = append(h, warc.Field{Name: warc.FieldTruncated, Value: "length"})
	}
	h = append(h, warc.Field{Name: warc.FieldPayloadDigest, Value: digest})
	if block != "" {
		h = append(h, warc.Field{Name: warc.FieldBlockDigest, Value: block})
	}
	return a.out.Write(h, head, body, size, a.compression(c.Coded && c.Same == nil))
}

// compression returns that of a record, given whether its block is compressed already.
func (a *Writer) compression(coded bool) warc.Compression {
	switch {
	case a.plain:
		return warc.None
	case coded:
		return warc.Stored
	}
	return warc.Fast
}

// write writes a record with a block of ours. It is not compressed: to make codes for so few bytes
// takes longer than all else that is done with a page, and hardly makes them fewer.
func (a *Writer) write(h warc.Header, block []byte, digest string) error {
	h = append(h, warc.Field{Name: warc.FieldBlockDigest, Value: digest})
	return a.out.Write(h, block, nil, 0, a.compression(true))
}

// A Page is a stored page, or a redirect, to be written from what the tree has of it.
type Page struct {
	Record *record.Record
	// Open opens its body and returns the answer that brought it, in whose coding the body is then;
	// nil: it is not known, and the body is decoded. It is called once for a body that fits into
	// memory, else twice.
	Open func() (io.ReadCloser, *Answer, error)
}

// fits is the length of a body that is read once, in bytes.
const fits = 1 << 20

// An Entry says what an index of archives has of a page, and where that is.
type Entry struct {
	URL, Media, Digest string
	Status             int // of HTTP; 0: not known
	Time               time.Time
	Offset, Length     int64 // of the record as it is in the file
}

// Page writes the records of a page.
func (a *Writer) Page(p *Page) (e Entry, err error) {
	r := p.Record
	c := Capture{URL: r.URL, Time: time.Unix(r.Time, 0), Media: r.Media, Truncated: strings.Contains(r.Flags, "t")}
	if r.Charset != "" {
		c.Media += "; charset=" + r.Charset
	}
	c.About = Fields(warc.Header{
		{Name: "via", Value: r.Source},
		{Name: "redirected-from", Value: r.Via},
		{Name: "depth", Value: strconv.Itoa(int(r.Depth))},
		{Name: "time", Value: c.Time.UTC().Format(time.RFC3339)},
		{Name: "status", Value: strconv.Itoa(int(r.Status))},
		{Name: "charset", Value: r.Charset},
		{Name: "flags", Value: r.Flags},
		{Name: "links", Value: r.HeaderLinks},
		{Name: "sha-256", Value: digestOf(r)},
	})
	body, err := a.read(p, &c)
	if err != nil {
		return e, err
	}
	at, err := a.Write(&c)
	e = Entry{URL: r.URL, Media: r.Media, Digest: warc.DigestOf(c.Digest), Time: c.Time, Offset: at.Offset, Length: at.Length}
	if c.Answer != nil {
		e.Status, e.Time = int(r.Status), c.Answer.Time
	}
	return e, errors.Join(err, body.Close())
}

// digestOf returns the digest of a page as text; "" for a redirect, which has none.
func digestOf(r *record.Record) string {
	if r.State != record.Stored {
		return ""
	}
	return hex.EncodeToString(r.Digest[:])
}

// read opens the body of a page, and computes its digest.
func (a *Writer) read(p *Page, c *Capture) (body io.ReadCloser, err error) {
	in, answer, err := p.Open()
	if err != nil {
		return nil, err
	}
	if c.Answer = answer; answer != nil {
		c.Coded = len(Codings(answer.Head)) > 0
	}
	// What fits is read once: into memory, and from there once the digest is known.
	a.body.Reset()
	n, err := a.body.ReadFrom(io.LimitReader(in, fits))
	var whole io.Reader = bytes.NewReader(a.body.Bytes())
	if n == fits {
		whole = io.MultiReader(whole, in)
	}
	if err == nil {
		err = c.Sum(whole)
	}
	if err = errors.Join(err, in.Close()); err != nil {
		return nil, err
	}
	if body = io.NopCloser(&a.body); c.Size > fits {
		body, _, err = p.Open()
	}
	if err == nil && answer == nil && c.Size != p.Record.Bytes {
		err = errors.Join(fmt.Errorf("archive %s: %d bytes of %d: %w", c.URL, c.Size, p.Record.Bytes, io.ErrUnexpectedEOF), body.Close())
	}
	c.Body = body
	return body, err
}

// Codings returns the values of Content-Encoding in the head of an answer.
func Codings(head []byte) (values []string) {
	const name = "content-encoding:"
	for line := range bytes.SplitSeq(head, []byte{'\n'}) {
		if len(line) > len(name) && strings.EqualFold(string(line[:len(name)]), name) {
			values = append(values, strings.TrimSpace(string(line[len(name):])))
		}
	}
	return values
}

// Fields returns a block of the type application/warc-fields. Fields without a value are left
// out.
func Fields(fields warc.Header) (block []byte) {
	for _, f := range fields {
		if f.Value != "" {
			block = append(append(append(append(block, f.Name...), ": "...), f.Value...), "\r\n"...)
		}
	}
	return block
}

// nameOf returns the name of a record with these parts: a UUID made of their SHA-1 (RFC 9562,
// version 5, without the name of a space).
func (a *Writer) nameOf(parts ...string) string {
	a.named = a.named[:0]
	for _, s := range parts {
		a.named = append(append(a.named, s...), 0)
	}
	sum := sha1.Sum(a.named)
	return warc.IDOf([16]byte(sum[:]), 5)
}
