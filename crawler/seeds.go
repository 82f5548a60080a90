package crawler

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"

	"urltree/crawler/weburl"
)

// ReadSeeds reads a seed file as [ScanSeeds] does, whole and into memory. No seed is given twice.
func ReadSeeds(r io.Reader, bad func(line int, text string, err error)) ([]string, error) {
	var seeds []string
	known := map[string]bool{}
	for url, err := range ScanSeeds(r, bad) {
		if err != nil {
			return nil, err
		}
		if !known[url] {
			known[url] = true
			seeds = append(seeds, url)
		}
	}
	return seeds, nil
}

// ScanSeeds reads a seed file as far as its seeds are asked for, see Options.MoreSeeds: one URL a line, a line
// without scheme gets http://. The file is in UTF-8, or in UTF-16 with a byte order mark. CRLF, blank lines and lines
// that begin with # are fine. For a line that is no http(s) URL bad is called with its number, and it is left out. A
// seed that stands there twice is yielded twice. User name and password stay in a seed. The error, if any, is that of reading, and comes last.
func ScanSeeds(r io.Reader, bad func(line int, text string, err error)) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		in := bufio.NewReaderSize(transform.NewReader(r, unicode.BOMOverride(transform.Nop)), 64<<10)
		for n := 1; ; n++ {
			line, err := readLine(in)
			if err != nil && !errors.Is(err, io.EOF) {
				yield("", fmt.Errorf("line %d: %w", n, err))
				return
			}
			text := strings.TrimSpace(string(line))
			if text != "" && text[0] != '#' {
				if url, bade := weburl.SeedURL(text); bade != nil {
					bad(n, text, bade)
				} else if !yield(keepLogin(url, text), nil) {
					return
				}
			}
			if err != nil {
				return
			}
		}
	}
}

// Bounds of the seeds that are appended to seeds.txt at a time, for each of which the file is read once.
const (
	seedsAtATime     = 200_000
	seedBytesAtATime = 8 << 20
)

// addSeeds appends the seeds of the options to seeds.txt.
func (e *engine) addSeeds(ctx context.Context, at *post) error {
	var batch []string
	size := 0
	add := func() error {
		at.atDisk("append to", "seeds.txt")
		defer at.atDisk("open", e.opts.Tree)
		err := errors.Join(ctx.Err(), e.tree.AddSeeds(ctx, batch))
		clear(batch)
		batch, size = batch[:0], 0
		return err
	}
	take := func(url string) error {
		batch = append(batch, e.opts.Strip.Apply(url))
		if size += len(url); len(batch) < seedsAtATime && size < seedBytesAtATime {
			return nil
		}
		if err := add(); err != nil {
			return err
		}
		return e.room.await(ctx)
	}
	for _, url := range e.opts.Seeds {
		if err := take(url); err != nil {
			return err
		}
	}
	if e.opts.MoreSeeds != nil {
		at.rest() // it may wait for a terminal
		for text, err := range e.opts.MoreSeeds {
			if err = errors.Join(err, ctx.Err()); err != nil {
				return err
			}
			url, err := e.opts.takeSeed(text)
			if err != nil {
				return err
			}
			if err := take(url); err != nil {
				return err
			}
			at.rest()
		}
		at.atDisk("open", e.opts.Tree)
	}
	if len(batch) == 0 {
		return nil
	}
	return add()
}

// readLine gives a line without its end. Of a line over 64 KiB only the beginning is kept: no
// URL is that long, and a binary file must not fill the memory.
func readLine(in *bufio.Reader) ([]byte, error) {
	line, err := in.ReadSlice('\n')
	kept := bytes.TrimRight(bytes.Clone(line), "\r\n")
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = in.ReadSlice('\n')
	}
	return kept, err
}
