package storage

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"urltree/internal/testdisk"
)

// TestDateOutlivesAPowerCut: the first transaction after a time makes the file younger than what
// was written before it, also where the power fails just then: else check would want old results to
// be those of the index.
func TestDateOutlivesAPowerCut(t *testing.T) {
	d, err := testdisk.New(t.Context(), t.TempDir(), "ext4", 64<<20)
	if err != nil {
		t.Skipf("no file system can be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := d.Remove(); err != nil {
			t.Error(err)
		}
	})
	path := filepath.Join(d.Path, "index.db")
	if err := Create(path); err != nil {
		t.Fatal(err)
	}
	before := time.Now().Add(-time.Hour)
	if err := os.Chtimes(path, before, before); err != nil {
		t.Fatal(err)
	}
	if err := d.Sync(); err != nil {
		t.Fatal(err)
	}
	begin := time.Now().Add(-time.Second) // file systems take the time from a slower clock
	x, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Marks().SetLinkOptions([]byte("changed")); err != nil {
		t.Fatal(err)
	}
	if err := d.Cut(); err != nil {
		t.Skipf("the power of this ext4 cannot be cut: %v", err)
	}
	_ = x.Close() // its disk is gone
	if err := d.Restart(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if !info.ModTime().After(begin) {
		t.Errorf("the file is of %s, and was changed after %s", info.ModTime(), begin)
	}
	again, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if options, err := again.Marks().LinkOptions(); err != nil || string(options) != "changed" {
		t.Errorf("link options %q, %v", options, err)
	}
}
