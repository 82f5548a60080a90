package disk

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestInside(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	err := errors.Join(os.MkdirAll(at("tree/sub"), 0o777), os.Mkdir(at("tree2"), 0o777), os.WriteFile(at("tree/file"), nil, 0o666),
		os.Symlink("tree/sub", at("link")), os.Symlink("nothing", at("dangling")), os.Symlink("../tree2", at("tree/out")))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{
		"tree": true, "tree/": true, "tree/file": true, "tree/new": true, "tree/new/er": true, "tree/file/new": true, "tree/sub/../x": true,
		"link": true, "link/new": true, "tree/../tree/x": true,
		".": false, "tree2": false, "tree2/x": false, "new": false, "tree/../x": false, "dangling": false, "dangling/x": false,
		"tree/out": false, "tree/out/x": false,
	} {
		if is := Inside(dir+"/"+path, at("tree")); is != want {
			t.Errorf("%s: %t, want %t", path, is, want)
		}
		if Inside(dir+"/"+path, at("none")) {
			t.Errorf("%s lies in a folder that is not there", path)
		}
	}
	if !Inside("inside.go", ".") || Inside("..", ".") {
		t.Error("relative")
	}
}
