package coding

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

// encode codes text as the name says; raw is deflate without zlib.
func encode(t testing.TB, name string, text []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	var err error
	switch name {
	case "gzip":
		w = gzip.NewWriter(&b)
	case "deflate":
		w = zlib.NewWriter(&b)
	case "raw":
		w, err = flate.NewWriter(&b, flate.BestSpeed)
	case "br":
		w = brotli.NewWriterLevel(&b, 1)
	case "zstd":
		w, err = zstd.NewWriter(&b, zstd.WithEncoderConcurrency(1))
	}
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.Write(text)
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// text returns n bytes that can be compressed, but not to nothing.
func text(n int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, n)
	for i := range b {
		b[i] = 'a' + byte(r.IntN(16))
	}
	return b
}

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		headers []string
		want    string // "" for none, ! for an error
	}{
		{nil, ""},
		{[]string{""}, ""},
		{[]string{"identity"}, ""},
		{[]string{"none, utf-8", "text/html; charset=utf-8"}, ""},
		{[]string{"X-GZip"}, "gzip"},
		{[]string{`utf-8, "br"`, "none"}, "br"},
		{[]string{"gzip;q=1"}, "gzip"},
		{[]string{"zstd, deflate", "identity", "gzip"}, "zstd deflate gzip"},
		{[]string{"gzip, br, gzip, br"}, "!"},
		{[]string{"gzip", "compress"}, "!"},
		{[]string{"dcb"}, "!"},
	} {
		codings, err := Parse(tt.headers)
		if got := strings.Join(codings, " "); err == nil && got != tt.want || (err != nil) != (tt.want == "!") {
			t.Errorf("%q: %q, %v, want %q", tt.headers, got, err, tt.want)
		}
	}
}

// TestReader has one Decoder read bodies in any order: whole ones, some that break off and some
// that are no coded bodies. None has an effect on the next one.
func TestReader(t *testing.T) {
	plain := text(20_000)
	type body struct {
		codings string
		coded   []byte
	}
	var bodies []body
	for name, coding := range map[string]string{"gzip": "gzip", "deflate": "deflate", "raw": "deflate", "br": "br", "zstd": "zstd"} {
		bodies = append(bodies, body{coding, encode(t, name, plain)},
			body{coding + " gzip", encode(t, "gzip", encode(t, name, plain))},
			body{"zstd " + coding + " br", encode(t, "br", encode(t, name, encode(t, "zstd", plain)))})
	}
	// What breaks off below does so in the first of two members: behind it a body could end.
	bodies = append(bodies, body{"", plain},
		body{"gzip", slices.Concat(encode(t, "gzip", plain[:10_000]), encode(t, "gzip", plain[10_000:]), []byte("\r\n"))})
	var d Decoder
	for range 100 {
		b := bodies[rand.IntN(len(bodies))]
		codings := strings.Fields(b.codings)
		got, err := io.ReadAll(d.Reader(codings, iotest.HalfReader(bytes.NewReader(b.coded))))
		if err != nil || !bytes.Equal(got, plain) {
			t.Fatalf("%s: %d bytes, %v", b.codings, len(got), err)
		}
		if b.codings == "" {
			continue
		}
		if got, err := io.ReadAll(d.Reader(codings, bytes.NewReader(nil))); err != nil || len(got) > 0 {
			t.Fatalf("%s: empty: %d bytes, %v", b.codings, len(got), err)
		}

		half := b.coded[:1+rand.IntN(len(b.coded)*2/5)]
		got, err = io.ReadAll(d.Reader(codings, bytes.NewReader(half)))
		if !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), codings[len(codings)-1]+": ") ||
			!bytes.HasPrefix(plain, got) {
			t.Fatalf("%s: broken off: %d bytes, %v", b.codings, len(got), err)
		}

		failure := errors.New("failure of the disk")
		got, err = io.ReadAll(d.Reader(codings, io.MultiReader(bytes.NewReader(half), iotest.ErrReader(failure))))
		if !errors.Is(err, failure) || !bytes.HasPrefix(plain, got) {
			t.Fatalf("%s: failed: %d bytes, %v", b.codings, len(got), err)
		}

		_, err = io.ReadAll(d.Reader(codings, strings.NewReader(strings.Repeat("\xff", 100))))
		if err == nil || errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("%s: not coded: %v", b.codings, err)
		}
		if rand.IntN(10) == 0 {
			d.Close()
		}
	}
	d.Close()
}

// TestWindow reads a zstd frame whose window is larger than a Decoder takes, and one that is not.
func TestWindow(t *testing.T) {
	var d Decoder
	defer d.Close()
	for _, size := range []int{maxWindow, 2 * maxWindow} {
		var b bytes.Buffer
		w, err := zstd.NewWriter(&b, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(size))
		if err != nil {
			t.Fatal(err)
		}
		_, err = w.Write([]byte("a"))
		if err := errors.Join(err, w.Flush(), w.Close()); err != nil { // a flushed frame names its window
			t.Fatal(err)
		}
		_, err = io.ReadAll(d.Reader([]string{"zstd"}, &b))
		if (err != nil) != (size > maxWindow) || errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("window of %d bytes: %v", size, err)
		}
	}
}

// TestReuse checks that a Decoder makes its decoders once.
func TestReuse(t *testing.T) {
	plain := text(5000)
	for _, coding := range []string{"gzip", "br", "zstd"} {
		var d Decoder
		defer d.Close()
		coded, buf := encode(t, coding, plain), make([]byte, 6000)
		codings := []string{coding}
		read := func() {
			r := d.Reader(codings, bytes.NewReader(coded))
			if n, err := io.ReadFull(r, buf); n != len(plain) || err != io.ErrUnexpectedEOF {
				t.Fatalf("%s: %d bytes, %v", coding, n, err)
			}
		}
		read()
		const rounds = 20
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range rounds {
			read()
		}
		runtime.ReadMemStats(&after)
		if bytes := (after.TotalAlloc - before.TotalAlloc) / rounds; bytes > 20_000 {
			t.Errorf("%s: %d bytes a body", coding, bytes)
		}
	}
}
