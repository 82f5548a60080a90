package iut

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"iter"
	"os"
	"slices"
	"strings"
	"sync"

	"urltree/internal/spool"
	"urltree/storage/record"
)

// forgottenName is the list of what is kept out of the tree. It is text: a first line, entries in
// byte order, each once, and a last line with the CRC-32C of all before it.
const (
	forgottenName    = "forgotten.txt"
	forgottenNewName = "forgotten.txt.new"
	forgottenFirst   = "urltree forgotten 1"
	forgottenLast    = "end "
)

// ErrForgetting says that a tree has not got rid yet of all that is to be forgotten.
var ErrForgetting = errors.New("iut: there is an unfinished forget")

// Kinds of what is forgotten, in their order in the list.
const (
	ForgottenHost   = "host"   // all URLs of a host, of any scheme and port
	ForgottenPrefix = "prefix" // a URL and all below its folder, as the record keys have them
	ForgottenURL    = "url"    // one URL
)

// A ForgottenEntry is something that is kept out of a tree.
type ForgottenEntry struct {
	Kind string // ForgottenHost, ForgottenPrefix or ForgottenURL
	Text string // the host, or the canonical URL
}

func (e ForgottenEntry) line() string { return e.Kind + " " + e.Text }

// A Forgotten is what is kept out of a tree. Hosts and prefixes are in memory, and of the URLs one
// in each block of the file. The nil value keeps nothing out. Methods may be called from any
// goroutine.
type Forgotten struct {
	hosts    map[string]bool
	prefixes map[string]bool // by folder key
	blocks   []forgottenBlock
	urls     int64

	mu    sync.Mutex
	file  forgottenFile // guarded by mu
	block []byte        // guarded by mu; for a block that is read
}

// A forgottenBlock is a part of the list, of whole lines.
type forgottenBlock struct {
	first string // its first URL
	at    int64
	size  int
}

// forgottenBlockSize is about how many bytes a look-up reads.
const forgottenBlockSize = 8 << 10

// Empty reports whether nothing is kept out.
func (f *Forgotten) Empty() bool {
	return f == nil || len(f.hosts) == 0 && len(f.prefixes) == 0 && f.urls == 0
}

// Has reports whether a canonical URL is kept out. The error is [ErrDisk].
func (f *Forgotten) Has(url string) (bool, error) {
	switch {
	case f.Empty(), !strings.HasPrefix(url, "http"): // such as seed, for a source
		return false, nil
	case f.hosts[record.Host(url)]:
		return true, nil
	}
	if len(f.prefixes) > 0 {
		key, err := record.Key(url)
		if err != nil {
			return false, nil // no URL of a tree
		}
		if f.hasFolder(key) {
			return true, nil
		}
	}
	return f.hasURL(url)
}

// HasOrigin reports whether all URLs of an origin are kept out.
func (f *Forgotten) HasOrigin(origin string) bool {
	if f.Empty() {
		return false
	}
	key, err := record.Key(origin + "/")
	return f.hosts[record.Host(origin+"/")] || err == nil && f.hasFolder(key)
}

// hasFolder reports whether a folder of a key is kept out, itself included. The folder of a host
// holds those of its ports and of longer names as well, as www.example.org does
// www.example.org:8080 and www.example.org.au: they are not meant.
func (f *Forgotten) hasFolder(key []byte) bool {
	for i, c := range key {
		if c != 0 {
			continue
		}
		if i+1 < len(key) && (key[i+1] == record.Label || key[i+1] == record.Port) {
			continue
		}
		if f.prefixes[string(key[:i+1])] {
			return true
		}
	}
	return false
}

func (f *Forgotten) hasURL(url string) (bool, error) {
	i, exact := slices.BinarySearchFunc(f.blocks, url, func(b forgottenBlock, url string) int { return cmp.Compare(b.first, url) })
	if exact || i == 0 {
		return exact, nil
	}
	b := f.blocks[i-1]
	f.mu.Lock()
	defer f.mu.Unlock()
	f.block = slices.Grow(f.block[:0], b.size)[:b.size]
	if _, err := f.file.ReadAt(f.block, b.at); err != nil {
		return false, DiskError("read "+forgottenName, err)
	}
	line := append(append([]byte("\n"+ForgottenURL+" "), url...), '\n')
	return bytes.Contains(f.block, line), nil // the first line was compared already
}

// Source returns the source of a page or URL as it is kept: [record.Forgotten] in place of one that
// is kept out.
func (f *Forgotten) Source(source string) (string, error) {
	gone, err := f.Has(source)
	if gone {
		source = record.Forgotten
	}
	return source, err
}

// Close ends the use of a list that WithForgotten has returned.
func (f *Forgotten) Close() error {
	if f == nil || f.file == nil {
		return nil
	}
	return f.file.Close()
}

// Forgotten returns what is kept out of the tree; nil: nothing is.
func (t *Tree) Forgotten() *Forgotten {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.forgotten
}

// openForgotten reads the list. The error is [ErrFormat] for one that is not whole.
func (t *Tree) openForgotten() error {
	file, err := t.fs.Open(forgottenName, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return DiskError("read "+forgottenName, err)
	}
	f, err := loadForgotten(file)
	if err != nil {
		return errors.Join(err, DiskError("close "+forgottenName, file.Close()))
	}
	t.mu.Lock()
	t.forgotten = f
	t.mu.Unlock()
	return nil
}

// A forgottenFile is where a list is read from.
type forgottenFile interface {
	io.Reader
	io.ReaderAt
	io.Closer
}

func loadForgotten(file forgottenFile) (*Forgotten, error) {
	f := &Forgotten{hosts: map[string]bool{}, prefixes: map[string]bool{}, file: file}
	return f, readForgotten(file, f.take)
}

// take takes an entry that begins at an offset, in the order of the list.
func (f *Forgotten) take(e ForgottenEntry, at int64) error {
	switch e.Kind {
	case ForgottenHost:
		f.hosts[e.Text] = true
	case ForgottenPrefix:
		key, err := prefixKey(e.Text)
		if err != nil {
			return err
		}
		f.prefixes[string(key)] = true
	default:
		f.urls++
		size := len(e.line()) + 1
		if n := len(f.blocks); n > 0 && f.blocks[n-1].size+size <= forgottenBlockSize {
			f.blocks[n-1].size += size
			return nil
		}
		f.blocks = append(f.blocks, forgottenBlock{strings.Clone(e.Text), at, size})
	}
	return nil
}

// prefixKey returns the key of the folder that a prefix stands for. A slash at its end names the
// folder before it.
func prefixKey(url string) ([]byte, error) {
	key, err := record.Key(url)
	if lastSlash := []byte{0, record.Segment, 0}; bytes.HasSuffix(key, lastSlash) {
		key = key[:len(key)-2]
	}
	return key, err
}

// valid reports whether an entry can be in a list.
func (e ForgottenEntry) valid() bool {
	url := e.Text
	if e.Kind == ForgottenHost {
		url = "http://" + e.Text + "/"
	}
	_, err := record.Key(url)
	return err == nil && keepVisible(e.Text) == e.Text &&
		(e.Kind != ForgottenHost || record.Host(url) == e.Text) && (e.Kind == ForgottenHost || e.Kind == ForgottenPrefix || e.Kind == ForgottenURL)
}

// readForgotten calls fn with each entry of a list and where it begins.
func readForgotten(r io.Reader, fn func(e ForgottenEntry, at int64) error) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s: %s; take it from a copy, or remove it and forget all of it again", ErrFormat, forgottenName, fmt.Sprintf(format, args...))
	}
	in := bufio.NewReaderSize(r, 64<<10)
	sum, at, before := uint32(0), int64(0), ""
	for number := 1; ; number++ {
		line, err := in.ReadString('\n')
		if err == io.EOF {
			return bad("it ends in line %d, without its end", number)
		}
		if err != nil {
			return DiskError("read "+forgottenName, err)
		}
		text := line[:len(line)-1]
		if crc, ok := strings.CutPrefix(text, forgottenLast); ok {
			if crc != fmt.Sprintf("%08x", sum) {
				return bad("its last line is not the checksum of the others")
			}
			switch _, err := in.ReadByte(); err {
			case io.EOF:
				return nil
			case nil:
				return bad("line %d: nothing may stand here", number+1)
			default:
				return DiskError("read "+forgottenName, err)
			}
		}
		kind, rest, _ := strings.Cut(text, " ")
		e := ForgottenEntry{kind, rest}
		switch {
		case number == 1 && text != forgottenFirst:
			return bad("line 1: %.40q, this program reads %q", text, forgottenFirst)
		case number == 1:
		case !e.valid(), text <= before:
			return bad("line %d: %.80q is no entry, or stands in the wrong place", number, text)
		default:
			if err := fn(e, at); err != nil {
				return err
			}
			before = text
		}
		sum = crc32.Update(sum, castagnoli, []byte(line))
		at += int64(len(line))
	}
}

// EachForgotten calls fn with each entry of the list, in its order.
func (t *Tree) EachForgotten(fn func(ForgottenEntry) error) error {
	file, err := t.fs.Open(forgottenName, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return DiskError("read "+forgottenName, err)
	}
	err = readForgotten(file, func(e ForgottenEntry, _ int64) error { return fn(e) })
	return errors.Join(err, DiskError("close "+forgottenName, file.Close()))
}

// Forget adds entries to the list, and returns how many are new. From then on FORMAT says that what
// they name may still be in the tree, see [ErrForgetting], until [Tree.Forgot]. Memory is bounded.
// It is durable when Forget returns; a kill leaves the old list or the new one. Errors are those of
// entries, which change nothing, and [ErrDisk].
func (t *Tree) Forget(ctx context.Context, entries iter.Seq2[ForgottenEntry, error]) (added int64, err error) {
	if err := t.writable(); err != nil {
		return 0, err
	}
	return t.changeForgotten(ctx, entries, true)
}

// Forgot says that nothing is left in the tree of what the list names.
func (t *Tree) Forgot() error { return t.change(func(f *Format) { f.Forgetting = false }) }

// Remember takes entries off the list, and returns how many were there. Else it is as Forget, but
// that nothing is to be removed.
func (t *Tree) Remember(ctx context.Context, entries iter.Seq2[ForgottenEntry, error]) (removed int64, err error) {
	if err := t.writable(); err != nil {
		return 0, err
	}
	return t.changeForgotten(ctx, entries, false)
}

// WithForgotten returns the list as Forget would make it, which is to be closed, and changes
// nothing.
func (t *Tree) WithForgotten(ctx context.Context, entries iter.Seq2[ForgottenEntry, error]) (*Forgotten, error) {
	return listWith(ctx, t.EachForgotten, entries)
}

// ListOf returns a list of entries alone, which is to be closed: a set of which memory holds
// little.
func ListOf(ctx context.Context, entries iter.Seq2[ForgottenEntry, error]) (*Forgotten, error) {
	return listWith(ctx, func(func(ForgottenEntry) error) error { return nil }, entries)
}

// eachEntry calls fn with each entry of a list, in its order.
type eachEntry func(fn func(ForgottenEntry) error) error

func listWith(ctx context.Context, old eachEntry, entries iter.Seq2[ForgottenEntry, error]) (list *Forgotten, err error) {
	file, err := spool.Create()
	if err != nil {
		return nil, err
	}
	w := newForgottenWriter(file)
	_, err = mergeForgotten(ctx, old, entries, true, w)
	if err == nil {
		if err = w.end(); err == nil {
			err = file.Rewind()
		}
	}
	if err == nil {
		list, err = loadForgotten(file)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return list, nil
}

// mergeForgotten writes a list with entries, or without them, and returns how many of them are
// added or left out.
func mergeForgotten(ctx context.Context, old eachEntry, entries iter.Seq2[ForgottenEntry, error], add bool, out *forgottenWriter) (changed int64, err error) {
	sorter := spool.NewSorter(16<<20, 16)
	defer func() { err = errors.Join(err, sorter.Close()) }()
	for e, err := range entries {
		if err = cmp.Or(err, context.Cause(ctx)); err != nil {
			return 0, err
		}
		if e.Kind == ForgottenPrefix && !strings.HasSuffix(e.Text, "/") && !strings.Contains(e.Text, "?") {
			e.Text += "/" // one spelling for a folder
		}
		if !e.valid() {
			return 0, fmt.Errorf("iut: %q cannot be forgotten: not a canonical URL or host", e.Text)
		}
		if err := sorter.Add(spool.Row{Key: e.line()}); err != nil {
			return 0, err
		}
	}
	next := sorter.Sorted()
	row, end := next()
	step := func() {
		for before := row.Key; end == nil && row.Key == before; {
			row, end = next()
		}
	}
	upTo := func(line string) {
		for ; end == nil && (line == "" || row.Key < line); step() {
			if add {
				changed++
				out.line(row.Key)
			}
		}
	}
	err = old(func(e ForgottenEntry) error {
		line := e.line()
		upTo(line)
		if end == nil && row.Key == line {
			if step(); !add {
				changed++
				return nil
			}
		}
		out.line(line)
		return context.Cause(ctx)
	})
	if err == nil {
		upTo("")
		if end != io.EOF {
			err = end
		}
	}
	return changed, err
}

// A forgottenWriter writes a list. Errors wait for end.
type forgottenWriter struct {
	buf *bufio.Writer
	sum uint32
}

func newForgottenWriter(to io.Writer) *forgottenWriter {
	w := &forgottenWriter{buf: bufio.NewWriterSize(to, 64<<10)}
	w.line(forgottenFirst)
	return w
}

func (w *forgottenWriter) line(text string) {
	line := text + "\n"
	w.sum = crc32.Update(w.sum, castagnoli, []byte(line))
	_, _ = w.buf.WriteString(line)
}

func (w *forgottenWriter) end() error {
	w.line(forgottenLast + fmt.Sprintf("%08x", w.sum))
	return w.buf.Flush()
}

// changeForgotten replaces the list by one with entries, or without them. With entries FORMAT says
// before that they are to be removed.
func (t *Tree) changeForgotten(ctx context.Context, entries iter.Seq2[ForgottenEntry, error], add bool) (changed int64, err error) {
	file, err := t.fs.Open(forgottenNewName, os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return 0, DiskError("write "+forgottenName, err)
	}
	w := newForgottenWriter(file)
	changed, err = mergeForgotten(ctx, t.EachForgotten, entries, add, w)
	if err == nil {
		err = DiskError("write "+forgottenName, errors.Join(w.end(), file.Sync()))
	}
	err = errors.Join(err, DiskError("write "+forgottenName, file.Close()))
	if err == nil && add {
		err = t.change(func(f *Format) { f.Forgetting = true })
	}
	if err != nil || changed == 0 {
		return 0, errors.Join(err, DiskError("write "+forgottenName, t.fs.Remove(forgottenNewName)))
	}
	if err = t.fs.Rename(forgottenNewName, forgottenName); err == nil {
		err = t.fs.SyncDir(".")
	}
	if err != nil {
		return 0, DiskError("write "+forgottenName, err)
	}
	return changed, errors.Join(DiskError("close "+forgottenName, t.Forgotten().Close()), t.openForgotten())
}
