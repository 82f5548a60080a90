package iut

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strings"

	"urltree/internal/spool"
	"urltree/internal/warc"
	"urltree/storage/record"
)

// Committed is what the index knows of segments: where the last answer of each ends that it has,
// and where the first page begins that it lacks, if that may stand before the other. Has reports
// whether it has the page that stands at the extent, or a later version of it.
type Committed struct {
	Ends, Open map[uint32]int64
	Has        func(f Facts) bool
}

// Recover has a tree of segments find what earlier runs wrote and no commit covers: whole pages are
// found by Has and Adopt from now on, and a torn end is cut off behind the last whole one. It is
// called once, before the first Store. Of a tree of folders it does nothing. Errors are
// [record.ErrDamaged] for a segment that is shorter than its committed part, and [ErrDisk].
func (t *Tree) Recover(c Committed) error {
	s, ok := t.pages.(*segments)
	if !ok || t.readOnly {
		return nil
	}
	short, err := s.short(c.Ends)
	if err != nil {
		return err
	}
	for _, number := range slices.Sorted(maps.Keys(short)) {
		name := cmp.Or(s.names[number], fmt.Sprintf("segment %d", number))
		return fmt.Errorf("%w: %s has %d bytes, the index knows of pages up to %d", record.ErrDamaged, name, short[number], c.Ends[number])
	}
	return s.recover(c, t.Forgotten())
}

// Short returns the size of each segment that is shorter than its committed part. The error is
// [ErrDisk].
func (t *Tree) Short(ends map[uint32]int64) (map[uint32]int64, error) {
	s, ok := t.pages.(*segments)
	if !ok {
		return nil, nil
	}
	return s.short(ends)
}

func (s *segments) short(ends map[uint32]int64) (map[uint32]int64, error) {
	short := map[uint32]int64{}
	for number, end := range ends {
		size := int64(0)
		if name := s.names[number]; name != "" {
			e, err := s.fs.Stat(name)
			if err != nil {
				return nil, DiskError("look at "+name, err)
			}
			size = e.Size
		}
		if size < end {
			short[number] = size
		}
	}
	return short, nil
}

// recover is Recover. The next sync covers each segment that has pages which no commit covers: one
// that is adopted may name a body in another segment. What is forgotten is not found.
func (s *segments) recover(c Committed, forgotten *Forgotten) error {
	clear(s.dirty)
	for number, name := range s.names {
		committed := c.Ends[number]
		from := committed
		if at, ok := c.Open[number]; ok {
			from = min(from, at)
		}
		end, err := s.scan(number, from, func(f Facts) error {
			if gone, err := forgotten.Has(f.URL); gone || err != nil {
				return err
			}
			if f.Extent.Offset >= committed || !c.Has(f) {
				s.loose[f.URL], s.dirty[name] = f, true
				s.waiting[number] = append(s.waiting[number], f.Extent.Offset)
			}
			return nil
		})
		if errors.Is(err, ErrTorn) && end >= committed {
			err = s.cut(number, name, end)
		}
		if err != nil && !errors.Is(err, ErrTorn) { // what is torn before is damage, which check finds
			return err
		}
	}
	s.named = len(s.dirty) == 0
	return nil
}

// cut cuts a segment, and removes one of which nothing is left.
func (s *segments) cut(number uint32, name string, size int64) error {
	if size == 0 {
		delete(s.names, number)
		return DiskError("remove "+name, s.fs.Remove(name))
	}
	f, err := s.fs.Open(name, os.O_WRONLY)
	if err != nil {
		return DiskError("cut "+name, err)
	}
	return DiskError("cut "+name, errors.Join(f.Truncate(size), f.Sync(), f.Close()))
}

// A group is an answer in a segment with what stands behind it.
type group struct {
	header warc.Header   // of the answer
	at     record.Extent // of the answer; its Length is 0 if nothing stands behind it
	end    int64         // of the group
	about  []byte        // the block of the metadata record that ends it
	page   Facts         // if it is that of a page; else without a URL
}

// scan calls fn with each whole page of a segment, as scanGroups does.
func (s *segments) scan(number uint32, from int64, fn func(Facts) error) (end int64, err error) {
	return s.scanGroups(number, from, func(g *group) error {
		if g.page.URL == "" {
			return nil
		}
		return fn(g.page)
	})
}

// scanGroups calls fn with each whole group of a segment from an offset on, where a record begins,
// and returns where the last one ends. Errors are those of fn, ErrTorn for a segment that does not
// go on, and ErrDisk.
func (s *segments) scanGroups(number uint32, from int64, fn func(*group) error) (end int64, err error) {
	name, err := s.nameOf(number)
	if err != nil {
		return from, err
	}
	file, err := s.fs.Open(name, os.O_RDONLY)
	if err != nil {
		return from, readError(name, err)
	}
	defer file.Close()
	var (
		in     = warc.NewReader(io.NewSectionReader(file, from, math.MaxInt64-from), from)
		answer string // ID of the record that the present group begins with; "": behind a group
		g      group
		last   bool // the latest record ends its group, if it is whole
	)
	for end = from; ; {
		before := in.End()
		rec, err := in.Next()
		if err == io.EOF && !in.Closed() {
			err = warc.ErrTorn
		} else if in.End() > before { // the record before is whole, whatever comes now
			if g.end = in.End(); last {
				if err := fn(&g); err != nil {
					return end, err
				}
			}
			if last || answer == "" {
				answer, end = "", in.End()
			}
			last = false
		}
		switch {
		case err == io.EOF && answer != "":
			return end, tornf("%s at %d: a group that does not end", name, end)
		case err == io.EOF:
			return end, nil
		case err != nil:
			return end, recordError(name, in.End(), err)
		}
		switch kind := rec.Get(warc.FieldType); {
		case kind == warc.Response, kind == warc.Revisit, kind == warc.Resource:
			answer = rec.Get(warc.FieldID)
			g = group{header: rec.Header, at: record.Extent{Segment: number, Offset: rec.Offset}}
			continue
		case answer == "":
			continue // of the group that ends at from, or about the file
		case g.at.Length == 0:
			g.at.Length = rec.Offset - g.at.Offset
		}
		if last = rec.Get(warc.FieldType) == warc.Metadata; last {
			g.at.About = rec.Offset - g.at.Offset
			if rec.Length <= 2*maxLine {
				if g.about, err = io.ReadAll(rec); err != nil {
					return end, recordError(name, rec.Offset, err)
				}
			}
			if g.page, err = factsIn(g.about); err != nil && err != errNoFacts {
				return end, recordError(name, rec.Offset, err)
			}
			g.page.Extent = g.at
		}
	}
}

// walk finds the groups of each URL, the latest of which is its page, by sorting those of all
// segments.
func (s *segments) walk(fn WalkFunc) (err error) {
	foreign, err := s.list()
	if err != nil {
		return err
	}
	for _, name := range foreign {
		if err := fn("", name, PageStatus{PageForeign, errNotSegment}, Facts{}); err != nil {
			return err
		}
	}
	all := spool.NewSorter(16<<20, 16)
	defer func() { err = errors.Join(err, all.Close()) }()
	s.mu.Lock()
	numbers := slices.Sorted(maps.Keys(s.names))
	s.mu.Unlock()
	for _, number := range numbers {
		if err := s.walkSegment(number, all, fn); err != nil {
			return err
		}
	}
	next := all.Sorted()
	row, err := next()
	for err == nil {
		latest := row
		if row, err = next(); err != nil && err != io.EOF {
			return err
		}
		f, bad := factsInRow(&latest)
		if bad != nil {
			return bad
		}
		st := PageStatus{Kind: PageComplete}
		if err == nil && row.Key == latest.Key {
			behind, bad := factsInRow(&row)
			if bad != nil {
				return bad
			}
			if f.Digest == behind.Digest { // a kill has left it twice, or it was told to be the same
				continue
			}
			f.Earlier, st.Kind = true, PageEarlier
		}
		where, whereErr := s.where(f)
		if whereErr != nil {
			return whereErr
		}
		if err := fn(f.URL, where, st, f); err != nil {
			return err
		}
	}
	if err == io.EOF {
		return nil
	}
	return err
}

// factsInRow returns the facts that walkSegment has put into a row.
func factsInRow(row *spool.Row) (Facts, error) {
	f, err := parseLine([]byte(row.Values[0])) // which was read so from the segment
	f.Extent = extentOf(row.Sub)
	return f, err
}

var errNotSegment = errors.New("iut: not a segment")

// walkSegment adds the pages of a segment to all. Behind damage it goes on with the next record
// that it finds.
func (s *segments) walkSegment(number uint32, all *spool.Sorter, fn WalkFunc) error {
	for from := int64(0); ; {
		end, err := s.scan(number, from, func(f Facts) error {
			return all.Add(spool.Row{Key: f.URL, Sub: subOf(f.Time, f.Extent), Values: [2]string{string(f.AppendLine(nil))}})
		})
		if !errors.Is(err, ErrTorn) {
			return err
		}
		name, nameErr := s.nameOf(number)
		if nameErr != nil {
			return nameErr
		}
		if err := fn("", name, PageStatus{PageTorn, err}, Facts{}); err != nil {
			return err
		}
		if from, err = s.nextRecord(name, end+1); err != nil || from < 0 {
			return err
		}
	}
}

// nextRecord returns where the next record with an answer begins, from an offset on; -1: none does.
func (s *segments) nextRecord(name string, from int64) (int64, error) {
	file, err := s.fs.Open(name, os.O_RDONLY)
	if err != nil {
		return 0, DiskError("read "+name, err)
	}
	defer file.Close()
	begin := []byte("WARC/1.1\r\n")
	if strings.HasSuffix(name, ".gz") {
		begin = []byte{0x1f, 0x8b, 8}
	}
	buf := make([]byte, 1<<20)
	for {
		n, err := file.ReadAt(buf, from)
		if err != nil && err != io.EOF {
			return 0, DiskError("read "+name, err)
		}
		for at := 0; ; at++ {
			i := bytes.Index(buf[at:n], begin)
			if i < 0 {
				break
			}
			at += i
			offset := from + int64(at)
			rec, err := warc.NewReader(io.NewSectionReader(file, offset, math.MaxInt64-offset), offset).Next()
			if err == nil && rec.Get(warc.FieldType) != warc.Request && rec.Get(warc.FieldType) != warc.Metadata {
				return offset, nil
			}
		}
		if err == io.EOF {
			return -1, nil
		}
		from += int64(n - len(begin))
	}
}

// subOf writes an extent so that that of a later answer, or else a later one, sorts behind.
func subOf(at int64, e record.Extent) string {
	var b []byte
	for _, v := range []uint64{uint64(at), uint64(e.Segment), uint64(e.Offset), uint64(e.Length), uint64(e.About)} {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	return string(b)
}

func extentOf(sub string) record.Extent {
	v := func(i int) uint64 { return binary.BigEndian.Uint64([]byte(sub[8*(i+1):])) }
	return record.Extent{Segment: uint32(v(0)), Offset: int64(v(1)), Length: int64(v(2)), About: int64(v(3))}
}
