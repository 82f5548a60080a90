package coding

import (
	"bytes"
	"compress/flate"
	"io"
	"math/bits"
	"math/rand/v2"
	"testing"
)

// compare decodes the stream that src begins with by the standard library and by an inflater. Both
// must find one, or neither, of the same length and with the same bytes.
func compare(t *testing.T, z *inflater, src []byte) (ok bool) {
	t.Helper()
	const most = 1 << 17
	in := bytes.NewReader(src)
	want, err := io.ReadAll(io.LimitReader(flate.NewReader(in), most))
	if len(want) == most {
		return false
	}
	used := len(src) - in.Len()
	got := make([]byte, most)
	n, ok := z.stream(got, src)
	if ok != (err == nil) || ok && (z.next() != used || !bytes.Equal(got[:n], want)) {
		t.Fatalf("%x: %v, %d bytes from %d; want %d from %d, %v", src, ok, n, z.next(), len(want), used, err)
	}
	if !ok {
		return false
	}
	src = src[:used]
	if !z.inflate(got[:n:n], src) || !bytes.Equal(got[:n], want) {
		t.Fatalf("%x: not decoded into %d bytes", src, n)
	}
	if z.inflate(got[:n+1], src) || n > 0 && z.inflate(got[:n-1], src) || z.inflate(got[:n], append(bytes.Clone(src), 0)) {
		t.Fatalf("%x: decoded into another length than %d, or with a byte behind it", src, n)
	}
	return true
}

// TestInflate compares an inflater with the standard library: streams with another bit, with bytes
// of another stream, and cut short, of which many are well-formed nevertheless.
func TestInflate(t *testing.T) {
	t.Parallel()
	rounds := 80
	if testing.Short() {
		rounds = 20
	}
	var z inflater
	for name, text := range texts() {
		t.Run(name, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(3, 4))
			for _, level := range []int{-2, 0, 1, 6, 9} {
				for range rounds / 5 {
					from := rnd.IntN(len(text) + 1)
					part := text[from:min(from+rnd.IntN(3000), len(text))]
					member := packed(t, part, level)
					src := member[10 : len(member)-8]
					if !compare(t, &z, src) {
						t.Fatalf("level %d: %d bytes are not decoded", level, len(part))
					}
					for range 10 {
						wrong := bytes.Clone(src)
						wrong[rnd.IntN(min(len(wrong), 100))] ^= 1 << rnd.IntN(8)
						compare(t, &z, wrong)
						compare(t, &z, wrong[:rnd.IntN(len(wrong))])
					}
				}
			}
		})
	}
}

// TestCodes compares codes that no coder makes: incomplete ones, with too many symbols, of one
// symbol, of none, and for bytes, lengths and distances that there are not.
func TestCodes(t *testing.T) {
	var z inflater
	accepted := 0
	rnd := rand.New(rand.NewPCG(5, 6))
	for range 30_000 {
		lits, dists := make([]int, 257+rnd.IntN(32)), make([]int, 1+rnd.IntN(32))
		for range 1 + rnd.IntN(6) {
			lits[rnd.IntN(len(lits))] = 1 + rnd.IntN(3)
			lits['a'+rnd.IntN(2)] = 1 + rnd.IntN(2)
			lits[256] = 1 + rnd.IntN(3)
		}
		for range rnd.IntN(4) {
			dists[rnd.IntN(len(dists))] = rnd.IntN(3)
		}
		var w bitWriter
		w.write(1|2<<1, 3) // the last block, with codes of its own
		w.write(len(lits)-257, 5)
		w.write(len(dists)-1, 5)
		w.write(19-4, 4)
		for i := range 19 { // no code for 16, 17 and 18, which come first, and one of 4 bits for 0 to 15
			w.write(min(i/3, 1)*4, 3)
		}
		for _, length := range append(lits, dists...) {
			w.write(int(bits.Reverse8(uint8(length))>>4), 4)
		}
		for range 5 {
			w.write(int(rnd.Uint32()), 32)
		}
		if compare(t, &z, w.bytes) {
			accepted++
		}
	}
	if accepted < 100 {
		t.Errorf("only %d are streams", accepted)
	}
}

// A bitWriter writes as DEFLATE has it, the lowest bit first.
type bitWriter struct {
	bytes []byte
	n     uint
}

func (w *bitWriter) write(v int, n uint) {
	for i := range n {
		if w.n%8 == 0 {
			w.bytes = append(w.bytes, 0)
		}
		w.bytes[w.n/8] |= byte(v>>i&1) << (w.n % 8)
		w.n++
	}
}

// FuzzInflate compares an inflater with the standard library.
func FuzzInflate(f *testing.F) {
	for _, text := range texts() {
		for _, level := range []int{-2, 1} {
			f.Add(packed(f, text[:min(len(text), 3000)], level)[10:])
		}
	}
	var z inflater
	f.Fuzz(func(t *testing.T, src []byte) { compare(t, &z, src) })
}
