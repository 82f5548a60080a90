package record

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/http"
	"slices"

	"urltree/internal/freshness"
)

// A stored page may have a row as well, in the bucket of revisits, while its State stays Stored.
// With Due alone it waits for that time; with a Range it is to be asked in this run, as a pending
// row is; in the range Now, Due is its place among those of its host then, the least first, or 0 if
// it goes by its Rank. The row follows from the record.

// behindPages is set in the Rank of the row of a revisit: it goes behind all URLs of its host that
// were not asked yet.
const behindPages = 1 << 63

// LeadsAway is the reason of a look that met a redirect.
const LeadsAway = "moved"

// DueAtOnce is the Due of a stored page that is to be asked again whenever that may be.
const DueAtOnce = 1

// Revisits reports whether a stored page is to be asked again now: 1, or 0 if not. That of nil is
// not.
func (r *Record) Revisits() int64 {
	if r != nil && r.State == Stored && r.Range != 0 {
		return 1
	}
	return 0
}

// Awaits reports whether a stored page waits for the time of its next look.
func (r *Record) Awaits() bool {
	return r != nil && r.State == Stored && r.Range == 0 && r.Due != 0
}

// Revisit returns the row of a stored page that is to be asked again.
func (r *Record) Revisit() Row {
	row := r.Row
	row.Kind = RevisitRow
	if r.Range == Now && r.Due != 0 {
		row.Rank, row.Due = uint64(r.Due), 0
	}
	row.Rank |= behindPages
	return row
}

// AppendRevisitKey appends the key of the row of a stored page, whose record key is key. Those that
// wait for their time come first, by that time; the others by host, as [AppendPendingKey] has them.
//
//	NUL 'w' due(8) seq(8) record key
func (r *Record) AppendRevisitKey(b, key []byte) []byte {
	if r.Range != 0 {
		row := r.Revisit()
		return AppendPendingKey(b, &row, key)
	}
	b = binary.BigEndian.AppendUint64(append(b, 0, byte(Later)), uint64(r.Due))
	b = binary.BigEndian.AppendUint64(b, r.Seq)
	return append(b, key...)
}

// DecodeAwaits reads a key that AppendRevisitKey has made for a page that waits for its time, and
// returns its URL and that time. ok is false for a key of the others.
func DecodeAwaits(k []byte) (url string, due int64, ok bool, err error) {
	k, ok = bytes.CutPrefix(k, []byte{0, byte(Later)})
	if !ok {
		return "", 0, false, nil
	}
	if len(k) < 8+8 {
		return "", 0, true, fmt.Errorf("revisit row %q: %w", k, ErrCorrupt)
	}
	if url, err = URL(k[8+8:]); err != nil {
		return "", 0, true, fmt.Errorf("revisit row %q: %w", k, ErrCorrupt)
	}
	return url, int64(binary.BigEndian.Uint64(k)), true, nil
}

// A Look is what the latest looks at a stored page came to.
type Look struct {
	State    State  // of the last one: Stored if the page was there, whether it had changed or not
	Status   uint16 // of its answer; 0: none
	Time     int64  // of it, in Unix seconds
	Since    int64  // Unix seconds of the first look in a row that came to the same: Gone, Moved, or not found for another reason; 0: the last one found the page
	Changed  int64  // Unix seconds of the last look that found other content; 0: none did
	Back     int64  // Unix seconds of the last look that found the page after one that did not; 0: none did
	Looks    uint64 // all of them, the first answer not included
	Changes  uint64 // those that found other content
	Reason   string // why the last one did not find the page, else ""
	ETag     string // of the answer that the content is of
	Modified string // likewise, its Last-Modified
	Target   string // where the redirect led that the last one met; "": nowhere, or that is forgotten

	Difference // that the last one made which found other content
	// Runs of the looks of Since, Changed and Back; 0: there was none, or it is not known.
	SinceRun, ChangedRun, BackRun int64

	History freshness.History // of the looks that found the page
}

// A Difference is how much the content that a look found differs from what was stored. The zero
// value is not known.
type Difference struct {
	Bits    int64 // 1 more than the bits in which the fingerprints of the texts differ; 0: not known
	Added   int64 // URLs that only the new content refers to
	Removed int64 // URLs that only the old one did
}

// Gone reports whether the last look was answered that there is no such page.
func (l *Look) Gone() bool {
	return l.State == Failed && (l.Status == http.StatusNotFound || l.Status == http.StatusGone)
}

// Moved reports whether the last look met a redirect.
func (l *Look) Moved() bool { return l.State == Redirected }

// Found notes that the last look found the page, in a run.
func (l *Look) Found(run uint32) {
	if l.Since != 0 {
		l.Since, l.Back = 0, l.Time
		l.SinceRun, l.BackRun = 0, int64(run)
	}
}

// Append appends the value that stands under key.
func (l *Look) Append(b, key []byte) []byte {
	b = append(b, byte(l.State))
	for _, v := range []uint64{uint64(l.Status), uint64(l.Time), uint64(l.Since), uint64(l.Changed), uint64(l.Back), l.Looks, l.Changes} {
		b = binary.AppendUvarint(b, v)
	}
	for _, s := range []string{l.Reason, l.ETag, l.Modified} {
		b = appendString(b, s)
	}
	if rest := l.rest(); l.Target != "" || slices.ContainsFunc(rest, func(n *int64) bool { return *n != 0 }) {
		b = appendTail(appendString(b, l.Target), rest) // missing in most
	}
	return Seal(b, key)
}

// rest are the numbers at the end of a value.
func (l *Look) rest() []*int64 {
	h := &l.History
	return []*int64{
		&l.Bits, &l.Added, &l.Removed, &l.SinceRun, &l.ChangedRun, &l.BackRun,
		&h.Changes, &h.ChangesFor, &h.Same, &h.SameFor,
	}
}

// DecodeLook reads a value that Append has made.
func DecodeLook(key, value []byte) (l Look, err error) {
	d := unseal(value, key)
	l.State, l.Status = State(d.byte()), uint16(d.uint(16))
	l.Time, l.Since, l.Changed, l.Back = int64(d.uint(63)), int64(d.uint(63)), int64(d.uint(63)), int64(d.uint(63))
	l.Looks, l.Changes = d.uvarint(), d.uvarint()
	l.Reason, l.ETag, l.Modified = d.string(), d.string(), d.string()
	if len(d.b) > 0 {
		l.Target = d.string()
		d.bad = d.bad || l.Target == "" && len(d.b) == 0
		d.tail(l.rest())
	}
	d.bad = d.bad || l.State < Stored || l.State > Refused
	return l, d.end("look at the page of ", string(key))
}

// A Plan is by what stored pages are due, as a run was asked. The zero value: none is.
type Plan struct {
	Every    int64 // nanoseconds after a look; 0: with Max after as long as its page keeps, else never
	Min, Max int64 // seconds that this is at least and at most
}

// Append appends the value that stands under key.
func (p *Plan) Append(b, key []byte) []byte {
	b = binary.AppendUvarint(b, uint64(p.Every))
	return Seal(appendTail(b, []*int64{&p.Min, &p.Max}), key)
}

// DecodePlan reads a value that Append has made.
func DecodePlan(key, v []byte) (p Plan, err error) {
	d := unseal(v, key)
	p.Every = int64(d.uint(63))
	d.tail([]*int64{&p.Min, &p.Max})
	return p, d.end("plan of revisits", "")
}
