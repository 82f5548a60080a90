package crawler_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"urltree/crawler"
	"urltree/iut"
)

// A foldingDisk takes names that differ in case for one, as those of other systems do. It keeps
// them in small letters.
type foldingDisk struct{ iut.FS }

func (d foldingDisk) Mkdir(name string) error { return d.FS.Mkdir(strings.ToLower(name)) }

func (d foldingDisk) Open(name string, flag int) (iut.File, error) {
	return d.FS.Open(strings.ToLower(name), flag)
}

func (d foldingDisk) Rename(from, to string) error {
	return d.FS.Rename(strings.ToLower(from), strings.ToLower(to))
}

func (d foldingDisk) Remove(name string) error { return d.FS.Remove(strings.ToLower(name)) }

func (d foldingDisk) List(name string) ([]iut.Entry, error) { return d.FS.List(strings.ToLower(name)) }

func (d foldingDisk) Stat(name string) (iut.Entry, error) { return d.FS.Stat(strings.ToLower(name)) }

func (d foldingDisk) SyncDir(name string) error { return d.FS.SyncDir(strings.ToLower(name)) }

func (d foldingDisk) Adopt(name string) { d.FS.Adopt(strings.ToLower(name)) }

// TestFoldingDisk: where the case of names does not count, pages whose URLs differ in nothing else
// are kept apart. A tree from elsewhere is not gone on with there.
func TestFoldingDisk(t *testing.T) {
	paths := []string{"/", "/A", "/Page", "/a", "/a/b", "/A/B", "/page", "/page?Q=1", "/page?q=1", "/%C3%A4", "/%C3%84"}
	origin := hosts(t, 1, func(_ int, rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(rw, "<p>%s", r.URL)
		for _, p := range paths {
			fmt.Fprintf(rw, "<a href='%s'>", p)
		}
	})[0]
	var want []string
	for _, p := range paths {
		want = append(want, origin+p)
	}
	slices.Sort(want)
	for _, folds := range []bool{true, false} {
		dir := t.TempDir()
		opts := crawler.Options{
			Tree:       filepath.Join(dir, "iut"),
			Output:     filepath.Join(dir, "res.txt"),
			Seeds:      []string{origin + "/"},
			Politeness: crawler.Politeness{Delay: -1, IgnoreRobots: true},
			HTTP:       crawler.HTTP{AllowPrivate: true},
			Storage:    crawler.Storage{NoSync: true},
		}
		if err := os.Mkdir(opts.Tree, 0o777); err != nil {
			t.Fatal(err)
		}
		real, err := iut.OpenDisk(opts.Tree, iut.SyncNone)
		if err != nil {
			t.Fatal(err)
		}
		defer real.Close()
		if folds {
			opts.FS = foldingDisk{real}
		}
		if _, err := crawler.Run(t.Context(), opts); err != nil {
			t.Fatal(err)
		}
		requireSame(t, crawled(t, opts.Output), want)
		fsys := opts.FS
		if fsys == nil {
			fsys = real
		}
		tree, err := iut.Open("", iut.Options{FS: fsys})
		if err != nil {
			t.Fatal(err)
		}
		for _, url := range want {
			if f, ok, err := tree.Complete(iut.Facts{URL: url}, true); !ok || err != nil || f.URL != url {
				t.Errorf("folds %v: %s is not complete: %v", folds, url, err)
			}
		}
		if err := tree.Close(); err != nil {
			t.Fatal(err)
		}

		// Once more, on a disk that folds. A moved tree has its files in capitals still.
		opts.FS = movedDisk{foldingDisk{real}, real}
		if folds {
			opts.FS = foldingDisk{real}
		}
		if _, err := crawler.Run(t.Context(), opts); errors.Is(err, iut.ErrIdentity) == folds || folds && err != nil {
			t.Errorf("folds %v: the second run gives %v", folds, err)
		}
	}
}

// A movedDisk folds the case of new names, and finds the old ones as they are or in small letters.
type movedDisk struct {
	foldingDisk
	real iut.FS
}

func (d movedDisk) Open(name string, flag int) (iut.File, error) {
	if _, err := d.real.Stat(name); err == nil {
		return d.real.Open(name, flag)
	}
	return d.foldingDisk.Open(name, flag)
}

func (d movedDisk) Stat(name string) (iut.Entry, error) {
	if e, err := d.foldingDisk.Stat(name); err == nil {
		return e, nil
	}
	return d.real.Stat(strings.ToUpper(name))
}
