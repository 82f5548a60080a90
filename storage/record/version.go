package record

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// An earlier version of a stored page is kept as its record was, under a key of its own. Its Range
// and Due are 0.

// versionSum is how much of the SHA-256 of a version is in its key, in bytes: two versions may be
// of one second.
const versionSum = 8

// VersionKeys returns what the keys of all earlier versions of a page begin with, and no other key.
// key is its record key, behind which a NUL begins no component.
func VersionKeys(key []byte) []byte { return append(bytes.Clone(key), 0) }

// AppendVersionKey appends the key of a version. Those of a page are in the order of time.
//
//	record key, NUL, time(8), the first bytes of the SHA-256(8)
func (r *Record) AppendVersionKey(b, key []byte) []byte {
	b = append(append(b, key...), 0)
	b = binary.BigEndian.AppendUint64(b, uint64(r.Time))
	return append(b, r.Digest[:versionSum]...)
}

// Version returns the record as it is kept of an earlier version.
func (r *Record) Version() Record {
	v := *r
	v.Range, v.Due = 0, 0
	return v
}

// DecodeVersion reads an earlier version of a page as it stands in the index.
func DecodeVersion(k, value []byte) (r Record, err error) {
	n := len(k) - versionSum - 8 - 1
	if n < 0 || k[n] != 0 {
		return r, fmt.Errorf("version under the key %q: %w", k, ErrCorrupt)
	}
	url, err := URL(k[:n])
	if err != nil {
		return r, fmt.Errorf("version under the key %q: %w", k, ErrCorrupt)
	}
	if r, err = DecodeOf(url, k, value); err != nil {
		return r, fmt.Errorf("version: %w", err)
	}
	if r.State != Stored || !bytes.Equal(r.AppendVersionKey(nil, k[:n]), k) {
		return r, fmt.Errorf("version of %s: %w: its key is that of another", url, ErrCorrupt)
	}
	return r, nil
}
