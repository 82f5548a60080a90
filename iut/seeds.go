package iut

import (
	"bufio"
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

// errFound ends the reading of seeds.txt.
var errFound = errors.New("all found")

// AddSeeds appends the URLs that seeds.txt lacks and makes them durable. It reads seeds.txt as far as it must,
// asks ctx from time to time whether to go on, and takes memory for urls alone.
func (t *Tree) AddSeeds(ctx context.Context, urls []string) error {
	if err := t.writable(); err != nil {
		return err
	}
	missing := make(map[string]bool, len(urls))
	for _, url := range urls {
		if url == "" || keepVisible(url) != url {
			return fmt.Errorf("iut: seed %q is not a canonical URL", url)
		}
		missing[url] = true
	}
	lines := 0
	err := t.seedLines(SeedMark{}, func(line []byte, _ SeedMark) error {
		if delete(missing, string(line)); len(missing) == 0 {
			return errFound
		}
		if lines++; lines%10_000 == 0 {
			return context.Cause(ctx)
		}
		return nil
	})
	if err != nil && !errors.Is(err, errFound) {
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
	err = t.writeFile(seedsName, os.O_CREATE|os.O_APPEND, text, true)
	if err == nil {
		err = t.fs.SyncDir(".")
	}
	if err != nil {
		return diskError("add seeds", err)
	}
	return nil
}

// Seeds calls fn with every seed behind a mark and the mark behind that seed, oldest first, until fn fails.
// [ErrSeedMark] says that the mark is none of this file.
func (t *Tree) Seeds(from SeedMark, fn func(url string, mark SeedMark) error) error {
	return t.seedLines(from, func(line []byte, mark SeedMark) error { return fn(string(line), mark) })
}

// seedLines is Seeds; line is valid during the call.
func (t *Tree) seedLines(from SeedMark, fn func(line []byte, mark SeedMark) error) error {
	f, err := t.fs.Open(seedsName, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		if from != (SeedMark{}) {
			return ErrSeedMark
		}
		return nil
	}
	if err != nil {
		return diskError("read seeds", err)
	}
	defer f.Close()
	sum := crc32.New(castagnoli)
	if n, err := io.Copy(sum, io.LimitReader(f, from.Bytes)); err != nil {
		return diskError("read seeds", err)
	} else if n != from.Bytes || sum.Sum32() != from.Sum {
		return ErrSeedMark
	}
	mark := from
	var long []byte // a line that does not fit into the buffer, so far
	for r := bufio.NewReaderSize(f, 64<<10); ; {
		part, err := r.ReadSlice('\n')
		mark.Bytes += int64(len(part))
		mark.Sum = crc32.Update(mark.Sum, castagnoli, part)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			if len(long) < maxLine { // no URL is that long: the rest of the line is not needed
				long = append(long, part...)
			}
			continue
		case err == io.EOF: // what follows the last line end is torn
			return nil
		case err != nil:
			return diskError("read seeds", err)
		}
		line := part
		if len(long) > 0 {
			line, long = append(long, part...), nil
		}
		if err := fn(line[:len(line)-1], mark); err != nil {
			return err
		}
	}
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
		return diskError("stat", err)
	case e.Size == whole:
		return nil
	}
	f, err := t.fs.Open(seedsName, os.O_WRONLY)
	if err != nil {
		return diskError("cut seeds", err)
	}
	if err := errors.Join(f.Truncate(whole), f.Sync(), f.Close()); err != nil {
		return diskError("cut seeds", err)
	}
	return nil
}
