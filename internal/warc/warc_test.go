package warc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

type written struct {
	header Header
	block  []byte
	offset int64
}

// write makes a file of n records, with random blocks.
func write(t *testing.T, n int, kinds ...Compression) (file []byte, records []written) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(7, uint64(n)))
	var out bytes.Buffer
	w := NewWriter(&out, 0)
	for i := range n {
		block := bytes.Repeat([]byte(fmt.Sprintf("block %d\r\n", i)), rnd.IntN(40))
		if i%5 == 4 {
			block = nil
		}
		r := written{
			Header{
				{FieldType, Resource},
				{FieldID, IDOf([16]byte{byte(i)}, 4)},
				{FieldTarget, fmt.Sprintf("http://h.example/%d", i)},
				{FieldDate, FormatDate(time.Unix(int64(i), int64(i)*1000))},
				{FieldBlockDigest, Digest(block)},
			},
			block, w.Offset(),
		}
		if err := w.Write(r.header, block[:len(block)/3], bytes.NewReader(block[len(block)/3:]), int64(len(block)-len(block)/3), kinds[i%len(kinds)]); err != nil {
			t.Fatal(err)
		}
		records = append(records, r)
	}
	if w.Offset() != int64(out.Len()) {
		t.Fatalf("the writer is at %d of %d bytes", w.Offset(), out.Len())
	}
	return out.Bytes(), records
}

var kinds = map[string][]Compression{"plain": {None}, "gzip": {Fast}, "stored": {Stored}, "mixed": {Fast, Stored}}

// TestRoundTrip: what is written is read again, in turn and each record alone.
func TestRoundTrip(t *testing.T) {
	for name, kinds := range kinds {
		t.Run(name, func(t *testing.T) {
			file, records := write(t, 40, kinds...)
			in := NewReader(iotest.OneByteReader(bytes.NewReader(file)), 0)
			for i, want := range records {
				same(t, in, want)
				same(t, NewReader(bytes.NewReader(file[want.offset:]), want.offset), want)
				end := int64(len(file))
				if i+1 < len(records) {
					end = records[i+1].offset
				}
				alone := NewReader(bytes.NewReader(file[want.offset:end]), want.offset)
				same(t, alone, want)
				if _, err := alone.Next(); err != io.EOF || alone.End() != end {
					t.Fatalf("behind record %d: %v at %d, want the end at %d", i, err, alone.End(), end)
				}
			}
			if rec, err := in.Next(); err != io.EOF || in.End() != int64(len(file)) {
				t.Fatalf("behind the last: %v, %v at %d", rec, err, in.End())
			}
		})
	}
}

func same(t *testing.T, in *Reader, want written) {
	t.Helper()
	rec, err := in.Next()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range want.header {
		if got := rec.Get(strings.ToLower(f.Name)); got != f.Value {
			t.Fatalf("%s is %q, want %q", f.Name, got, f.Value)
		}
	}
	block, err := io.ReadAll(rec)
	if err != nil || !bytes.Equal(block, want.block) || rec.Length != int64(len(block)) || rec.Offset != want.offset || !rec.Alone {
		t.Fatalf("%v: %q of %d bytes at %d, want %q at %d", err, block, rec.Length, rec.Offset, want.block, want.offset)
	}
}

// TestTorn: of a file that was cut anywhere all whole records are read, and End is behind them.
func TestTorn(t *testing.T) {
	step := 1
	if testing.Short() {
		step = 5
	}
	for name, kinds := range kinds {
		t.Run(name, func(t *testing.T) {
			file, records := write(t, 6, kinds...)
			for n := 0; n < len(file); n += step {
				in := NewReader(bytes.NewReader(file[:n]), 0)
				whole := 0
				var err error
				for {
					var rec *Record
					if rec, err = in.Next(); err != nil {
						break
					}
					if _, err = io.Copy(io.Discard, rec); err != nil {
						break
					}
					whole++
				}
				ends := 0 // records of which all but perhaps the empty lines are there
				for i := range records {
					if i+1 < len(records) && records[i+1].offset <= int64(n) {
						ends = i + 1
					}
				}
				if err != io.EOF && !errors.Is(err, ErrTorn) || whole < ends || whole > ends+1 {
					t.Fatalf("cut at %d: %d records whole, then %v; want %d", n, whole, err, ends)
				}
				if at := in.End(); errors.Is(err, ErrTorn) && at != records[ends].offset && at != records[max(whole-1, 0)].offset {
					t.Fatalf("cut at %d: what is whole ends at %d, want %d", n, at, records[ends].offset)
				}
			}
		})
	}
}

// TestRefused: no field may bring a line end into a header, and a block has to be as long as said.
func TestRefused(t *testing.T) {
	var out bytes.Buffer
	w := NewWriter(&out, 100)
	for _, h := range []Header{{{"", "x"}}, {{"a b", "x"}}, {{"a:", "x"}}, {{"a", "x\r\ny"}}} {
		if err := w.Write(h, nil, strings.NewReader("x"), 1, None); !errors.Is(err, ErrFormat) {
			t.Errorf("%q: %v", h, err)
		}
	}
	for _, n := range []int64{0, 1, 3} {
		if err := w.Write(nil, []byte("xxx"), strings.NewReader("xx"), n, Fast); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("a block of %d bytes that has 2: %v", n, err)
		}
	}
	if w.Offset() != 100 {
		t.Errorf("the next record begins at %d, want 100", w.Offset())
	}
}

// TestFileFails: an error of the file is not taken for a torn record.
func TestFileFails(t *testing.T) {
	file, _ := write(t, 3, Fast)
	gone := errors.New("gone")
	in := NewReader(io.MultiReader(bytes.NewReader(file[:len(file)/2]), iotest.ErrReader(gone)), 0)
	var err error
	for err == nil {
		_, err = in.Next()
	}
	if !errors.Is(err, gone) || errors.Is(err, ErrTorn) {
		t.Error(err)
	}
}

// TestFilesOfOthers: files that other programs wrote, of which the last two are damaged.
func TestFilesOfOthers(t *testing.T) {
	shared := os.Getenv("SHARED")
	if shared == "" {
		shared = "../../../shared"
	}
	folder := filepath.Join(shared, "conformance/warc")
	if _, err := os.Stat(folder); err != nil {
		t.Skip("no test data: ", err)
	}
	for _, tt := range []struct {
		name    string
		records int
		err     error
	}{
		{"warcio-example.warc", 6, io.EOF},
		{"warcio-example.warc.gz", 6, io.EOF},
		{"warcio-example-resource.warc.gz", 3, io.EOF},
		{"warcio-example-digest.warc", 4, io.EOF},
		{"warcio-example-iana.org-chunked.warc", 3, io.EOF},
		{"warcio-post-test.warc.gz", 6, io.EOF},
		{"warcio-example-trunc.warc", 3, ErrFormat},
		{"warcio-example-wrong-chunks.warc.gz", 0, ErrTorn},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file, err := os.Open(filepath.Join(folder, tt.name))
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			in := NewReader(file, 0)
			n := 0
			for {
				rec, e := in.Next()
				if err = e; err != nil {
					break
				}
				if _, err = rec.Date(); err != nil {
					t.Error(err)
				}
				var block []byte
				if block, err = io.ReadAll(rec); err != nil {
					break
				}
				n++
				want := rec.Get(FieldBlockDigest)
				t.Logf("%s %s %d bytes, digest right: %v", rec.Get(FieldType), rec.Target(), len(block), want == "" || want == Digest(block))
			}
			if n != tt.records || !errors.Is(err, tt.err) {
				t.Errorf("%d records, then %v; want %d, then %v", n, err, tt.records, tt.err)
			}
		})
	}
}

func FuzzReader(f *testing.F) {
	for _, k := range kinds {
		file, _ := write(&testing.T{}, 3, k...)
		f.Add(file)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		in := NewReader(bytes.NewReader(b), 0)
		end := int64(-1)
		for range 1000 {
			rec, err := in.Next()
			if in.End() < end || in.End() > int64(len(b)) {
				t.Fatalf("from %d to %d of %d", end, in.End(), len(b))
			}
			end = in.End()
			if err != nil {
				return
			}
			if n, err := io.Copy(io.Discard, rec); err == nil && n != rec.Length {
				t.Fatalf("%d bytes of %d", n, rec.Length)
			}
		}
	})
}
