package iut

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// ErrTree says that something else lies in the root under a name of ours, which nobody but a
// person can put right.
var ErrTree = errors.New("iut: damaged tree")

// checkRoot wants files and folders in the root to be what their names say, where they are there.
func checkRoot(root string) error {
	for _, want := range []struct {
		name   string
		folder bool
	}{{formatName, false}, {lockName, false}, {seedsName, false}, {tempFolder, true}} {
		info, err := os.Lstat(filepath.Join(root, want.name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return diskError("look at the root", err)
		case want.folder && !info.IsDir():
			return fmt.Errorf("%w: %s is no folder; move it away", ErrTree, filepath.Join(root, want.name))
		case !want.folder && !info.Mode().IsRegular():
			return fmt.Errorf("%w: %s is no file; move it away", ErrTree, filepath.Join(root, want.name))
		}
	}
	return nil
}

// noTree is the error for a root without FORMAT: fs.ErrNotExist, or [ErrFormat] where other parts of
// a tree are there, for only FORMAT has the rules by which its names were made.
func noTree(root string) error {
	entries, err := os.ReadDir(root)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return diskError("list", err)
	}
	for _, e := range entries {
		if name := e.Name(); name == "index.db" || name == seedsName || strings.HasPrefix(name, "pr-") {
			return lacksFormat(root, name)
		}
	}
	return fmt.Errorf("iut: no tree in %s: %w", root, fs.ErrNotExist)
}

func lacksFormat(root, has string) error {
	return fmt.Errorf("%w: %s has %s but no %s: not a tree, or a damaged one", ErrFormat, root, has, formatName)
}
