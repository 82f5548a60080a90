// Package cleaner does what comes at the end of a crawl and after a crash.
//
// At the end, in source A's order ([Clean]): the buffers are drained into the tree, the pages of
// the tree are listed in res.txt, the pending URLs in res2.txt, and the statistics are written.
// All lists cover the whole tree and are made from the index.
//
// After a crash the folders are the truth ([NewIndex], [Merge]): what they hold, and seeds.txt and
// FORMAT name, is all that is needed to go on. [Check] proves on a tree at rest that index, folders
// and results say the same.
package cleaner

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"urltree/iut"
	"urltree/storage"
)

// Files are the names of the result files.
type Files struct{ Res, Res2, Statistics, Hourly string }

// Names gives all four.
func (f Files) Names() []string { return []string{f.Res, f.Res2, f.Statistics, f.Hourly} }

// FilesFor gives the result files that belong to an output file: they lie beside it. With ""
// it is res.txt. A file that is a folder is an error, an output that has the name of another one, and files that
// would lie in the folder of the tree, or below, where they could replace what is the tree's own; "": there is none.
func FilesFor(tree, output string) (Files, error) {
	if output == "" {
		output = "res.txt"
	}
	dir := filepath.Dir(output)
	f := Files{
		Res: output, Res2: filepath.Join(dir, "res2.txt"),
		Statistics: filepath.Join(dir, "statistics.txt"), Hourly: filepath.Join(dir, "hourly_statistics.txt"),
	}
	for _, other := range []string{f.Res2, f.Statistics, f.Hourly} {
		// Some file systems do not tell capital letters apart.
		if strings.EqualFold(filepath.Base(output), filepath.Base(other)) {
			return Files{}, fmt.Errorf("output %s would collide with the result file %s", output, other)
		}
	}
	if tree != "" && within(tree, dir) {
		return Files{}, fmt.Errorf("output %s lies in the tree %s", output, tree)
	}
	for _, name := range f.Names() {
		if info, err := os.Stat(name); err == nil && info.IsDir() || os.IsPathSeparator(name[len(name)-1]) {
			return Files{}, fmt.Errorf("output %s is a folder", name)
		}
	}
	return f, nil
}

// within tells whether a folder is another one or lies in it. One that is not there lies nowhere.
func within(outer, folder string) bool {
	for _, name := range []*string{&outer, &folder} {
		real, err := filepath.EvalSymlinks(*name)
		if err != nil {
			return false
		}
		if *name, err = filepath.Abs(real); err != nil {
			return false
		}
	}
	rel, err := filepath.Rel(outer, folder)
	return err == nil && filepath.IsLocal(rel)
}

// lists are res.txt and res2.txt, written but not yet in their places, with the sums of the
// scan that made them. res.txt has a line per stored page as its source.txt has it, res2.txt a
// title line and one line per pending URL, both of the whole tree in the order of the index.
// Damaged records are left out. A failing disk is iut.ErrDisk.
type lists struct {
	res, res2 *outFile
	tally     *tally
}

// listRecords makes both lists in one scan.
func listRecords(ctx context.Context, index *storage.Index, f Files) (*lists, error) {
	res, err := createFile(f.Res)
	if err != nil {
		return nil, err
	}
	res2, err := createFile(f.Res2)
	if err != nil {
		return nil, errors.Join(err, res.discard())
	}
	sums, err := scanRecords(ctx, index, res, res2)
	if err != nil {
		return nil, errors.Join(err, res.discard(), res2.discard())
	}
	return &lists{res, res2, sums}, nil
}

// scanRecords writes the lines of both lists and adds up all records.
func scanRecords(ctx context.Context, index *storage.Index, res, res2 io.Writer) (*tally, error) {
	sums := newTally()
	line := []byte("URL\tsource URL\tdepth\ttries\treason\n")
	if _, err := res2.Write(line); err != nil {
		return nil, err
	}
	err := index.Records(ctx, nil, func(r storage.Record, err error) error {
		if err != nil {
			sums.damaged++ // costs this record, not the results; check names it
			return nil
		}
		sums.add(&r)
		switch r.State {
		case storage.Stored:
			line = factsOf(&r).AppendLine(line[:0])
			_, err = res.Write(line)
		case storage.Pending:
			line = appendPending(line[:0], &r)
			_, err = res2.Write(line)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the records: %w", err)
	}
	return sums, nil
}

// factsOf gives what source.txt of a stored record says.
func factsOf(r *storage.Record) iut.Facts {
	return iut.Facts{URL: r.URL, Source: r.Source, Page: r.Page}
}

// appendPending appends the line of res2.txt.
func appendPending(b []byte, r *storage.Record) []byte {
	b = append(append(b, r.URL...), '\t')
	b = append(append(b, r.Source...), '\t')
	b = append(strconv.AppendUint(b, uint64(r.Depth), 10), '\t')
	b = append(strconv.AppendUint(b, uint64(r.Tries), 10), '\t')
	return append(append(b, pendingReason(r)...), '\n')
}

// pendingReason tells why a pending URL has no outcome yet.
func pendingReason(r *storage.Record) string {
	switch {
	case r.Reason != "":
		return r.Reason
	case r.Tries == 0:
		return "not asked yet"
	}
	return "asked without an outcome"
}

// An outFile is a result file under its temporary name. It ends by commit or discard.
type outFile struct {
	name  string
	file  *os.File
	w     *bufio.Writer
	dirty int // bytes since the last sync
}

// syncEach is how many bytes are synced at a time: how long that takes does not grow with the file.
const syncEach = 64 << 20

const newSuffix = ".new"

func createFile(name string) (*outFile, error) {
	tmp := name + newSuffix
	// What a killed run left, or a link that somebody put there, must not be written through.
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, diskError("write "+name, err)
	}
	file, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, diskError("write "+name, err)
	}
	return &outFile{name: name, file: file, w: bufio.NewWriterSize(file, 256<<10)}, nil
}

func (o *outFile) Write(b []byte) (int, error) {
	n, err := o.w.Write(b)
	if o.dirty += n; err == nil && o.dirty >= syncEach {
		o.dirty = 0
		err = o.file.Sync()
	}
	if err != nil {
		err = diskError("write "+o.name, err)
	}
	return n, err
}

// commit makes the file durable and gives it its name. When it fails, or ctx ends first, the older file stays.
func (o *outFile) commit(ctx context.Context) error {
	err := o.w.Flush()
	if err == nil {
		err = o.file.Sync()
	}
	if cause := context.Cause(ctx); err == nil && cause != nil {
		return errors.Join(cause, o.discard())
	}
	if err = errors.Join(err, o.file.Close()); err == nil {
		err = os.Rename(o.file.Name(), o.name)
	}
	if err != nil {
		return diskError("write "+o.name, errors.Join(err, os.Remove(o.file.Name())))
	}
	if err := storage.SyncFolder(filepath.Dir(o.name)); err != nil {
		return diskError("write "+o.name, err)
	}
	return nil
}

// discard gives up a file for another error than its own.
func (o *outFile) discard() error {
	return errors.Join(o.file.Close(), os.Remove(o.file.Name()))
}

// writeWhole writes a small file in the same way.
func writeWhole(ctx context.Context, name string, text []byte) error {
	o, err := createFile(name)
	if err != nil {
		return err
	}
	if _, err := o.Write(text); err != nil {
		return errors.Join(err, o.discard())
	}
	return o.commit(ctx)
}

func diskError(op string, err error) error {
	return fmt.Errorf("%w: %s: %w", iut.ErrDisk, op, err)
}
