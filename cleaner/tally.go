package cleaner

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"urltree/internal/disk"
	"urltree/internal/top"
	"urltree/internal/words"
	"urltree/iut"
	"urltree/storage/record"
)

// A tally adds up the records of a scan: the side of the accounting that owes counters nothing.
type tally struct {
	records  int64
	damaged  int64 // records that could not be read
	counts   record.Counts
	states   map[record.State]int64
	statuses map[uint16]int64 // by class: 2 for 2xx
	reasons  map[reason]int64
	bytes    int64 // of stored bodies
	linked   int64 // stored records whose source is no seed

	types   map[string]volume // of stored records, by media type; the types of all others are ""
	origins top.List[volume]  // those with most pages
	failing top.List[volume]  // those with most failures
	origin  volume            // the one at hand: records come in the order of the index
}

type volume struct {
	name          string
	pages, bytes  int64
	failed, waits int64 // records
}

// What statistics.txt names at most.
const (
	mostTypes  = 1000 // a server may name any number
	mostListed = 20   // types, and hosts by their pages
	mostBad    = 10   // hosts by their failures, and by the time that they take
)

func morePages(a, b volume) int { return cmp.Compare(b.pages, a.pages) }

type reason struct {
	state record.State
	text  string
}

func newTally() *tally {
	return &tally{
		states: map[record.State]int64{}, statuses: map[uint16]int64{}, reasons: map[reason]int64{},
		types: map[string]volume{}, origins: top.List[volume]{N: mostListed, Compare: morePages},
		failing: top.List[volume]{N: mostBad, Compare: func(a, b volume) int { return cmp.Compare(b.failed, a.failed) }},
	}
}

func (t *tally) add(r *record.Record) {
	t.records++
	t.counts.Count(r, 1)
	t.states[r.State]++
	text := r.Reason
	switch r.State {
	case record.Pending:
		text = pendingReason(r)
	case record.Stored:
		t.bytes += r.Bytes
		if r.Source != record.Seed {
			t.linked++
		}
	}
	t.addVolume(r)
	if r.Status != 0 {
		t.statuses[r.Status/100]++
	}
	if text != "" {
		t.reasons[reason{r.State, text}]++
	}
}

// addVolume adds a record to its origin, and a page to its media type.
func (t *tally) addVolume(r *record.Record) {
	if origin := record.Origin(r.URL); origin != t.origin.name {
		t.endOrigin()
		t.origin = volume{name: strings.Clone(origin)}
	}
	switch r.State {
	case record.Pending:
		t.origin.waits++
	case record.Failed:
		t.origin.failed++
	case record.Stored:
		t.origin.pages++
		t.origin.bytes += r.Bytes
		media := r.Media
		if _, known := t.types[media]; !known && len(t.types) >= mostTypes {
			media = ""
		}
		v := t.types[media]
		v.name, v.pages, v.bytes = media, v.pages+1, v.bytes+r.Bytes
		t.types[media] = v
	}
}

func (t *tally) endOrigin() {
	if t.origin.pages > 0 {
		t.origins.Add(t.origin)
	}
	if t.origin.failed > 0 {
		t.failing.Add(t.origin)
	}
	t.origin = volume{}
}

// agrees checks that the scan has read every record, and has found what the counters say; else
// lists and statistics lack what the index lacks, and it returns record.ErrDamaged.
func (t *tally) agrees(totals record.Totals) error {
	kept, seen := totals.Counts, t.counts
	switch {
	case t.damaged > 0:
		return fmt.Errorf("%w: %d of %d records cannot be read and are in no list (crawler check names them)",
			record.ErrDamaged, t.damaged, t.damaged+t.records)
	case kept != seen || totals.Discovered() != t.records || totals.Bytes != t.bytes:
		return fmt.Errorf("%w: by its counters it has %s, %d of them stored, and a scan finds %d and %d (crawler check says more)",
			record.ErrDamaged, words.Count(kept.Records(), "record"), kept.Stored, t.records, seen.Stored)
	}
	return nil
}

// sorted returns reasons by state, in the order in which states are shown, then name.
func sorted(reasons map[reason]int64) []reason {
	return slices.SortedFunc(maps.Keys(reasons), func(a, b reason) int {
		return cmp.Or(
			cmp.Compare(slices.Index(record.States, a.state), slices.Index(record.States, b.state)),
			cmp.Compare(a.text, b.text))
	})
}

func verdict(ok bool) string {
	if ok {
		return "holds"
	}
	return "DOES NOT HOLD"
}

// equation returns source A's: the new URLs, by the counters, are those listed in the files as they
// lie on the disk: lines of res.txt whose source is no seed, and those of res2.txt without its
// title and without seeds. The lines of a stream cannot be read again.
func equation(ctx context.Context, totals record.Totals, l *lists) (string, error) {
	newURLs, res := totals.NewStored+totals.NewPending, l.tally.linked
	if l.res.whole != nil {
		lines, seeds, err := countLines(ctx, l.res.whole)
		if err != nil {
			return "", err
		}
		res = lines - seeds
	}
	res2, seeds, err := countLines(ctx, l.res2.whole)
	return fmt.Sprintf("%d = %d + %d - 1 - %d: %s", newURLs, res, res2, seeds, verdict(newURLs == res+res2-1-seeds)), err
}

// countLines counts the lines of a result file, and those whose second field is "seed".
func countLines(ctx context.Context, file *disk.File) (lines, seeds int64, err error) {
	f, err := file.Open()
	if err != nil {
		return 0, 0, iut.DiskError("count lines", err)
	}
	defer f.Close()
	mark := []byte("\t" + record.Seed + "\t")
	for r := bufio.NewReaderSize(f, 256<<10); ; {
		line, err := readLine(r)
		if err == io.EOF {
			return lines, seeds, nil
		}
		if err != nil {
			return 0, 0, iut.DiskError("count lines", err)
		}
		if lines++; lines%(1<<16) == 0 && ctx.Err() != nil {
			return 0, 0, context.Cause(ctx)
		}
		if tab := bytes.IndexByte(line, '\t'); tab >= 0 && bytes.HasPrefix(line[tab:], mark) {
			seeds++
		}
	}
}

// readLine returns the next line with its end, or what is left; it is valid until the next call.
func readLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		var rest []byte
		line = bytes.Clone(line)
		rest, err = r.ReadBytes('\n')
		line = append(line, rest...)
	}
	if errors.Is(err, io.EOF) && len(line) > 0 {
		err = nil
	}
	return line, err
}
