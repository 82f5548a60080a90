package coding

import (
	"encoding/binary"
	"math/bits"
)

// An inflater decodes DEFLATE (RFC 1951) from memory into memory of just the decoded length. It
// accepts what compress/flate accepts. The zero value is ready. It is not safe for concurrent use.
//
// Readers of the libraries decode by way of a window and buffers, and cost more than all else that
// is done to fetch a page: pages of documentation at 407 MB/s, where an inflater does 715.
type inflater struct {
	lit, dist, code []uint32 // tables of the block
	lengths         [288 + 32]uint8

	src  []byte
	at   int    // of the next byte of src that is not in held; behind its end there are zeros
	held uint64 // bits of src, the lowest is the next one; those above n are 0 or what comes next
	n    uint   // how many
}

// Entries of a table of codes, which the next bits of src are an index of: in bits 0 to 4 how many
// bits a symbol takes, with those that follow its code; in bits 8 to 11 how many the code has; in
// bits 16 to 31 a value. 0 stands where there is no code.
const (
	literal = 1 << 12 // the value is a byte
	ends    = 1 << 13 // of the block
	longer  = 1 << 14 // the value is where another table begins, whose index has as many bits as bits 8 to 11 say

	litBits  = 10 // of the index of the table of bytes and lengths
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
		lit[257+i] = extra | base<<16
		base += 1 << extra
	}
	lit[285] = 258 << 16
	base = 1
	for i := range uint32(30) {
		extra := max(i/2, 1) - 1
		dist[i] = extra | base<<16
		base += 1 << extra
	}
	for i := range uint32(16) {
		code[i] = i << 16
	}
	code[16], code[17], code[18] = 2|16<<16, 3|17<<16, 7|18<<16
	return lit, dist, code
}

// order is that in which the lengths of the codes for lengths stand.
var order = [19]uint8{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}

// inflate reports whether src is a stream of DEFLATE, all of it, that decodes to just len(dst)
// bytes.
func (z *inflater) inflate(dst, src []byte) bool {
	n, ok := z.stream(dst, src)
	return ok && n == len(dst) && z.next() == len(src)
}

// stream decodes the stream that src begins with, up to next, into the beginning of dst. It reports
// whether there is one that dst has room for, and how many bytes it decodes to.
func (z *inflater) stream(dst, src []byte) (to int, ok bool) {
	z.src, z.at, z.held, z.n = src, 0, 0, 0
	defer func() { z.src = nil }()
	for last := false; !last; {
		z.fill()
		head := z.take(3)
		last = head&1 == 1
		ok = false
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
			return to, false
		}
	}
	return to, z.next() <= len(src)
}

// fill holds at least 56 bits.
func (z *inflater) fill() { z.at, z.held, z.n = filled(z.src, z.at, z.held, z.n) }

// filled is fill for who has the fields of an inflater in registers.
func filled(src []byte, at int, held uint64, n uint) (int, uint64, uint) {
	if at+8 <= len(src) {
		return at + int((63-n)>>3), held | binary.LittleEndian.Uint64(src[at:])<<(n&63), n | 56
	}
	for ; n < 56; n += 8 {
		if at < len(src) {
			held |= uint64(src[at]) << (n & 63)
		}
		at++
	}
	return at, held, n
}

// next returns where in src the next byte begins that is not taken yet. Behind its end more was
// taken than there is.
func (z *inflater) next() int { return z.at - int(z.n/8) }

// take returns the next bits, of which so many are held.
func (z *inflater) take(n uint) uint64 {
	v := z.held & (1<<n - 1)
	z.held >>= n
	z.n -= n
	return v
}

// stored copies a block without codes.
func (z *inflater) stored(dst []byte, to int) (int, bool) {
	from := z.next()
	if from+4 > len(z.src) {
		return to, false
	}
	size := int(binary.LittleEndian.Uint16(z.src[from:]))
	from += 4
	if size != int(^binary.LittleEndian.Uint16(z.src[from-2:])) || from+size > len(z.src) || to+size > len(dst) {
		return to, false
	}
	copy(dst[to:], z.src[from:from+size])
	z.at, z.held, z.n = from+size, 0, 0
	return to + size, true
}

// fixed makes the tables that RFC 1951 lays down.
func (z *inflater) fixed() {
	l := &z.lengths
	for i := range l {
		switch {
		case i < 144, i >= 280 && i < 288:
			l[i] = 8
		case i < 256:
			l[i] = 9
		case i < 280:
			l[i] = 7
		default:
			l[i] = 5
		}
	}
	z.lit, _ = table(z.lit, litBits, l[:288], litValues[:])
	z.dist, _ = table(z.dist, distBits, l[288:], distValues[:])
}

// dynamic reads the tables of a block.
func (z *inflater) dynamic() bool {
	z.fill()
	lits, dists, codes := int(z.take(5))+257, int(z.take(5))+1, int(z.take(4))+4
	if lits > 286 || dists > 30 {
		return false
	}
	var of [19]uint8
	for _, symbol := range order[:codes] {
		z.fill()
		of[symbol] = uint8(z.take(3))
	}
	var ok bool
	if z.code, ok = table(z.code, codeBits, of[:], codeValues[:]); !ok {
		return false
	}
	l := z.lengths[:lits+dists]
	for i := 0; i < len(l); {
		z.fill()
		e := z.code[z.held&(1<<codeBits-1)]
		if e == 0 || z.next() > len(z.src) {
			return false
		}
		z.take(uint(e >> 8 & 15))
		value, times := uint8(0), 1
		switch symbol := e >> 16; symbol {
		default:
			value = uint8(symbol)
		case 16:
			if i == 0 {
				return false
			}
			value, times = l[i-1], 3+int(z.take(2))
		case 17:
			times = 3 + int(z.take(3))
		case 18:
			times = 11 + int(z.take(7))
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

// table makes the table of codes of these lengths, in place of an older one. It reports whether the
// lengths are those of a code: of one that uses all bits, of one with one symbol of one bit, or of
// one without symbols.
func table(t []uint32, size uint, lengths []uint8, values []uint32) ([]uint32, bool) {
	var count, next [16]int
	for _, n := range lengths {
		count[n]++
	}
	symbols := len(lengths) - count[0]
	count[0] = 0
	left, longest := 1, uint(0)
	for n, code := 1, 0; n < 16; n++ {
		code = (code + count[n-1]) << 1
		next[n] = code
		if left = left<<1 - count[n]; left < 0 {
			return t, false
		}
		if count[n] > 0 {
			longest = uint(n)
		}
	}
	if left > 0 && (symbols > 1 || longest > 1) {
		return t, false
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
			for e += uint32(n) * 0x101; code < 1<<size; code += 1 << n {
				t[code] = e
			}
			continue
		}
		first := code & (1<<size - 1)
		if t[first] == 0 {
			t[first] = longer | uint32(size) | uint32(longest-size)<<8 | uint32(len(t))<<16
			t = append(t, make([]uint32, 1<<(longest-size))...)
		}
		part := t[t[first]>>16:]
		e += uint32(n-size) * 0x101
		for code >>= size; code < 1<<(longest-size); code += 1 << (n - size) {
			part[code] = e
		}
	}
	return t, true
}

// block decodes a block by its tables.
func (z *inflater) block(dst []byte, to int) (int, bool) {
	lit, dist := (*[1 << litBits]uint32)(z.lit), (*[1 << distBits]uint32)(z.dist)
	src, at, held, n := z.src, z.at, z.held, z.n
	for {
		// 56 bits: two short codes of bytes have 20, another symbol 20.
		if at, held, n = filled(src, at, held, n); at-int(n>>3) > len(src) {
			return to, false
		}
		e := lit[held&(1<<litBits-1)]
		if e&literal != 0 && to+2 < len(dst) {
			held >>= e & 31
			n -= uint(e & 31)
			dst[to] = byte(e >> 16)
			to++
			if e = lit[held&(1<<litBits-1)]; e&literal != 0 {
				held >>= e & 31
				n -= uint(e & 31)
				dst[to] = byte(e >> 16)
				to++
				e = lit[held&(1<<litBits-1)]
			}
		}
		if e&longer != 0 {
			held >>= litBits
			n -= litBits
			e = z.lit[e>>16+uint32(held&(1<<(e>>8&15)-1))]
		}
		further := held & (1<<(e&31) - 1) >> (e >> 8 & 15)
		held >>= e & 31
		n -= uint(e & 31)
		if e&literal != 0 {
			if to == len(dst) {
				return to, false
			}
			dst[to] = byte(e >> 16)
			to++
			continue
		}
		if e&ends != 0 {
			z.at, z.held, z.n = at, held, n
			return to, true
		}
		length := int(e>>16) + int(further)

		at, held, n = filled(src, at, held, n)
		d := dist[held&(1<<distBits-1)]
		if d&longer != 0 {
			held >>= distBits
			n -= distBits
			d = z.dist[d>>16+uint32(held&(1<<(d>>8&15)-1))]
		}
		distance := int(d>>16) + int(held&(1<<(d&31)-1)>>(d>>8&15))
		held >>= d & 31
		n -= uint(d & 31)
		if e == 0 || d == 0 || distance > to || length > len(dst)-to {
			return to, false
		}
		again(dst, to, distance, length)
		to += length
	}
}

// again copies the bytes that lie distance before dst[to:] to there, each also as the source of a
// later one.
func again(dst []byte, to, distance, length int) {
	end := to + length
	switch {
	case distance >= 16 && end+16 <= len(dst):
		for from := to - distance; to < end; to, from = to+16, from+16 {
			*(*[16]byte)(dst[to:]) = *(*[16]byte)(dst[from:])
		}
	case distance >= length:
		copy(dst[to:end], dst[to-distance:])
	default:
		for ; to < end; to++ {
			dst[to] = dst[to-distance]
		}
	}
}
