// Package archive writes the pages of a tree in the forms that archives have.
//
// A tree of folders has no headers of the answers, so a page becomes a WARC record of the type
// resource, its body and media type; a metadata record behind it has what the crawl knows of it.
package archive

import (
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"urltree/internal/warc"
	"urltree/storage/record"
)

// A Page is a stored page.
type Page struct {
	Record *record.Record
	// Open opens content.html. It is called once for a body that fits into memory, else twice.
	Open func() (io.ReadCloser, error)
}

// A Writer writes pages into one WARC file. The names of records follow from what they say, so that
// the same pages give the same bytes.
type Writer struct {
	out         *warc.Writer
	compression warc.Compression
	info        string // name of the warcinfo record
	body        bytes.Buffer
}

// fits is the length of a body that is read once, in bytes.
const fits = 1 << 20

// NewWriter returns a Writer to w, and writes the warcinfo record. The fields say what is in the
// file; made is its time.
func NewWriter(w io.Writer, c warc.Compression, made time.Time, fields warc.Header) (*Writer, error) {
	a := &Writer{out: warc.NewWriter(w, 0), compression: c}
	block := fieldsOf(fields)
	a.info = nameOf("warcinfo", block)
	return a, a.write(warc.Header{
		{Name: warc.FieldType, Value: warc.Info},
		{Name: warc.FieldID, Value: a.info},
		{Name: warc.FieldDate, Value: warc.FormatDate(made)},
		{Name: warc.FieldContentType, Value: warc.FieldsType},
	}, block)
}

// A Capture says where the record of a page is in its file.
type Capture struct {
	URL, Media, Digest string
	Time               time.Time
	Offset, Length     int64 // of the record as it is in the file
}

// Page writes the records of a page.
func (a *Writer) Page(p *Page) (c Capture, err error) {
	r := p.Record
	sum, body, err := a.read(p)
	if err != nil {
		return c, err
	}
	digest := warc.DigestOf(sum)
	made := time.Unix(r.Time, 0)
	name := nameOf(r.URL, made.UTC().Format(time.RFC3339), digest)
	media := r.Media
	if r.Charset != "" {
		media += "; charset=" + r.Charset
	}
	h := warc.Header{
		{Name: warc.FieldType, Value: warc.Resource},
		{Name: warc.FieldID, Value: name},
		{Name: warc.FieldDate, Value: warc.FormatDate(made)},
		{Name: warc.FieldTarget, Value: r.URL},
		{Name: warc.FieldInfoID, Value: a.info},
		{Name: warc.FieldBlockDigest, Value: digest},
		{Name: warc.FieldPayloadDigest, Value: digest},
		{Name: warc.FieldContentType, Value: media},
	}
	if strings.Contains(r.Flags, "t") {
		h = append(h, warc.Field{Name: warc.FieldTruncated, Value: "length"})
	}
	c = Capture{URL: r.URL, Media: r.Media, Digest: digest, Time: made, Offset: a.out.Offset()}
	if err := a.out.Write(h, body, r.Bytes, a.compression); err != nil {
		return c, errors.Join(fmt.Errorf("archive %s: %w", r.URL, err), body.Close())
	}
	if err := body.Close(); err != nil {
		return c, err
	}
	c.Length = a.out.Offset() - c.Offset
	about := fieldsOf(warc.Header{
		{Name: "via", Value: r.Source},
		{Name: "redirected-from", Value: r.Via},
		{Name: "depth", Value: strconv.Itoa(int(r.PageDepth))},
		{Name: "status", Value: strconv.Itoa(int(r.Status))},
		{Name: "charset", Value: r.Charset},
		{Name: "flags", Value: r.Flags},
		{Name: "links", Value: r.HeaderLinks},
		{Name: "sha-256", Value: hex.EncodeToString(r.Digest[:])},
	})
	return c, a.write(warc.Header{
		{Name: warc.FieldType, Value: warc.Metadata},
		{Name: warc.FieldID, Value: nameOf(name, about)},
		{Name: warc.FieldDate, Value: warc.FormatDate(made)},
		{Name: warc.FieldTarget, Value: r.URL},
		{Name: warc.FieldInfoID, Value: a.info},
		{Name: warc.FieldConcurrentTo, Value: name},
		{Name: warc.FieldContentType, Value: warc.FieldsType},
	}, about)
}

// read returns the SHA-1 of a body and the body itself.
func (a *Writer) read(p *Page) (sum []byte, body io.ReadCloser, err error) {
	in, err := p.Open()
	if err != nil {
		return nil, nil, err
	}
	h := sha1.New()
	if p.Record.Bytes <= fits {
		a.body.Reset()
		_, err := io.Copy(io.MultiWriter(h, &a.body), in)
		return h.Sum(nil), io.NopCloser(&a.body), errors.Join(err, in.Close())
	}
	_, err = io.Copy(h, in)
	if err = errors.Join(err, in.Close()); err == nil {
		body, err = p.Open()
	}
	return h.Sum(nil), body, err
}

// write writes a record with a block of ours.
func (a *Writer) write(h warc.Header, block string) error {
	h = append(h, warc.Field{Name: warc.FieldBlockDigest, Value: warc.Digest([]byte(block))})
	return a.out.Write(h, bytes.NewReader([]byte(block)), int64(len(block)), a.compression)
}

// fieldsOf returns a block of the type application/warc-fields. Fields without a value are left
// out.
func fieldsOf(fields warc.Header) string {
	var b bytes.Buffer
	for _, f := range fields {
		if f.Value != "" {
			fmt.Fprintf(&b, "%s: %s\r\n", f.Name, f.Value)
		}
	}
	return b.String()
}

// nameOf returns the name of a record with these parts: a UUID made of their SHA-1 (RFC 9562,
// version 5, without the name of a space).
func nameOf(parts ...string) string {
	h := sha1.New()
	for _, s := range parts {
		io.WriteString(h, s)
		h.Write([]byte{0})
	}
	return warc.IDOf([16]byte(h.Sum(nil)), 5)
}
