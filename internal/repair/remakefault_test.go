package repair

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"urltree/internal/faultfs"
	"urltree/internal/testseed"
	"urltree/iut"
	"urltree/storage"
	"urltree/storage/record"
)

// A remake is forget, compact or unite with a tree that is in memory.
type remake struct {
	begin func(t *testing.T) (disk *faultfs.Mem, path string) // a copy of the tree that it begins with, and its index
	run   func(ctx context.Context, disk iut.FS, path string) error
	least int // calls that it makes
}

// gone are the entries that the tests forget: URLs with and without a page, one that the index does
// not know, and a page whose body another one has.
var gone = []iut.ForgottenEntry{
	{Kind: iut.ForgottenURL, Text: "http://a.org/"},
	{Kind: iut.ForgottenURL, Text: "http://a.org/p3"},
	{Kind: iut.ForgottenPrefix, Text: "http://a.org/p1/"},
	{Kind: iut.ForgottenHost, Text: "c.org"},
}

func forgottenEntries(list []iut.ForgottenEntry) iter.Seq2[iut.ForgottenEntry, error] {
	return func(yield func(iut.ForgottenEntry, error) bool) {
		for _, e := range list {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// onDisk calls fn with a tree in memory and its index.
func onDisk(disk iut.FS, path string, how iut.Options, fn func(*iut.Tree, *storage.Index) error) error {
	how.FS, how.Segments = disk, iut.SegmentOptions{Size: 1 << 10}
	tree, err := iut.Open("", how)
	if err != nil {
		return err
	}
	index, err := storage.Open(path, storage.Options{NoSync: true})
	if err != nil {
		return errors.Join(err, tree.Close())
	}
	return errors.Join(fn(tree, index), index.Close(), tree.Close())
}

func forgetOn(ctx context.Context, disk iut.FS, path string) error {
	return onDisk(disk, path, iut.Options{Forgetting: true}, func(tree *iut.Tree, index *storage.Index) error {
		_, err := (&Forget{Tree: tree, Index: index}).Run(ctx, forgottenEntries(gone))
		return err
	})
}

func compactOn(ctx context.Context, disk iut.FS, path string) error {
	return onDisk(disk, path, iut.Options{}, func(tree *iut.Tree, index *storage.Index) error {
		c := newCompaction(tree, CompactOptions{})
		c.index = index
		return c.run(ctx)
	})
}

// uniteOn returns a union of some trees on disk that is made in memory.
func uniteOn(store string, roots []string) func(ctx context.Context, disk iut.FS, path string) error {
	return func(ctx context.Context, disk iut.FS, path string) (err error) {
		u := newUniting(UniteOptions{Root: filepath.Dir(path), Store: store, most: 2})
		defer func() {
			for _, p := range u.parts {
				err = errors.Join(err, p.close())
			}
		}()
		for _, root := range roots {
			p, err := openPart(root)
			if err != nil {
				return err
			}
			u.parts = append(u.parts, p)
		}
		identity, err := u.identity()
		if err == nil {
			u.tree, err = iut.Open("", iut.Options{FS: disk, Identity: &identity, Uniting: true, Segments: iut.SegmentOptions{Size: 1 << 10}})
		}
		if err != nil {
			return err
		}
		if err = os.Remove(path); err == nil || errors.Is(err, fs.ErrNotExist) { // which Open does on a disk
			err = u.run(ctx)
		}
		return errors.Join(err, u.tree.Close())
	}
}

// remakes returns all of them, in a store.
func remakes(t *testing.T, store string) map[string]*remake {
	m := newMemTree(t, store)
	fromWhole := func(t *testing.T) (*faultfs.Mem, string) { return m.copy(t) }
	all := map[string]*remake{"forget": {fromWhole, forgetOn, 40}}
	if store == iut.StoreWARC {
		all["compact"] = &remake{func(t *testing.T) (*faultfs.Mem, string) {
			disk, path := m.copy(t)
			if err := errors.Join(forgetOn(t.Context(), disk, path), disk.SyncAll()); err != nil {
				t.Fatal(err)
			}
			return disk, path
		}, compactOn, 40}
	}
	whole := wholeCrawl(t)
	defer whole.Close()
	part := partOf(t, whole, iut.StoreFolders, func(url string) bool { return !strings.HasSuffix(url, "1") })
	all["unite"] = &remake{func(t *testing.T) (*faultfs.Mem, string) {
		return faultfs.NewMem(), indexFile(t, nil)
	}, uniteOn(store, []string{part}), 80}
	return all
}

// told returns what a tree has, and requires that it is sound.
func told(t *testing.T, what string, disk iut.FS, path string) (lines []string) {
	t.Helper()
	err := onDisk(disk, path, iut.Options{}, func(tree *iut.Tree, index *storage.Index) error {
		known := iut.Committed{Has: func(f iut.Facts) bool {
			r, err := index.Record(f.URL)
			return err == nil && r.Extent == f.Extent
		}}
		var err error
		if known.Ends, err = index.Marks().SegmentEnds(t.Context()); err == nil {
			err = tree.Recover(known)
		}
		if err != nil {
			return err
		}
		err = index.Records(t.Context(), nil, func(r record.Record, err error) error {
			body := []byte(nil)
			if err == nil && r.State == record.Stored {
				_, body, err = tree.Load(iut.FactsOf(&r))
			}
			r.Extent = record.Extent{}
			lines = append(lines, fmt.Sprintf("%+v %d", r, len(body)))
			return err
		})
		if err == nil {
			err = tree.EachForgotten(func(e iut.ForgottenEntry) error {
				lines = append(lines, e.Kind+" "+e.Text)
				return nil
			})
		}
		if err == nil {
			_, err = index.Verify(t.Context(), func(fault string) { t.Errorf("%s: %s", what, fault) })
		}
		return err
	})
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	return lines
}

// TestRemakeFailsAtEveryCall: a disk that fails ends forget, compact and unite with its error, and
// the same command comes to the same end afterwards.
func TestRemakeFailsAtEveryCall(t *testing.T) {
	seed := testseed.Draw(t)
	for _, store := range []string{iut.StoreFolders, iut.StoreWARC} {
		for name, r := range remakes(t, store) {
			t.Run(store+" "+name, func(t *testing.T) {
				t.Parallel()
				disk, path := r.begin(t)
				if err := r.run(t.Context(), disk, path); err != nil {
					t.Fatal(err)
				}
				want, k := told(t, "undisturbed", disk, path), int(seed%uint64(step()))
				for r.fails(t, k, want) {
					k += step()
				}
				if k < r.least {
					t.Errorf("it makes only %d calls", k)
				}
			})
		}
	}
}

// fails lets call k and all later ones fail, or that one alone, and reports whether there was one.
func (r *remake) fails(t *testing.T, k int, want []string) bool {
	t.Helper()
	disk, path := r.begin(t)
	fault := faultfs.FailAfter(disk, k, syscall.EIO)
	fault.Once, fault.Short = k%2 == 1, k%3 == 1
	err := r.run(t.Context(), fault, path)
	if !fault.Failed() {
		if err != nil {
			t.Fatal(err)
		}
		return false
	}
	what := fmt.Sprintf("call %d, %s", k, fault.Calls()[k])
	switch {
	case err == nil && !mayPass(fault.Calls()[k]):
		t.Fatalf("%s failed, and nobody was told", what)
	case err != nil && (!errors.Is(err, iut.ErrDisk) && !errors.Is(err, iut.ErrPage) || !errors.Is(err, syscall.EIO)):
		t.Fatalf("%s: %v, want ErrDisk and EIO", what, err)
	}
	if err := r.run(t.Context(), disk, path); err != nil && !errors.Is(err, fs.ErrExist) { // a union that was whole
		t.Fatalf("%s, then again: %v", what, err)
	}
	if is := told(t, what, disk, path); !slices.Equal(is, want) {
		t.Fatalf("%s: the tree is another one:\n%s\nwant\n%s", what, strings.Join(is, "\n"), strings.Join(want, "\n"))
	}
	return true
}
