package batch

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// weight returns at least the bytes that a record takes in a body.
func weight(r *Record) int {
	return len(r.URL) + len(r.Source) + len(r.Via) + len(r.Value) + 64
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// appendShared appends s as its difference from what stands before.
func appendShared(b []byte, before, s string) []byte {
	n := shared(before, s)
	return appendText(binary.AppendUvarint(b, uint64(n)), s[n:])
}

// shared returns how many bytes two texts have in common from the front.
func shared(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

func appendRecords(b []byte, list []*Record) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	before := ""
	for _, r := range list {
		b = appendShared(b, before, r.URL)
		before = r.URL
		b = append(b, flags(r))
		b = binary.AppendUvarint(b, uint64(r.Depth))
		b = binary.AppendUvarint(b, r.Priority)
		b = appendShared(b, r.URL, r.Source)
		b = appendText(b, r.Via)
		b = binary.AppendUvarint(b, uint64(r.Hops))
		if len(r.Value) > 0 {
			b = append(binary.AppendUvarint(b, uint64(len(r.Value))), r.Value...)
		}
	}
	return b
}

func flags(r *Record) byte {
	f := byte(r.Kind)
	if r.Cookie {
		f |= cookie
	}
	if len(r.Value) > 0 {
		f |= value
	}
	return f
}

// decodeRecords reads what appendRecords appends.
func decodeRecords(plain []byte) ([]Record, error) {
	d := decoder{rest: string(plain)}
	n := d.number(MaxRecords)
	var list []Record // not made for n at once: n may be a lie
	var before Record
	for i := range n {
		r := d.record(before.URL)
		if d.bad == "" && i > 0 && compare(&before, &r) >= 0 {
			d.bad = "order"
		}
		if d.bad != "" {
			return nil, fmt.Errorf("%w: record %d of %d: %s", ErrDamaged, i+1, n, d.bad)
		}
		list = append(list, r)
		before = r
	}
	if d.bad != "" || d.rest != "" || n == 0 {
		return nil, fmt.Errorf("%w: bytes behind record %d: %d", ErrDamaged, n, len(d.rest))
	}
	return list, nil
}

// A decoder reads fields off the front of rest; after one that is none bad says which, and all is
// zero.
type decoder struct {
	rest string
	bad  string
}

func (d *decoder) fail(what string) {
	d.rest = ""
	if d.bad == "" {
		d.bad = what
	}
}

// number reads a number in its shortest form that is at most most.
func (d *decoder) number(most uint64) uint64 {
	var v uint64
	for i := 0; i < len(d.rest) && i < binary.MaxVarintLen64; i++ {
		c := d.rest[i]
		if i == binary.MaxVarintLen64-1 && c > 1 {
			break
		}
		v |= uint64(c&0x7f) << (7 * i)
		if c >= 0x80 {
			continue
		}
		if i > 0 && c == 0 || v > most {
			break
		}
		d.rest = d.rest[i+1:]
		return v
	}
	d.fail("number")
	return 0
}

func (d *decoder) byte() byte {
	if d.rest == "" {
		d.fail("too short")
		return 0
	}
	c := d.rest[0]
	d.rest = d.rest[1:]
	return c
}

// view reads a text that shares its memory with the body.
func (d *decoder) view() string {
	n := d.number(maxPlain)
	if n > uint64(len(d.rest)) {
		d.fail("text")
		return ""
	}
	s := d.rest[:n]
	d.rest = d.rest[n:]
	return s
}

func (d *decoder) text() string { return strings.Clone(d.view()) }

// shared reads what appendShared appends. It is bounded by what a body has: many records cannot
// each repeat a long text, since before counts for each.
func (d *decoder) shared(before string) string {
	n := d.number(uint64(len(before)))
	if n > maxText {
		d.fail("shared text")
		return ""
	}
	rest := d.view()
	if n < uint64(len(before)) && rest != "" && before[n] == rest[0] {
		d.fail("shared text")
		return ""
	}
	return before[:n] + rest
}

// maxText is the most that a URL or a source may share with another: no URL of a crawl is longer.
// So a body of few bytes cannot become many records of very long texts.
const maxText = 16 << 10

func (d *decoder) record(before string) (r Record) {
	r.URL = d.shared(before)
	f := d.byte()
	r.Kind, r.Cookie = Kind(f&kindMask), f&cookie != 0
	if r.Kind > Sitemap && r.Kind <= Moved || r.Kind > Last {
		d.fail("kind")
	}
	if f&^(kindMask|cookie|value) != 0 {
		d.fail("flags")
	}
	r.Depth = uint32(d.number(1<<32 - 1))
	r.Priority = d.number(1<<64 - 1)
	r.Source = d.shared(r.URL)
	r.Via = d.text()
	r.Hops = uint8(d.number(127))
	if f&value != 0 {
		if r.Value = []byte(d.view()); len(r.Value) == 0 {
			d.fail("value")
		}
	}
	return r
}
