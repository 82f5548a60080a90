package coding

import (
	"encoding/binary"
	"hash/crc32"
	"math/bits"
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
// It is much quicker than a reader, since all bytes of both sides lie before it.
func (d *Decoder) Gzip(dst, src []byte) bool {
	body, end := src[10:len(src)-8], src[len(src)-8:]
	switch flags := src[3]; {
	case flags == 1<<3: // the name of a file
		name := 0
		for name < len(body) && body[name] != 0 {
			name++
		}
		body = body[min(name+1, len(body)):]
	case flags != 0:
		return false
	}
	return d.whole.inflate(dst, body) && crc32.ChecksumIEEE(dst) == binary.LittleEndian.Uint32(end)
}

// Entries of a table of codes: how many bits a code has in bits 0 to 3, what it is in bits 4 to 7,
// a number of further bits in 8 to 11, and a value in 16 to 31. 0 stands where there is no code.
const (
	literal = 1 << 4 // the value is a byte
	ends    = 1 << 5 // of the block
	longer  = 1 << 6 // the value is where the table begins that the further bits are an index of

	litBits  = 10 // of the index of a table of bytes and lengths
	distBits = 8  // likewise, of distances
	codeBits = 7  // likewise, of lengths of codes; none is longer
)

// litValues, distValues and codeValues are the entries of all symbols, without their code.
var litValues, distValues, codeValues = values()

func values() (lit [288]uint32, dist [32]uint32, code [19]uint32) {
	for i := range 256 {
		lit[i] = literal | uint32(i)<<16
	}
	lit[256] = ends
	base := uint32(3)
	for i := range uint32(28) { // RFC 1951, 3.2.5
		extra := max(i/4, 1) - 1
		lit[257+i] = extra<<8 | base<<16
		base += 1 << extra
	}
	lit[285] = 258 << 16
	base = 1
	for i := range uint32(30) {
		extra := max(i/2, 1) - 1
		dist[i] = extra<<8 | base<<16
		base += 1 << extra
	}
	for i := range uint32(16) {
		code[i] = i << 16
	}
	code[16], code[17], code[18] = 2<<8|16<<16, 3<<8|17<<16, 7<<8|18<<16
	return lit, dist, code
}

// order is that in which the lengths of the codes for lengths stand.
var order = [19]uint8{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}

// An inflater decodes DEFLATE (RFC 1951) from memory into memory. The zero value is ready.
type inflater struct {
	lit, dist, code []uint32 // tables of the block
	lengths         [288 + 32]uint8

	src  []byte
	at   int    // of the next byte of src that is not in held
	held uint64 // bits of src, the lowest is the next one; those above n are 0 or what comes next
	n    uint   // how many
}

// inflate reports whether src is a stream of DEFLATE, all of it, that decodes to just len(dst)
// bytes.
func (z *inflater) inflate(dst, src []byte) bool {
	z.src, z.at, z.held, z.n = src, 0, 0, 0
	defer func() { z.src = nil }()
	to := 0
	for last := false; !last; {
		z.fill()
		if z.n < 3 {
			return false
		}
		head := z.take(3)
		last = head&1 == 1
		ok := false
		switch head >> 1 {
		case 0:
			to, ok = z.stored(dst, to)
		case 1:
			z.fixed()
			to, ok = z.block(dst, to)
		case 2:
			if ok = z.dynamic(); ok {
				to, ok = z.block(dst, to)
			}
		}
		if !ok {
			return false
		}
	}
	return to == len(dst) && z.at-int(z.n/8) == len(src)
}

// fill takes bytes of src until 56 bits are held, or all that are left.
func (z *inflater) fill() {
	for z.n <= 56 && z.at < len(z.src) {
		z.held |= uint64(z.src[z.at]) << z.n
		z.at++
		z.n += 8
	}
}

// take returns the next bits, of which so many are held.
func (z *inflater) take(n uint) uint64 {
	v := z.held & (1<<n - 1)
	z.held >>= n
	z.n -= n
	return v
}

// stored copies a block without codes.
func (z *inflater) stored(dst []byte, to int) (int, bool) {
	from := z.at - int(z.n/8)
	z.at, z.held, z.n = from, 0, 0
	if from+4 > len(z.src) {
		return to, false
	}
	size := int(binary.LittleEndian.Uint16(z.src[from:]))
	from += 4
	if size != int(^binary.LittleEndian.Uint16(z.src[from-2:])) || from+size > len(z.src) || to+size > len(dst) {
		return to, false
	}
	copy(dst[to:], z.src[from:from+size])
	z.at = from + size
	return to + size, true
}

// fixed makes the tables that RFC 1951 lays down.
func (z *inflater) fixed() {
	l := &z.lengths
	for i := range 288 {
		l[i] = 8
	}
	for i := 144; i < 256; i++ {
		l[i] = 9
	}
	for i := 256; i < 280; i++ {
		l[i] = 7
	}
	for i := range 32 {
		l[288+i] = 5
	}
	z.lit, _ = table(z.lit, litBits, l[:288], litValues[:])
	z.dist, _ = table(z.dist, distBits, l[288:], distValues[:])
}

// dynamic reads the tables of a block.
func (z *inflater) dynamic() bool {
	z.fill()
	if z.n < 14 {
		return false
	}
	lits, dists, codes := int(z.take(5))+257, int(z.take(5))+1, int(z.take(4))+4
	if lits > 286 || dists > 30 {
		return false
	}
	var of [19]uint8
	for _, symbol := range order[:codes] {
		if z.fill(); z.n < 3 {
			return false
		}
		of[symbol] = uint8(z.take(3))
	}
	var ok bool
	if z.code, ok = table(z.code, codeBits, of[:], codeValues[:]); !ok {
		return false
	}
	l := z.lengths[:lits+dists]
	for i := 0; i < len(l); {
		e := z.symbol(z.code, codeBits)
		more := uint(e >> 8 & 15)
		if e == 0 || z.n < more {
			return false
		}
		value, times := uint8(0), 1+int(z.take(more))
		switch symbol := e >> 16; symbol {
		default:
			value = uint8(symbol)
		case 16:
			if i == 0 {
				return false
			}
			value, times = l[i-1], times+2
		case 17:
			times += 2
		case 18:
			times += 10
		}
		if times > len(l)-i {
			return false
		}
		for range times {
			l[i] = value
			i++
		}
	}
	if z.lit, ok = table(z.lit, litBits, l[:lits], litValues[:]); !ok {
		return false
	}
	z.dist, ok = table(z.dist, distBits, l[lits:], distValues[:])
	return ok
}

// table makes the table of codes of these lengths, in place of an older one. Its index are the next
// bits of the source. It reports whether the lengths are those of a code.
func table(t []uint32, size uint, lengths []uint8, values []uint32) ([]uint32, bool) {
	var count, next [16]int
	for _, n := range lengths {
		count[n]++
	}
	count[0] = 0
	longest := uint(0)
	for n, code, left := 1, 0, 1; n < 16; n++ {
		code = (code + count[n-1]) << 1
		next[n] = code
		if left = left<<1 - count[n]; left < 0 {
			return t, false
		}
		if count[n] > 0 {
			longest = uint(n)
		}
	}
	t = append(t[:0], make([]uint32, 1<<size)...)
	for symbol, length := range lengths {
		if length == 0 {
			continue
		}
		n := uint(length)
		code := uint(bits.Reverse16(uint16(next[n])) >> (16 - n))
		next[n]++
		e := values[symbol]
		if e == 0 && symbol != 0 { // no such length or distance
			continue
		}
		if n <= size {
			for ; code < 1<<size; code += 1 << n {
				t[code] = e | uint32(n)
			}
			continue
		}
		first := code & (1<<size - 1)
		if t[first] == 0 {
			t[first] = longer | uint32(size) | uint32(longest-size)<<8 | uint32(len(t))<<16
			t = append(t, make([]uint32, 1<<(longest-size))...)
		}
		part := t[t[first]>>16:]
		for code >>= size; code < 1<<(longest-size); code += 1 << (n - size) {
			part[code] = e | uint32(n-size)
		}
	}
	return t, true
}

// block decodes a block by its tables.
func (z *inflater) block(dst []byte, to int) (int, bool) {
	to, done, ok := z.most(dst, to)
	for !done && ok {
		to, done, ok = z.one(dst, to)
	}
	return to, ok
}

// one decodes one code of a block, anywhere.
func (z *inflater) one(dst []byte, to int) (_ int, done, ok bool) {
	e := z.symbol(z.lit, litBits)
	switch {
	case e == 0:
		return to, false, false
	case e&literal != 0:
		if to == len(dst) {
			return to, false, false
		}
		dst[to] = byte(e >> 16)
		return to + 1, false, true
	case e&ends != 0:
		return to, true, true
	}
	length, ok := z.value(e)
	if !ok {
		return to, false, false
	}
	if e = z.symbol(z.dist, distBits); e == 0 {
		return to, false, false
	}
	distance, ok := z.value(e)
	if !ok || distance > to || length > len(dst)-to {
		return to, false, false
	}
	for range length {
		dst[to] = dst[to-distance]
		to++
	}
	return to, false, true
}

// symbol takes the next code, and returns its entry; 0 if there is none. Of a length or a distance
// the further bits are held then, as far as there are any.
func (z *inflater) symbol(t []uint32, size uint) uint32 {
	z.fill()
	e := t[z.held&(1<<size-1)]
	if e&longer != 0 && z.n >= size {
		z.take(size)
		e = t[e>>16+uint32(z.held&(1<<(e>>8&15)-1))]
	}
	if z.n < uint(e&15) {
		return 0
	}
	z.take(uint(e & 15))
	return e
}

// value takes the further bits of a length or a distance, and returns it.
func (z *inflater) value(e uint32) (int, bool) {
	n := uint(e >> 8 & 15)
	if z.n < n {
		return 0, false
	}
	return int(e>>16) + int(z.take(n)), true
}
