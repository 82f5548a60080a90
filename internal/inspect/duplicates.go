package inspect

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"math"
	"slices"

	"urltree/internal/extract"
	"urltree/internal/simhash"
	"urltree/internal/spool"
	"urltree/internal/words"
	"urltree/iut"
	"urltree/storage/record"
)

// Duplicates writes which pages of the tree in the folder root repeat another: those with the same
// SHA-256, and those whose text is nearly that of another, by [simhash.Near]. Of equal pages only
// the first answered, of those of one second the one whose URL sorts first, is compared by its
// text.
//
// It reads the folders and nothing else, without their lock: a complete page never changes. So it
// may be asked in a process of its own while a crawl goes on; pages that come meanwhile may or
// may not be seen. It takes less than 64 bytes of memory for a page, and a temporary file for the
// URLs. Errors: fs.ErrNotExist if there is no tree, iut.ErrDisk, the cause of ctx, or what failed
// in w. tell, which may be nil, is told how far it is, as Inspector.Tell is.
func Duplicates(ctx context.Context, root string, tell func(what string, done, total int64), w io.Writer) (err error) {
	disk, err := iut.OpenDisk(root, iut.SyncNone)
	if err != nil {
		return fmt.Errorf("%w: open root: %w", iut.ErrDisk, err)
	}
	defer func() { err = errors.Join(err, disk.Close()) }()
	tree, err := iut.Open("", iut.Options{FS: disk, ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tree.Close()) }()
	urls, err := spool.Create()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, urls.Close()) }()
	if tell == nil {
		tell = func(string, int64, int64) {}
	}
	d := &duplicates{ctx: ctx, tree: tree, tell: tell, w: bufio.NewWriterSize(w, 32<<10), urls: texts{urls, []uint64{0}}}
	for _, step := range []func() error{d.walk, d.equal, d.read, d.near} {
		if err := step(); err != nil {
			return err
		}
	}
	fmt.Fprintf(d.w, "\npages %d: %d repeat another, %d are near another, %d others have no text\n",
		d.pages, d.repeats, d.nears, d.mute)
	return d.w.Flush()
}

// A duplicates is one look at a tree. Pages have numbers, in the order of the folders.
type duplicates struct {
	ctx  context.Context
	tree *iut.Tree
	tell func(what string, done, total int64)
	w    *bufio.Writer
	urls texts

	ids   []uint64 // hashes of the SHA-256; 0: empty, or it repeats another
	times []uint32 // Unix seconds of the answers

	extents []record.Extent // of the pages, in a tree of segments

	fingerprints []uint64 // of the pages that repeat no other and have text
	numbers      []int32  // whose they are

	pages, repeats, nears, mute int
}

func (d *duplicates) walk() error {
	// A key of its own, so that nobody outside can make pages that collide.
	seed := maphash.MakeSeed()
	err := d.tree.Walk(func(url, _ string, st iut.PageStatus, f iut.Facts) error {
		if st.Kind != iut.PageComplete {
			return context.Cause(d.ctx)
		}
		if len(d.ids) == math.MaxInt32 {
			return fmt.Errorf("more than %s", words.Count(len(d.ids), "page"))
		}
		id := max(1, maphash.Bytes(seed, f.Digest[:]))
		if f.Bytes == 0 {
			id = 0
		}
		d.tell("finding pages", int64(len(d.ids)), 0)
		d.ids = append(d.ids, id)
		d.times = append(d.times, uint32(min(f.Time, math.MaxUint32)))
		if !f.Extent.IsZero() {
			d.extents = append(d.extents, f.Extent)
		}
		if err := d.urls.add(url); err != nil {
			return err
		}
		return context.Cause(d.ctx)
	})
	d.pages = len(d.ids)
	return errors.Join(err, d.urls.file.Rewind())
}

// equal writes the groups of equal pages, and leaves ids to the first of each.
func (d *duplicates) equal() error {
	fmt.Fprintln(d.w, "equal pages, below the one answered first")
	order, lead := make([]int32, len(d.ids)), make([]int32, len(d.ids))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(i, j int32) int { return cmp.Or(cmp.Compare(d.ids[i], d.ids[j]), cmp.Compare(i, j)) })
	// Groups come in the order of the folders: of all that are equal, the lowest number leads.
	members := order[:0]
	for group := range simhash.Runs(order, func(i int32) uint64 { return d.ids[i] }) {
		if len(group) > 1 && d.ids[group[0]] != 0 {
			for _, i := range group {
				lead[i] = group[0]
			}
			members = append(members, group...)
		}
	}
	slices.SortFunc(members, func(i, j int32) int {
		return cmp.Or(cmp.Compare(lead[i], lead[j]), cmp.Compare(d.times[i], d.times[j]), cmp.Compare(i, j))
	})
	for group := range simhash.Runs(members, func(i int32) int32 { return lead[i] }) {
		if err := d.group(group); err != nil {
			return err
		}
	}
	return nil
}

// group writes one group, which stands in the order of times.
func (d *duplicates) group(group []int32) error {
	first, url := 0, ""
	for k, i := range group {
		if d.times[i] != d.times[group[0]] {
			break
		}
		u, err := d.urls.get(i)
		if err != nil {
			return err
		}
		if k == 0 || u < url {
			first, url = k, u
		}
	}
	fmt.Fprintf(d.w, "%s\n", clean(url))
	for k, i := range group {
		if k == first {
			continue
		}
		if err := d.line("=", i); err != nil {
			return err
		}
		d.ids[i] = 0
		d.repeats++
	}
	return nil
}

// line writes a page below another.
func (d *duplicates) line(how string, i int32) error {
	if err := context.Cause(d.ctx); err != nil {
		return err
	}
	url, err := d.urls.get(i)
	if err == nil {
		_, err = fmt.Fprintf(d.w, "  %s %s\n", how, clean(url))
	}
	return err
}

// read computes the fingerprints of all pages that repeat no other.
func (d *duplicates) read() error {
	for i, id := range d.ids {
		if err := context.Cause(d.ctx); err != nil {
			return err
		}
		d.tell("reading pages", int64(i), int64(len(d.ids)))
		if id == 0 {
			continue
		}
		url, err := d.urls.get(int32(i))
		if err != nil {
			return err
		}
		at := iut.Facts{URL: url}
		if d.extents != nil {
			at.Extent = d.extents[i]
		}
		fingerprint, ok, err := d.fingerprint(at)
		if err != nil {
			return err
		}
		if ok {
			d.fingerprints, d.numbers = append(d.fingerprints, fingerprint), append(d.numbers, int32(i))
		}
	}
	d.ids, d.mute = nil, d.pages-d.repeats-len(d.numbers)
	return nil
}

// fingerprint reads the text of a page. One that is gone since it was found has none.
func (d *duplicates) fingerprint(at iut.Facts) (uint64, bool, error) {
	facts, body, err := d.tree.Load(at)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, iut.ErrTorn):
		return 0, false, nil
	case err != nil:
		return 0, false, err
	}
	var h simhash.Hash
	extract.Words(extract.Facts{Media: facts.Media, Charset: facts.Charset}, body, h.Add)
	fingerprint, ok := h.Sum()
	return fingerprint, ok, nil
}

func (d *duplicates) near() error {
	fmt.Fprintf(d.w, "\nnear duplicates, with the number of bits, at most %d of 64, in which the fingerprints of the texts differ\n", simhash.MaxDistance)
	first, err := simhash.Near(d.ctx, d.fingerprints)
	if err != nil {
		return err
	}
	var members []int32
	for i, f := range first {
		if f >= 0 {
			members = append(members, int32(i))
		}
	}
	d.nears = len(members)
	slices.SortFunc(members, func(i, j int32) int { return cmp.Or(cmp.Compare(first[i], first[j]), cmp.Compare(i, j)) })
	for group := range simhash.Runs(members, func(i int32) int32 { return first[i] }) {
		f := first[group[0]]
		url, err := d.urls.get(d.numbers[f])
		if err != nil {
			return err
		}
		fmt.Fprintf(d.w, "%s\n", clean(url))
		for _, i := range group {
			how := fmt.Sprint(simhash.Distance(d.fingerprints[i], d.fingerprints[f]))
			if err := d.line(how, d.numbers[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// A texts keeps texts in a file, and in memory only where they begin and the last one ends.
type texts struct {
	file    *spool.File
	borders []uint64
}

func (t *texts) add(text string) error {
	t.borders = append(t.borders, t.borders[len(t.borders)-1]+uint64(len(text)))
	_, err := io.WriteString(t.file, text)
	return err
}

// get returns a text, once the file is rewound.
func (t *texts) get(i int32) (string, error) {
	b := make([]byte, t.borders[i+1]-t.borders[i])
	_, err := t.file.ReadAt(b, int64(t.borders[i]))
	return string(b), err
}
