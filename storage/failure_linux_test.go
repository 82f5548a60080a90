package storage

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"urltree/storage/record"
)

// A commit that fails, in a write or in a sync, is the last thing that is tried: the disk may do
// again what is asked of it, and the file stays as it was.
func TestNothingIsWrittenAfterAFailure(t *testing.T) {
	for _, tt := range []struct {
		name, device string
		flag         int
	}{
		{"a write fails", "", os.O_RDONLY},           // the file itself, which cannot be written so
		{"a sync fails", os.DevNull, os.O_RDWR},      // takes all that is written, and cannot be synced
		{"the disk is full", "/dev/full", os.O_RDWR}, // takes nothing
	} {
		t.Run(tt.name, func(t *testing.T) {
			x, path := newIndex(t, 10)
			if err := x.Close(); err != nil {
				t.Fatal(err)
			}
			x = open(t, path, Options{})
			fd := descriptor(t, path)
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if tt.device == "" {
				tt.device = path
			}
			bad, err := os.OpenFile(tt.device, tt.flag, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer bad.Close()
			good, err := unix.Dup(fd) // keeps the lock
			if err == nil {
				err = unix.Dup3(int(bad.Fd()), fd, unix.O_CLOEXEC)
			}
			if err != nil {
				t.Fatal(err)
			}
			first := x.Marks().SetLinkOptions([]byte("a"))
			if err := errors.Join(unix.Dup3(good, fd, unix.O_CLOEXEC), unix.Close(good)); err != nil {
				t.Fatal(err)
			}
			if !errors.Is(first, ErrDisk) || !strings.Contains(first.Error(), path) {
				t.Fatalf("the first commit: %v, want %v and the name of the file", first, ErrDisk)
			}
			_, err = x.Commit([]*record.Outcome{{Links: []record.Link{{URL: "http://a.b/", Source: record.Seed}}}})
			for i, err := range []error{err, x.Marks().SetLinkOptions([]byte("b")), x.Runs().PutHour(record.Hour{Run: 1, Hour: 1}), x.Runs().MarkUnclean()} {
				if !errors.Is(err, ErrDisk) || !strings.Contains(err.Error(), first.Error()) {
					t.Errorf("write %d after it: %v, want what failed first: %v", i, err, first)
				}
			}
			after, err := os.ReadFile(path)
			if err != nil || !bytes.Equal(before, after) {
				t.Errorf("the file has changed (%v)", err)
			}
			if err := x.Close(); err != nil {
				t.Error(err)
			}
			x = open(t, path, Options{})
			if err := x.Marks().SetLinkOptions([]byte("c")); err != nil || len(faultsOf(t, x)) > 0 {
				t.Errorf("opened again: %v", err)
			}
		})
	}
}

// descriptor returns the descriptor of an open file.
func descriptor(t *testing.T, path string) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && to == path {
			fd, err := strconv.Atoi(e.Name())
			if err != nil {
				t.Fatal(err)
			}
			return fd
		}
	}
	t.Fatalf("%s is not open", path)
	return 0
}
