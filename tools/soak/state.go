//go:build linux

package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// A state is what a tree at rest says, read without the code that wrote it: the ledger as `export`
// prints it, the pages from folders or WARC files.
type state struct {
	ledger map[string]record // by URL; nil: there is no index yet
	pages  map[string]page   // by URL, whole ones
	twice  []string          // pages that were written twice
	torn   []string          // WARC files that are not whole to their end, and where
	depth  string            // the -max-depth of the latest run, as FORMAT has it
}

// A page is one of a tree.
type page struct {
	where string // its folder, or the place of its facts
	sum   string // SHA-256 of its body, in hexadecimal
}

// A record is a line of the ledger.
type record struct {
	state  string
	reason string
	tries  int
}

func (r record) closed() bool { return r.state != "" && r.state != "pending" }

// readLedger reads what export has printed.
func readLedger(text string) (map[string]record, error) {
	ledger := map[string]record{}
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		fields := strings.Split(line, "\t")
		if len(fields) != 10 {
			return nil, fmt.Errorf("export: line %d has %d fields: %q", i+1, len(fields), line)
		}
		if i == 0 {
			continue
		}
		tries, err := strconv.Atoi(fields[4])
		if err != nil {
			return nil, fmt.Errorf("export: line %d: %w", i+1, err)
		}
		if _, ok := ledger[fields[0]]; ok {
			return nil, fmt.Errorf("export: line %d: %s is there twice", i+1, fields[0])
		}
		ledger[fields[0]] = record{fields[1], fields[2], tries}
	}
	return ledger, nil
}

// readTree looks through folders and WARC files, and reads FORMAT.
func (s *state) readTree(root string) error {
	s.pages = map[string]page{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && path == root {
			return fs.SkipAll
		}
		if err != nil || d.Name() != "source.txt" || !d.Type().IsRegular() {
			return err
		}
		line, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if bytes.Count(line, []byte("\n")) > 1 {
			s.twice = append(s.twice, filepath.Dir(path)+": source.txt has more than one line")
		}
		body, err := os.ReadFile(filepath.Join(filepath.Dir(path), "content.html"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		sum := sha256.Sum256(body)
		if url, ok := whole(line, int64(len(body)), sum); ok {
			s.pages[url] = page{filepath.Dir(path), hex.EncodeToString(sum[:])}
		}
		return nil
	})
	if err == nil {
		err = s.readSegments(root)
	}
	if err != nil {
		return err
	}
	format, err := os.ReadFile(filepath.Join(root, "FORMAT"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for line := range strings.Lines(string(format)) {
		if depth, ok := strings.CutPrefix(line, "max-depth = "); ok {
			s.depth = strings.TrimSpace(depth)
		}
	}
	return err
}

// whole reports whether source.txt is one line that names a body of this length and SHA-256, and of
// which URL.
func whole(line []byte, size int64, sum [sha256.Size]byte) (url string, ok bool) {
	text, ok := strings.CutSuffix(string(line), "\n")
	fields := strings.Split(text, "\t")
	if !ok || len(fields) != 12 || strings.Contains(text, "\n") {
		return "", false
	}
	return fields[0], fields[9] == strconv.FormatInt(size, 10) && fields[10] == hex.EncodeToString(sum[:])
}

// An episode is what happened between two states.
type episode struct {
	asked   map[string]int    // requests by URL
	rebuilt bool              // the index was made again from the folders
	reopens func(record) bool // outcomes that this episode may undo; nil: none
	torn    map[string]bool   // pages that were damaged on purpose
	repeats int               // how many URLs may be asked and have no outcome
	limit   int               // of pages that may be stored, besides those that were only adopted; 0: none
}

// A verdict names what an episode did wrong.
type verdict struct{ lost, doubled, other []string }

// judge holds the states before and after an episode against the promises: no URL and no outcome is
// lost, nothing that has an outcome or a whole page is asked again, and what was asked in vain is
// bounded. A new index need know only whole pages, the links of those and the seeds; the links
// are proved by check.
func judge(before, after *state, e *episode) (v verdict) {
	reopens := func(was record) bool { return e.rebuilt || e.reopens != nil && e.reopens(was) }
	lost := func(format string, args ...any) { v.lost = append(v.lost, fmt.Sprintf(format, args...)) }
	for url := range before.pages {
		if _, ok := after.pages[url]; !ok && !e.torn[url] {
			lost("%s: its page is gone", url)
		}
	}
	if after.ledger == nil {
		if before.ledger != nil && !e.rebuilt {
			lost("the index is gone")
		}
	} else if e.rebuilt || before.ledger == nil {
		for url := range before.pages {
			if r := after.ledger[url]; r.state != "stored" && !e.torn[url] {
				lost("%s: its page is whole, the new index calls it %q", url, r.state)
			}
		}
	} else {
		for url, was := range before.ledger {
			switch is, ok := after.ledger[url]; {
			case !ok:
				lost("%s: its record is gone", url)
			case was.closed() && is.state != was.state && !reopens(was):
				lost("%s: was %s, is %s", url, was.state, is.state)
			}
		}
	}
	for url, r := range after.ledger {
		if _, ok := after.pages[url]; r.state == "stored" && !ok {
			lost("%s: stored, and has no whole page", url)
		}
	}
	vain := 0
	for url := range e.asked {
		was := before.ledger[url]
		_, whole := before.pages[url]
		if whole && !e.torn[url] || was.closed() && !reopens(was) {
			v.doubled = append(v.doubled, fmt.Sprintf("%s: asked again, was %s", url, was.state))
		}
		is := after.ledger[url]
		if _, ok := after.pages[url]; !ok && !is.closed() && is.tries == 0 {
			vain++
		}
	}
	v.doubled = append(v.doubled, after.twice...)
	if vain > e.repeats {
		v.other = append(v.other, fmt.Sprintf("%d URLs were asked and have no outcome, at most %d are allowed", vain, e.repeats))
	}
	if e.limit > 0 {
		v.other = append(v.other, judgeLimit(before, after, e.limit)...)
	}
	return v
}

// judgeLimit requires as many pages stored as the limit says, or that none is left to be asked.
func judgeLimit(before, after *state, limit int) (wrong []string) {
	unknown, stored, left := 0, 0, 0
	for url := range before.pages {
		if before.ledger[url].state != "stored" {
			unknown++
		}
	}
	for url, r := range after.ledger {
		switch {
		case r.state == "stored" && before.ledger[url].state != "stored":
			stored++
		case !r.closed() && r.reason == "-":
			left++
		}
	}
	if stored > limit+unknown {
		wrong = append(wrong, fmt.Sprintf("%d pages stored, the limit is %d", stored, limit))
	}
	if stored < limit && left > 0 {
		wrong = append(wrong, fmt.Sprintf("%d pages stored, %d URLs left, the limit is %d", stored, left, limit))
	}
	return wrong
}
