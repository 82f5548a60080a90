package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"urltree/iut"
)

// A makingDisk calls look ahead of the step that makes FORMAT.
type makingDisk struct {
	iut.FS
	look func()
}

func (d makingDisk) Rename(from, to string) error {
	if to == "FORMAT" {
		d.look()
	}
	return d.FS.Rename(from, to)
}

// TestTreeInTheMaking runs every command that wants a tree while another process has only just
// begun to make it: each says who has it, and exits with 3.
func TestTreeInTheMaking(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	root := filepath.Join(dir, "iut")
	if err := os.Mkdir(root, 0o777); err != nil {
		t.Fatal(err)
	}
	disk, err := iut.OpenDisk(root, iut.SyncNone)
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	const url = "http://127.0.0.1:1/"
	commands := 0
	look := func() {
		for _, args := range [][]string{
			{"ls"},
			{"show", url},
			{"cat", url},
			{"path", url},
			{"why", url},
			{"stats"},
			{"stats", "-watch"},
			{"stats", "-duplicates"},
			{"stats", "-degrees"},
			{"export"},
			{"broken"},
			{"options"},
			{"options", "-reset", "scope"},
			{"rank"},
			{"check"},
			{"merge"},
			{"retry"},
			{"-quiet"},
			{"-quiet", url},
		} {
			commands++
			want := fmt.Sprintf("crawler: tree is in use: process %d has iut\n", os.Getpid())
			if stdout, stderr, code := call(t, dir, args...); stdout != "" || stderr != want || code != exitTree {
				t.Errorf("crawler %q: exit %d, want %d; standard error: %q, want %q; standard output: %q", args, code, exitTree, stderr, want, stdout)
			}
		}
	}
	tree, err := iut.Open(root, iut.Options{FS: makingDisk{disk, look}, Identity: &iut.Identity{Canonical: "1", Partition: "host"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := tree.Close(); err != nil {
		t.Fatal(err)
	}
	if commands == 0 {
		t.Error("FORMAT was made otherwise: no command has run meanwhile")
	}
	// Nobody crawls, and somebody has the tree.
	tree, err = iut.Open(root, iut.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	if _, stderr, code := call(t, dir, "stats", "-watch"); code != exitTree {
		t.Errorf("crawler stats -watch of a tree in use: exit %d, want %d: %s", code, exitTree, stderr)
	}
}
