package iut

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"

	"urltree/storage/record"
)

// RemoveForgotten removes from a tree of folders the pages that are kept out, those of which the
// index does not know as well, their damaged files, and the folders that are empty then. It calls
// each after each page with its folder and whether it is gone, and ends with its error: a defect
// stays, for a person to look at. What stands in segments stays there, see [Tree.Walk]. It may be
// cut off and done again. Errors are [ErrDisk].
func (t *Tree) RemoveForgotten(each func(folder string, removed bool) error) error {
	if err := t.writable(); err != nil {
		return err
	}
	d, ok := t.pages.(*folders)
	if !ok {
		return nil
	}
	list := t.Forgotten()
	err := t.EachForgotten(func(e ForgottenEntry) error {
		if e.Kind == ForgottenURL {
			rel, err := d.paths.Path(e.Text)
			if err == nil {
				err = d.forgetPage(rel, e.Text, each)
			}
			return err
		}
		return d.forgetBelow(e, list.Has, each)
	})
	if err != nil {
		return err
	}
	return t.Sync()
}

// forgetBelow removes the pages of a host or a prefix that gone reports to be kept out.
func (d *folders) forgetBelow(e ForgottenEntry, gone func(string) (bool, error), each func(folder string, removed bool) error) error {
	roots := []string{e.Text}
	if e.Kind == ForgottenHost {
		roots = []string{"http://" + e.Text + "/", "https://" + e.Text + "/"}
	}
	for _, url := range roots {
		host, err := d.paths.Path(url[:strings.Index(url, "://")+3] + record.Host(url) + "/")
		if err != nil {
			return err
		}
		key, err := prefixKey(url)
		if err != nil {
			return err
		}
		if url, err = record.URL(key); err != nil {
			return err
		}
		below, err := d.paths.Path(url)
		if err != nil {
			return err
		}
		if below != host { // pages with a long path are in the folder of the host
			entries, err := d.fs.List(host)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return DiskError("list", err)
			}
			for _, entry := range entries {
				if rel := host + "/" + entry.Name; entry.Type.IsDir() && isOverlong(rel) {
					if err := d.clearFolder(rel, gone, each); err != nil {
						return err
					}
				}
			}
		}
		switch _, err := d.fs.Stat(below); {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return DiskError("look at "+below, err)
		default:
			if err := d.clearFolder(below, gone, each); err != nil {
				return err
			}
		}
		if err := d.prune(below); err != nil {
			return err
		}
	}
	return nil
}

// forgetPage removes the page of a folder, and the folders that are empty then.
func (d *folders) forgetPage(rel, url string, each func(folder string, removed bool) error) error {
	switch _, err := d.fs.Stat(rel); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return DiskError("look at "+rel, err)
	}
	removed, err := d.clearPage(rel, url, true)
	if err == nil {
		err = d.prune(rel)
	}
	if err != nil {
		return err
	}
	return each(rel, removed)
}

// prune removes a folder and those above it that are empty.
func (d *folders) prune(rel string) error {
	for ; rel != "."; rel = path.Dir(rel) {
		if err := removeFolder(d.fs, rel); err != nil {
			return err
		}
	}
	return nil
}

// ForgetSource has source.txt of a page name no source, where that is one of a folder. Its body is
// not looked at. It is durable after the next Sync; a kill leaves the old line or the new one. A
// page that is not there is no error. Errors are those of Load.
func (t *Tree) ForgetSource(at Facts) error {
	if err := t.writable(); err != nil {
		return err
	}
	d, ok := t.pages.(*folders)
	if !ok {
		return nil
	}
	rel, err := d.paths.Path(at.URL)
	if err != nil {
		return err
	}
	unlock := d.locks.lock(rel)
	defer unlock()
	f, err := d.look(rel, at.URL, at.suffix(), false)
	if errors.Is(err, fs.ErrNotExist) || err == nil && f.Source == record.Forgotten {
		return nil
	}
	if err != nil {
		return err
	}
	f.Source = record.Forgotten
	const name = tempFolder + "/source"
	if err = writeFile(d.fs, name, os.O_CREATE|os.O_TRUNC, f.AppendLine(nil), true); err == nil {
		err = d.fs.Rename(name, rel+"/"+sourceName+at.suffix())
	}
	d.fs.Adopt(rel)
	return DiskError("write source of "+rel, err)
}
