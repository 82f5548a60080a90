package iut

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// A PageKind sorts what Walk meets.
type PageKind uint8

const (
	PageComplete PageKind = 1 + iota
	PageTorn              // to be written anew
	PageDefect            // as no kill leaves it, see [ErrDefect]
	PageForeign           // not of this program; not looked into
	PageEarlier           // an earlier version; Err says why it is not whole
)

func (k PageKind) String() string {
	switch k {
	case PageComplete:
		return "complete"
	case PageTorn:
		return "torn"
	case PageDefect:
		return "defect"
	case PageEarlier:
		return "earlier version"
	}
	return "foreign"
}

// A PageStatus is the state of a page.
type PageStatus struct {
	Kind PageKind
	Err  error // what is wrong; nil for PageComplete
}

var (
	errNotPage = errors.New("iut: not a page folder")
	errLink    = errors.New("iut: not a file or folder")
)

// A WalkFunc is called with a page, see [Tree.Walk].
type WalkFunc func(url, rel string, st PageStatus, f Facts) error

func (d *folders) walk(fn WalkFunc) error {
	entries, err := d.fs.List(".")
	if err != nil {
		return DiskError("list", err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name, "pr-") {
			if err := d.walkEntry(e.Name, e, fn); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *folders) walkEntry(rel string, e Entry, fn WalkFunc) error {
	_, _, isFolder := decodePath(rel)
	switch {
	case !e.Type.IsDir() && e.Type != 0:
		return fn("", rel, PageStatus{PageForeign, errLink}, Facts{})
	case !e.Type.IsDir(), !isFolder && !isOverlong(rel):
		return fn("", rel, PageStatus{PageForeign, errNotPage}, Facts{})
	}
	entries, err := d.fs.List(rel)
	if err != nil {
		return DiskError("list", err)
	}
	url, err := d.paths.URLOf(rel)
	isPage := err == nil || isOverlong(rel)
	found := false
	for _, e := range entries {
		found = found || e.Name == contentName || e.Name == sourceName
	}
	var now Facts
	if isPage && found {
		var st PageStatus
		url, st, now = d.status(rel, url)
		if errors.Is(st.Err, ErrDisk) {
			return st.Err
		}
		if err := fn(url, rel, st, now); err != nil {
			return err
		}
	}
	if isPage {
		if err := d.walkVersions(rel, url, now, entries, fn); err != nil {
			return err
		}
	}
	for _, e := range entries {
		name := e.Name
		if e.Type == 0 {
			name = strings.TrimSuffix(name, damagedSuffix) // kept for people
		}
		if isPage && (name == contentName || name == sourceName) {
			continue
		}
		if version, _ := versionName(e.Name); isPage && version != "" && e.Type == 0 {
			continue
		}
		if err := d.walkEntry(rel+"/"+e.Name, e, fn); err != nil {
			return err
		}
	}
	return nil
}

// status looks at one page. The URL of an ov- folder is known from source.txt alone.
func (d *folders) status(rel, url string) (string, PageStatus, Facts) {
	unlock := d.locks.rlock(rel)
	defer unlock()
	f, err := d.look(rel, url, "", false)
	if url == "" && f.URL != "" {
		if own, _ := d.paths.Path(f.URL); own == rel {
			url = f.URL
		} else {
			err = fmt.Errorf("%w: %w: %s names %s", ErrTorn, ErrDefect, rel, f.URL)
		}
	}
	switch {
	case err == nil:
		return url, PageStatus{Kind: PageComplete}, f
	case errors.Is(err, ErrDefect):
		return url, PageStatus{PageDefect, err}, f
	case errors.Is(err, fs.ErrNotExist):
		err = tornf("no source.txt: %s", rel)
	}
	return url, PageStatus{PageTorn, err}, f
}
