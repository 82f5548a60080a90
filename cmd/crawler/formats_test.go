package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dchest/siphash"
	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	bolt "go.etcd.io/bbolt"

	"urltree/internal/testweb"
)

// A foreign reads a tree by docs/formats.md alone, with nothing of ours.
type foreign struct {
	t    *testing.T
	root string

	lines   []string // of source.txt, sorted
	ledger  []string // lines of export
	edges   []string // lines of export -what edges, without order
	stored  int
	targets []string // lines of export -what edges for redirects
	ranks   []string // lines of export -what ranks
	urls    []string // of records, in order
}

func sum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// tree reads all pages.
func (f *foreign) tree() {
	err := filepath.WalkDir(f.root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "source.txt" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		body, err := os.ReadFile(filepath.Join(filepath.Dir(path), "content.html"))
		if err != nil {
			return err
		}
		line := strings.TrimSuffix(string(text), "\n")
		field := strings.Split(line, "\t")
		digest := sha256.Sum256(body)
		if len(field) != 12 || field[9] != strconv.Itoa(len(body)) || field[10] != hex.EncodeToString(digest[:]) ||
			field[11] != fmt.Sprintf("%08x", sum([]byte(line[:len(line)-8]))) {
			f.t.Errorf("%s: %q does not fit a body of %d bytes, %x", path, line, len(body), digest)
		}
		rel, _ := filepath.Rel(f.root, filepath.Dir(path))
		if url := urlOfFolder(rel); url != field[0] {
			f.t.Errorf("%s: the folder is of %s, the page is %s", path, url, field[0])
		}
		f.lines = append(f.lines, line)
		return nil
	})
	if err != nil {
		f.t.Fatal(err)
	}
	slices.Sort(f.lines)
}

var escaped = regexp.MustCompile(`\^[0-9A-F]{2}`)

// urlOfFolder puts a URL together from the names of its folders.
func urlOfFolder(rel string) string {
	var scheme, host, port, path, query string
	open := "" // prefix of a component that goes on
	for name := range strings.SplitSeq(filepath.ToSlash(rel), "/") {
		prefix, text := name[:3], name[3:]
		goesOn := strings.HasSuffix(text, "^")
		text = strings.TrimSuffix(text, "^")
		text = escaped.ReplaceAllStringFunc(text, func(s string) string {
			c, _ := strconv.ParseUint(s[1:], 16, 8)
			return string([]byte{byte(c)})
		})
		switch between := open != prefix; {
		case prefix == "pr-":
			scheme = text
		case prefix == "do-" && between && host != "":
			host += "." + text
		case prefix == "do-":
			host += text
		case prefix == "po-":
			port = ":" + text
		case prefix == "dr-" && between:
			path += "/" + text
		case prefix == "dr-":
			path += text
		case prefix == "qu-" && between:
			query = "?" + text
		case prefix == "qu-":
			query += text
		}
		if open = ""; goesOn {
			open = prefix
		}
	}
	if path == "" {
		path = "/"
	}
	return scheme + "://" + host + port + path + query
}

// values takes values off the front of a binary one.
type values struct {
	t *testing.T
	b []byte
}

func (v *values) bytes(n uint64) []byte {
	if n > uint64(len(v.b)) {
		v.t.Fatalf("%d bytes, want %d", len(v.b), n)
	}
	b := v.b[:n]
	v.b = v.b[n:]
	return b
}

func (v *values) number() uint64 {
	n, size := binary.Uvarint(v.b)
	if size <= 0 {
		v.t.Fatal("no number")
	}
	v.b = v.b[size:]
	return n
}

func (v *values) text() string { return string(v.bytes(v.number())) }

// sealed takes off the checksum of a value of the index, which stands under key.
func (f *foreign) sealed(key, b []byte) *values {
	f.t.Helper()
	if len(b) < 4 || sum(slices.Concat(b[:len(b)-4], key)) != binary.BigEndian.Uint32(b[len(b)-4:]) {
		f.t.Fatalf("the checksum of %x is wrong", b)
	}
	return &values{f.t, b[:len(b)-4]}
}

func urlOfKey(key []byte) string {
	var scheme, host, port, path, query string
	for i, c := range strings.Split(strings.TrimSuffix(string(key), "\x00"), "\x00") {
		switch {
		case i == 0:
			scheme = c
		case c[0] == 'd' && host == "":
			host = c[1:]
		case c[0] == 'd':
			host += "." + c[1:]
		case c[0] == 'o':
			port = ":" + c[1:]
		case c[0] == 'r':
			path += "/" + c[1:]
		case c[0] == 'q':
			query = "?" + c[1:]
		}
	}
	if path == "" {
		path = "/"
	}
	return scheme + "://" + host + port + path + query
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// index reads the records and what counts of the file of edges.
func (f *foreign) index() (end, pages uint64) {
	db, err := bolt.Open(filepath.Join(f.root, "index.db"), 0, &bolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		f.t.Fatal(err)
	}
	defer db.Close()
	err = db.View(func(tx *bolt.Tx) error {
		sys := tx.Bucket([]byte("sys"))
		e := f.sealed([]byte("edges"), sys.Get([]byte("edges")))
		end, pages = e.number(), e.number()
		if assets := e.bytes(1); assets[0] != 0 || len(e.b) != 0 {
			return errors.New("edges to assets, without -assets")
		}
		return tx.Bucket([]byte("url")).ForEach(func(k, v []byte) error {
			f.record(urlOfKey(k), f.sealed(k, v))
			return nil
		})
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return end, pages
}

func (f *foreign) record(url string, v *values) {
	head := v.bytes(4)
	state := []string{"", "pending", "stored", "redirected", "failed", "refused"}[head[0]]
	depth, tries := v.number(), v.number()
	for range 5 {
		v.number()
	}
	source, via, reason := v.text(), v.text(), v.text()
	status, size, stamp := uint64(0), "-", "-"
	if state != "pending" {
		at := v.number()
		stamp = time.Unix(int64(at), 0).UTC().Format(time.RFC3339)
		status, size = v.number(), fmt.Sprint(v.number())
		v.number()
		v.number()
		v.text()
		v.text()
		v.text()
		if target := v.text(); state == "redirected" {
			f.targets = append(f.targets, url+"\t"+target+"\tredirect\t-\t-")
		}
		if state == "stored" || reason == "duplicate" {
			v.bytes(32)
		}
	}
	if len(v.b) > 0 {
		f.t.Errorf("record of %s: %d bytes are left", url, len(v.b))
	}
	if state == "stored" {
		f.stored++
	}
	f.urls = append(f.urls, url)
	line := []string{url, state, dash(reason), "-", fmt.Sprint(tries), dash(source), dash(via), fmt.Sprint(depth), size, stamp}
	if status > 0 {
		line[3] = fmt.Sprint(status)
	}
	f.ledger = append(f.ledger, strings.Join(line, "\t"))
}

// graph reads the file of edges.
func (f *foreign) graph(end, pages uint64) {
	b, err := os.ReadFile(filepath.Join(f.root, "edges"))
	if err != nil {
		f.t.Fatal(err)
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		f.t.Fatal(err)
	}
	defer dec.Close()
	b = b[:end]
	if !bytes.HasPrefix(b, []byte("urltree edges 1\n")) {
		f.t.Fatalf("the file begins with %.16q", b)
	}
	for b = b[16:]; len(b) > 0; {
		n := binary.LittleEndian.Uint32(b)
		if sum(b[:8+n]) != binary.LittleEndian.Uint32(b[8+n:]) {
			f.t.Fatal("checksum of a frame")
		}
		content, err := dec.DecodeAll(b[8:8+n], nil)
		if err != nil {
			f.t.Fatal(err)
		}
		v := &values{f.t, content}
		for range binary.LittleEndian.Uint32(b[4:]) {
			pages--
			url := v.text()
			for range v.number() {
				f.edges = append(f.edges, strings.Join([]string{url, v.text(), v.text(), dash(v.text()), dash(v.text())}, "\t"))
			}
		}
		if len(v.b) > 0 {
			f.t.Errorf("a frame has %d bytes more than its pages", len(v.b))
		}
		b = b[8+n+4:]
	}
	if pages != 0 {
		f.t.Errorf("the index counts %d pages more than the file has", int64(pages))
	}
}

// rank reads the file of ranks.
func (f *foreign) rank() {
	b, err := os.ReadFile(filepath.Join(f.root, "rank"))
	if err != nil {
		f.t.Fatal(err)
	}
	le := binary.LittleEndian
	n := int(le.Uint64(b[32:]))
	if string(b[:8]) != "urltrank" || le.Uint64(b[8:]) != 1 || len(b) != 64+16*n+4 || sum(b[:len(b)-4]) != le.Uint32(b[len(b)-4:]) {
		f.t.Fatalf("%d bytes, %d URLs", len(b), n)
	}
	ranks, total := map[uint64]float64{}, 0.0
	for i := range n {
		rank := math.Float64frombits(le.Uint64(b[64+8*(n+i):]))
		ranks[le.Uint64(b[64+8*i:])] = rank
		total += rank
	}
	if math.Abs(total-1) > 1e-9 {
		f.t.Errorf("the sum of the ranks is %g", total)
	}
	for _, url := range f.urls {
		if rank, ok := ranks[siphash.Hash(le.Uint64(b[16:]), le.Uint64(b[24:]), []byte(url))]; ok {
			f.ranks = append(f.ranks, url+"\t"+strconv.FormatFloat(rank, 'g', -1, 64))
		}
	}
}

func TestURLOfFolder(t *testing.T) {
	for _, tt := range []struct{ rel, want string }{
		{"pr-https/do-en/do-example/do-org/po-81/dr-a/dr-/qu-x=1", "https://en.example.org:81/a/?x=1"},
		{"pr-http/do-a/qu-", "http://a/?"},
		{"pr-http/do-a/dr-b^3Ac^5E/dr-d^/dr-e/dr-f", "http://a/b:c^/de/f"},
		{"pr-http/do-[^3A^3A1]", "http://[::1]/"},
	} {
		if got := urlOfFolder(tt.rel); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.rel, got, tt.want)
		}
	}
}

// TestFormats reads pages, index, edges and ranks of a crawl as docs/formats.md has them, and
// compares with what the command says.
func TestFormats(t *testing.T) {
	t.Parallel()
	web := testweb.New(testweb.Options{
		Kind: testweb.Linked, Hosts: 4, Pages: 200, Seed: 8, MinSize: 300, MaxSize: 1000,
		Redirects: .1, Texts: .05, Images: .05, NoIndex: .05, Private: .05,
	})
	if err := web.Start(0); err != nil {
		t.Fatal(err)
	}
	defer web.Stop()
	dir := t.TempDir()
	writeSeeds(t, dir, web.Seeds())
	must(t, dir, append(killArgs("seed.txt", nil), "-edges", "-max-pages", "150")...)
	must(t, dir, "rank")
	// What a killed process has left behind its last transaction does not count.
	file, err := os.OpenFile(filepath.Join(dir, "iut", "edges"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString("not committed"); err != nil || file.Close() != nil {
		t.Fatal(err)
	}

	f := &foreign{t: t, root: filepath.Join(dir, "iut")}
	f.tree()
	f.graph(f.index())
	f.rank()
	results, err := os.ReadFile(filepath.Join(dir, "res.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		got  []string
		want string
	}{
		{"res.txt", f.lines, string(results)},
		{"export", f.ledger, must(t, dir, "export")},
		{"export -what edges", slices.Concat(f.edges, f.targets), must(t, dir, "export", "-what", "edges")},
		{"export -what ranks", f.ranks, must(t, dir, "export", "-what", "ranks")},
	} {
		want := strings.Split(strings.TrimSuffix(tt.want, "\n"), "\n")
		if tt.name == "res.txt" {
			slices.Sort(want)
		} else {
			want = want[1:] // the title
		}
		if len(want) < 10 || !slices.Equal(tt.got, want) {
			t.Errorf("%s: %d lines, want %d: %s", tt.name, len(tt.got), len(want), cmp.Diff(want, tt.got))
		}
	}
}
