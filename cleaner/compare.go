package cleaner

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"urltree/iut"
	"urltree/storage"
)

// Compare compares res.txt and res2.txt with what would be written now, and calls fault with the
// first line of each that differs. written is when the index was written last. If a file is a
// stream, is not there or is older than that, nothing is compared, and notRead says so. Errors are
// [iut.ErrDisk] and that of ctx.
func (f Files) Compare(ctx context.Context, index *storage.Index, written time.Time, fault func(format string, args ...any)) (notRead string, err error) {
	if f.Stream {
		return f.Res + " is no file", nil
	}
	var lists [2]*comparison
	for i, name := range []string{f.Res, f.Res2} {
		file, err := os.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			return name + " is not there; -output says where it is, crawler merge writes it", nil
		}
		if err != nil {
			return "", iut.DiskError("check the results", err)
		}
		defer file.Close()
		info, err := file.Stat()
		if err != nil {
			return "", iut.DiskError("check the results", err)
		}
		if info.ModTime().Before(written) {
			return name + " is older than the index; the next run or crawler merge writes it", nil // a crawl was killed since
		}
		lists[i] = &comparison{name: name, r: bufio.NewReaderSize(file, 256<<10), fault: fault}
	}
	if _, err := scanRecords(ctx, index, lists[0], lists[1], nil); err != nil {
		return "", err
	}
	return "", errors.Join(lists[0].end(), lists[1].end())
}

// A comparison takes the lines that a file should have, and names the first that differs.
type comparison struct {
	name   string
	r      *bufio.Reader
	line   int
	differ bool
	fault  func(format string, args ...any)
}

// Write takes one line.
func (c *comparison) Write(want []byte) (int, error) {
	if c.differ {
		return len(want), nil
	}
	c.line++
	got, err := readLine(c.r)
	if err != nil && err != io.EOF {
		return 0, iut.DiskError("read "+c.name, err)
	}
	if !bytes.Equal(got, want) {
		c.differ = true
		c.fault("%s: line %d is %q, the index says %q", c.name, c.line, got, want)
	}
	return len(want), nil
}

// end sees to it that nothing follows.
func (c *comparison) end() error {
	if c.differ {
		return nil
	}
	switch got, err := readLine(c.r); {
	case err == nil:
		c.fault("%s: line %d is %q, the index has no more", c.name, c.line+1, got)
	case err != io.EOF:
		return iut.DiskError("read "+c.name, err)
	}
	return nil
}
