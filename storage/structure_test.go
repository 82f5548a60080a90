package storage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	bolt "go.etcd.io/bbolt"

	"urltree/storage/record"
)

// closedIndex gives the bytes of an index with n stored and n pending URLs.
func closedIndex(t *testing.T, n int) []byte {
	t.Helper()
	x, path := newIndex(t, n)
	if _, err := x.Reopen(t.Context(), nil, func(r *record.Record) bool { return r.State == record.Stored && len(r.URL)%2 == 0 }, nil); err != nil {
		t.Fatal(err) // so that there are free pages
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	m, err := readMeta(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	return file[:m.pages*uint64(m.pageSize)] // without the room for growth
}

func structureOf(file []byte, leaves bool) error {
	return checkStructure(bytes.NewReader(file), int64(len(file)), leaves)
}

// pagesOf gives the pages in use of a kind, by their numbers.
func pagesOf(t *testing.T, file []byte, kind uint16) (ids []uint64) {
	t.Helper()
	m, err := readMeta(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	s := &structure{meta: m, f: bytes.NewReader(file), leaves: true, used: make([]uint64, m.pages/64+1)}
	if err := errors.Join(s.mark(0, 2), s.freelist()); err != nil {
		t.Fatal(err)
	}
	free := slices.Clone(s.used)
	if err := s.root(); err != nil {
		t.Fatal(err)
	}
	for id := range m.pages {
		bit := uint64(1) << (id % 64)
		at := file[id*uint64(m.pageSize):]
		// The further pages of a large one have no header.
		if s.used[id/64]&bit != 0 && free[id/64]&bit == 0 && binary.NativeEndian.Uint64(at) == id && binary.NativeEndian.Uint16(at[8:]) == kind {
			ids = append(ids, id)
		}
	}
	return ids
}

// Whatever bbolt's own check finds wrong in a file, checkStructure does; after it bbolt can read
// all.
func TestStructureAgreesWithBolt(t *testing.T) {
	whole := closedIndex(t, 200)
	if err := structureOf(whole, true); err != nil {
		t.Fatal(err)
	}
	used, size := len(whole), os.Getpagesize()
	path := filepath.Join(t.TempDir(), "index.db")
	rounds := 200
	if os.Getenv("TEST_URLTREE_FULL") != "" {
		rounds = 20_000
	}
	rnd := rand.New(rand.NewPCG(7, 0))
	passed, wrong := 0, 0
	for range rounds {
		bad := slices.Clone(whole)
		page := 2 + rnd.IntN(used/size-2) // a torn meta page is what a power cut leaves
		switch rnd.IntN(4) {
		case 0:
			copy(bad[page*size:(page+1)*size], whole[rnd.IntN(used/size)*size:])
		case 1:
			bad[page*size+rnd.IntN(size)] ^= 1 << rnd.IntN(8)
		default:
			for range rnd.IntN(3) + 1 {
				bad[page*size+rnd.IntN(128)] ^= 1 << rnd.IntN(8) // headers and elements
			}
		}
		if err := structureOf(bad, true); err != nil {
			wrong++
			if !errors.Is(err, record.ErrDamaged) {
				t.Fatal(err)
			}
			continue
		}
		passed++
		if quick := structureOf(bad, false); quick != nil {
			t.Fatalf("without leaves: %v", quick)
		}
		if err := os.WriteFile(path, bad, 0o644); err != nil {
			t.Fatal(err)
		}
		db, err := bolt.Open(path, 0o644, &bolt.Options{ReadOnly: true})
		if err != nil {
			t.Fatalf("passed, and bbolt says %v", err)
		}
		err = db.View(func(tx *bolt.Tx) error {
			for err := range tx.Check() {
				t.Errorf("passed, and bbolt's check says %v", err)
			}
			return nil
		})
		if err := errors.Join(err, db.Close()); err != nil || t.Failed() {
			t.Fatal(err)
		}
	}
	t.Logf("%d files passed, %d did not", passed, wrong)
	if passed < rounds/10 || wrong < rounds/10 {
		t.Errorf("%d passed, %d did not: the test says nothing", passed, wrong)
	}
}

// What would let bbolt run in circles until memory ends, or write over pages that are in use, is
// found before an index is opened for writing, by a look at few of its pages.
func TestStructureWithoutLeaves(t *testing.T) {
	whole := closedIndex(t, 6000)
	branches, lists := pagesOf(t, whole, kindBranch), pagesOf(t, whole, kindFreelist)
	size := uint64(os.Getpagesize())
	e := binary.NativeEndian
	if len(branches) < 5 || len(lists) != 0 {
		t.Fatalf("%d branches, lists %d", len(branches), lists)
	}
	m, err := readMeta(bytes.NewReader(whole), int64(len(whole)))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name  string
		spoil func(file []byte)
	}{
		{"a branch below itself", func(file []byte) {
			at := branches[1] * size
			e.PutUint64(file[at+pageHeader+elementSize+8:], branches[1])
		}},
		{"a branch below another", func(file []byte) {
			at := branches[1] * size
			e.PutUint64(file[at+pageHeader+2*elementSize+8:], branches[0])
		}},
		{"a child twice", func(file []byte) {
			at := branches[2]*size + pageHeader
			copy(file[at+elementSize+8:at+2*elementSize], file[at+8:at+elementSize])
		}},
		{"a leaf that is free", func(file []byte) {
			list := file[m.freelist*size:]
			e.PutUint64(list[pageHeader:], e.Uint64(file[branches[0]*size+pageHeader+8:]))
		}},
		{"a page twice in the list of free pages", func(file []byte) {
			list := file[m.freelist*size+pageHeader:]
			copy(list[:8], list[8:16])
		}},
		{"a list of free pages without end", func(file []byte) {
			list := file[m.freelist*size:]
			e.PutUint16(list[10:], 0xFFFF)
			e.PutUint64(list[pageHeader:], 1<<40)
		}},
		{"a key of a branch that is not the first of its child", func(file []byte) {
			at := branches[1]*size + pageHeader
			file[at+uint64(e.Uint32(file[at:]))]--
		}},
		{"a page that goes on behind the end", func(file []byte) { e.PutUint32(file[branches[3]*size+12:], 1<<31) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file := slices.Clone(whole)
			tt.spoil(file)
			path := filepath.Join(t.TempDir(), "index.db")
			if err := os.WriteFile(path, file, 0o644); err != nil {
				t.Fatal(err)
			}
			x, err := Open(path, Options{NoSync: true})
			if err == nil {
				x.Close()
			}
			if !errors.Is(err, record.ErrDamaged) {
				t.Errorf("opened for writing: %v", err)
			}
			if x, err = Open(path, Options{ReadOnly: true}); err == nil {
				x.Close()
			}
			if !errors.Is(err, record.ErrDamaged) {
				t.Errorf("opened for reading: %v", err)
			}
		})
	}
	r := &countingReader{r: bytes.NewReader(whole), pages: map[int64]bool{}}
	if err := checkStructure(r, int64(len(whole)), false); err != nil {
		t.Fatal(err)
	}
	if most := 2*len(branches) + 40; len(r.pages) > most {
		t.Errorf("%d of %d pages read, at most %d are allowed with %d branches", len(r.pages), m.pages, most, len(branches))
	}
}

// A page of records that says it is a branch names pages far behind the end of the file, since what
// a value's length is in the one is the upper half of a page's number in the other: to read it is
// an error, and no way without end.
func TestLeafCalledBranch(t *testing.T) {
	whole := closedIndex(t, 2000)
	leaves, size := pagesOf(t, whole, kindLeaf), uint64(os.Getpagesize())
	path := filepath.Join(t.TempDir(), "index.db")
	found := 0
	for i := 0; i < len(leaves); i += max(len(leaves)/40, 1) {
		file := slices.Clone(whole)
		binary.NativeEndian.PutUint16(file[leaves[i]*size+8:], kindBranch)
		if err := os.WriteFile(path, file, 0o644); err != nil {
			t.Fatal(err)
		}
		x, err := Open(path, Options{ReadOnly: true})
		if err == nil {
			err = errors.Join(
				x.Records(t.Context(), nil, func(record.Record, error) error { return nil }),
				x.Hosts(t.Context(), func(record.HostRow) error { return nil }), x.Close())
		}
		if err != nil {
			found++
			if !errors.Is(err, record.ErrDamaged) && !errors.Is(err, record.ErrCorrupt) {
				t.Errorf("page %d: %v", leaves[i], err)
			}
		}
	}
	if found < 10 {
		t.Errorf("%d such pages were met: the test says nothing", found)
	}
}

type countingReader struct {
	r     *bytes.Reader
	pages map[int64]bool
}

func (c *countingReader) ReadAt(b []byte, at int64) (int, error) {
	c.pages[at/int64(os.Getpagesize())] = true
	return c.r.ReadAt(b, at)
}
