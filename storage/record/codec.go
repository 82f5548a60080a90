package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// ErrDamaged says that index.db is not a whole database of ours; merge rebuilds it.
var ErrDamaged = errors.New("index.db is damaged")

// ErrCorrupt says that a value in the index, or its key, is not what was written. Where one cannot
// do without the value it comes to [ErrDamaged].
var ErrCorrupt error = corrupt{}

// corrupt is ErrDamaged, and does not say so again where that is said before.
type corrupt struct{}

func (corrupt) Error() string { return "a value of index.db is not what was written" }

func (corrupt) Is(target error) bool { return target == ErrDamaged }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Seal appends the CRC-32C of b and the key that b is to stand under.
func Seal(b, key []byte) []byte {
	return binary.BigEndian.AppendUint32(b, checksum(b, key))
}

func checksum(body, key []byte) uint32 {
	return crc32.Update(crc32.Checksum(body, castagnoli), castagnoli, key)
}

// Unseal checks and removes the CRC-32C.
func Unseal(b, key []byte) ([]byte, error) {
	if len(b) < 4 {
		return nil, fmt.Errorf("%w: %d bytes", ErrCorrupt, len(b))
	}
	body := b[:len(b)-4]
	if checksum(body, key) != binary.BigEndian.Uint32(b[len(body):]) {
		return nil, fmt.Errorf("%w: checksum", ErrCorrupt)
	}
	return body, nil
}

func appendString(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

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

// A decoder reads fields off the front of b; after a short read bad is set and all is zero.
type decoder struct {
	b   []byte
	bad bool
	err error // of the seal; then there is nothing to read
}

// unseal returns a decoder of what Seal has sealed.
func unseal(v, key []byte) decoder {
	body, err := Unseal(v, key)
	return decoder{b: body, err: err}
}

// uvarint reads a number in its one spelling, the shortest.
func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 || n > 1 && d.b[n-1] == 0 {
		d.bad, d.b = true, nil
		return 0
	}
	d.b = d.b[n:]
	return v
}

// varint reads what binary.AppendVarint appends: a uvarint whose last bit is the sign.
func (d *decoder) varint() int64 {
	v := d.uvarint()
	return int64(v>>1) ^ -int64(v&1)
}

// uint reads a number of at most so many bits.
func (d *decoder) uint(bits int) uint64 {
	v := d.uvarint()
	if v>>bits != 0 {
		d.bad = true
	}
	return v
}

func (d *decoder) take(n uint64) []byte {
	if n > uint64(len(d.b)) {
		d.bad, d.b = true, nil
		return nil
	}
	p := d.b[:n]
	d.b = d.b[n:]
	return p
}

func (d *decoder) byte() byte {
	if p := d.take(1); p != nil {
		return p[0]
	}
	return 0
}

func (d *decoder) string() string { return string(d.take(d.uvarint())) }

// word reads a string of which the usual ones take no memory.
func (d *decoder) word() string {
	b := d.take(d.uvarint())
	for _, usual := range [...]string{"text/html", "utf-8"} {
		if string(b) == usual {
			return usual
		}
	}
	return string(b)
}

// tries reads what packTries has made.
func (d *decoder) tries() (tries uint16, spared uint8, generation uint32) {
	n := d.uint(56)
	return uint16(n), uint8(n >> 16), uint32(n >> 24)
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

// end returns an error if the value of what, and which of them, was not sealed, or has other fields
// than those that were read.
func (d *decoder) end(what, which string) error {
	switch {
	case d.err != nil:
		return fmt.Errorf("%s%s: %w", what, which, d.err)
	case d.bad || len(d.b) != 0:
		return fmt.Errorf("%s%s: %w: fields", what, which, ErrCorrupt)
	}
	return nil
}
