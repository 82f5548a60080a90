package crawler

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"

	"urltree/crawler/weburl"
)

// ReadSeeds reads a seed file: one URL a line, a line without scheme gets http://. The file is in
// UTF-8, or in UTF-16 with a byte order mark. CRLF, blank lines and lines that begin with # are fine. A line that is no http(s) URL
// is told to bad, with its number, and left out. No seed is given twice.
func ReadSeeds(r io.Reader, bad func(line int, text string, err error)) ([]string, error) {
	var (
		seeds []string
		known = map[string]bool{}
		in    = bufio.NewReaderSize(transform.NewReader(r, unicode.BOMOverride(transform.Nop)), 64<<10)
	)
	for n := 1; ; n++ {
		line, err := readLine(in)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		text := strings.TrimSpace(string(line))
		if text != "" && text[0] != '#' {
			url, bade := weburl.SeedURL(text)
			switch {
			case bade != nil:
				bad(n, text, bade)
			case !known[url]:
				known[url] = true
				seeds = append(seeds, url)
			}
		}
		if err != nil {
			return seeds, nil
		}
	}
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
