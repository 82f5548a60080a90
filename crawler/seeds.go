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

	"github.com/klauspost/compress/gzip"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"

	"urltree/crawler/weburl"
	"urltree/storage"
	"urltree/storage/record"
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

// ScanSeeds reads a seed file as far as its seeds are asked for, see Options.MoreSeeds: one URL a
// line, a line without scheme gets http://. The file is in UTF-8, or in UTF-16 with a byte order
// mark, and may be packed with gzip. CRLF, blank lines and comments are fine: a '#' at the
// beginning of a line or behind a blank begins one. Any other '#' begins the fragment of a URL,
// which is dropped. Of a line with tabs the first column counts, so that res.txt and exports are
// seed files; the title "URL" of such a column is passed over.
//
// A line that is no http(s) URL or has a character that no URL has is skipped: bad is called with
// its number, its text without user name and password, and the cause. A seed that stands there
// twice is yielded twice. User name and password stay in a seed. The error, if any, is that of
// reading, and comes last.
func ScanSeeds(r io.Reader, bad func(line int, text string, err error)) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		text, err := unpacked(r)
		if err != nil {
			yield("", err)
			return
		}
		in := bufio.NewReaderSize(transform.NewReader(text, unicode.BOMOverride(transform.Nop)), 64<<10)
		for n := 1; ; n++ {
			line, err := readLine(in)
			if err != nil && !errors.Is(err, io.EOF) {
				yield("", fmt.Errorf("line %d: %w", n, err))
				return
			}
			seed, wrong := seedOf(string(line))
			switch {
			case wrong != nil:
				bad(n, weburl.HideLogin(strings.TrimSpace(string(line))), wrong)
			case seed != "" && !yield(seed, nil):
				return
			}
			if err != nil {
				return
			}
		}
	}
}

// unpacked returns what a file holds that may be packed with gzip.
func unpacked(r io.Reader) (io.Reader, error) {
	raw := bufio.NewReader(r)
	if magic, err := raw.Peek(2); err != nil || !bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		return raw, nil // the error, if any, comes again
	}
	unzip, err := gzip.NewReader(raw)
	if err != nil {
		return nil, fmt.Errorf("gzip: %w", err)
	}
	return unzip, nil
}

// Bounds of the seeds that are appended to seeds.txt at a time.
const (
	seedsAtATime     = 200_000
	seedBytesAtATime = 8 << 20
)

// mostGiven is how many seeds of the options are looked up for Result.Closed.
const mostGiven = 256

// mostHops is how many redirects of a seed are followed for Result.Closed.
const mostHops = 5

// findClosed looks up the seeds of the options that this run will not ask for. A damaged record is
// passed over: it is for check to name.
func (e *engine) findClosed(context.Context) error {
	for _, url := range e.seeds.given {
		rec, err := e.store.index.Record(url)
		for hop := 0; err == nil && rec.State == record.Redirected && hop < mostHops; hop++ {
			rec, err = e.store.index.Record(rec.HeaderLinks)
		}
		switch {
		case errors.Is(err, storage.ErrNotFound), errors.Is(err, record.ErrCorrupt), errors.Is(err, record.ErrKey):
		case err != nil:
			return err
		case rec.State == record.Failed, rec.State == record.Refused && !rec.IsElsewhere():
			e.seeds.closed = append(e.seeds.closed, rec)
		}
	}
	return nil
}

// addSeeds appends the seeds of the options to seeds.txt: two lists, so that other Seeds do not
// move the parts of MoreSeeds.
func (e *engine) addSeeds(ctx context.Context) error {
	err := e.addSeedList(ctx, func(yield func(string, error) bool) {
		for _, url := range e.opts.Seeds {
			if !yield(url, nil) {
				return
			}
		}
	})
	if err == nil && e.opts.MoreSeeds != nil {
		err = e.addSeedList(ctx, e.opts.MoreSeeds)
	}
	return err
}

// addSeedList appends a list in parts that depend on it alone, see [iut.SeedList].
func (e *engine) addSeedList(ctx context.Context, seeds iter.Seq2[string, error]) error {
	list := e.store.tree.SeedList()
	defer list.Close()
	var part []string
	size, forgotten := 0, 0
	defer func() {
		if forgotten > 0 {
			e.opts.Log.Warn("skipped seeds that are forgotten; crawler forget -undo takes that back", "seeds", forgotten)
		}
	}()
	add := func() error {
		if len(e.opts.logins) > e.seeds.keptLogins {
			if err := e.keep(); err != nil {
				return err
			}
		}
		err := errors.Join(ctx.Err(), list.Add(ctx, part))
		clear(part)
		part, size = part[:0], 0
		return err
	}
	for text, err := range seeds {
		if err = errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		url, err := e.opts.takeSeed(text)
		if err != nil {
			return err
		}
		url = e.opts.Strip.Apply(url)
		if e.rules.linker.isForgotten(url) {
			forgotten++
			continue
		}
		if len(e.seeds.given) < mostGiven {
			e.seeds.given = append(e.seeds.given, url)
		}
		part = append(part, url)
		if size += len(url); len(part) < seedsAtATime && size < seedBytesAtATime {
			continue
		}
		if err := add(); err != nil {
			return err
		}
	}
	if len(part) == 0 {
		return nil
	}
	return add()
}

// readLine returns a line without its end. Of a line over 64 KiB only the beginning is kept: no
// URL is that long, and a binary file must not fill the memory.
func readLine(in *bufio.Reader) ([]byte, error) {
	line, err := in.ReadSlice('\n')
	kept := bytes.TrimRight(bytes.Clone(line), "\r\n")
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = in.ReadSlice('\n')
	}
	return kept, err
}
