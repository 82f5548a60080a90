package iut

import (
	"cmp"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"urltree/storage/record"
)

// Earlier versions of a page stand in its folder beside it, as content.html.VERSION and
// source.txt.VERSION, or as groups of segments. In folders they are written before the sync that
// makes the new version durable, as copies of what the folder has: so a kill leaves at most one
// that says the same as source.txt, which does not count.

// versionTime is the form of the time in the name of a version.
const versionTime = "20060102T150405Z"

// VersionOf returns the facts of an earlier version of a page, by which a tree finds it.
func VersionOf(r *record.Record) Facts {
	f := FactsOf(r)
	f.Earlier = true
	return f
}

// version returns VERSION: the time of the answer and the first 8 bytes of the SHA-256. They sort
// by time.
func (f *Facts) version() string {
	return time.Unix(f.Time, 0).UTC().Format(versionTime) + "-" + hex.EncodeToString(f.Digest[:8])
}

// suffix returns what the names of a page's files end in.
func (f *Facts) suffix() string {
	if f.Earlier {
		return "." + f.version()
	}
	return ""
}

// versionName returns the VERSION in the name of a file, and whether that is the one with the
// facts; "": it is no name of an earlier version.
func versionName(name string) (version string, facts bool) {
	for _, base := range []string{contentName, sourceName} {
		rest, ok := strings.CutPrefix(name, base+".")
		if !ok {
			continue
		}
		at, sum, _ := strings.Cut(rest, "-")
		digest, err := hex.DecodeString(sum)
		if t, terr := time.Parse(versionTime, at); terr == nil && err == nil && len(digest) == 8 && t.Format(versionTime) == at && hex.EncodeToString(digest) == sum {
			return rest, base == sourceName
		}
	}
	return "", false
}

// versionsIn returns the VERSIONs that a folder has files of, the oldest first.
func versionsIn(entries []Entry) (list []string) {
	for _, e := range entries {
		if v, _ := versionName(e.Name); v != "" && e.Type == 0 {
			list = append(list, v)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Versions returns how many versions of a page are kept, the newest included, by the latest run;
// negative: all of them.
func (t *Tree) Versions() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return cmp.Or(int(t.format.Versions), 1)
}

// trims returns Versions for what removes versions of which there are too many: 0 if there cannot
// be any.
func (t *Tree) trims() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return int(t.format.Versions)
}

// SetVersions sets what Versions returns. Errors are those of Keep.
func (t *Tree) SetVersions(n int) error {
	return t.change(func(f *Format) {
		if n != 1 || f.Versions != 0 { // a tree that never had others does not speak of it
			f.Versions = spare(n)
		}
	})
}

// keepVersion copies the page of a folder to the names of an earlier version, and reports whether
// that is whole there: a page that is not whole is not kept. The caller holds the lock of rel.
func (d *folders) keepVersion(rel, url string) (kept bool, err error) {
	f, err := d.look(rel, url, "", false)
	if errors.Is(err, ErrDisk) {
		return false, err
	}
	if err != nil {
		return false, nil
	}
	f.Earlier = true
	switch _, err := d.look(rel, url, f.suffix(), true); {
	case err == nil:
		return true, nil // a kill has left it, or it is an earlier one of the same second
	case errors.Is(err, ErrDisk):
		return false, err
	}
	content := path.Join(rel, contentName)
	err = d.copyFile(content, content+f.suffix())
	if err == nil {
		err = d.verify(content+f.suffix(), f.Digest)
	}
	if errors.Is(err, ErrTorn) {
		return false, DiskError("keep a version", d.fs.Remove(content+f.suffix()))
	}
	if err == nil {
		err = writeFile(d.fs, path.Join(rel, sourceName)+f.suffix(), os.O_CREATE|os.O_TRUNC, f.AppendLine(nil), false)
	}
	return err == nil, err
}

// trim removes the oldest versions in a folder of which there are too many, given how many are kept
// with the newest.
func (d *folders) trim(rel string, versions int) error {
	if versions <= 0 {
		return nil
	}
	entries, err := d.fs.List(rel)
	if err != nil {
		return DiskError("list", err)
	}
	list := versionsIn(entries)
	for n := len(list) - (versions - 1); n > 0; n-- {
		if err := d.removeVersion(rel, list[0]); err != nil {
			return err
		}
		list = list[1:]
	}
	return nil
}

// removeVersion removes the files of an earlier version, that with its facts first.
func (d *folders) removeVersion(rel, version string) error {
	for _, base := range []string{sourceName, contentName} {
		if err := d.fs.Remove(path.Join(rel, base) + "." + version); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return DiskError("remove a version in "+rel, err)
		}
	}
	return nil
}

// dropCopy removes the copy of a page that was made for a version which did not come.
func (d *folders) dropCopy(url string) error {
	rel, err := d.paths.Path(url)
	if err != nil {
		return nil
	}
	unlock := d.locks.lock(rel)
	defer unlock()
	f, err := d.look(rel, url, "", true)
	if err == nil {
		return d.removeVersion(rel, f.version())
	}
	if errors.Is(err, ErrDisk) {
		return err
	}
	return nil // what is whole may be the copy alone
}

// walkVersions calls fn with the earlier versions in a folder of a page, whose own facts are now.
func (d *folders) walkVersions(rel, url string, now Facts, entries []Entry, fn WalkFunc) error {
	for _, v := range versionsIn(entries) {
		if v == now.version() {
			continue // what a kill leaves, see keepVersion
		}
		unlock := d.locks.rlock(rel)
		f, err := d.look(rel, url, "."+v, false)
		unlock()
		if err == nil && f.version() != v {
			err = tornf("source.txt.%s is that of another version: %s", v, rel)
		}
		if errors.Is(err, ErrDisk) {
			return err
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = tornf("no source.txt.%s: %s", v, rel)
		}
		f.Earlier = true
		if err := fn(url, rel+"/"+sourceName+"."+v, PageStatus{PageEarlier, err}, f); err != nil {
			return err
		}
	}
	return nil
}

// DropVersion removes what a tree of folders has of an earlier version. Groups of segments stay
// until they are compacted.
func (t *Tree) DropVersion(at Facts) error {
	d, ok := t.pages.(*folders)
	if !ok {
		return nil
	}
	rel, err := d.paths.Path(at.URL)
	if err != nil {
		return nil
	}
	unlock := d.locks.lock(rel)
	defer unlock()
	return d.removeVersion(rel, at.version())
}

// storeVersion is store for an earlier version.
func (d *folders) storeVersion(p *Page, line []byte) (Result, error) {
	f := p.Facts
	rel, err := d.paths.Path(f.URL)
	if err != nil {
		return Result{}, err
	}
	unlock := d.locks.lock(rel)
	defer unlock()
	if _, err := d.makeFolder(rel); err != nil {
		return Result{}, d.pageError("make folder", rel, nameError{err})
	}
	content := path.Join(rel, contentName) + f.suffix()
	switch _, err := d.look(rel, f.URL, f.suffix(), true); {
	case err == nil:
		d.fs.Adopt(rel)
		return Result{Facts: f}, (&segments{fs: d.fs}).dropTemp(p)
	case errors.Is(err, ErrDisk):
		return Result{}, err
	}
	if err := d.writeContent(content, p); err != nil {
		return Result{}, d.pageError("write content of", rel, err)
	}
	err = writeFile(d.fs, path.Join(rel, sourceName)+f.suffix(), os.O_CREATE|os.O_TRUNC, line, false)
	if err != nil {
		err = d.pageError("write source of", rel, err)
	}
	return Result{Facts: f}, err
}

// copyFile copies a file over another one.
func (d *folders) copyFile(from, to string) error {
	in, err := d.fs.Open(from, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := d.fs.Open(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
