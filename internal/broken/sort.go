package broken

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"io"
	"slices"

	"urltree/internal/spool"
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
	levels [][]*spool.File
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
	run, err := writeRun(s.inMemory())
	if err != nil {
		return err
	}
	clear(s.rows)
	s.rows, s.bytes = s.rows[:0], 0
	for level := 0; ; level++ {
		if level == len(s.levels) {
			s.levels = append(s.levels, nil)
		}
		runs := append(s.levels[level], run)
		if s.levels[level] = runs; len(runs) < s.fan {
			return nil
		}
		var cursors []cursor
		for _, f := range runs {
			cursors = append(cursors, rowsOf(f))
		}
		if run, err = writeRun(merge(cursors)); err != nil {
			return err
		}
		for _, f := range runs {
			err = errors.Join(err, f.Close())
		}
		if s.levels[level] = nil; err != nil {
			return errors.Join(err, run.Close())
		}
	}
}

// sorted returns all rows. None may be added any more.
func (s *sorter) sorted() cursor {
	var cursors []cursor
	for _, level := range slices.Backward(s.levels) { // the oldest first
		for _, f := range level {
			cursors = append(cursors, rowsOf(f))
		}
	}
	return merge(append(cursors, s.inMemory()))
}

// A cursor returns rows one after the other, io.EOF behind the last.
type cursor func() (row, error)

// inMemory returns the rows that are in memory.
func (s *sorter) inMemory() cursor {
	slices.SortStableFunc(s.rows, func(a, b row) int { return a.compare(&b) })
	rest := s.rows
	return func() (r row, err error) {
		if len(rest) == 0 {
			return r, io.EOF
		}
		r, rest = rest[0], rest[1:]
		return r, nil
	}
}

// writeRun writes rows to a run.
func writeRun(rows cursor) (*spool.File, error) {
	file, err := spool.Create()
	if err != nil {
		return nil, err
	}
	var b []byte
	for {
		r, err := rows()
		if err == io.EOF {
			if err = file.Rewind(); err == nil {
				return file, nil
			}
		}
		b = b[:0]
		for _, s := range [...]string{r.key, r.page, r.what, r.text} {
			b = append(binary.AppendUvarint(b, uint64(len(s))), s...)
		}
		if err == nil {
			_, err = file.Write(b)
		}
		if err != nil {
			return nil, errors.Join(err, file.Close())
		}
	}
}

// rowsOf returns the rows of a run.
func rowsOf(file *spool.File) cursor {
	in := bufio.NewReaderSize(file, 16<<10)
	return func() (r row, err error) {
		for i, s := range [...]*string{&r.key, &r.page, &r.what, &r.text} {
			n, err := binary.ReadUvarint(in)
			if err == io.EOF && i == 0 {
				return r, err
			}
			b := make([]byte, n)
			if err == nil {
				_, err = io.ReadFull(in, b)
			}
			if err == io.EOF || err == io.ErrUnexpectedEOF {
				err = spool.ErrShort
			}
			if err != nil {
				return r, err
			}
			*s = string(b)
		}
		return r, nil
	}
}

// merge returns the rows of several cursors; of rows that are equal, those of the first come first.
func merge(cursors []cursor) cursor {
	type head struct {
		row
		place int // of its cursor
	}
	var heads []head // the next row of each cursor, in order
	pull := func(place int) error {
		r, err := cursors[place]()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		h := head{r, place}
		at, _ := slices.BinarySearchFunc(heads, h, func(a, b head) int {
			return cmp.Or(a.compare(&b.row), cmp.Compare(a.place, b.place))
		})
		heads = slices.Insert(heads, at, h)
		return nil
	}
	var failed error
	for place := range cursors {
		failed = cmp.Or(failed, pull(place))
	}
	return func() (row, error) {
		if failed != nil {
			return row{}, failed
		}
		if len(heads) == 0 {
			return row{}, io.EOF
		}
		first := heads[0]
		heads = slices.Delete(heads, 0, 1)
		failed = pull(first.place)
		return first.row, nil
	}
}
