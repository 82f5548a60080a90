package coding

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"

	"github.com/klauspost/compress/flate"
)

// GzipSize returns the length that the end of a member of gzip names for its decoded form. ok is
// false if src begins no member, or if the length cannot be right for one that is all of src.
func GzipSize(src []byte) (n int64, ok bool) {
	if len(src) < 18 || src[0] != 0x1f || src[1] != 0x8b || src[2] != 8 {
		return 0, false
	}
	n = int64(binary.LittleEndian.Uint32(src[len(src)-4:]))
	return n, n <= 1032*int64(len(src)) // the most that DEFLATE can do
}

// Gzip decodes a member of gzip that is all of src into dst, which has the length of GzipSize. It
// reports whether length and checksum are right. If not, src may still be well-formed, of several
// members or with more behind them: Reader decodes all there is, and says what is wrong. What is in
// dst then has no meaning.
//
// It is quicker than Reader, since there are no buffers between src and dst.
func (d *Decoder) Gzip(dst, src []byte) bool {
	body, end := src[10:len(src)-8], src[len(src)-8:]
	switch flags := src[3]; {
	case flags == 1<<3: // the name of a file
		body = body[min(bytes.IndexByte(body, 0)+1, len(body)):]
	case flags != 0:
		return false
	}
	d.member.Reset(body)
	if d.inflate == nil {
		d.inflate = flate.NewReader(&d.member)
	} else if err := d.inflate.(flate.Resetter).Reset(&d.member, nil); err != nil {
		return false
	}
	if _, err := io.ReadFull(d.inflate, dst); err != nil {
		return false
	}
	var more [1]byte
	if n, err := d.inflate.Read(more[:]); n > 0 || err != io.EOF || d.member.Len() > 0 {
		return false
	}
	return crc32.ChecksumIEEE(dst) == binary.LittleEndian.Uint32(end)
}
