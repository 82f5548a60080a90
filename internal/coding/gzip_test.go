package coding

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
)

// packed returns a member of gzip. Levels are those of the library: -2 codes bytes alone.
func packed(t testing.TB, text []byte, level int) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, level)
	if err == nil {
		_, err = w.Write(text)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// whole decodes by GzipSize and Gzip, into a buffer that has no byte more.
func whole(d *Decoder, src []byte) ([]byte, bool) {
	n, ok := GzipSize(src)
	if !ok || n > 1<<24 {
		return nil, false
	}
	dst := make([]byte, n)
	return dst, d.Gzip(dst, src)
}

// texts are of the kinds that make a coder choose: bytes that are all the same, rare, random, in a
// language, and of short and far repetitions.
func texts() map[string][]byte {
	rnd := rand.New(rand.NewPCG(1, 2))
	random, few, far := make([]byte, 100_000), make([]byte, 100_000), make([]byte, 70_000)
	for i := range random {
		random[i] = byte(rnd.Uint32())
		few[i] = "ab\n"[rnd.IntN(3)]
	}
	copy(far, random[:500])
	copy(far[33_000:], random[:500])
	skewed := make([]byte, 0, 1<<17)
	for i := range 17 { // codes of all lengths
		skewed = append(skewed, bytes.Repeat([]byte{byte(i)}, 1<<i)...)
	}
	rnd.Shuffle(len(skewed), func(i, j int) { skewed[i], skewed[j] = skewed[j], skewed[i] })
	var page strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&page, "<li><a href=\"/docs/%d/page-%x.html\">page %d</a> is number %d</li>\n", i%17, i*i, i, rnd.IntN(1000))
	}
	return map[string][]byte{
		"empty": {}, "one": []byte("x"), "same": bytes.Repeat([]byte("a"), 70_000), "random": random, "few": few,
		"far": far, "skewed": skewed, "page": []byte(page.String()),
	}
}

// TestGzip: what is packed in any way comes out again; what was cut anywhere, or has another byte
// anywhere, does not.
func TestGzip(t *testing.T) {
	t.Parallel()
	step := 100
	if testing.Short() {
		step = 20
	}
	var d Decoder
	for name, text := range texts() {
		for _, level := range []int{-2, 0, 1, 5, 9} {
			src := packed(t, text, level)
			if got, ok := whole(&d, src); !ok || !bytes.Equal(got, text) {
				t.Fatalf("%s at level %d: %v, %d bytes of %d", name, level, ok, len(got), len(text))
			}
			for n := 0; n < len(src)-8; n += 1 + len(src)/step {
				wrong := bytes.Clone(src)
				wrong[n] ^= 1 << (n % 8)
				if got, ok := whole(&d, wrong); ok && !bytes.Equal(got, text) { // the time does not matter
					t.Errorf("%s at level %d: another bit in byte %d, and no error", name, level, n)
				}
				if _, ok := whole(&d, append(bytes.Clone(src[:n]), src[len(src)-8:]...)); ok {
					t.Errorf("%s at level %d: without all from byte %d to the end, and no error", name, level, n)
				}
			}
			for _, behind := range [][]byte{{0}, src} {
				if _, ok := whole(&d, append(bytes.Clone(src), behind...)); ok && len(text) > 0 {
					t.Errorf("%s at level %d: with %d bytes behind it, and no error", name, level, len(behind))
				}
			}
		}
	}
	named := append([]byte{0x1f, 0x8b, 8, 1 << 3, 0, 0, 0, 0, 0, 3}, "page.html\x00"...)
	named = append(named, packed(t, []byte("text"), 1)[10:]...)
	if got, ok := whole(&d, named); !ok || string(got) != "text" {
		t.Errorf("with the name of a file: %v, %q", ok, got)
	}
}

// FuzzGzip: what Gzip takes, Reader decodes to the same bytes.
func FuzzGzip(f *testing.F) {
	for _, text := range texts() {
		for _, level := range []int{-2, 1} {
			f.Add(packed(f, text[:min(len(text), 3000)], level))
		}
	}
	var d Decoder
	f.Fuzz(func(t *testing.T, src []byte) {
		got, ok := whole(&d, src)
		if !ok {
			return
		}
		want, err := io.ReadAll(d.Reader([]string{"gzip"}, bytes.NewReader(src)))
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%q; want %q, %v", got, want, err)
		}
	})
}
