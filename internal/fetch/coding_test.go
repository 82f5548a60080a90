package fetch

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"

	"urltree/internal/coding"
)

// encode codes text as the name says; "" leaves it.
func encode(t testing.TB, coding string, text []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	var err error
	switch coding {
	case "", "identity":
		return text
	case "gzip", "x-gzip":
		w, err = gzip.NewWriterLevel(&b, gzip.BestSpeed)
	case "deflate":
		w, err = zlib.NewWriterLevel(&b, zlib.BestSpeed)
	case "raw":
		w, err = flate.NewWriter(&b, flate.BestSpeed)
	case "br":
		w = brotli.NewWriterLevel(&b, 0)
	case "zstd":
		w, err = zstd.NewWriter(&b, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
	default:
		t.Fatalf("unknown coding %q", coding)
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

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

func TestCodings(t *testing.T) {
	for _, size := range []int{1, 5000, 100_000, maxBuffer + 5000} {
		if testing.Short() && size > 100_000 {
			continue
		}
		text := page(size)
		zip := encode(t, "gzip", text)
		for _, tt := range []struct {
			name   string
			header []string
			body   []byte
		}{
			{"none named", []string{""}, text},
			{"identity", []string{"identity"}, text},
			{"no codings", []string{"none, UTF-8", "aws-chunked", "binary", "text/html; charset=utf-8", "chunked", "\u202e\xff"}, text},
			{"gzip among no codings", []string{"utf-8, \"gzip\"", "none"}, zip},
			{"gzip with a parameter", []string{"gzip;q=1.0"}, zip},
			{"gzip", []string{"gzip"}, zip},
			{"gzip by an old name", []string{"X-GZip"}, zip},
			{"gzip, something behind", []string{"gzip"}, join(zip, []byte("\r\n"))},
			{"gzip, zeros behind", []string{"gzip"}, join(zip, make([]byte, 100))},
			{"gzip in two members", []string{"gzip"}, join(encode(t, "gzip", text[:size/2]), encode(t, "gzip", text[size/2:]))},
			{"deflate", []string{"deflate"}, encode(t, "deflate", text)},
			{"deflate without zlib", []string{"deflate"}, encode(t, "raw", text)},
			{"brotli", []string{"br"}, encode(t, "br", text)},
			{"zstd", []string{"zstd"}, encode(t, "zstd", text)},
			{"two", []string{"br, gzip"}, encode(t, "gzip", encode(t, "br", text))},
			{"three in two headers", []string{"zstd, deflate", "gzip"}, encode(t, "gzip", encode(t, "raw", encode(t, "zstd", text)))},
			{"the same twice", []string{"gzip, gzip"}, encode(t, "gzip", zip)},
		} {
			t.Run(tt.name, func(t *testing.T) {
				url := serve(t, func(w http.ResponseWriter, r *http.Request) {
					if got := r.Header.Get("Accept-Encoding"); got != acceptEncoding {
						t.Errorf("asked for %q", got)
					}
					w.Header().Set("Content-Type", "text/html")
					w.Header()["Content-Encoding"] = tt.header
					_, _ = w.Write(tt.body)
				})
				c := newClient(t, Options{Header: http.Header{"Accept-Encoding": {"magic"}}, SeedOrigin: func(string) bool { return true }})
				rounds := cap(c.coders) + 1 // decoders are used again,
				if size > maxBuffer {       // but not after large bodies
					rounds = 1
				}
				for range rounds {
					res, err := c.Get(t.Context(), url+"/", Request{})
					if err != nil {
						t.Fatalf("%d bytes: %v", size, err)
					}
					if !bytes.Equal(res.Body.Bytes(), text) || res.Body.Digest() != sha256.Sum256(text) || res.Truncated {
						t.Errorf("got %d bytes of %d, truncated %v", res.Body.Len(), size, res.Truncated)
					}
					res.Body.Release()
				}
			})
		}
	}
}

func TestEmptyCodedBody(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Content-Encoding", "gzip") })
	c := newClient(t, Options{})
	res, err := c.Get(t.Context(), url+"/", Request{})
	if err != nil || res.Body.Len() != 0 {
		t.Errorf("got %+v, %v", res, err)
	}
}

// TestBombs checks that memory stays bounded when little becomes much.
func TestBombs(t *testing.T) {
	zeros := make([]byte, 4<<20)
	for _, tt := range []struct {
		name, coding string
		body         []byte
	}{
		{"gzip", "gzip", bytes.Repeat(encode(t, "gzip", zeros), 20)},
		{"deflate", "deflate", encode(t, "deflate", bytes.Repeat(zeros, 4))},
		{"brotli", "br", encode(t, "br", bytes.Repeat(zeros, 4))},
		{"zstd", "zstd", bytes.Repeat(encode(t, "zstd", zeros), 20)},
		{"gzip in gzip", "gzip, gzip", encode(t, "gzip", bytes.Repeat(encode(t, "gzip", zeros), 20))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			url := serve(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/html")
				w.Header().Set("Content-Encoding", tt.coding)
				_, _ = w.Write(tt.body)
			})
			c := newClient(t, Options{MaxSize: 2 << 20})
			base := heap()
			res, err := c.Get(t.Context(), url+"/", Request{})
			wantFailure(t, res, err, TooLarge, false)
			if grown := heap() - base; grown > 64<<20 {
				t.Errorf("heap grew by %d bytes", grown)
			}
		})
	}
}

// FuzzDecode reads any bytes as any coding: no panic, no byte of the budget lost, never more than
// the limit.
func FuzzDecode(f *testing.F) {
	for _, coding := range []string{"gzip", "deflate", "raw", "br", "zstd"} {
		f.Add(coding, encode(f, coding, page(3000)))
	}
	c := newClient(f, Options{MaxSize: 1 << 20})
	f.Fuzz(func(t *testing.T, header string, data []byte) {
		codings, err := coding.Parse([]string{header})
		if err != nil || len(codings) == 0 {
			return
		}
		w := newWatch(t.Context(), c.limits)
		defer w.stop()
		o := filling{size: int64(len(data)), limit: c.opts.MaxSize, coded: true, wait: w}
		encoded, _, err := c.fill(bytes.NewReader(data), o)
		if err != nil {
			t.Fatal(err)
		}
		body, cut, err := c.decode(w, codings, encoded, o)
		if err == nil {
			if cut || body.Len() > c.opts.MaxSize {
				t.Errorf("%d bytes, cut %v", body.Len(), cut)
			}
			body.Release()
		}
		encoded.Release()
		if used := c.opts.Bodies.used.Load(); used != 0 || len(c.coders) != cap(c.coders) {
			t.Errorf("%d bytes and %d decoders are out", used, cap(c.coders)-len(c.coders))
		}
	})
}
