//go:build linux

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/nlnwa/gowarc/v3"
)

// readSegments reads the WARC files of a tree as far as each is whole: a kill or a power cut may
// have left another end, which the next run cuts off. A page is whole if the group of its records
// is, and its facts name the body that it has, or that it refers to in any file.
func (s *state) readSegments(root string) error {
	files, err := filepath.Glob(filepath.Join(root, "warc", "*"))
	if err != nil {
		return err
	}
	r := segments{bodies: map[string]body{}}
	for _, file := range files {
		if err := r.read(file); err != nil {
			s.torn = append(s.torn, fmt.Sprintf("%s: %v", filepath.Base(file), err))
		}
	}
	for _, g := range r.groups {
		b := r.bodies[g.body]
		url, ok := whole([]byte(g.facts+"\n"), b.size, b.sum)
		if !ok {
			continue
		}
		if first, ok := s.pages[url]; ok {
			s.twice = append(s.twice, fmt.Sprintf("%s: is in %s and in %s", url, first.where, g.where))
		}
		s.pages[url] = page{g.where, hex.EncodeToString(b.sum[:])}
	}
	return nil
}

// segments is what the WARC files of a tree have.
type segments struct {
	bodies map[string]body // by the ID of their record
	groups []group
}

type body struct {
	size int64
	sum  [sha256.Size]byte
}

// A group is what is known of a page.
type group struct {
	facts string // the line of source.txt
	body  string // ID of the record that has its body
	where string
}

// read returns why a file does not go on; nil: it is whole.
func (s *segments) read(file string) error {
	if info, err := os.Stat(file); err != nil || info.Size() == 0 {
		return err
	}
	in, err := gowarc.NewWarcFileReader(file, 0, gowarc.WithStrictValidation())
	if err != nil {
		return err
	}
	defer in.Close()
	answer, g := "", group{} // the record that the present group begins with; "": there is none
	for r, err := range in.Records() {
		if err != nil {
			return fmt.Errorf("at %d: %w", r.Offset, err)
		}
		w := r.WarcRecord
		switch id := w.WarcHeader().GetId(gowarc.WarcRecordID); w.Type() {
		case gowarc.Response, gowarc.Revisit, gowarc.Resource:
			if answer != "" {
				return fmt.Errorf("at %d: the group before has no end", r.Offset)
			}
			answer, g = id, group{body: id, where: fmt.Sprintf("%s at %d", filepath.Base(file), r.Offset)}
			if w.Type() == gowarc.Revisit {
				g.body = w.WarcHeader().GetId(gowarc.WarcRefersTo)
			} else {
				s.bodies[id], err = bodyOf(w)
			}
		case gowarc.Metadata:
			if answer == "" || w.WarcHeader().GetId(gowarc.WarcConcurrentTo) != answer {
				return fmt.Errorf("at %d: the end of no group", r.Offset)
			}
			answer = ""
			if g.facts, err = factsOf(w); g.facts != "" {
				s.groups = append(s.groups, g)
			}
		}
		if err = errors.Join(err, w.Close(), errors.Join(r.Validation...)); err != nil {
			return fmt.Errorf("at %d: %w", r.Offset, err)
		}
	}
	if answer != "" {
		return errors.New("the last group has no end")
	}
	return nil
}

func bodyOf(w gowarc.WarcRecord) (b body, err error) {
	read := w.Block().RawBytes
	if p, ok := w.Block().(gowarc.PayloadBlock); ok {
		read = p.PayloadBytes
	}
	in, err := read()
	if err != nil {
		return b, err
	}
	h := sha256.New()
	b.size, err = io.Copy(h, in)
	h.Sum(b.sum[:0])
	return b, err
}

// factsOf returns the line of source.txt that a record has; "": it has none.
func factsOf(w gowarc.WarcRecord) (string, error) {
	in, err := w.Block().RawBytes()
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(in)
	for line := range strings.Lines(string(text)) {
		if facts, ok := strings.CutPrefix(strings.TrimRight(line, "\r\n"), "facts: "); ok {
			return facts, err
		}
	}
	return "", err
}
