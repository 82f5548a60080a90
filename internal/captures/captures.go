// Package captures reads answers from WARC files, whatever program wrote them.
//
// A capture is a record of the type response, resource or revisit about an http(s) URL, with the
// records that belong to it: its request, and what the crawl knew of it. They stand before or
// behind it, and name it or are named by it, or are about the same URL. All other records are
// passed over and counted.
//
// A Reader streams: of a body nothing is in memory but what is read of it.
package captures

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"urltree/internal/warc"
)

// A Place says where a record begins. Places of the same files are in order as the records are.
type Place struct {
	File   int   // number of the file, from 0 on
	Offset int64 // of the record, or of the member of gzip that has several
	Nth    int   // of the record among those of its member, from 0 on
}

// A Capture is an answer of an archive.
type Capture struct {
	URL       string // as the record has it
	Kind      string // warc.Response, warc.Resource or warc.Revisit
	Place     Place
	Time      time.Time
	Truncated bool   // the record says that the body is only the first part
	Digest    string // of the payload, as the record has it; "": it says none

	// Answer has status and headers. Its Body, without the chunks of a transfer, may be read until the
	// next call of Rest or Next. That of a revisit is empty.
	Answer   *http.Response
	Head     []byte // status line and headers, up to and with the empty line; nil: none, or not known
	Protocol string // such as h2; "": not known
	Peer     netip.Addr

	Profile  string // of a revisit: what it is the same by
	RefersTo string // of a revisit: the URL of the record that has its body; "": not said

	// Known once Rest has been called.
	Request []byte            // request line and headers; nil: not there
	About   map[string]string // fields of the metadata, by their names in lower case

	id    string
	alone bool // its record can be read alone, by its offset
	rec   *warc.Record
}

// Method returns the method of the request, GET where that is not known.
func (c *Capture) Method() string {
	method, _, ok := bytes.Cut(c.Request, []byte(" "))
	if !ok {
		return http.MethodGet
	}
	return string(method)
}

// Referer returns the header of that name of the request; "": there is none.
func (c *Capture) Referer() string {
	_, header := parseHead(c.Request)
	return header.Get("Referer")
}

// A Reader reads the captures of a file in turn.
type Reader struct {
	// Others is the number of records that were passed over: no captures, about nothing of the web, or
	// with no answer in them that can be read.
	Others int64

	in      *warc.Reader
	buf     *bufio.Reader // of a block
	place   Place         // of the latest record
	clock   time.Time     // the latest date, for records that have none
	ahead   *warc.Record  // come to, and not looked at yet; nil: none
	request *request      // the latest, which may belong to the next capture; nil: none
}

// A request is a record of a request.
type request struct {
	header warc.Header
	block  []byte
}

// newReader returns a Reader of a file from a place on. clock is the date of records that have
// none, as long as none has one.
func newReader(r io.Reader, from Place, clock time.Time) *Reader {
	from.Nth = -1
	return &Reader{in: warc.NewReader(r, from.Offset), buf: bufio.NewReaderSize(nil, 16<<10), place: from, clock: clock}
}

// Next returns the next capture, io.EOF where there is none. Errors are warc.ErrTorn and
// warc.ErrFormat where the file is damaged, with the offset, and those of the file.
func (r *Reader) Next() (*Capture, error) {
	for {
		rec, err := r.next()
		if err != nil {
			return nil, err
		}
		switch rec.Get(warc.FieldType) {
		case warc.Info:
		case warc.Request:
			block, err := read(rec, mostHead)
			if err != nil {
				return nil, err
			}
			r.request = &request{rec.Header, block}
		case warc.Response, warc.Resource, warc.Revisit:
			c, err := r.capture(rec)
			if c != nil || err != nil {
				return c, err
			}
			r.Others++
		default:
			r.Others++
		}
	}
}

// next goes to the next record.
func (r *Reader) next() (*warc.Record, error) {
	if rec := r.ahead; rec != nil {
		r.ahead = nil
		return rec, nil
	}
	rec, err := r.in.Next()
	if err != nil {
		return nil, err
	}
	if rec.Offset != r.place.Offset || rec.Alone {
		r.place.Offset, r.place.Nth = rec.Offset, -1
	}
	r.place.Nth++
	if t, err := rec.Date(); err == nil {
		r.clock = t
	}
	return rec, nil
}

// capture returns the capture that a record is, nil if it is none.
func (r *Reader) capture(rec *warc.Record) (*Capture, error) {
	c := &Capture{
		URL: rec.Target(), Kind: rec.Get(warc.FieldType), Place: r.place, Time: r.clock,
		Truncated: rec.Get(warc.FieldTruncated) != "", Digest: rec.Get(warc.FieldPayloadDigest),
		Protocol: rec.Get(warc.FieldProtocol),
		Profile:  rec.Get(warc.FieldProfile), RefersTo: strings.Trim(rec.Get(warc.FieldRefersToTarget), "<>"),
		About: map[string]string{}, id: rec.Get(warc.FieldID), alone: rec.Alone, rec: rec,
	}
	if !isWeb(c.URL) {
		return nil, nil
	}
	c.Peer, _ = netip.ParseAddr(rec.Get(warc.FieldIP))
	r.buf.Reset(rec)
	switch media := strings.ToLower(rec.Get(warc.FieldContentType)); {
	case c.Kind == warc.Resource:
		c.Answer = &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, ContentLength: rec.Length, Body: io.NopCloser(rec)}
		if media != "" {
			c.Answer.Header.Set("Content-Type", rec.Get(warc.FieldContentType))
		}
	case strings.HasPrefix(media, "application/http"), media == "":
		if ok, err := c.readAnswer(r.buf); !ok || err != nil {
			return nil, err
		}
	default:
		return nil, nil
	}
	if q := r.request; q != nil && belong(rec.Header, q.header) {
		c.Request = q.block
	}
	r.request = nil
	return c, nil
}

// isWeb reports whether a URL is one of http or https.
func isWeb(url string) bool {
	scheme, _, ok := strings.Cut(url, ":")
	return ok && (strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https"))
}

// Rest goes behind a capture, the latest that Next has returned, and reads what belongs to it. If
// it returns an error the capture is not whole: one of those of Next, which has the same then.
func (r *Reader) Rest(c *Capture) error {
	if _, err := io.Copy(io.Discard, c.rec); err != nil {
		return err
	}
	for {
		rec, err := r.next()
		switch {
		case err == io.EOF:
			return nil
		case err != nil && (r.in.End() > c.Place.Offset || !c.alone):
			return nil // the capture is whole; Next returns the error
		case err != nil:
			return err
		}
		kind := rec.Get(warc.FieldType)
		if kind != warc.Request && kind != warc.Metadata || !belong(c.rec.Header, rec.Header) {
			r.ahead = rec
			return nil
		}
		if kind == warc.Request {
			c.Request, err = read(rec, mostHead)
		} else {
			err = c.readAbout(rec)
		}
		if err != nil {
			return nil //nolint:nilerr // likewise
		}
	}
}

// belong reports whether a record belongs to a capture: one of them names the other, or the record
// names none and is about the same URL.
func belong(capture, other warc.Header) bool {
	named, any := concurrent(other, capture.Get(warc.FieldID))
	names, _ := concurrent(capture, other.Get(warc.FieldID))
	return named || names || !any && capture.Target() == other.Target()
}

// concurrent reports whether a record names another one as made with it, and whether it names any.
func concurrent(h warc.Header, id string) (named, any bool) {
	for _, f := range h {
		if strings.EqualFold(f.Name, warc.FieldConcurrentTo) {
			named, any = named || f.Value == id, true
		}
	}
	return named, any
}

// mostAbout is how many bytes of a metadata record are read: behind its fields a crawler may list
// all links of a page.
const mostAbout = 4 << 20

// readAbout reads the fields of a metadata record. Of a name the first counts.
func (c *Capture) readAbout(rec *warc.Record) error {
	block, err := read(rec, mostAbout)
	for line := range bytes.Lines(block) {
		name, value, ok := strings.Cut(strings.TrimRight(string(line), "\r\n"), ":")
		if name = strings.ToLower(strings.TrimSpace(name)); !ok || !slices.Contains(fields, name) {
			continue
		}
		if _, ok := c.About[name]; !ok {
			c.About[name] = strings.TrimPrefix(value, " ")
		}
	}
	return err
}

// fields are those of a metadata record that are read.
var fields = []string{"facts", "via", "redirected-from", "depth", "time", "status", "flags", "links", "hopsfromseed"}

// read reads at most so many bytes of a block.
func read(rec *warc.Record, most int64) ([]byte, error) {
	return io.ReadAll(io.LimitReader(rec, most))
}
