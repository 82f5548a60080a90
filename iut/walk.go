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
)

func (k PageKind) String() string {
	switch k {
	case PageComplete:
		return "complete"
	case PageTorn:
		return "torn"
	case PageDefect:
		return "defect"
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

// Walk calls fn for every page below the root, and for every file or folder that is not of
// this program, with its path. A folder comes before what is below it, the names of a folder
// in byte order. It compares the length of content.html, not the SHA-256.
//
// The url is empty for foreign files and for a torn page in an ov- folder. An error of fn ends
// the walk and is returned; other errors are [ErrDisk]. The names of the folders above the
// present one are held in memory. Files in the root itself are not looked at.
func (t *Tree) Walk(fn func(url, rel string, st PageStatus, f Facts) error) error {
	entries, err := t.fs.List(".")
	if err != nil {
		return DiskError("list", err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name, "pr-") {
			if err := t.walkEntry(e.Name, e, fn); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *Tree) walkEntry(rel string, e Entry, fn func(string, string, PageStatus, Facts) error) error {
	_, _, isFolder := decodePath(rel)
	switch {
	case !e.Type.IsDir() && e.Type != 0:
		return fn("", rel, PageStatus{PageForeign, errLink}, Facts{})
	case !e.Type.IsDir(), !isFolder && !isOverlong(rel):
		return fn("", rel, PageStatus{PageForeign, errNotPage}, Facts{})
	}
	entries, err := t.fs.List(rel)
	if err != nil {
		return DiskError("list", err)
	}
	url, err := t.paths.URLOf(rel)
	isPage := err == nil || isOverlong(rel)
	found := false
	for _, e := range entries {
		found = found || e.Name == contentName || e.Name == sourceName
	}
	if isPage && found {
		url, st, f := t.status(rel, url)
		if errors.Is(st.Err, ErrDisk) {
			return st.Err
		}
		if err := fn(url, rel, st, f); err != nil {
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
		if err := t.walkEntry(rel+"/"+e.Name, e, fn); err != nil {
			return err
		}
	}
	return nil
}

// status looks at one page. The URL of an ov- folder is known from source.txt alone.
func (t *Tree) status(rel, url string) (string, PageStatus, Facts) {
	unlock := t.locks.rlock(rel)
	defer unlock()
	f, err := t.look(rel, url, false)
	if url == "" && f.URL != "" {
		if own, _ := t.paths.Path(f.URL); own == rel {
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
