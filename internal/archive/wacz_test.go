package archive

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"

	"urltree/internal/warc"
)

func TestSURT(t *testing.T) {
	for url, want := range map[string]string{
		"http://www.example.com/A/b?z=1&a=2":  "com,example)/a/b?a=2&z=1",
		"https://www2.x.org:8080/%41?b&a":     "org,x:8080)/%41?a&b",
		"http://wwwa.example.org/":            "org,example,wwwa)/",
		"http://127.0.0.1/":                   "1,0,0,127)/",
		"http://[::1]:81/a":                   "[::1]:81)/a",
		"http://x.example/?":                  "example,x)/",
		"http://x.example/a?b=1&b=0&a+c=d%20": "example,x)/a?a+c=d%20&b=0&b=1",
		"urn:uuid:1":                          "urn:uuid:1",
	} {
		if got := SURT(url); got != want {
			t.Errorf("%s: %s, want %s", url, got, want)
		}
	}
}

// packageOf makes a package of n pages, with at most so many lines in a plain index, and returns
// its files by name.
func packageOf(t *testing.T, n, plain int) map[string][]byte {
	t.Helper()
	var out bytes.Buffer
	p, err := NewPackage(&out, time.Unix(1, 0), warc.Header{{Name: "software", Value: "s"}}, true)
	if err != nil {
		t.Fatal(err)
	}
	p.plain = plain
	for i := range n {
		page := pageOf(&body{bytes: fmt.Appendf(nil, "body %d", i)})
		page.Record.URL = fmt.Sprintf("http://h.example/%d", n-i)
		if i%10 == 9 {
			page.Record.Media = "image/png"
		}
		if i == 5 {
			page.Record.PageDepth = 0
		}
		if err := p.Page(page, fmt.Sprint("title & ", i), fmt.Sprint("text\n<", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.End(); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	z, err := zip.NewReader(bytes.NewReader(out.Bytes()), int64(out.Len()))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, f := range z.File {
		if f.Method != zip.Store {
			t.Errorf("%s is compressed", f.Name)
		}
		in, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		if files[f.Name], err = io.ReadAll(in); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// TestPackage: all files are listed with their hashes, and each line of the index leads to the
// record of its URL.
func TestPackage(t *testing.T) {
	const n = 2500
	for _, plain := range []int{n, n - 1} {
		files := packageOf(t, n, plain)
		var list struct {
			MainURL   string `json:"mainPageUrl"`
			Resources []resource
		}
		if err := json.Unmarshal(files["datapackage.json"], &list); err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("http://h.example/%d", n-5); list.MainURL != want {
			t.Errorf("the first page is %s, want the seed %s", list.MainURL, want)
		}
		for _, r := range list.Resources {
			if b := files[r.Path]; int64(len(b)) != r.Bytes || r.Hash != fmt.Sprintf("sha256:%x", sha256.Sum256(b)) {
				t.Errorf("%s is not as listed", r.Path)
			}
		}
		if len(list.Resources) != len(files)-2 { // all but the list and its digest
			t.Errorf("%d files are listed of %d", len(list.Resources), len(files))
		}
		if want := fmt.Sprintf("%x", sha256.Sum256(files["datapackage.json"])); !strings.Contains(string(files["datapackage-digest.json"]), want) {
			t.Error("the digest of the list is wrong")
		}
		pages := bytes.Count(files["pages/pages.jsonl"], []byte("\n"))
		if pages != 1+n-n/10 || !bytes.Contains(files["pages/pages.jsonl"], []byte(`"title":"title & 0","text":"text\n<0"}`)) ||
			!bytes.HasPrefix(files["pages/pages.jsonl"], []byte(`{"format":"json-pages-1.0","id":"pages","title":"All Pages","hasText":true}`)) {
			t.Errorf("%d lines of pages", pages)
		}
		index := string(files["indexes/index.cdxj"])
		if plain < n {
			index = zipped(t, files)
		}
		lines := strings.Split(strings.TrimSuffix(index, "\n"), "\n")
		if len(lines) != n || !slices.IsSorted(lines) {
			t.Fatalf("%d lines, sorted %v", len(lines), slices.IsSorted(lines))
		}
		for _, line := range lines {
			parts := strings.SplitN(line, " ", 3)
			var v value
			if err := json.Unmarshal([]byte(parts[2]), &v); err != nil {
				t.Fatal(err)
			}
			var at, length int
			if _, err := fmt.Sscan(v.Offset, &at); err != nil {
				t.Fatal(err)
			}
			if _, err := fmt.Sscan(v.Length, &length); err != nil {
				t.Fatal(err)
			}
			r, err := warc.NewReader(bytes.NewReader(files["archive/data.warc.gz"][at:at+length]), 0).Next()
			if err != nil || r.Target() != v.URL || r.Get(warc.FieldPayloadDigest) != v.Digest || r.Get(warc.FieldType) != warc.Resource {
				t.Fatalf("%s: %v, %v", line, r, err)
			}
		}
	}
}

// zipped returns the lines of an index that has members, each read by its line in the list.
func zipped(t *testing.T, files map[string][]byte) (lines string) {
	t.Helper()
	list := strings.Split(strings.TrimSuffix(string(files["indexes/index.idx"]), "\n"), "\n")
	if !strings.HasPrefix(list[0], "!meta ") || len(list) != 4 {
		t.Fatalf("%d lines: %.40q", len(list), list[0])
	}
	for _, entry := range list[1:] {
		parts := strings.SplitN(entry, " ", 3)
		var v struct {
			Offset, Length int
			Digest         string
		}
		if err := json.Unmarshal([]byte(parts[2]), &v); err != nil {
			t.Fatal(err)
		}
		member := files["indexes/index.cdx.gz"][v.Offset:][:v.Length]
		if v.Digest != fmt.Sprintf("sha256:%x", sha256.Sum256(member)) {
			t.Error("the digest of a member is wrong")
		}
		in, err := gzip.NewReader(bytes.NewReader(member))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(in)
		if err != nil || !strings.HasPrefix(string(text), parts[0]+" "+parts[1]+" ") {
			t.Fatalf("%v: the member of %s begins with %.40q", err, entry, text)
		}
		lines += string(text)
	}
	return lines
}
