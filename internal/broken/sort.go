package broken

import (
	"bufio"
	"cmp"
	"container/heap"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"urltree/iut"
)

// A row is a link to a broken URL.
type row struct {
	key  string // record key of the URL: rows come in the order of the tree
	page string // that has the link
	what string // element
	text string
}

func (r *row) compare(o *row) int {
	return cmp.Or(cmp.Compare(r.key, o.key), cmp.Compare(r.page, o.page))
}

// A sorter takes rows in any order and returns them by key, then by page, then in the order in
// which they came. It holds some MiB of them in memory, the others in temporary files that have no
// name: runs, each sorted. Where there are many of one level, they are merged into one of the next.
type sorter struct {
	budget int // bytes of rows in memory
	fan    int // runs of a level that are merged into one

	rows   []row
	bytes  int
	levels [][]*os.File
}

func newSorter() *sorter { return &sorter{budget: 8 << 20, fan: 32} }

func (s *sorter) close() error {
	var errs []error
	for _, level := range s.levels {
		for _, f := range level {
			errs = append(errs, f.Close())
		}
	}
	s.rows, s.levels = nil, nil
	return errors.Join(errs...)
}

// rowBytes is what a row takes besides its texts, roughly.
const rowBytes = 80

func (s *sorter) add(r row) error {
	s.rows = append(s.rows, r)
	s.bytes += len(r.key) + len(r.page) + len(r.what) + len(r.text) + rowBytes
	if s.bytes < s.budget {
		return nil
	}
	return s.spill()
}

// spill makes a run of the rows in memory.
func (s *sorter) spill() error {
	slices.SortStableFunc(s.rows, func(a, b row) int { return a.compare(&b) })
	run, err := s.run(merge([]cursor{&list{rows: s.rows}}))
	if err != nil {
		return err
	}
	clear(s.rows)
	s.rows, s.bytes = s.rows[:0], 0
	for level := 0; ; level++ {
		if level == len(s.levels) {
			s.levels = append(s.levels, nil)
		}
		s.levels[level] = append(s.levels[level], run)
		if len(s.levels[level]) < s.fan {
			return nil
		}
		cursors, err := read(s.levels[level])
		if err != nil {
			return err
		}
		if run, err = s.run(merge(cursors)); err != nil {
			return err
		}
		for _, f := range s.levels[level] {
			err = errors.Join(err, f.Close())
		}
		s.levels[level] = nil
		if err != nil {
			return errors.Join(tempError(err), run.Close())
		}
	}
}

// run writes rows to a file of its own.
func (s *sorter) run(from *merged) (*os.File, error) {
	file, err := os.CreateTemp("", "urltree")
	if err != nil {
		return nil, tempError(err)
	}
	if err := os.Remove(file.Name()); err != nil {
		return nil, errors.Join(tempError(err), file.Close())
	}
	w := bufio.NewWriterSize(file, 64<<10)
	for {
		r, err := from.next()
		if err == io.EOF {
			break
		}
		if err == nil {
			_, err = w.Write(r.append(w.AvailableBuffer()))
		}
		if err != nil {
			return nil, errors.Join(tempError(err), file.Close())
		}
	}
	if err := w.Flush(); err != nil {
		return nil, errors.Join(tempError(err), file.Close())
	}
	return file, nil
}

func tempError(err error) error { return fmt.Errorf("%w: temporary file: %w", iut.ErrDisk, err) }

// sorted returns all rows. None may be added any more.
func (s *sorter) sorted() (*merged, error) {
	var cursors []cursor
	for _, level := range slices.Backward(s.levels) { // the oldest first
		runs, err := read(level)
		if err != nil {
			return nil, err
		}
		cursors = append(cursors, runs...)
	}
	slices.SortStableFunc(s.rows, func(a, b row) int { return a.compare(&b) })
	return merge(append(cursors, &list{rows: s.rows})), nil
}

// A cursor returns rows one after the other, io.EOF behind the last.
type cursor interface {
	next() (row, error)
}

type list struct{ rows []row }

func (l *list) next() (r row, err error) {
	if len(l.rows) == 0 {
		return r, io.EOF
	}
	r, l.rows = l.rows[0], l.rows[1:]
	return r, nil
}

// A run is a sorted file.
type run struct{ r *bufio.Reader }

func read(files []*os.File) ([]cursor, error) {
	var cursors []cursor
	for _, f := range files {
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return nil, tempError(err)
		}
		cursors = append(cursors, run{bufio.NewReaderSize(f, 16<<10)})
	}
	return cursors, nil
}

func (r *row) append(b []byte) []byte {
	for _, s := range [...]string{r.key, r.page, r.what, r.text} {
		b = append(binary.AppendUvarint(b, uint64(len(s))), s...)
	}
	return b
}

func (c run) next() (r row, err error) {
	for i, s := range [...]*string{&r.key, &r.page, &r.what, &r.text} {
		n, err := binary.ReadUvarint(c.r)
		if err == io.EOF && i == 0 {
			return r, io.EOF
		}
		b := make([]byte, n)
		if err == nil {
			_, err = io.ReadFull(c.r, b)
		}
		if err != nil {
			return r, tempError(err)
		}
		*s = string(b)
	}
	return r, nil
}

// A merged is a cursor over the rows of others; of rows that are equal, those of the first come
// first.
type merged struct {
	heads heads
	err   error
}

type head struct {
	row
	from  cursor
	place int
}

func merge(cursors []cursor) *merged {
	m := &merged{}
	for place, from := range cursors {
		switch r, err := from.next(); err {
		case nil:
			m.heads = append(m.heads, head{r, from, place})
		case io.EOF:
		default:
			m.err = err
		}
	}
	heap.Init(&m.heads)
	return m
}

func (m *merged) next() (r row, err error) {
	if m.err != nil {
		return r, m.err
	}
	if len(m.heads) == 0 {
		return r, io.EOF
	}
	first := &m.heads[0]
	r = first.row
	switch first.row, err = first.from.next(); err {
	case nil:
		heap.Fix(&m.heads, 0)
	case io.EOF:
		heap.Pop(&m.heads)
	default:
		m.err = err
	}
	return r, nil
}

// heads is a heap.
type heads []head

func (h heads) Len() int { return len(h) }

func (h heads) Less(i, j int) bool {
	return cmp.Or(h[i].compare(&h[j].row), cmp.Compare(h[i].place, h[j].place)) < 0
}

func (h heads) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *heads) Push(x any)   { *h = append(*h, x.(head)) }

func (h *heads) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}
