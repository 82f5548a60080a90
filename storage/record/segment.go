package record

import (
	"bytes"
	"encoding/binary"
)

// KeySegment returns the key, in the bucket sys, of how much of a segment is committed.
func KeySegment(segment uint32) []byte {
	return binary.BigEndian.AppendUint32(bytes.Clone(SegmentKeys), segment)
}

// KeyOpen returns the key, in the bucket sys, of where the first answer in a segment begins that no
// transaction has, if one with it behind did.
func KeyOpen(segment uint32) []byte {
	return binary.BigEndian.AppendUint32(bytes.Clone(OpenKeys), segment)
}

// SegmentOf returns the segment of a key that begins with SegmentKeys or OpenKeys, as prefix says,
// and false for any other key.
func SegmentOf(key, prefix []byte) (segment uint32, ok bool) {
	rest, ok := bytes.CutPrefix(key, prefix)
	if !ok || len(rest) != 4 {
		return 0, false
	}
	return binary.BigEndian.Uint32(rest), true
}

// AppendEnd appends a place in a segment, in bytes, as it stands under key.
func AppendEnd(b []byte, bytes int64, key []byte) []byte {
	return Seal(binary.AppendUvarint(b, uint64(bytes)), key)
}

// DecodeEnd reads what AppendEnd has written.
func DecodeEnd(key, value []byte) (bytes int64, err error) {
	d := unseal(value, key)
	bytes = int64(d.uint(63))
	return bytes, d.end("segment ", string(key))
}

// AppendCopied appends the value that keeps how far a conversion has copied segments.
func AppendCopied(b, key []byte, upTo Extent) []byte { return Seal(upTo.append(b), key) }

// DecodeCopied reads a value that AppendCopied has made.
func DecodeCopied(key, value []byte) (upTo Extent, err error) {
	d := unseal(value, key)
	upTo = d.extent()
	return upTo, d.end("copied", "")
}
