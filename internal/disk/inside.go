package disk

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Inside reports whether a path, be there something or not, is a folder or lies below it, whatever
// symbolic links lead there. What cannot be looked at lies nowhere.
func Inside(path, folder string) bool {
	root, err := os.Stat(folder)
	if err != nil {
		return false
	}
	if path, err = filepath.Abs(path); err != nil {
		return false
	}
	real, err := filepath.EvalSymlinks(path)
	for isNotThere(err) && filepath.Dir(path) != path {
		path = filepath.Dir(path)
		real, err = filepath.EvalSymlinks(path)
	}
	for err == nil {
		info, err := os.Stat(real)
		if err == nil && os.SameFile(info, root) {
			return true
		}
		if err != nil || filepath.Dir(real) == real {
			return false
		}
		real = filepath.Dir(real)
	}
	return false
}

func isNotThere(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}
