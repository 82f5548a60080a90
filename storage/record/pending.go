package record

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// AppendPendingKey appends the pending key of a row, whose record key is key, to b. Pending keys
// sort the rows of a host by range and, within it, by their order:
//
//	host NUL range order seq(8) record key
//
// order is the rank (8 bytes) for Now, the time due (8 bytes) for Later, and the reason with a
// NUL for Held. The value is the number of the run that wrote the row (4 bytes).
func AppendPendingKey(b []byte, r *Row, key []byte) []byte {
	b = append(b, Host(r.URL)...)
	b = append(b, 0, byte(r.Range))
	switch r.Range {
	case Later:
		b = binary.BigEndian.AppendUint64(b, uint64(r.Due))
	case Held:
		b = append(b, r.Reason...)
		b = append(b, 0)
	default:
		b = binary.BigEndian.AppendUint64(b, r.Rank)
	}
	b = binary.BigEndian.AppendUint64(b, r.Seq)
	return append(b, key...)
}

// RangePrefix begins the pending keys of one range of a host.
func RangePrefix(host string, r Range) []byte {
	return append(append([]byte(host), 0), byte(r))
}

// DecodePending reads what the key k and the value v of a pending row say by themselves, and
// returns the row with that, and its record key, a part of k.
func DecodePending(k, v []byte) (r Row, key []byte, err error) {
	bad := func() (Row, []byte, error) { return r, nil, fmt.Errorf("pending row %q: %w", k, ErrCorrupt) }
	host, rest, ok := bytes.Cut(k, []byte{0})
	if !ok || len(rest) < 1+8+8 || len(v) != 4 {
		return bad()
	}
	r.Run = binary.BigEndian.Uint32(v)
	r.Range, rest = Range(rest[0]), rest[1:]
	switch r.Range {
	case Now:
		r.Rank, rest = binary.BigEndian.Uint64(rest), rest[8:]
	case Later:
		r.Due, rest = int64(binary.BigEndian.Uint64(rest)), rest[8:]
	case Held:
		reason, after, ok := bytes.Cut(rest, []byte{0})
		if !ok || len(after) < 8 {
			return bad()
		}
		r.Reason, rest = string(reason), after
	default:
		return bad()
	}
	r.Seq, key = binary.BigEndian.Uint64(rest), rest[8:]
	if r.URL, err = URL(key); err != nil || Host(r.URL) != string(host) {
		return bad()
	}
	return r, key, nil
}
