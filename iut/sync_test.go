package iut_test

import (
	"strings"
	"testing"

	"urltree/iut"
)

func TestSyncFileByFile(t *testing.T) {
	root := t.TempDir()
	tree := open(t, root)
	adopted := page(0)
	store(t, tree, adopted) // by a process that never synced
	tree.Close()

	d := disk(t, root, iut.SyncFiles)
	tree = open(t, root, onFS(d))
	if mode := d.SyncMode(); mode != "fsync" {
		t.Fatalf("mode %q", mode)
	}
	sync := func(want string) {
		t.Helper()
		got := " " + strings.Join(d.Written(), " ") + " "
		for _, name := range strings.Fields(want) {
			if !strings.Contains(got, " "+name+" ") {
				t.Errorf("the next sync leaves out %s, it has%s", name, got)
			}
		}
		if err := tree.Sync(); err != nil {
			t.Fatal(err)
		}
		if left := d.Written(); len(left) != 0 {
			t.Errorf("after a sync %q are left", left)
		}
	}
	above := ". pr-https pr-https/do-example pr-https/do-example/do-org "
	store(t, tree, adopted)
	dir := "pr-https/do-example/do-org/dr-d0"
	sync(above + dir + " " + dir + "/dr-p0 " + dir + "/dr-p0/content.html " + dir + "/dr-p0/source.txt")

	store(t, tree, page(3)) // the folders above may be of a killed process
	sync(above + dir + " " + dir + "/dr-p3 " + dir + "/dr-p3/content.html " + dir + "/dr-p3/source.txt")

	p := page(6)
	if err := useTemp(tree, p); err != nil {
		t.Fatal(err)
	}
	store(t, tree, p)
	sync(dir + "/dr-p6 " + dir + "/dr-p6/content.html " + dir + "/dr-p6/source.txt")

	// What is still being written at a sync belongs to the next one, from its first byte.
	f, err := tree.Temp(nil)
	if err != nil {
		t.Fatal(err)
	}
	sync("tmp")
	if _, err := f.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	f.Close()
	sync(f.Name())
}

func TestSyncModes(t *testing.T) {
	root := t.TempDir()
	if mode := disk(t, root, iut.SyncNone).SyncMode(); mode != "none" {
		t.Errorf("SyncNone is %q", mode)
	}
	full := disk(t, root, iut.SyncFull)
	if mode := full.SyncMode(); mode != "syncfs" && mode != "fsync" {
		t.Errorf("SyncFull is %q", mode)
	}
	tree := open(t, root, onFS(full))
	store(t, tree, page(1))
	if err := tree.Sync(); err != nil {
		t.Error(err)
	}
	if bytes, inodes, err := full.Free(); err != nil || bytes == 0 || inodes == 0 {
		t.Errorf("Free = %d, %d, %v", bytes, inodes, err)
	}
}
