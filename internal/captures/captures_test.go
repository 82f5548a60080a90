package captures

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"

	"urltree/internal/warc"
)

// rec writes a record as some tool would: fields stand in lines, the block behind them.
func rec(fields, block string) string {
	return fmt.Sprintf("WARC/1.0\r\n%s\r\nContent-Length: %d\r\n\r\n%s\r\n\r\n", strings.ReplaceAll(fields, "\n", "\r\n"), len(block), block)
}

const (
	response = "WARC-Type: response\nWARC-Record-ID: <urn:a>\nWARC-Date: 2020-01-02T03:04:05Z\nWARC-Target-URI: http://a.example/\nContent-Type: application/http; msgtype=response"
	asked    = "WARC-Type: request\nWARC-Record-ID: <urn:q>\nWARC-Target-URI: http://a.example/\nContent-Type: application/http; msgtype=request"
	metadata = "WARC-Type: metadata\nWARC-Record-ID: <urn:m>\nWARC-Target-URI: http://a.example/\nContent-Type: application/warc-fields"
	info     = "WARC-Type: warcinfo\nWARC-Record-ID: <urn:i>"
)

// captured reads all captures of a file, each in a line: URL, status, some headers, body, the lines
// of its request, fields, protocol and time.
func captured(t *testing.T, file string) (list []string, others int64) {
	t.Helper()
	r := newReader(strings.NewReader(file), Place{}, time.Unix(0, 0))
	for {
		c, err := r.Next()
		if err == io.EOF {
			return list, r.Others
		}
		if err != nil {
			return append(list, err.Error()), r.Others
		}
		body, err := io.ReadAll(c.Answer.Body)
		if err := r.Rest(c); err != nil {
			return append(list, err.Error()), r.Others
		}
		line := fmt.Sprintf("%s %d %q %q", c.URL, c.Answer.StatusCode, c.Answer.Header.Get("Content-Type"), body)
		if err != nil {
			line += " " + err.Error()
		}
		if c.Method() != "GET" || c.Referer() != "" {
			line += fmt.Sprintf(" %s from %s", c.Method(), c.Referer())
		}
		if len(c.About) > 0 {
			line += fmt.Sprint(" ", c.About)
		}
		if c.Protocol != "" {
			line += " " + c.Protocol
		}
		if !c.Time.Equal(time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)) {
			line += " " + c.Time.UTC().Format(time.RFC3339)
		}
		list = append(list, line)
	}
}

// TestQuirks: what tools do to the records of an answer.
func TestQuirks(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
	for _, tt := range []struct {
		name, file, want string
		others           int64
	}{
		{name: "plain", file: rec(response, ok+"body"), want: `http://a.example/ 200 "text/html" "body"`},
		{name: "brackets", file: rec(strings.Replace(response, "http://a.example/", "<http://a.example/>", 1), ok), want: `http://a.example/ 200 "text/html" ""`},
		{name: "lines end in LF", file: rec(response, "HTTP/1.0 404 No\nContent-Type: a/b\n\nbody"), want: `http://a.example/ 404 "a/b" "body"`},
		{name: "a header that goes on, and one that is none", file: rec(response, "HTTP/1.1 200\r\ncontent-type: a/b;\r\n c=d\r\nnonsense\r\n: x\r\n\r\n"), want: `http://a.example/ 200 "a/b; c=d" ""`},
		{name: "chunks", file: rec(response, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbo\r\n\r\n0\r\n\r\n"), want: `http://a.example/ 200 "" "bo\r\n"`},
		{name: "chunks, one larger than a buffer", file: rec(response, "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n7d00;x=y\r\n"+strings.Repeat("z", 32_000)+"\r\n0\r\n\r\n"), want: fmt.Sprintf(`http://a.example/ 200 "" %q`, strings.Repeat("z", 32_000))},
		{name: "chunks that break off", file: rec(response, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n9\r\nmo"), want: `http://a.example/ 200 "" "bodymo" unexpected EOF`},
		{name: "chunks undone", file: rec(response, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nbody"), want: `http://a.example/ 200 "" "body"`},
		{name: "a body that only begins as chunks do", file: rec(response, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nbody of more\r\n"), want: `http://a.example/ 200 "" "2\r\nbody of more\r\n"`},
		{name: "a wrong length", file: rec(response, "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nbody"), want: `http://a.example/ 200 "" "body"`},
		{name: "HTTP/2", file: rec(response, "HTTP/2 200\r\nContent-Type: a/b\r\n\r\nbody"), want: `http://a.example/ 200 "a/b" "body" h2`},
		{name: "HTTP/0.9", file: rec(response, "<p>a body alone"), want: `http://a.example/ 200 "" "<p>a body alone"`},
		{name: "nothing", file: rec(response, ""), want: `http://a.example/ 200 "" ""`},
		{name: "a head alone", file: rec(response, "HTTP/1.1 301 Moved\r\nContent-Type: a/b"), want: `http://a.example/ 301 "a/b" ""`},
		{name: "no status", file: rec(response, "HTTP/1.1 OK\r\n\r\n"), others: 1},
		{name: "a head without end", file: rec(response, "HTTP/1.1 200 "+strings.Repeat("x", 2*mostHead)), others: 1},
		{name: "no media type of the block", file: rec(strings.Replace(response, "\nContent-Type: application/http; msgtype=response", "", 1), ok), want: `http://a.example/ 200 "text/html" ""`},
		{name: "a block of something else", file: rec(strings.Replace(response, "application/http; msgtype=response", "text/dns", 1), ok), others: 1},
		{name: "dns", file: rec(strings.Replace(response, "http://a.example/", "dns:a.example", 1), ok), others: 1},
		{name: "a conversion", file: rec("WARC-Type: conversion\nWARC-Target-URI: http://a.example/", "x"), others: 1},
		{name: "bad date", file: rec(response, ok) + rec(strings.Replace(response, "2020-01-02T03:04:05Z", "yesterday", 1), ok), want: `http://a.example/ 200 "text/html" ""` + "\n" + `http://a.example/ 200 "text/html" ""`},
		{name: "no date at all", file: rec(strings.Replace(response, "WARC-Date: 2020-01-02T03:04:05Z\n", "", 1), ok), want: `http://a.example/ 200 "text/html" "" 1970-01-01T00:00:00Z`},
		{name: "resource", file: rec("WARC-Type: resource\nContent-Type: a/b; c=d\nWARC-Date: 2020-01-02T03:04:05Z\nWARC-Target-URI: http://a.example/", "HTTP/1.1 200 OK\r\n\r\nx"), want: `http://a.example/ 200 "a/b; c=d" "HTTP/1.1 200 OK\r\n\r\nx"`},
		{
			name: "request behind", want: `http://a.example/ 200 "text/html" "" POST from http://b.example/`,
			file: rec(info, "x") + rec(response, ok) + rec(asked+"\nWARC-Concurrent-To: <urn:a>", "POST / HTTP/1.1\r\nReferer: http://b.example/\r\n\r\n"),
		},
		{
			name: "request before, named by the answer", want: `http://a.example/ 200 "text/html" "" HEAD from `,
			file: rec(asked, "HEAD / HTTP/1.1\r\n\r\n") + rec(response+"\nWARC-Concurrent-To: <urn:x>\nWARC-Concurrent-To: <urn:q>", ok),
		},
		{
			name: "request of another answer", want: `http://a.example/ 200 "text/html" ""`,
			file: rec(asked+"\nWARC-Concurrent-To: <urn:b>", "HEAD / HTTP/1.1\r\n\r\n") + rec(response, ok),
		},
		{
			name: "metadata", want: `http://a.example/ 200 "text/html" "" map[hopsfromseed:LLE via:http://b.example/?a:b]`,
			file: rec(response, ok) + rec(metadata, "via: http://b.example/?a:b\r\nhopsFromSeed: LLE\r\nvia: second\r\noutlink: http://c.example/ L a\r\nnonsense"),
		},
		{
			name: "metadata without an answer", others: 1, want: `http://a.example/ 200 "text/html" ""`,
			file: rec(metadata, "via: x") + rec(response, ok),
		},
		{
			name: "revisit", want: `http://a.example/ 200 "text/html" ""`,
			file: rec(strings.Replace(response, "response", "revisit", 1), ok),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			list, others := captured(t, tt.file)
			if got := strings.Join(list, "\n"); got != tt.want || others != tt.others {
				t.Errorf("%.300s\nand %d others, want\n%.300s\nand %d", got, others, tt.want, tt.others)
			}
		})
	}
}

// packed compresses texts, each to a member.
func packed(t testing.TB, texts ...string) string {
	t.Helper()
	var b bytes.Buffer
	for _, text := range texts {
		z := gzip.NewWriter(&b)
		if _, err := io.WriteString(z, text); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

// group is what belongs to a capture: n is in its URL and its body.
func group(n int) (records []string) {
	of := func(text string) string {
		return strings.NewReplacer("a.example/", fmt.Sprintf("a.example/%d", n), "urn:", fmt.Sprintf("urn:%d-", n)).Replace(text)
	}
	return []string{
		rec(of(response), fmt.Sprintf("HTTP/1.1 200 OK\r\n\r\nbody %d", n)),
		rec(of(asked), "GET / HTTP/1.1\r\n\r\n"),
		rec(of(metadata), "depth: 7\r\n"),
	}
}

// TestCut: of a file that was cut anywhere each capture is read that is whole, and none that is
// not; that of a file whose records are members of their own.
func TestCut(t *testing.T) {
	var records, members []string
	for n := range 3 {
		records = append(records, group(n)...)
	}
	for _, text := range records {
		members = append(members, packed(t, text))
	}
	for name, file := range map[string][]string{"plain": records, "members": members} {
		t.Run(name, func(t *testing.T) {
			whole := strings.Join(file, "")
			for n := range len(whole) {
				list, _ := captured(t, whole[:n])
				got, end, want := 0, 0, 0
				for _, line := range list {
					if strings.HasPrefix(line, "http://") {
						if !strings.Contains(line, fmt.Sprintf(`"body %d"`, got)) {
							t.Fatalf("cut at %d: %q", n, list)
						}
						got++
					}
				}
				for i, part := range file {
					if end += len(part); i%3 == 0 && end <= n {
						want++
					}
				}
				// The line ends behind a record may be missing, or its last byte of gzip.
				if got < want || got > want+1 {
					t.Fatalf("cut at %d: %d captures, want %d", n, got, want)
				}
			}
		})
	}
}

// TestBroken: a capture whose member of gzip does not have its checksum is none, and nothing behind
// it is read; those before it are.
func TestBroken(t *testing.T) {
	parts := group(0)
	answer, request := packed(t, parts[0]), packed(t, parts[1])
	whole := answer + request + packed(t, parts[2]) + packed(t, group(1)...)
	const sum = 8 // bytes of checksum and length at the end of a member
	broken := func(at int) []string {
		file := []byte(whole)
		file[at] ^= 1
		list, _ := captured(t, string(file))
		return list
	}
	if list := broken(len(answer) - sum); len(list) != 1 || !strings.HasSuffix(list[0], "at 0: gzip: invalid checksum") {
		t.Errorf("%q", list)
	}
	if list := broken(len(answer+request) - sum); len(list) != 2 || !strings.HasPrefix(list[0], "http://a.example/0 ") ||
		!strings.HasSuffix(list[1], fmt.Sprintf("at %d: gzip: invalid checksum", len(answer))) {
		t.Errorf("%q", list)
	}
}

// TestPlaces: each capture is found again at its place, in files of each kind, also where several
// records share a member of gzip.
func TestPlaces(t *testing.T) {
	var records []string
	for n := range 4 {
		records = append(records, group(n)...)
	}
	all := strings.Join(records, "")
	dir := t.TempDir()
	var names []string
	for name, text := range map[string]string{"plain": all, "members": packed(t, records...), "one": packed(t, all), "two": packed(t, all, all)} {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	files, err := Open(names)
	if err != nil {
		t.Fatal(err)
	}
	found, last := 0, ""
	_, err = files.Each(t.Context(), func(r *Reader, c *Capture) error {
		want, _ := io.ReadAll(c.Answer.Body)
		again, from, err := files.At(c.Place)
		if err != nil {
			return err
		}
		defer from.Close()
		got, err := io.ReadAll(again.Answer.Body)
		if again.URL != c.URL || !bytes.Equal(got, want) || err != nil {
			t.Errorf("%+v: %s %q, want %s %q", c.Place, again.URL, got, c.URL, want)
		}
		if key := keyOf(c.Place); key <= last || placeOf(key) != c.Place {
			t.Errorf("%+v has the key %q, behind %q", c.Place, key, last)
		} else {
			last = key
		}
		found++
		return r.Rest(c)
	}, func(d Damage) { t.Error(d) })
	if err != nil || found != 4*(1+1+1+2) {
		t.Errorf("%d captures, %v", found, err)
	}
	if read, size := files.Progress(); read != size || size == 0 {
		t.Errorf("%d of %d bytes", read, size)
	}
}

// FuzzCaptures: whatever a file holds, reading it ends, and what is read again from a capture's
// place is the same.
func FuzzCaptures(f *testing.F) {
	f.Add([]byte(strings.Join(group(1), "")), false)
	f.Add([]byte(packed(f, group(2)...)), true)
	f.Add([]byte(rec(response, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n")), false)
	f.Fuzz(func(t *testing.T, text []byte, pack bool) {
		if pack {
			text = []byte(packed(t, string(text)))
		}
		r := newReader(bytes.NewReader(text), Place{}, time.Unix(0, 0))
		for range 100 {
			c, err := r.Next()
			if err != nil {
				return
			}
			if !isWeb(c.URL) || c.Kind == warc.Resource && c.Head != nil {
				t.Fatalf("%+v", c)
			}
			if _, err := io.Copy(io.Discard, c.Answer.Body); err != nil && c.Answer.ContentLength >= 0 {
				return
			}
			if err := r.Rest(c); err != nil {
				return
			}
			if c.Head != nil && !bytes.HasSuffix(c.Head, []byte("\n\r\n")) && !bytes.HasSuffix(c.Head, []byte("\n\n")) {
				t.Fatalf("a head without end: %q", c.Head)
			}
			_, _ = c.Method(), c.Referer()
		}
	})
}
