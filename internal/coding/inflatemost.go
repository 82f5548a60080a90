package coding

import "encoding/binary"

// What most may read and write for one round: two words of the source; three bytes and the longest
// match, which is copied by words.
const (
	roundIn  = 16
	roundOut = 3 + 258 + 8
)

// most decodes a block as far as both sides have room for a whole round, so that a round has no
// other bounds to look at. done says that the block has ended.
func (z *inflater) most(dst []byte, to int) (_ int, done, ok bool) {
	lit, dist := (*[1 << litBits]uint32)(z.lit), (*[1 << distBits]uint32)(z.dist)
	src, at, held, n := z.src, z.at, z.held, z.n
	ok = true
	for len(src)-at >= roundIn && len(dst)-to >= roundOut {
		// 56 bits at least: two short codes of bytes have 20, and a length 20.
		held |= binary.LittleEndian.Uint64(src[at:]) << (n & 63)
		at += int((63 - n) >> 3)
		n |= 56
		e := lit[held&(1<<litBits-1)]
		if e&literal != 0 {
			held >>= e & 15
			n -= uint(e & 15)
			dst[to] = byte(e >> 16)
			to++
			e = lit[held&(1<<litBits-1)]
			if e&literal != 0 {
				held >>= e & 15
				n -= uint(e & 15)
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
		held >>= e & 15
		n -= uint(e & 15)
		if e&literal != 0 {
			dst[to] = byte(e >> 16)
			to++
			continue
		}
		if e&ends != 0 {
			done = true
			break
		}
		length := int(e>>16) + int(held&(1<<(e>>8&15)-1))
		held >>= e >> 8 & 15
		n -= uint(e >> 8 & 15)

		held |= binary.LittleEndian.Uint64(src[at:]) << (n & 63)
		at += int((63 - n) >> 3)
		n |= 56
		d := dist[held&(1<<distBits-1)]
		if d&longer != 0 {
			held >>= distBits
			n -= distBits
			d = z.dist[d>>16+uint32(held&(1<<(d>>8&15)-1))]
		}
		held >>= d & 15
		n -= uint(d & 15)
		distance := int(d>>16) + int(held&(1<<(d>>8&15)-1))
		held >>= d >> 8 & 15
		n -= uint(d >> 8 & 15)
		if e == 0 || d == 0 || distance > to {
			ok = false
			break
		}
		end := to + length
		if distance >= 8 {
			for from := to - distance; to < end; to, from = to+8, from+8 {
				binary.LittleEndian.PutUint64(dst[to:], binary.LittleEndian.Uint64(dst[from:]))
			}
		} else {
			for ; to < end; to++ {
				dst[to] = dst[to-distance]
			}
		}
		to = end
	}
	z.at, z.held, z.n = at, held, n
	return to, done, ok
}
