package storage

import (
	"encoding/binary"
	"fmt"
)

// Totals are the counters of the whole index, changed in the transactions that change records.
type Totals struct {
	Counts
	// NewStored and NewPending number the stored and pending records whose source is not Seed:
	// their sum is the left side of source A's equation.
	NewStored, NewPending int64
	Bytes                 int64  // of stored bodies
	Sitemaps              int64  // that are to be read
	Cut                   int64  // links that got no record, see Limits.MaxHeld
	Seq                   uint64 // the last number of discovery given out
}

// Pending sums the three ranges.
func (c Counts) Pending() int64 { return c.Now + c.Later + c.Held }

// Open numbers the records that wait and are not held.
func (c Counts) Open() int64 { return c.Now + c.Later }

// Parsed reports whether there may be answers whose links did not all count: pages, kept or not.
// Without one there is nothing but seeds and the targets of their redirects, which always count.
func (c Counts) Parsed() bool { return c.Stored > 0 || c.Refused > 0 }

// Used numbers the records that count towards a budget: all that are not held.
func (c Counts) Used() int64 { return c.Records() - c.Held }

// Records sums all states: the URLs discovered.
func (c Counts) Records() int64 {
	return c.Pending() + c.Stored + c.Redirected + c.Failed + c.Refused
}

// FolderState returns source B's word for a folder with these counts below it: visited while
// something is open, error when all is closed but something failed, else closed.
func (c Counts) FolderState() string {
	switch {
	case c.Pending() > 0:
		return "visited"
	case c.Failed > 0:
		return "error"
	}
	return "closed"
}

func (c *Counts) fields() [7]*int64 {
	return [7]*int64{&c.Now, &c.Later, &c.Held, &c.Stored, &c.Redirected, &c.Failed, &c.Refused}
}

func (c *Counts) add(o *Counts) {
	for i, p := range o.fields() {
		*c.fields()[i] += *p
	}
}

// count adds n to the counter of the record's state.
func (c *Counts) count(r *Record, n int64) {
	switch r.State {
	case Stored:
		c.Stored += n
	case Redirected:
		c.Redirected += n
	case Failed:
		c.Failed += n
	case Refused:
		c.Refused += n
	case Pending:
		switch r.Range {
		case Now:
			c.Now += n
		case Later:
			c.Later += n
		case Held:
			c.Held += n
		}
	}
}

func (t *Totals) count(r *Record, n int64) {
	t.Counts.count(r, n)
	t.Cut += n * int64(r.Cut)
	if r.State == Stored {
		t.Bytes += n * r.Bytes
	}
	if r.Source != Seed {
		switch r.State {
		case Stored:
			t.NewStored += n
		case Pending:
			t.NewPending += n
		}
	}
}

func (c *Counts) append(b []byte) []byte {
	for _, p := range c.fields() {
		b = binary.AppendVarint(b, *p)
	}
	return b
}

func (c *Counts) read(d *decoder) {
	for _, p := range c.fields() {
		*p = d.varint()
	}
}

func decodeCounts(key, v []byte) (Counts, error) {
	var c Counts
	body, err := unseal(v, key)
	if err != nil {
		return c, err
	}
	d := decoder{b: body}
	c.read(&d)
	return c, d.end("counts")
}

func (t *Totals) append(b, key []byte) []byte {
	b = t.Counts.append(b)
	b = binary.AppendVarint(b, t.NewStored)
	b = binary.AppendVarint(b, t.NewPending)
	b = binary.AppendVarint(b, t.Bytes)
	b = binary.AppendVarint(b, t.Sitemaps)
	b = binary.AppendVarint(b, t.Cut)
	return seal(binary.AppendUvarint(b, t.Seq), key)
}

func decodeTotals(key, v []byte) (Totals, error) {
	var t Totals
	body, err := unseal(v, key)
	if err != nil {
		return t, err
	}
	d := decoder{b: body}
	t.read(&d)
	t.NewStored, t.NewPending, t.Bytes, t.Sitemaps, t.Cut, t.Seq = d.varint(), d.varint(), d.varint(), d.varint(), d.varint(), d.uvarint()
	return t, d.end("totals")
}

func (h *HostRow) append(b []byte) []byte {
	b = h.Counts.append(b)
	b = binary.AppendVarint(b, h.Next)
	b = binary.AppendVarint(b, h.Answer)
	b = binary.AppendVarint(b, h.Backoff)
	b = binary.AppendVarint(b, h.Delay)
	b = binary.AppendUvarint(b, uint64(h.Fails))
	b = binary.AppendUvarint(b, h.Seq)
	b = binary.AppendVarint(b, h.Sitemaps)
	b = binary.AppendUvarint(b, uint64(h.Run))
	return seal(appendTail(b, h.later()), []byte(h.Name))
}

// later returns the fields that schema 7 has added, in the order in which they are stored.
func (h *HostRow) later() []*int64 { return []*int64{&h.Pace, &h.Kind, &h.Counted} }

// appendTail appends fields that a later schema has added. Zeros at the end are left out, so that
// a value of the schema before is one of this schema, too, in its only spelling.
func appendTail(b []byte, fields []*int64) []byte {
	n := len(fields)
	for n > 0 && *fields[n-1] == 0 {
		n--
	}
	for _, p := range fields[:n] {
		b = binary.AppendVarint(b, *p)
	}
	return b
}

// tail reads what appendTail appends.
func (d *decoder) tail(fields []*int64) {
	last := int64(1)
	for i := 0; i < len(fields) && len(d.b) > 0; i++ {
		last = d.varint()
		*fields[i] = last
	}
	d.bad = d.bad || last == 0
}

func decodeHost(name string, v []byte) (HostRow, error) {
	h := HostRow{HostTimes: HostTimes{Name: name}}
	body, err := unseal(v, []byte(name))
	if err != nil {
		return h, fmt.Errorf("host %s: %w", name, err)
	}
	d := decoder{b: body}
	h.read(&d)
	h.Next, h.Answer, h.Backoff, h.Delay = d.varint(), d.varint(), d.varint(), d.varint()
	h.Fails, h.Seq, h.Sitemaps, h.Run = uint32(d.uint(32)), d.uvarint(), d.varint(), uint32(d.uint(32))
	d.tail(h.later())
	return h, d.end("host " + name)
}

func (r *Robots) append(b []byte) []byte {
	b = binary.AppendVarint(b, r.Time)
	b = binary.AppendUvarint(b, uint64(r.Status))
	b = binary.AppendUvarint(b, uint64(r.Tries))
	b = appendString(b, r.Reason)
	return seal(appendString(b, r.Text), []byte(r.Origin))
}

func decodeRobots(origin string, v []byte) (Robots, error) {
	r := Robots{Origin: origin}
	body, err := unseal(v, []byte(origin))
	if err != nil {
		return r, fmt.Errorf("robots of %s: %w", origin, err)
	}
	d := decoder{b: body}
	r.Time, r.Status, r.Tries = d.varint(), uint16(d.uint(16)), uint32(d.uint(32))
	r.Reason, r.Text = d.string(), d.string()
	return r, d.end("robots of " + origin)
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 || n > 1 && d.b[n-1] == 0 {
		d.bad, d.b = true, nil
		return 0
	}
	d.b = d.b[n:]
	return v
}

// end says whether all was read and nothing is left.
func (d *decoder) end(what string) error {
	if d.bad || len(d.b) != 0 {
		return fmt.Errorf("%s: %w: fields", what, ErrCorrupt)
	}
	return nil
}
