package mirror

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"unicode"

	"urltree/internal/spool"
)

// written is the name of the file that says which files a mirror has written: a line for each,
// with the SHA-256 of its bytes, the part of the run and its name, tabs between them. A run
// appends to it, and a line is there before its file is, so that no kill leaves a file that
// nobody knows. A run that ends writes it anew.
const written = "urltree-mirror.list"

// A list is that file during a run.
type list struct {
	file  *os.File
	w     *bufio.Writer
	part  string
	begin int64 // where the lines of this run begin
}

// openList opens the list of a folder, and takes a line off its end that a kill has cut.
func openList(root *os.Root, part string) (*list, error) {
	info, err := root.Lstat(written)
	if err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: %s is no regular file", ErrForeign, written)
	}
	file, err := root.OpenFile(written, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	l := &list{file: file, part: strings.Join(strings.Fields(part), ""), w: bufio.NewWriter(file)}
	if l.begin, err = whole(file); err == nil {
		err = file.Truncate(l.begin)
	}
	if err == nil {
		_, err = file.Seek(l.begin, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return l, nil
}

// whole returns how many bytes the whole lines of a file have.
func whole(file *os.File) (int64, error) {
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, err
	}
	b := make([]byte, 4<<10)
	for size > 0 {
		part := b[:min(size, int64(len(b)))]
		if _, err := file.ReadAt(part, size-int64(len(part))); err != nil {
			return 0, err
		}
		if i := strings.LastIndexByte(string(part), '\n'); i >= 0 {
			return size - int64(len(part)-i-1), nil
		}
		size -= int64(len(part))
	}
	return 0, nil
}

// stays is what a line has in place of a SHA-256 whose file is not known to be as the page is:
// it is not to be removed.
const stays = "-"

func (l *list) add(sum, name string) {
	for _, s := range [...]string{sum, "\t", l.part, "\t", name, "\n"} {
		_, _ = l.w.WriteString(s) // Flush returns the error
	}
}

// An item is what a list has of a file.
type item struct {
	lines []line
	isNow bool // the run has the file, or does not know
}

type line struct{ sum, part string }

// items calls fn with what the list has of each file, by name.
func (l *list) items(fn func(name string, it item) error) (err error) {
	if err := l.w.Flush(); err != nil {
		return err
	}
	if _, err := l.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	all := spool.NewSorter(4<<20, 16)
	defer func() { err = errors.Join(err, all.Close()) }()
	in, at := bufio.NewReader(l.file), int64(0)
	for {
		text, err := in.ReadString('\n')
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		f := strings.SplitN(strings.TrimSuffix(text, "\n"), "\t", 3)
		if len(f) == 3 && isName(f[2]) {
			r := spool.Row{Key: f[2], Values: [2]string{f[0], f[1]}}
			if at >= l.begin {
				r.Sub = "now"
			}
			if err := all.Add(r); err != nil {
				return err
			}
		}
		at += int64(len(text))
	}
	return items(all.Sorted(), fn)
}

// isName reports whether a line may be of a file that a mirror has written. Others are left out: a
// disk or an editor has made them, and no file is to be removed for them.
func isName(name string) bool {
	if !fs.ValidPath(name) || strings.ContainsFunc(name, unicode.IsControl) {
		return false
	}
	for part := range strings.SplitSeq(name, "/") {
		if len(part) > maxPart {
			return false
		}
	}
	return true
}

func items(rows spool.Cursor, fn func(name string, it item) error) error {
	var it item
	name := ""
	for {
		r, err := rows()
		if err != nil && err != io.EOF {
			return err
		}
		if (err == io.EOF || r.Key != name) && (len(it.lines) > 0 || it.isNow) {
			if err := fn(name, it); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if r.Key != name {
			name, it = r.Key, item{}
		}
		if isNow := r.Sub != ""; isNow && r.Values[0] != stays {
			it = item{isNow: true} // earlier lines are of other bytes
		} else if isNow {
			it.isNow = true
			continue
		}
		if next := (line{r.Values[0], r.Values[1]}); !slices.Contains(it.lines, next) {
			it.lines = append(it.lines, next)
		}
	}
}

// settle ends a run: if it is complete, it removes the files that earlier runs of the same part
// have written and this one has not, and then it writes the list anew. A run whose part is ""
// has those of all parts. A file that has other bytes than it was written with is not touched.
func (f *Folder) settle(complete bool) error {
	l := f.list
	err := f.write(&Entry{Name: written}, func(w io.Writer) error {
		out := bufio.NewWriter(w)
		err := l.items(func(name string, it item) error {
			if !f.isLeft(it, complete) || isStart(name) && !it.isNow {
				return f.remove(name, it.lines)
			}
			for _, was := range it.lines {
				_, _ = out.WriteString(was.sum + "\t" + was.part + "\t" + name + "\n") // Flush returns the error
			}
			return nil
		})
		return errors.Join(err, out.Flush())
	})
	return err
}

// isLeft reports whether a file stays at the end of a run.
func (f *Folder) isLeft(it item, complete bool) bool {
	isOurs := func(was line) bool { return f.list.part == "" || was.part == f.list.part }
	return !complete || it.isNow || !slices.ContainsFunc(it.lines, isOurs)
}

// remove removes a file that has the bytes of a line, and the folders that are empty then.
func (f *Folder) remove(name string, lines []line) error {
	info, err := f.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || err == nil && !info.Mode().IsRegular() {
		return nil
	}
	if err != nil {
		return err
	}
	file, err := f.root.Open(name)
	if err != nil {
		return err
	}
	sum := sha256.New()
	_, err = io.Copy(sum, file)
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	is := hex.EncodeToString(sum.Sum(nil))
	if !slices.ContainsFunc(lines, func(was line) bool { return was.sum == is }) {
		return nil
	}
	if err := f.root.Remove(name); err != nil {
		return err
	}
	f.Removed.Add(1)
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if info, err := f.root.Lstat(dir); err != nil || !info.IsDir() || f.root.Remove(dir) != nil {
			break // it has other files
		}
	}
	return nil
}
