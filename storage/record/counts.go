package record

import "encoding/binary"

// Counts numbers records by state, pending ones by range.
type Counts struct {
	Now, Later, Held, Stored, Redirected, Failed, Refused int64
}

// Totals are the counters of the whole index, changed in the transactions that change records.
type Totals struct {
	Counts
	// NewStored and NewPending number the stored and pending records whose source is not Seed:
	// their sum is the left side of source A's equation.
	NewStored, NewPending int64
	Bytes                 int64  // of stored bodies
	Sitemaps              int64  // that are to be read
	Cut                   int64  // links that got no record, over MaxHeld of the limits
	Seq                   uint64 // the last number of discovery given out
	Forgotten             int64  // records that were removed
	Outside               int64  // targets outside that are to be asked
	Named                 int64  // targets outside that ever were: the last number of discovery among them
	Elsewhere             int64  // of Refused: outcomes that another process has, see IsElsewhere
	Revisits              int64  // stored pages that are to be asked again now
}

// Discovered numbers the URLs that were given a number of discovery and not forgotten.
func (t *Totals) Discovered() int64 { return int64(t.Seq) - t.Forgotten }

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

// Plus returns the counts with n times o added.
func (c Counts) Plus(o Counts, n int64) Counts {
	for i, p := range o.fields() {
		*c.fields()[i] += n * *p
	}
	return c
}

// Count adds n to the counter of the record's state.
func (c *Counts) Count(r *Record, n int64) {
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

// CountValue counts the record of a value of the URL bucket, unless it is damaged: check names it.
func (c *Counts) CountValue(key, value []byte) {
	if state, where, err := Peek(key, value); err == nil {
		c.Count(&Record{State: state, Row: Row{Range: where}}, 1)
	}
}

// Count adds n to the counters that the record belongs to.
func (t *Totals) Count(r *Record, n int64) {
	t.Counts.Count(r, n)
	t.Cut += n * int64(r.Cut)
	t.Revisits += n * r.Revisits()
	if r.State == Stored {
		t.Bytes += n * r.Bytes
	}
	if r.IsElsewhere() {
		t.Elsewhere += n
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

// Append appends the counts as they stand in a value, which is to be sealed.
func (c *Counts) Append(b []byte) []byte {
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

// DecodeCounts reads the value of a folder or of a path with queries.
func DecodeCounts(key, v []byte) (Counts, error) {
	var c Counts
	d := unseal(v, key)
	c.read(&d)
	return c, d.end("counts", "")
}

// Append appends the value that stands under key.
func (t *Totals) Append(b, key []byte) []byte {
	b = t.Counts.Append(b)
	b = binary.AppendVarint(b, t.NewStored)
	b = binary.AppendVarint(b, t.NewPending)
	b = binary.AppendVarint(b, t.Bytes)
	b = binary.AppendVarint(b, t.Sitemaps)
	b = binary.AppendVarint(b, t.Cut)
	return Seal(appendTail(binary.AppendUvarint(b, t.Seq), t.later()), key)
}

// later returns the fields that were added last.
func (t *Totals) later() []*int64 {
	return []*int64{&t.Forgotten, &t.Outside, &t.Named, &t.Elsewhere, &t.Revisits}
}

// DecodeTotals reads the value of the counters of the index.
func DecodeTotals(key, v []byte) (Totals, error) {
	var t Totals
	d := unseal(v, key)
	t.read(&d)
	t.NewStored, t.NewPending, t.Bytes, t.Sitemaps, t.Cut, t.Seq = d.varint(), d.varint(), d.varint(), d.varint(), d.varint(), d.uvarint()
	d.tail(t.later())
	return t, d.end("totals", "")
}

// A Child is one entry directly below a folder: a record, a folder, or both.
type Child struct {
	Key    []byte
	Record *Record // nil: the folder has no page of its own
	Below  Counts  // of the records strictly below it
}
