package iut

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"urltree/internal/disk"
)

// ErrTree says that something else lies in the root under a name of ours, which nobody but a
// person can put right.
var ErrTree = errors.New("iut: damaged tree")

// checkRoot checks that files and folders in the root, if there, are what their names say.
func checkRoot(root string) error {
	for _, want := range []struct {
		name   string
		folder bool
	}{{formatName, false}, {lockName, false}, {seedsName, false}, {forgottenName, false}, {edgesName, false}, {tempFolder, true}, {segmentFolder, true}} {
		info, err := os.Lstat(filepath.Join(root, want.name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return DiskError("look at the root", err)
		case want.folder && !info.IsDir():
			return fmt.Errorf("%w: %s is no folder; move it away", ErrTree, filepath.Join(root, want.name))
		case !want.folder && !info.Mode().IsRegular():
			return fmt.Errorf("%w: %s is no file; move it away", ErrTree, filepath.Join(root, want.name))
		}
	}
	return nil
}

// lacksFormat is the error for a root without FORMAT: nil if create is set and the folder holds no
// more than a kill leaves before FORMAT is written, or a new file system has. [ErrFormat] where it
// has other parts of a tree, for only FORMAT has the rules by which its names were made; [ErrBusy]
// while another process makes the tree; else fs.ErrNotExist.
func (t *Tree) lacksFormat(create bool) error {
	has, err := t.foreign()
	switch {
	case err != nil:
		return DiskError("look at the root", err)
	case madeAfterFormat(has):
		return fmt.Errorf("%w: %s has %s but no %s; %s", ErrFormat, t.root, has, formatName, formatRepair)
	case create && has != "":
		return fmt.Errorf("%w: %s has %s but no %s: not a tree; name a new or empty folder", ErrFormat, t.root, has, formatName)
	case create:
		return nil
	case has == "" && t.root != "" && t.owner == nil:
		if err := InUse(t.root); err != nil {
			return err
		}
	}
	return fmt.Errorf("iut: no tree in %s: %w", t.root, fs.ErrNotExist)
}

// madeAfterFormat reports whether a name in the root is of a part that a tree has only after
// FORMAT.
func madeAfterFormat(name string) bool {
	return name == "index.db" || name == seedsName || strings.HasPrefix(name, "pr-")
}

// formatRepair says what to do about a FORMAT that is lost or bad.
const formatRepair = "put FORMAT back, or copy that of a new tree made with the same options on the same disk"

// otherVersion reports whether a FORMAT that no version here reads begins as one does that another
// program wrote: it is whole then.
func otherVersion(text []byte) bool {
	first, _, _ := strings.Cut(string(text), "\n")
	number, ok := strings.CutPrefix(first, formatWord)
	version, err := strconv.Atoi(number)
	return ok && err == nil && (version < oldestFormat || version > formatVersion)
}

// readFormat reads FORMAT. there is false if create is set and a tree may be made, see lacksFormat.
// It changes nothing on the disk.
func (t *Tree) readFormat(create bool) (f Format, there bool, err error) {
	text, err := readFile(t.fs, formatName)
	switch {
	case err == nil:
		f, version, err := parseFormat(text)
		if err != nil && (version != 0 || !otherVersion(text)) {
			err = fmt.Errorf("%w; %s", err, formatRepair)
		}
		if err == nil && version != formatVersion && !t.upgrade {
			err = fmt.Errorf("%w: version %d, this program reads %d", ErrOlder, version, formatVersion)
		}
		if err == nil && f.Uniting && !t.uniting {
			err = fmt.Errorf("%w in %s", ErrUniting, t.root)
		}
		t.older = err == nil && version != formatVersion
		return f, true, err
	case !errors.Is(err, fs.ErrNotExist):
		return f, false, DiskError("read", err)
	}
	missing := t.lacksFormat(create)
	if missing == nil {
		return f, false, nil
	}
	// Another process may have made the tree between the two looks.
	if _, err := t.fs.Stat(formatName); err == nil {
		return t.readFormat(create)
	}
	return f, false, missing
}

// foreign returns a name in the root, or in tmp, that an unfinished tree does not have, one of
// madeAfterFormat if there is one; "": there is none.
func (t *Tree) foreign() (string, error) {
	entries, err := t.fs.List(".")
	if err != nil {
		return "", err
	}
	if i := slices.IndexFunc(entries, func(e Entry) bool { return madeAfterFormat(e.Name) }); i >= 0 {
		return entries[i].Name, nil
	}
	for _, e := range entries {
		switch e.Name {
		case formatNewName, "lost+found":
		case lockName: // empty, or the pid of who was killed
			text, err := readFile(t.fs, lockName)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return "", err
			}
			if pid := strings.TrimSuffix(string(text), "\n"); strings.Trim(pid, "0123456789") != "" {
				return e.Name, nil
			}
		case tempFolder:
			temp, err := t.fs.List(tempFolder)
			if err != nil {
				return "", err
			}
			for _, e := range temp {
				name := tempFolder + "/" + e.Name
				if name != probeName {
					return name, nil
				}
				if e, err := t.fs.Stat(name); err == nil && (e.Type != 0 || e.Size > 0) {
					return name, nil
				}
			}
		default:
			return e.Name, nil
		}
	}
	return "", nil
}

// makeRoot makes the folder of a tree and those above it. Syncs of the tree need not reach above
// its root, so the folders that hold the new ones are synced here, and until there is a FORMAT the
// one that holds the root, for who made it may have died before that.
func makeRoot(root string, durable bool) error {
	var holders []string
	if _, err := os.Lstat(filepath.Join(root, formatName)); err != nil {
		for dir := filepath.Clean(root); ; {
			above := filepath.Dir(dir)
			holders = append(holders, above)
			if _, err := os.Lstat(above); err == nil || above == dir {
				break
			}
			dir = above
		}
	}
	if err := os.MkdirAll(root, 0o777); err != nil || !durable {
		return err
	}
	for _, dir := range holders {
		// Who may not read a folder cannot sync it.
		if err := disk.SyncFolder(dir); err != nil && !errors.Is(err, fs.ErrPermission) {
			return err
		}
	}
	return nil
}
