package archive

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"urltree/internal/warc"
	"urltree/storage/record"
)

// body counts how often it is opened.
type body struct {
	bytes  []byte
	opened int
}

func (b *body) open() (io.ReadCloser, error) {
	b.opened++
	return io.NopCloser(bytes.NewReader(b.bytes)), nil
}

func pageOf(b *body) *Page {
	r := &record.Record{Row: record.Row{URL: "http://h.example/a", Source: "http://h.example/", Via: "http://h.example/old", Depth: 3}, State: record.Stored}
	r.Page = record.Page{
		Time: 1_700_000_000, Status: 200, Bytes: int64(len(b.bytes)), Digest: sha256.Sum256(b.bytes),
		Media: "text/html", Charset: "utf-8", Flags: "nt", PageDepth: 4,
	}
	return &Page{Record: r, Open: func() (io.ReadCloser, *Answer, error) { in, err := b.open(); return in, nil, err }}
}

// TestPage: the records of a page, also of one that is read twice, have its body and all facts.
func TestPage(t *testing.T) {
	for _, size := range []int{0, 100, fits, fits + 1} {
		b := &body{bytes: bytes.Repeat([]byte("x"), size)}
		var files [2][]byte
		for i := range files {
			var out bytes.Buffer
			w, err := NewWriter(&out, false, "", time.Unix(1, 0), warc.Header{{Name: "software", Value: "s"}})
			if err == nil {
				_, err = w.Page(pageOf(b))
			}
			if err != nil {
				t.Fatal(err)
			}
			files[i] = out.Bytes()
		}
		if !bytes.Equal(files[0], files[1]) {
			t.Error("twice the same page, and not the same bytes")
		}
		if twice := size > fits; b.opened != 2 && !twice || b.opened != 4 && twice {
			t.Errorf("%d bytes were opened %d times", size, b.opened)
		}
		in := warc.NewReader(bytes.NewReader(files[0]), 0)
		var names []string
		for {
			r, err := in.Next()
			if err == io.EOF {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			block, err := io.ReadAll(r)
			if err != nil || r.Get(warc.FieldBlockDigest) != warc.Digest(block) {
				t.Errorf("%v: %s of %d bytes, digest %s", err, r.Get(warc.FieldType), len(block), r.Get(warc.FieldBlockDigest))
			}
			names = append(names, r.Get(warc.FieldType))
			switch r.Get(warc.FieldType) {
			case warc.Resource:
				if !bytes.Equal(block, b.bytes) || r.Get("Content-Type") != "text/html; charset=utf-8" || r.Get(warc.FieldTruncated) != "length" {
					t.Errorf("%d bytes of %d: %v", len(block), size, r.Header)
				}
			case warc.Metadata:
				for _, want := range []string{"via: http://h.example/\r\n", "redirected-from: http://h.example/old\r\n", "depth: 3\r\n", "flags: nt\r\n"} {
					if !strings.Contains(string(block), want) {
						t.Errorf("no %q in %q", want, block)
					}
				}
			}
		}
		if got := strings.Join(names, " "); got != "warcinfo resource metadata" {
			t.Error(got)
		}
	}
}

// TestDigests: of an answer the body has a digest, and the whole block only where there is no body.
func TestDigests(t *testing.T) {
	head := []byte("HTTP/1.1 200 OK\r\n\r\n")
	for _, tt := range []struct {
		name, body string
		same       *Same
		block      string // digest
	}{
		{"body", "text", nil, ""},
		{"no body", "", nil, warc.Digest(head)},
		{"revisit", "text", &Same{ID: "<urn:x:1>"}, warc.Digest(head)},
	} {
		var out bytes.Buffer
		w, err := NewWriter(&out, true, "", time.Unix(1, 0), nil)
		c := Capture{URL: "http://h.example/", Answer: &Answer{Head: head, Request: []byte("GET")}, Body: strings.NewReader(tt.body), Same: tt.same, About: []byte("a: b")}
		if err == nil {
			err = c.Sum(strings.NewReader(tt.body))
		}
		start := out.Len()
		if err == nil {
			_, err = w.Write(&c)
		}
		if err != nil {
			t.Fatal(err)
		}
		in := warc.NewReader(bytes.NewReader(out.Bytes()[start:]), 0)
		for i, want := range []string{tt.block, warc.Digest([]byte("GET")), warc.Digest([]byte("a: b"))} {
			r, err := in.Next()
			if err != nil || r.Get(warc.FieldBlockDigest) != want || i == 0 && r.Get(warc.FieldPayloadDigest) != warc.Digest([]byte(tt.body)) {
				t.Errorf("%s, record %d: %v, %v", tt.name, i, err, r)
			}
		}
	}
}

// TestBodyFails: a body that cannot be opened, or is shorter than its record says, is an error, and
// nothing of the page is in the file.
func TestBodyFails(t *testing.T) {
	var out bytes.Buffer
	w, err := NewWriter(&out, true, "", time.Unix(1, 0), nil)
	if err != nil {
		t.Fatal(err)
	}
	before := out.Len()
	gone := errors.New("gone")
	p := pageOf(&body{bytes: []byte("x")})
	p.Open = func() (io.ReadCloser, *Answer, error) { return nil, nil, gone }
	if _, err := w.Page(p); !errors.Is(err, gone) || out.Len() != before {
		t.Errorf("%v, %d bytes more", err, out.Len()-before)
	}
	p = pageOf(&body{bytes: []byte("short")})
	p.Record.Bytes = 9
	if _, err := w.Page(p); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
}
