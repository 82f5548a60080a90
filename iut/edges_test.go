package iut_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"

	"urltree/internal/edges"
	"urltree/internal/faultfs"
	"urltree/internal/testseed"
	"urltree/iut"
	"urltree/storage"
	"urltree/storage/record"
)

// edgesIndex keeps what was committed, and how much of the file of edges counts. It fails at one
// transaction.
type edgesIndex struct {
	fails  int // the transaction, from 1; 0: none
	commit int
	end    int64
	urls   []string
}

func (x *edgesIndex) Commit(set []*record.Outcome) (storage.Committed, error) {
	if x.commit++; x.commit == x.fails {
		return storage.Committed{}, errors.New("no place left")
	}
	for _, o := range set {
		if o.State == record.Stored {
			x.urls, x.end = append(x.urls, o.Row.URL), o.EdgesEnd
		}
	}
	return storage.Committed{Next: make([]record.Row, len(set))}, nil
}

// edgesWork stores nine pages with so many links that a set takes several transactions. One of them
// has no edges, one is no page.
func edgesWork(fsys iut.FS, index *edgesIndex) error {
	tree, err := iut.Open("", iut.Options{FS: fsys})
	if err != nil {
		return err
	}
	defer tree.Close()
	w, err := tree.WriteEdges(0)
	if err != nil {
		return err
	}
	defer w.Close()
	p := (&pipeline{tree: tree, index: index, size: 5}).start(1)
	p.committer.Edges = w
	for n := range 10 {
		it := itemOf(page(n))
		it.Links = make([]record.Link, 6000)
		switch n {
		case 3:
		case 4:
			it.State, it.Body = record.Refused, nil
		default:
			it.Edges = edges.AppendPage(nil, edges.Page{URL: it.Row.URL, Edges: []edges.Edge{{To: it.Row.URL, Element: "a"}}})
		}
		if p.add(0, it) != nil {
			break
		}
	}
	return p.end()
}

func requireEdges(t *testing.T, fsys iut.FS, index *edgesIndex) {
	t.Helper()
	tree := open(t, "", onFS(fsys))
	defer tree.Close()
	var urls []string
	_, _, err := tree.ReadEdges(index.end, func(p edges.Page) error {
		urls = append(urls, p.URL)
		if want := 1; p.URL == page(3).URL && len(p.Edges) != 0 || p.URL != page(3).URL && len(p.Edges) != want {
			t.Errorf("%s has %d edges", p.URL, len(p.Edges))
		}
		return nil
	})
	if err != nil || !slices.Equal(urls, index.urls) {
		t.Errorf("in the first %d bytes: %q, %v; committed are %q", index.end, urls, err, index.urls)
	}
}

// TestEdgesOfPowerCut: whichever call of the disk is the last, the file holds the edges of exactly
// the pages that are committed.
func TestEdgesOfPowerCut(t *testing.T) {
	seed, step := testseed.Draw(t), everyCall(t)
	for k, done := int(seed%uint64(step)), false; !done; k += step {
		mem := faultfs.NewMem()
		open(t, "", onFS(mem)).Close()
		fault := faultfs.FailAfter(mem, k, syscall.EIO)
		fault.Short = true
		index := &edgesIndex{}
		err := edgesWork(fault, index)
		switch done = !fault.Failed(); {
		case done && (err != nil || len(index.urls) != 9 || index.commit < 3):
			t.Fatalf("without a fault %d pages in %d transactions: %v", len(index.urls), index.commit, err)
		case err != nil && !errors.Is(err, iut.ErrDisk):
			t.Fatalf("call %d, %s: %v, want ErrDisk", k, fault.Calls()[k], err)
		}
		requireEdges(t, mem.Crash(rand.New(rand.NewPCG(seed, uint64(k)))), index)
		if t.Failed() {
			t.Fatalf("call %d", k)
		}
	}
}

// TestEdgesOfFailedCommit: of a set whose second transaction fails only the pages of the first
// count.
func TestEdgesOfFailedCommit(t *testing.T) {
	for fails := 1; fails <= 3; fails++ {
		mem := faultfs.NewMem()
		open(t, "", onFS(mem)).Close()
		index := &edgesIndex{fails: fails}
		if err := edgesWork(mem, index); !errors.Is(err, iut.ErrDisk) {
			t.Fatalf("transaction %d fails: %v, want ErrDisk", fails, err)
		}
		requireEdges(t, mem, index)
	}
}

// TestEdgesDamaged: a file that is gone reads as one that is cut off, and another tree's readers
// may not write.
func TestEdgesDamaged(t *testing.T) {
	tree := open(t, "", onFS(faultfs.NewMem()))
	defer tree.Close()
	if _, _, err := tree.ReadEdges(100, func(edges.Page) error { return nil }); !errors.Is(err, edges.ErrDamaged) {
		t.Errorf("no file: %v, want ErrDamaged", err)
	}
	if n, err := tree.EdgesSize(); n != 0 || err != nil {
		t.Errorf("no file: %d bytes, %v", n, err)
	}
}
