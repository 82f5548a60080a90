package spool_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"

	"urltree/internal/spool"
	"urltree/iut"
)

// TestFile: what is written is read again, as often as need be, and the folder has no file of it.
func TestFile(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	f, err := spool.Create()
	if err != nil {
		t.Fatal(err)
	}
	want := bytes.Repeat([]byte("some text\n"), 100_000)
	if _, err := f.Write(want); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := f.Rewind(); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(f); !bytes.Equal(got, want) || err != nil {
			t.Errorf("%d bytes of %d, %v", len(got), len(want), err)
		}
	}
	b := make([]byte, 4)
	if _, err := f.ReadAt(b, 5); string(b) != "text" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := f.ReadAt(b, int64(len(want)-1)); !errors.Is(err, iut.ErrDisk) {
		t.Errorf("read behind the end: %v", err)
	}
	if list, err := os.ReadDir(dir); len(list) != 0 || err != nil {
		t.Errorf("%v, %v", list, err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

// TestNoRoom: a file that cannot be made or written is an error of the disk.
func TestNoRoom(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", "/nowhere/at/all")
	if _, err := spool.Create(); !errors.Is(err, iut.ErrDisk) {
		t.Errorf("%v", err)
	}
	t.Setenv("TMPDIR", dir)
	f, err := spool.Create()
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	_, _ = f.Write([]byte("x")) // stays in memory
	if err := f.Rewind(); !errors.Is(err, iut.ErrDisk) {
		t.Errorf("%v", err)
	}
}
