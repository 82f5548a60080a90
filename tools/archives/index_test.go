package archives

import (
	"archive/zip"
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/nlnwa/gowarc/v3"

	"urltree/internal/testsite"
	"urltree/storage/record"
)

// samples is how many lines of an index are drawn.
const samples = 200

// TestIndexedRecords: of random lines of an index, the bytes at offset and length are the record of
// that URL and nothing else, for a reader that knows no more than the index: of the file of either
// store, compressed and plain, and of the package.
func TestIndexedRecords(t *testing.T) {
	for _, store := range stores {
		s := crawled(t, store)
		for _, format := range []string{"gzip", "plain"} {
			file, err := os.ReadFile(s.export(t, format))
			if err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(strings.TrimSuffix(s.index(t, format), "\n"), "\n")
			for range samples {
				readIndexed(t, file, lines[rand.IntN(len(lines))], format == "gzip")
			}
		}
		files := s.unpack(t)
		lines := strings.Split(strings.TrimSuffix(string(files["indexes/index.cdxj"]), "\n"), "\n")
		for range samples {
			readIndexed(t, files["archive/data.warc.gz"], lines[rand.IntN(len(lines))], true)
		}
	}
}

// TestLargeIndex: the index of a package with so many pages that it comes in members is read by its
// list, member by member.
func TestLargeIndex(t *testing.T) {
	const pages = 10_001 // one more than one file of lines has
	s := &site{store: "folders", command: built(t), dir: t.TempDir()}
	tree := testsite.New(t, filepath.Join(s.dir, "iut"))
	var set []*record.Outcome
	for i := range pages {
		url := fmt.Sprintf("http://h%d.example/%d?b=%[2]d&a", i%7, i)
		f := tree.Write(url, record.Seed, 0)
		set = append(set, &record.Outcome{Row: record.Row{URL: url, Source: record.Seed}, State: record.Stored, Page: f.Page})
	}
	tree.Commit(set...)
	tree.Close()
	files := s.unpack(t)
	list := strings.Split(strings.TrimSuffix(string(files["indexes/index.idx"]), "\n"), "\n")
	if len(list) != 1+(pages+1023)/1024 {
		t.Fatalf("the list has %d lines", len(list))
	}
	n, last := 0, ""
	var all []string
	for _, entry := range list[1:] {
		lines := member(t, files["indexes/index.cdx.gz"], entry)
		if lines[0] <= last {
			t.Errorf("%.60q stands behind %.60q", lines[0], last)
		}
		last, n, all = lines[len(lines)-1], n+len(lines), append(all, lines...)
	}
	if n != pages {
		t.Errorf("the index has %d lines, want %d", n, pages)
	}
	for range samples {
		readIndexed(t, files["archive/data.warc.gz"], all[rand.IntN(len(all))], true)
	}
}

// member returns the lines of the member that an entry of the list names.
func member(t *testing.T, index []byte, entry string) []string {
	t.Helper()
	key, object, ok := strings.Cut(entry, " {")
	var at struct {
		Offset, Length int
		Digest         string
	}
	if err := json.Unmarshal([]byte("{"+object), &at); err != nil || !ok {
		t.Fatalf("%q: %v", entry, err)
	}
	packed := index[at.Offset:][:at.Length]
	if at.Digest != fmt.Sprintf("sha256:%x", sha256.Sum256(packed)) {
		t.Errorf("%q: the digest is wrong", entry)
	}
	text := unpacked(t, packed, entry)
	if !strings.HasPrefix(string(text), key+" ") {
		t.Errorf("%q: the member begins with %.60q", entry, text)
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

// unpacked returns the content of bytes that are one member of gzip and nothing else.
func unpacked(t *testing.T, packed []byte, of string) []byte {
	t.Helper()
	in := bytes.NewReader(packed)
	z, err := gzip.NewReader(in)
	if err != nil {
		t.Fatalf("%s: %v", of, err)
	}
	z.Multistream(false)
	text, err := io.ReadAll(z)
	if err != nil || in.Len() > 0 {
		t.Fatalf("%s: %v, %d bytes behind the member", of, err, in.Len())
	}
	return text
}

// readIndexed reads the record that a line of an index names.
func readIndexed(t *testing.T, file []byte, line string, packed bool) {
	t.Helper()
	var at struct{ URL, Digest, Offset, Length, Status string }
	if err := json.Unmarshal([]byte(line[strings.Index(line, "{"):]), &at); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	offset, err := strconv.Atoi(at.Offset)
	length, err2 := strconv.Atoi(at.Length)
	if err != nil || err2 != nil {
		t.Fatal(line)
	}
	text := file[offset:][:length]
	if packed {
		text = unpacked(t, text, line)
	}
	if !bytes.HasPrefix(text, []byte("WARC/1.1\r\n")) || !bytes.HasSuffix(text, []byte("\r\n\r\n")) {
		t.Fatalf("%s: it is from %.20q to %q", line, text, text[len(text)-min(20, len(text)):])
	}
	in := bytes.NewReader(text)
	r, skipped, faults, err := gowarc.NewUnmarshaler(gowarc.WithStrictValidation()).Unmarshal(bufio.NewReader(in))
	if err == nil && len(faults) > 0 {
		err = faults[0]
	}
	if err != nil || skipped != 0 {
		t.Fatalf("%s: %v, behind %d bytes", line, err, skipped)
	}
	defer r.Close()
	h := r.WarcHeader()
	size, err := strconv.Atoi(h.Get(gowarc.ContentLength))
	head := bytes.Index(text, []byte("\r\n\r\n")) + 4
	if err != nil || head+size+4 != len(text) {
		t.Errorf("%s: %d bytes of header, %d of block, in %d", line, head, size, len(text))
	}
	kind := r.Type()
	if h.Get(gowarc.WarcTargetURI) != at.URL || h.Get(gowarc.WarcPayloadDigest) != at.Digest || (kind == gowarc.Resource) != (at.Status == "") ||
		kind != gowarc.Resource && kind != gowarc.Response {
		t.Errorf("%s: it is a %s of %s", line, kind, h.Get(gowarc.WarcTargetURI))
	}
}

// unpack returns the files of a package with all pages.
func (s *site) unpack(t *testing.T) map[string][]byte {
	t.Helper()
	name := filepath.Join(s.dir, "pages.wacz")
	s.run(t, "export", "-what", "wacz", "-output", name)
	z, err := zip.OpenReader(name)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	files := map[string][]byte{}
	for _, f := range z.File {
		in, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		if files[f.Name], err = io.ReadAll(in); err != nil { // which compares its checksum
			t.Fatal(err)
		}
	}
	return files
}
