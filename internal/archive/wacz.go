package archive

import (
	"archive/zip"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"

	"github.com/klauspost/compress/gzip"

	"urltree/internal/spool"
	"urltree/internal/warc"
)

// mostPlain is the number of captures whose index is one file of lines. More of them make it one
// of members of gzip, with a list of these: what shows pages then reads few of them.
const (
	mostPlain   = 10_000
	linesMember = 1024 // lines of a member
)

// A Package is a WACZ file, version 1.1.1: a WARC file with its index and a list of pages, in a zip
// that is not compressed. It is written as it is made; its lists wait in temporary files.
type Package struct {
	software string
	made     time.Time
	zip      *zip.Writer
	warc     *Writer
	index    *Index
	captures int
	plain    int // mostPlain
	pages    *spool.File
	main     *page // the first page that was a seed, else the first
	seeded   bool  // main was a seed
	files    []resource
	data     *part
}

// A resource is a file of a package as datapackage.json lists it.
type resource struct {
	Name  string `json:"name"`
	Path  string `json:"path"`
	Hash  string `json:"hash"`
	Bytes int64  `json:"bytes"`
}

// A pagesHead is the first line of pages.jsonl.
type pagesHead struct {
	Format  string `json:"format"`
	ID      string `json:"id"`
	Title   string `json:"title"`
	HasText bool   `json:"hasText"`
}

// A page is any other line of it.
type page struct {
	ID    string `json:"id"`
	URL   string `json:"url"`
	TS    string `json:"ts"`
	Title string `json:"title,omitempty"`
	Text  string `json:"text,omitempty"`
}

// warcName is the name of the WARC file of a package, in its folder.
const warcName = "data.warc.gz"

// NewPackage begins a package, written to w, whose list of pages has their texts or not. It must be
// closed, also after an error.
func NewPackage(w io.Writer, made time.Time, fields warc.Header, texts bool) (p *Package, err error) {
	p = &Package{software: fields.Get("software"), made: made, zip: zip.NewWriter(w), index: NewIndex(warcName), plain: mostPlain}
	if p.pages, err = spool.Create(); err != nil {
		return nil, err
	}
	err = writeLine(p.pages, pagesHead{Format: "json-pages-1.0", ID: "pages", Title: "All Pages", HasText: texts})
	if err == nil {
		p.data, err = p.create("archive/" + warcName)
	}
	if err == nil {
		p.warc, err = NewWriter(p.data, false, "", made, fields)
	}
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// Close removes what the package has in temporary files.
func (p *Package) Close() error { return errors.Join(p.index.Close(), p.pages.Close()) }

// IsListed reports whether pages of a media type are those that people read.
func IsListed(media string) bool { return media == "text/html" || media == "application/xhtml+xml" }

// Page takes a page, and lists it, if that is what IsListed says, with its title and its text, each
// of which may be "".
func (p *Package) Page(in *Page, title, text string) error {
	c, err := p.warc.Page(in)
	if err != nil {
		return err
	}
	p.captures++
	if err := p.index.Add(&c); err != nil {
		return err
	}
	if !IsListed(c.Media) {
		return nil
	}
	line := page{ID: hex.EncodeToString(in.Record.Digest[:8]), URL: c.URL, TS: c.Time.UTC().Format(time.RFC3339), Title: title, Text: text}
	if seed := in.Record.PageDepth == 0; p.main == nil || seed && !p.seeded {
		p.main, p.seeded = &page{URL: line.URL, TS: line.TS}, seed
	}
	return writeLine(p.pages, line)
}

// End completes the package.
func (p *Package) End() error {
	p.data.end()
	if err := errors.Join(p.writeIndex(), p.copy("pages/pages.jsonl", p.pages)); err != nil {
		return err
	}
	about := struct {
		Profile  string     `json:"profile"`
		Version  string     `json:"wacz_version"`
		Software string     `json:"software"`
		Created  string     `json:"created"`
		MainURL  string     `json:"mainPageUrl,omitempty"`
		MainDate string     `json:"mainPageDate,omitempty"`
		Files    []resource `json:"resources"`
	}{Profile: "data-package", Version: "1.1.1", Software: p.software, Created: p.made.UTC().Format(time.RFC3339), Files: p.files}
	if p.main != nil {
		about.MainURL, about.MainDate = p.main.URL, p.main.TS
	}
	const list = "datapackage.json"
	if err := p.writeJSON(list, about); err != nil {
		return err
	}
	err := p.writeJSON("datapackage-digest.json", map[string]string{"path": list, "hash": p.files[len(p.files)-1].Hash})
	return cmp.Or(err, p.zip.Close())
}

// writeIndex writes the index of the captures.
func (p *Package) writeIndex() error {
	if p.captures <= p.plain {
		out, err := p.create("indexes/index.cdxj")
		if err != nil {
			return err
		}
		defer out.end()
		return p.index.Lines(func(_, line string) error {
			_, err := io.WriteString(out, line+"\n")
			return err
		})
	}
	members, err := spool.Create()
	if err != nil {
		return err
	}
	defer members.Close()
	out, err := p.create("indexes/index.cdx.gz")
	if err != nil {
		return err
	}
	z := newZipNum(out, members)
	if err = cmp.Or(p.index.Lines(z.line), z.flush()); err != nil {
		return err
	}
	out.end()
	return p.copy("indexes/index.idx", members)
}

// A zipNum writes lines in members of gzip, and a list of these.
type zipNum struct {
	out, list io.Writer
	key       string // of the first line of the member
	lines     int
	buf       bytes.Buffer
	gzip      *gzip.Writer
	offset    int64
}

func newZipNum(out, list io.Writer) *zipNum {
	return &zipNum{out: out, list: list, gzip: gzip.NewWriter(nil)}
}

func (z *zipNum) line(key, line string) error {
	if z.lines == linesMember {
		if err := z.flush(); err != nil {
			return err
		}
	}
	if z.lines == 0 {
		z.key = key
		z.buf.Reset()
		z.gzip.Reset(&z.buf)
	}
	z.lines++
	_, err := io.WriteString(z.gzip, line+"\n")
	return err
}

// flush ends the member.
func (z *zipNum) flush() error {
	if z.lines == 0 {
		return nil
	}
	z.lines = 0
	if err := z.gzip.Close(); err != nil {
		return err
	}
	head := ""
	if z.offset == 0 {
		head = `!meta 0 {"format":"cdxj-gzip-1.0","filename":"index.cdx.gz"}` + "\n"
	}
	sum := sha256.Sum256(z.buf.Bytes())
	_, err := fmt.Fprintf(z.list, "%s%s {\"offset\":%d,\"length\":%d,\"digest\":\"sha256:%x\",\"filename\":\"index.cdx.gz\"}\n", head, z.key, z.offset, z.buf.Len(), sum)
	n, err2 := z.out.Write(z.buf.Bytes())
	z.offset += int64(n)
	return cmp.Or(err, err2)
}

// copy puts a temporary file into the package.
func (p *Package) copy(name string, from *spool.File) error {
	if err := from.Rewind(); err != nil {
		return err
	}
	out, err := p.create(name)
	if err != nil {
		return err
	}
	defer out.end()
	_, err = io.Copy(out, from)
	return err
}

func (p *Package) writeJSON(name string, v any) error {
	out, err := p.create(name)
	if err != nil {
		return err
	}
	defer out.end()
	return writeLine(out, v)
}

// A part is a file of the package that is being written.
type part struct {
	p    *Package
	name string
	w    io.Writer
	hash hash.Hash
	n    int64
}

// create begins a file of the package. It is listed at its end, before the next one begins.
func (p *Package) create(name string) (*part, error) {
	w, err := p.zip.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store, Modified: p.made})
	return &part{p: p, name: name, w: w, hash: sha256.New()}, err
}

func (f *part) Write(b []byte) (int, error) {
	f.hash.Write(b)
	n, err := f.w.Write(b)
	f.n += int64(n)
	return n, err
}

func (f *part) end() {
	f.p.files = append(f.p.files, resource{
		Name: f.name[bytes.LastIndexByte([]byte(f.name), '/')+1:], Path: f.name,
		Hash: "sha256:" + hex.EncodeToString(f.hash.Sum(nil)), Bytes: f.n,
	})
}

// writeLine writes a value as a line of JSON.
func writeLine(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
