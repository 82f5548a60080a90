package storage

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	bolt "go.etcd.io/bbolt"

	"urltree/storage/record"
)

// Of the layout of a page, see package pagefile.
const (
	pageHeader  = 16
	elementSize = 16
	kindBranch  = 0x01
)

// readBolt runs fn on a file of bbolt as bbolt itself reads it.
func readBolt(t *testing.T, file []byte, fn func(tx *bolt.Tx)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "index.db")
	if err := os.WriteFile(path, file, 0o644); err != nil {
		t.Fatal(err)
	}
	db, err := bolt.Open(path, 0o644, &bolt.Options{ReadOnly: true, PreLoadFreelist: true})
	if err != nil {
		t.Fatal(err)
	}
	err = db.View(func(tx *bolt.Tx) error {
		fn(tx)
		return nil
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

// sizeOf returns how many bytes of a file are of pages, without the room for growth.
func sizeOf(t *testing.T, file []byte) (size int) {
	t.Helper()
	readBolt(t, file, func(tx *bolt.Tx) { size = int(tx.Size()) })
	return size
}

// closedIndex returns the bytes of an index with n stored and n pending URLs.
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
	return file[:sizeOf(t, file)]
}

// pagesOf returns the pages in use of a type, as bbolt names it, by their numbers.
func pagesOf(t *testing.T, file []byte, kind string) (ids []uint64) {
	t.Helper()
	readBolt(t, file, func(tx *bolt.Tx) {
		for id, n := 0, int(tx.Size())/os.Getpagesize(); id < n; {
			info, err := tx.Page(id)
			if err != nil || info == nil {
				t.Fatal(info, err)
			}
			if info.Type == kind {
				ids = append(ids, uint64(id))
			}
			if id++; info.Type != "free" {
				id += info.OverflowCount
			}
		}
	})
	return ids
}

// What would let bbolt run in circles until memory ends, or write over pages that are in use, is
// found before an index is opened for writing, by a look at few of its pages.
func TestStructureWithoutLeaves(t *testing.T) {
	whole := closedIndex(t, 6000)
	branches, lists := pagesOf(t, whole, "branch"), pagesOf(t, whole, "freelist")
	size := uint64(os.Getpagesize())
	e := binary.NativeEndian
	if len(branches) < 5 || len(lists) != 1 {
		t.Fatalf("%d branches, lists %d", len(branches), lists)
	}
	freelist := lists[0]
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
			list := file[freelist*size:]
			e.PutUint64(list[pageHeader:], e.Uint64(file[branches[0]*size+pageHeader+8:]))
		}},
		{"a page twice in the list of free pages", func(file []byte) {
			list := file[freelist*size+pageHeader:]
			copy(list[:8], list[8:16])
		}},
		{"a list of free pages without end", func(file []byte) {
			list := file[freelist*size:]
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
}

// A page of records that says it is a branch names pages far behind the end of the file, since what
// a value's length is in the one is the upper half of a page's number in the other: to read it is
// an error, and no way without end.
func TestLeafCalledBranch(t *testing.T) {
	whole := closedIndex(t, 2000)
	leaves, size := pagesOf(t, whole, "leaf"), uint64(os.Getpagesize())
	path := filepath.Join(t.TempDir(), "index.db")
	found := 0
	probes, least := 40, 10
	if testing.Short() {
		probes, least = 12, 3
	}
	for i := 0; i < len(leaves); i += max(len(leaves)/probes, 1) {
		file := slices.Clone(whole)
		binary.NativeEndian.PutUint16(file[leaves[i]*size+8:], kindBranch)
		if err := os.WriteFile(path, file, 0o644); err != nil {
			t.Fatal(err)
		}
		x, err := Open(path, Options{ReadOnly: true})
		if err == nil {
			err = errors.Join(
				x.Records(t.Context(), nil, func(record.Record, error) error { return nil }),
				x.Hosts().Each(t.Context(), func(record.HostRow) error { return nil }), x.Close())
		}
		if err != nil {
			found++
			if !errors.Is(err, record.ErrDamaged) && !errors.Is(err, record.ErrCorrupt) {
				t.Errorf("page %d: %v", leaves[i], err)
			}
		}
	}
	if found < least {
		t.Errorf("%d such pages were met: the test says nothing", found)
	}
}
