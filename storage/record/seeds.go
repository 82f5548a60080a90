package record

import "encoding/binary"

// Seeds says how much of the list of seeds the index has taken in.
type Seeds struct {
	Scope string // what the areas are of: the name of a mode
	Bytes int64  // from the beginning of the list
	Sum   uint32 // CRC-32C of these
}

// Append appends the value that stands under key.
func (s *Seeds) Append(b, key []byte) []byte {
	b = appendString(b, s.Scope)
	b = binary.AppendUvarint(b, uint64(s.Bytes))
	return Seal(binary.AppendUvarint(b, uint64(s.Sum)), key)
}

// DecodeSeeds reads a value that Append has made.
func DecodeSeeds(key, v []byte) (s Seeds, err error) {
	d := unseal(v, key)
	s.Scope, s.Bytes, s.Sum = d.string(), int64(d.uvarint()), uint32(d.uint(32))
	return s, d.end("seeds", "")
}
