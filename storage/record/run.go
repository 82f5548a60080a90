package record

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
)

// A Run is one start of the crawl command on this tree, with what it has come to so far. Its
// row is part of every transaction, so the figures are those of the records.
type Run struct {
	ID       uint32           `json:"id"`    // 1, 2, ...
	Start    int64            `json:"start"` // Unix seconds
	End      int64            `json:"end"`   // of the last transaction, Unix seconds
	Clean    bool             `json:"clean"` // ended by itself, all buffers drained
	Found    int64            `json:"found"` // records made
	Stored   int64            `json:"stored"`
	NewURLs  int64            `json:"new"`      // stored pages whose source is no seed
	Bytes    int64            `json:"bytes"`    // of stored bodies
	Outcomes map[string]int64 `json:"outcomes"` // "state reason" -> number
	Statuses map[string]int64 `json:"statuses"` // "2xx" ... -> number of outcomes
	NoFollow int64            `json:"nofollow"` // pages that say nofollow, stored or not
	// Looks number the looks at pages that were stored before: "changed", "same", or state and reason.
	Looks map[string]int64 `json:"looks,omitempty"`
}

// An Hour is the state of a run at the end of one of its hours. The figures are sums since the
// run's start, except Stored.
type Hour struct {
	Run, Hour uint32              // hour 1 is the first; the key as well
	Time      int64               `json:"time"`   // Unix seconds
	Stored    int64               `json:"stored"` // new URLs in the tree within this hour
	Rows      map[string][2]int64 `json:"rows"`   // queue ("crawler 1", "frontier", "buffer 1") -> added, removed
}

// Clone returns a copy that shares no map with r.
func (r *Run) Clone() Run {
	c := *r
	c.Outcomes, c.Statuses, c.Looks = maps.Clone(r.Outcomes), maps.Clone(r.Statuses), maps.Clone(r.Looks)
	return c
}

// Count counts the outcome of a record. A run that has not begun counts nothing.
func (r *Run) Count(rec *Record) { r.add(rec, 1) }

// CountLook counts the outcome of another look at a stored page.
func (r *Run) CountLook(o *Outcome) {
	name := "changed"
	switch {
	case o.Same:
		name = "same"
	case o.State != Stored:
		name = strings.TrimSpace(o.State.String() + " " + o.Reason)
	}
	if r.Looks == nil {
		r.Looks = map[string]int64{}
	}
	r.Looks[name]++
}

// Uncount takes back the outcome of a record that is asked again, if it was one of this run: what
// becomes of a URL counts once.
func (r *Run) Uncount(rec *Record) {
	if rec.State != Pending && rec.Run == r.ID {
		r.add(rec, -1)
	}
}

func (r *Run) add(rec *Record, n int64) {
	if r.ID == 0 {
		return
	}
	name := rec.State.String()
	if rec.Reason != "" {
		name += " " + rec.Reason
	}
	increase(r.Outcomes, name, n)
	if rec.Status != 0 {
		increase(r.Statuses, fmt.Sprintf("%dxx", rec.Status/100), n)
	}
	if strings.Contains(rec.Flags, "n") {
		r.NoFollow += n
	}
	if rec.State == Stored {
		r.Stored += n
		r.Bytes += n * rec.Bytes
		if rec.Source != Seed {
			r.NewURLs += n
		}
	}
}

// increase adds n to a counter, and drops one that is 0.
func increase(counters map[string]int64, name string, n int64) {
	if counters[name] += n; counters[name] == 0 {
		delete(counters, name)
	}
}

// Encode returns the key and the value of the run.
func (r *Run) Encode() (key, value []byte, err error) {
	return encode(binary.BigEndian.AppendUint32(nil, r.ID), r)
}

// Encode returns the key and the value of the hour.
func (h *Hour) Encode() (key, value []byte, err error) {
	return encode(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, h.Run), h.Hour), h)
}

func encode(key []byte, v any) ([]byte, []byte, error) {
	value, err := json.Marshal(v)
	return key, Seal(value, key), err
}

// decode reads a value that encode has made, under a key of so many bytes.
func decode(what string, size int, k, value []byte, v any) error {
	body, err := Unseal(value, k)
	if err == nil && len(k) == size {
		err = json.Unmarshal(body, v)
	}
	if err != nil || len(k) != size {
		return fmt.Errorf("%s %x: %w: %v", what, k, ErrCorrupt, err)
	}
	return nil
}

// An Unclean says that a run did not end cleanly: rows that runs up to Last have written may have
// their pages in the tree already.
type Unclean struct {
	Last   uint32
	Merged bool // the index was merged since, which counts as one more such run
}

// Append appends the value that stands under key.
func (u *Unclean) Append(b, key []byte) []byte {
	merged := byte(0)
	if u.Merged {
		merged = 1
	}
	return Seal(append(binary.BigEndian.AppendUint32(b, u.Last), merged), key)
}

// DecodeUnclean reads a value that Append has made.
func DecodeUnclean(key, v []byte) (u Unclean, err error) {
	body, err := Unseal(v, key)
	if err != nil || len(body) != 5 {
		return u, fmt.Errorf("mark of unclean stops: %w: %d bytes", ErrCorrupt, len(body))
	}
	return Unclean{binary.BigEndian.Uint32(body), body[4] == 1}, nil
}

// DecodeHour reads the value of an hour.
func DecodeHour(k, v []byte) (h Hour, err error) {
	if err = decode("hour", 8, k, v, &h); err == nil {
		h.Run, h.Hour = binary.BigEndian.Uint32(k), binary.BigEndian.Uint32(k[4:])
	}
	return h, err
}

// DecodeRun reads the value of a run.
func DecodeRun(k, v []byte) (r Run, err error) {
	err = decode("run", 4, k, v, &r)
	return r, err
}
