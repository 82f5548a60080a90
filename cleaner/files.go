package cleaner

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"

	"golang.org/x/sys/unix"

	"urltree/internal/disk"
	"urltree/internal/words"
	"urltree/iut"
)

// Files are the names of the result files.
type Files struct {
	Res, Res2, Statistics, Hourly string
	// Stream is true if Res is a pipe, a FIFO or a descriptor of this process such as /dev/stdout:
	// its lines are written to that in one pass.
	Stream bool
}

// Names returns all four.
func (f Files) Names() []string { return []string{f.Res, f.Res2, f.Statistics, f.Hourly} }

// Replaced returns the names of those that are written as a whole: all but a stream.
func (f Files) Replaced() []string {
	switch {
	case f == Files{}:
		return nil
	case f.Stream:
		return f.Names()[1:]
	}
	return f.Names()
}

// FilesFor returns the result files that belong to an output file. They lie beside it, or in the
// current folder if it is a stream. The default of output is res.txt. Those of res.txt, and of a
// stream, are res2.txt, statistics.txt and hourly_statistics.txt; those of any other output, such
// as A.tsv, have its name: A2.tsv, A.statistics.txt and A.hourly_statistics.txt.
//
// It is an error if a file is a folder, a link or something else that is no regular file, but for a
// stream, if an output has the name of a file that belongs to res.txt, and if the files would lie
// in the folder of the tree, or below, where they could replace the tree's own. The tree may be "":
// there is none.
func FilesFor(tree, output string) (Files, error) {
	output = cmp.Or(output, "res.txt")
	stream, err := isStream(output)
	if err != nil {
		return Files{}, fmt.Errorf("output %s: %w", output, err)
	}
	dir := "."
	if !stream {
		dir = filepath.Dir(output)
	}
	f := Files{
		Res: output, Res2: filepath.Join(dir, "res2.txt"), Stream: stream,
		Statistics: filepath.Join(dir, "statistics.txt"), Hourly: filepath.Join(dir, "hourly_statistics.txt"),
	}
	base := filepath.Base(output)
	for _, other := range []string{f.Res2, f.Statistics, f.Hourly} {
		// Some file systems do not tell capital letters apart.
		if !stream && strings.EqualFold(base, filepath.Base(other)) {
			return Files{}, fmt.Errorf("output %s would collide with the result file %s", output, other)
		}
	}
	if !stream && !strings.EqualFold(base, "res.txt") {
		ext := filepath.Ext(base)
		if ext == base { // .res
			ext = ""
		}
		stem := strings.TrimSuffix(base, ext)
		f.Res2 = filepath.Join(dir, stem+"2"+ext)
		f.Statistics = filepath.Join(dir, stem+".statistics.txt")
		f.Hourly = filepath.Join(dir, stem+".hourly_statistics.txt")
	}
	if disk.Inside(dir, tree) {
		return Files{}, fmt.Errorf("output %s lies in the tree %s", filepath.Join(dir, filepath.Base(output)), tree)
	}
	for _, name := range f.Replaced() {
		if os.IsPathSeparator(name[len(name)-1]) {
			return Files{}, fmt.Errorf("output %s is a folder", name)
		}
		if err := regular(name); err != nil {
			return Files{}, err
		}
	}
	return f, nil
}

// regular returns an error if there is something of that name and it is no regular file.
func regular(name string) error {
	if info, err := os.Lstat(name); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("output %s is %s: name a file, a pipe or /dev/stdout", name, kind(info.Mode()))
	}
	return nil
}

func kind(mode fs.FileMode) string {
	for _, k := range [...]struct {
		bit  fs.FileMode
		name string
	}{
		{fs.ModeDir, "folder"}, {fs.ModeSymlink, "link"}, {fs.ModeDevice, "device"}, {fs.ModeNamedPipe, "FIFO"}, {fs.ModeSocket, "socket"},
	} {
		if mode&k.bit != 0 {
			return "a " + k.name
		}
	}
	return "no regular file"
}

// isStream reports whether a name is that of a stream. A descriptor must be open for writing.
func isStream(name string) (bool, error) {
	if fd, ok := descriptor(name); ok {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
		if err == nil && flags&unix.O_ACCMODE == unix.O_RDONLY {
			err = errors.New("it is open for reading only")
		}
		return true, err
	}
	info, err := os.Lstat(name)
	return err == nil && info.Mode()&fs.ModeNamedPipe != 0, nil
}

// descriptor returns the number of the open file that a name stands for, if it does.
func descriptor(name string) (fd int, ok bool) {
	name = filepath.Clean(name)
	switch name {
	case "/dev/stdout":
		return 1, true
	case "/dev/stderr":
		return 2, true
	}
	for _, folder := range []string{"/dev/fd/", "/proc/self/fd/"} {
		if number, found := strings.CutPrefix(name, folder); found {
			n, err := strconv.ParseUint(number, 10, 31)
			return int(n), err == nil
		}
	}
	return 0, false
}

// readerPatience is how long a FIFO may be without a reader.
const readerPatience = 10 * time.Second

// openStream opens a stream for writing. A descriptor is not opened by its name, which would begin
// a file anew, and which a socket does not allow. For a reader of a FIFO it waits readerPatience.
func openStream(name string) (*os.File, error) {
	fd, ok := descriptor(name)
	if !ok {
		for late := time.Now().Add(readerPatience); ; time.Sleep(20 * time.Millisecond) {
			file, err := os.OpenFile(name, os.O_WRONLY|unix.O_NONBLOCK, 0)
			switch {
			case err == nil || !errors.Is(err, unix.ENXIO):
				return file, err
			case time.Now().After(late):
				return nil, fmt.Errorf("no process has opened it for reading within %s; crawler merge writes the results to another -output",
					words.Duration(readerPatience))
			}
		}
	}
	fd, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// Replaceable returns an error if a result file would replace a file that is neither empty nor
// begins as that result file does: [iut.ErrDisk] if one cannot be read, else one that names the
// file.
func (f Files) Replaceable() error {
	for i, name := range f.Names() {
		if f == (Files{}) || f.Stream && i == 0 {
			continue
		}
		if err := replaceable(name, begins[i]); err != nil {
			return err
		}
	}
	return nil
}

// begins report whether a file begins as a result file does, in the order of Files.Names.
var begins = [...]func([]byte) bool{beginsRes, beginsRes2, beginsStatistics, beginsHourly}

// mostBegin is how many bytes of a file tell what it is: more than a line of res.txt has.
const mostBegin = 1 << 20

func replaceable(name string, ours func(begin []byte) bool) error {
	if err := regular(name); err != nil {
		return err
	}
	file, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	if err != nil {
		return iut.DiskError("look at "+name, err)
	}
	defer file.Close()
	begin, err := io.ReadAll(io.LimitReader(file, mostBegin))
	if err != nil {
		return iut.DiskError("look at "+name, err)
	}
	if len(begin) > 0 && !ours(begin) {
		return fmt.Errorf("output %s would replace a file that no crawl has written: move it away or name another -output", name)
	}
	return nil
}

func beginsRes(begin []byte) bool {
	first, _, _ := bytes.Cut(begin, []byte("\n"))
	fields := bytes.Split(first, []byte("\t"))
	if len(fields) != 12 || len(fields[11]) != 8 {
		return false
	}
	_, err := strconv.ParseUint(string(fields[11]), 16, 32)
	return err == nil && bytes.HasPrefix(fields[0], []byte("http"))
}

func beginsRes2(begin []byte) bool { return bytes.HasPrefix(begin, []byte(res2Title)) }

func beginsStatistics(begin []byte) bool {
	first, rest, _ := bytes.Cut(begin, []byte("\n"))
	second, _, _ := bytes.Cut(rest, []byte("\n"))
	return string(first) == summaryTitle && strings.Join(strings.Fields(string(second)), " ") == thisRun+" "+allRuns
}

// OtherTree returns the tree whose results the files have; "": the one at root, or they name none.
func (f Files) OtherTree(root string) string {
	file, err := os.OpenFile(f.Statistics, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan() && lines.Text() != ""; {
		if name, ok := strings.CutPrefix(strings.TrimSpace(lines.Text()), ofTree); ok && name != nameOf(root) {
			return name
		}
	}
	return ""
}

// nameOf returns the name of a tree in its results: its whole path without links, in one line.
func nameOf(root string) string {
	if abs, err := filepath.Abs(root); err == nil {
		root = abs
	}
	if real, err := filepath.EvalSymlinks(root); err == nil {
		root = real
	}
	if strings.ContainsFunc(root, unicode.IsControl) {
		return strconv.Quote(root)
	}
	return root
}

func beginsHourly(begin []byte) bool { return bytes.HasPrefix(begin, []byte(hourlyTitle)) }
