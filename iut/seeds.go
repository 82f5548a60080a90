package iut

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
)

// A SeedMark is a place in seeds.txt, by what stands before it. The zero value is the beginning.
type SeedMark struct {
	Bytes int64
	Sum   uint32 // CRC-32C
}

// ErrSeedMark says that seeds.txt does not begin with what stood before a mark.
var ErrSeedMark = errors.New("iut: seeds.txt has changed")

// A SeedList appends one list of seeds to seeds.txt. It is used by one goroutine at a time.
//
// A list that is added again, in the same parts, finds its seeds where they were appended, so
// seeds.txt is read once whatever its length, and memory is taken for one part alone. A list that
// seeds.txt has in another order is appended once more, from the first part on that has a new seed:
// a seed may be in seeds.txt several times.
type SeedList struct {
	tree *Tree
	old  *seedReader // what seeds.txt had before, from the seeds of the last part on; nil: not open
	past bool        // old has been read to its end
}

// SeedList begins a list, which is to be closed.
func (t *Tree) SeedList() *SeedList { return &SeedList{tree: t} }

// Close ends the use of the list. No Add follows.
func (l *SeedList) Close() {
	l.past = true
	if l.old != nil {
		_ = l.old.file.Close() // it was only read
		l.old = nil
	}
}

// Add appends those of the next URLs of the list that seeds.txt does not have behind the URLs
// before them, each once, and makes all of them durable. It asks ctx from time to time whether to
// go on, and returns its error if not. Other errors are [ErrDisk].
func (l *SeedList) Add(ctx context.Context, urls []string) error {
	if err := l.tree.writable(); err != nil {
		return err
	}
	missing := make(map[string]bool, len(urls))
	for _, url := range urls {
		if url == "" || keepVisible(url) != url {
			return fmt.Errorf("iut: seed %q is not a canonical URL", url)
		}
		missing[url] = true
	}
	if err := l.find(ctx, missing); err != nil {
		return err
	}
	var text []byte
	for _, url := range urls {
		if missing[url] {
			delete(missing, url)
			text = append(append(text, url...), '\n')
		}
	}
	// Also without any: a process that was killed may have written seeds and not synced them.
	return l.tree.appendSeeds(text)
}

// AddSeeds appends URLs to seeds.txt, whatever it has, and makes them durable. The error is
// [ErrDisk]. There is one call at a time, and no SeedList beside it.
func (t *Tree) AddSeeds(urls []string) error {
	if err := t.writable(); err != nil {
		return err
	}
	var text []byte
	for _, url := range urls {
		text = append(append(text, url...), '\n')
	}
	return t.appendSeeds(text)
}

func (t *Tree) appendSeeds(text []byte) error {
	err := writeFile(t.fs, seedsName, os.O_CREATE|os.O_APPEND, text, true)
	if err == nil {
		err = t.fs.SyncDir(".")
	}
	return DiskError("add seeds", err)
}

// find reads on in what seeds.txt had before until all of missing are found, and deletes from
// missing what is.
func (l *SeedList) find(ctx context.Context, missing map[string]bool) (err error) {
	if l.old == nil && !l.past {
		if l.old, err = l.tree.openSeeds(SeedMark{}); err != nil {
			return err
		}
		l.past = l.old == nil
	}
	for lines := 1; len(missing) > 0 && !l.past; lines++ {
		line, err := l.old.next()
		switch {
		case err == io.EOF:
			l.Close()
		case err != nil:
			return err
		default:
			delete(missing, string(line))
		}
		if lines%10_000 == 0 {
			if err := context.Cause(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// Seeds calls fn with every seed behind a mark and the mark behind that seed, oldest first, until
// fn fails, whose error it returns. [ErrSeedMark] says that the mark is none of this file; other
// errors are [ErrDisk].
func (t *Tree) Seeds(from SeedMark, fn func(url string, mark SeedMark) error) error {
	return t.seedLines(from, func(line []byte, mark SeedMark) error { return fn(string(line), mark) })
}

// seedLines is Seeds; line is valid during the call.
func (t *Tree) seedLines(from SeedMark, fn func(line []byte, mark SeedMark) error) error {
	r, err := t.openSeeds(from)
	if r == nil {
		return err
	}
	defer r.file.Close()
	for {
		line, err := r.next()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = fn(line, r.mark)
		}
		if err != nil {
			return err
		}
	}
}

// A seedReader reads seeds.txt.
type seedReader struct {
	file File
	r    *bufio.Reader
	mark SeedMark // behind the last line
	long []byte   // a line that does not fit into the buffer
}

// openSeeds opens seeds.txt behind a mark. There is no reader if it fails, or if there is no file
// to read from its beginning.
func (t *Tree) openSeeds(from SeedMark) (*seedReader, error) {
	f, err := t.fs.Open(seedsName, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		if from != (SeedMark{}) {
			return nil, ErrSeedMark
		}
		return nil, nil
	}
	if err != nil {
		return nil, DiskError("read seeds", err)
	}
	sum := crc32.New(castagnoli)
	n, err := io.Copy(sum, io.LimitReader(f, from.Bytes))
	switch {
	case err != nil:
		err = DiskError("read seeds", err)
	case n != from.Bytes || sum.Sum32() != from.Sum:
		err = ErrSeedMark
	default:
		return &seedReader{file: f, r: bufio.NewReaderSize(f, 64<<10), mark: from}, nil
	}
	return nil, errors.Join(err, f.Close())
}

// next returns the next line without its end, valid until the next call, or io.EOF: what follows
// the last line end is torn.
func (r *seedReader) next() ([]byte, error) {
	for r.long = r.long[:0]; ; {
		part, err := r.r.ReadSlice('\n')
		r.mark.Bytes += int64(len(part))
		r.mark.Sum = crc32.Update(r.mark.Sum, castagnoli, part)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			if len(r.long) < maxLine { // no URL is that long: the rest of the line is not needed
				r.long = append(r.long, part...)
			}
			continue
		case err == io.EOF:
			return nil, err
		case err != nil:
			return nil, DiskError("read seeds", err)
		}
		if len(r.long) > 0 {
			r.long = append(r.long, part...)
			part = r.long
		}
		return part[:len(part)-1], nil
	}
}

const seedsNewName = "seeds.txt.new"

// RemoveSeeds takes the lines out of seeds.txt for which gone returns true, and returns how many.
// What the index has taken in of the file does not agree with it any more then. It is durable when
// RemoveSeeds returns; a kill leaves the old file or the new one. Errors are those of gone, and
// [ErrDisk].
func (t *Tree) RemoveSeeds(ctx context.Context, gone func(url string) (bool, error)) (removed int64, err error) {
	if err := t.writable(); err != nil {
		return 0, err
	}
	file, err := t.fs.Open(seedsNewName, os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return 0, DiskError("write seeds", err)
	}
	out := bufio.NewWriterSize(file, 64<<10)
	err = t.Seeds(SeedMark{}, func(url string, _ SeedMark) error {
		yes, err := gone(url)
		if yes {
			removed++
		} else if err == nil {
			_, err = out.WriteString(url + "\n")
			err = DiskError("write seeds", err)
		}
		return cmp.Or(err, context.Cause(ctx))
	})
	if err == nil {
		err = DiskError("write seeds", errors.Join(out.Flush(), file.Sync()))
	}
	err = errors.Join(err, DiskError("write seeds", file.Close()))
	if err != nil || removed == 0 {
		return 0, errors.Join(err, DiskError("write seeds", t.fs.Remove(seedsNewName)))
	}
	if err = t.fs.Rename(seedsNewName, seedsName); err == nil {
		err = t.fs.SyncDir(".")
	}
	return removed, DiskError("write seeds", err)
}

// cutSeeds cuts off a last line that has no end: an append that was killed.
func (t *Tree) cutSeeds() error {
	whole := int64(0)
	err := t.seedLines(SeedMark{}, func(_ []byte, mark SeedMark) error { whole = mark.Bytes; return nil })
	if err != nil {
		return err
	}
	switch e, err := t.fs.Stat(seedsName); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return DiskError("stat", err)
	case e.Size == whole:
		return nil
	}
	f, err := t.fs.Open(seedsName, os.O_WRONLY)
	if err != nil {
		return DiskError("cut seeds", err)
	}
	return DiskError("cut seeds", errors.Join(f.Truncate(whole), f.Sync(), f.Close()))
}
