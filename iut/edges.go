package iut

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"

	"urltree/internal/edges"
	"urltree/storage/record"
)

// edgesName is the file of package edges, beside the folders of the pages.
const edgesName = "edges"

// WriteEdges opens the file of edges for appending behind its first end bytes; what stands behind
// them goes. It must be as long as that, see EdgesSize. With end 0 it begins anew. The tree must
// not be closed before the writer, of which there may be one. The error is [ErrDisk].
func (t *Tree) WriteEdges(end int64) (*edges.Writer, error) {
	if err := t.writable(); err != nil {
		return nil, err
	}
	f, err := t.fs.Open(edgesName, os.O_WRONLY|os.O_CREATE|os.O_APPEND)
	if err != nil {
		return nil, DiskError("open edges", err)
	}
	w, err := edges.NewWriter(edgesFile{f, t}, end)
	if err != nil {
		return nil, errors.Join(DiskError("open edges", err), f.Close())
	}
	if err := t.fs.SyncDir("."); err != nil {
		return nil, errors.Join(DiskError("open edges", err), w.Close())
	}
	return w, nil
}

// An edgesFile makes each write durable where Tree.Sync would not: that lists files when they are
// closed, and this one stays open.
type edgesFile struct {
	File
	tree *Tree
}

func (f edgesFile) Write(b []byte) (int, error) {
	n, err := f.File.Write(b)
	if err == nil && f.tree.fs.SyncMode() == "fsync" {
		err = f.Sync()
	}
	return n, err
}

// ReadEdges calls fn for each page in the first end bytes of the file of edges, see [edges.Read].
// Without a file it reads as one that is cut off. The errors are those of Read and [ErrDisk].
func (t *Tree) ReadEdges(end int64, fn func(edges.Page) error) (whole, pages int64, err error) {
	f, err := t.fs.Open(edgesName, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return edges.Read(strings.NewReader(""), end, fn)
	}
	if err != nil {
		return 0, 0, DiskError("open edges", err)
	}
	defer f.Close()
	return edges.Read(reader{f}, end, fn)
}

// A reader distinguishes errors of the disk from others.
type reader struct{ File }

func (r reader) Read(b []byte) (int, error) {
	n, err := r.File.Read(b)
	if err != nil && err != io.EOF {
		err = DiskError("read", err)
	}
	return n, err
}

const edgesNewName = "edges.new"

// RewriteEdges writes the file of edges anew: of what counts of it the pages for which keep returns
// true, as keep leaves them. It returns what counts of the new file, which is durable. A kill
// leaves the old file or the new one. Errors are those of ReadEdges and of keep; then nothing has
// changed.
func (t *Tree) RewriteEdges(kept record.Edges, keep func(*edges.Page) (bool, error)) (now record.Edges, err error) {
	if err := t.writable(); err != nil {
		return now, err
	}
	f, err := t.fs.Open(edgesNewName, os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return now, DiskError("write edges", err)
	}
	w, err := edges.NewWriter(f, 0)
	if err != nil {
		return now, errors.Join(DiskError("write edges", err), f.Close())
	}
	now.Assets = kept.Assets
	var entry []byte
	_, _, err = t.ReadEdges(kept.End, func(p edges.Page) error {
		yes, err := keep(&p)
		if err != nil || !yes {
			return err
		}
		now.Pages++
		entry = edges.AppendPage(entry[:0], p)
		return DiskError("write edges", w.Append(entry))
	})
	if err == nil {
		if now.End, err = w.Flush(); err == nil {
			err = f.Sync()
		}
		err = DiskError("write edges", err)
	}
	if err = errors.Join(err, DiskError("write edges", w.Close())); err != nil {
		return now, errors.Join(err, DiskError("remove edges", t.fs.Remove(edgesNewName)))
	}
	if err = t.fs.Rename(edgesNewName, edgesName); err == nil {
		err = t.fs.SyncDir(".")
	}
	return now, DiskError("write edges", err)
}

// RemoveEdges removes the file of edges, of which nothing may count any more.
func (t *Tree) RemoveEdges() error {
	for _, name := range []string{edgesName, edgesNewName} {
		if err := t.fs.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return DiskError("remove edges", err)
		}
	}
	return DiskError("remove edges", t.fs.SyncDir("."))
}

// EdgesSize returns the length of the file of edges, 0 if there is none. The error is [ErrDisk].
func (t *Tree) EdgesSize() (int64, error) {
	e, err := t.fs.Stat(edgesName)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	return e.Size, DiskError("stat", err)
}

// writeEdges puts the edges of a set's stored pages into the file, in frames of their own for each
// part that is one transaction, so that the length of the file which each commits covers its pages
// and no others.
func (c *Committer) writeEdges(items []*Item, set []*record.Outcome) error {
	if c.Edges == nil {
		return nil
	}
	for from := 0; from < len(set); {
		to := part(set, from)
		for _, it := range items[from:to] {
			if it.State != record.Stored || it.Row.Kind == record.RevisitRow { // whose change ends the file
				continue
			}
			if it.Edges == nil { // a page that has none, or that cannot be parsed
				it.Edges = edges.AppendPage(nil, edges.Page{URL: it.Row.URL})
			}
			if err := c.Edges.Append(it.Edges); err != nil {
				return DiskError("write edges", err)
			}
			it.Edges = nil
		}
		end, err := c.Edges.Flush()
		if err != nil {
			return DiskError("write edges", err)
		}
		for _, o := range set[from:to] {
			if o.State == record.Stored && o.Row.Kind != record.RevisitRow {
				o.EdgesEnd = end
			}
		}
		from = to
	}
	return nil
}
