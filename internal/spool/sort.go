package spool

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"io"
	"slices"
)

// A Row is what is sorted, by Key, then by Sub.
type Row struct {
	Key, Sub string
	Values   [2]string // go along
}

func (r *Row) compare(o *Row) int {
	return cmp.Or(cmp.Compare(r.Key, o.Key), cmp.Compare(r.Sub, o.Sub))
}

// A Sorter takes rows in any order and returns them by key, then by sub, then in the order in which
// they came. It holds some of them in memory, the others in temporary files: runs, each sorted.
// Where there are many of one level, they are merged into one of the next.
type Sorter struct {
	budget int // bytes of rows in memory
	fan    int // runs of a level that are merged into one

	rows   []Row
	bytes  int
	levels [][]*File
}

// NewSorter returns a Sorter that holds so many bytes of rows in memory, and merges so many runs of
// one level, at least 2.
func NewSorter(budget, fan int) *Sorter { return &Sorter{budget: budget, fan: fan} }

// Close removes the temporary files.
func (s *Sorter) Close() error {
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

// Add takes a row.
func (s *Sorter) Add(r Row) error {
	s.rows = append(s.rows, r)
	s.bytes += len(r.Key) + len(r.Sub) + len(r.Values[0]) + len(r.Values[1]) + rowBytes
	if s.bytes < s.budget {
		return nil
	}
	return s.spill()
}

func (s *Sorter) spill() error {
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
		var cursors []Cursor
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

// Sorted returns all rows. None may be added any more.
func (s *Sorter) Sorted() Cursor {
	var cursors []Cursor
	for _, level := range slices.Backward(s.levels) { // the oldest first
		for _, f := range level {
			cursors = append(cursors, rowsOf(f))
		}
	}
	return merge(append(cursors, s.inMemory()))
}

// A Cursor returns rows one after the other, io.EOF behind the last.
type Cursor func() (Row, error)

func (s *Sorter) inMemory() Cursor {
	slices.SortStableFunc(s.rows, func(a, b Row) int { return a.compare(&b) })
	rest := s.rows
	return func() (r Row, err error) {
		if len(rest) == 0 {
			return r, io.EOF
		}
		r, rest = rest[0], rest[1:]
		return r, nil
	}
}

func writeRun(rows Cursor) (*File, error) {
	file, err := Create()
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
		for _, s := range [...]string{r.Key, r.Sub, r.Values[0], r.Values[1]} {
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

func rowsOf(file *File) Cursor {
	in := bufio.NewReaderSize(file, 16<<10)
	return func() (r Row, err error) {
		for i, s := range [...]*string{&r.Key, &r.Sub, &r.Values[0], &r.Values[1]} {
			n, err := binary.ReadUvarint(in)
			if err == io.EOF && i == 0 {
				return r, err
			}
			b := make([]byte, n)
			if err == nil {
				_, err = io.ReadFull(in, b)
			}
			if err == io.EOF || err == io.ErrUnexpectedEOF {
				err = ErrShort
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
func merge(cursors []Cursor) Cursor {
	type head struct {
		Row
		place int // of its Cursor
	}
	var heads []head // the next row of each Cursor, in order
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
			return cmp.Or(a.compare(&b.Row), cmp.Compare(a.place, b.place))
		})
		heads = slices.Insert(heads, at, h)
		return nil
	}
	var failed error
	for place := range cursors {
		failed = cmp.Or(failed, pull(place))
	}
	return func() (Row, error) {
		if failed != nil {
			return Row{}, failed
		}
		if len(heads) == 0 {
			return Row{}, io.EOF
		}
		first := heads[0]
		heads = slices.Delete(heads, 0, 1)
		failed = pull(first.place)
		return first.Row, nil
	}
}
