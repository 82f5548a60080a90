package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"urltree/internal/words"
	"urltree/storage"
	"urltree/storage/record"
)

// A Change is one thing that is different with a page since a moment.
type Change struct {
	What   string `json:"change"` // one of the words of Terms("change")
	URL    string `json:"url"`
	Time   string `json:"time"` // of the look that met it, RFC 3339, UTC
	Status uint16 `json:"status"`
	Reason string `json:"reason,omitempty"` // why the page is not found; "": it is
	Target string `json:"target,omitempty"` // of moved: where the redirect led
	For    int64  `json:"for_s,omitempty"`  // seconds since Time that the page is not found; 0: it is
	Title  string `json:"title,omitempty"`  // of the page that is stored
	*Measure
}

// A Measure is how much other content differs from what was stored before.
type Measure struct {
	Distance *int64 `json:"distance"` // bits of 64 in which the fingerprints of the texts differ; nil: one has no text
	Added    int64  `json:"links_added"`
	Removed  int64  `json:"links_removed"`
}

// measureOf returns what a look has measured; nil: nothing.
func measureOf(d record.Difference) *Measure {
	if d == (record.Difference{}) {
		return nil
	}
	m := &Measure{Added: d.Added, Removed: d.Removed}
	if bits := d.Bits - 1; bits >= 0 {
		m.Distance = &bits
	}
	return m
}

var changeWords = []Term{
	{"new", "It was stored."},
	{"changed", "It has other content, which is stored. The distance is in how many of 64 bits the fingerprints of both texts differ: a word in a thousand changes one or two, another text about 32. The distance and the links added and removed are those of the last change."},
	{"gone", "The server says that there is no such page (404 or 410); what was stored stays."},
	{"moved", "It redirects elsewhere, to the target; what was stored stays."},
	{"failing", "A look failed or was refused for another reason; what was stored stays."},
	{"back", "It was found again after a look that did not find it."},
}

// A Since is the moment from which on changes count: a time in Unix seconds; if it is the begin of
// a run, with its number, since pages may have been stored before in the same second.
type Since struct {
	Time int64
	Run  uint32
}

// SinceRun returns the begin of a run; 0: of the latest. The error is ErrNotFound.
func SinceRun(index *storage.Index, number uint32) (Since, error) {
	runs, err := index.Runs().All()
	if err != nil {
		return Since{}, err
	}
	for i := range slices.Backward(runs) {
		if runs[i].ID == number || number == 0 {
			return Since{runs[i].Start, runs[i].ID}, nil
		}
	}
	return Since{}, fmt.Errorf("%w: no run %d; crawler stats names the last one", ErrNotFound, number)
}

// Changes calls fn for what is different since a moment, in the order of the index, as it is now.
// Of a page that is new nothing else is told but that it is not found any more.
func Changes(ctx context.Context, index *storage.Index, since Since, now time.Time, fn func(*Change) error) error {
	return index.Records(ctx, nil, func(r record.Record, err error) error {
		if err != nil || r.State != record.Stored {
			return nil // damage is for check to name
		}
		l, ok, err := index.Revisits().Look(r.URL)
		if errors.Is(err, record.ErrCorrupt) {
			ok, err = false, nil
		}
		if err != nil {
			return err
		}
		if !ok {
			l = record.Look{State: record.Stored, Status: r.Status}
		}
		list := changesOf(&r, &l, since)
		if len(list) == 0 {
			return nil
		}
		meta, err := index.Meta(r.URL)
		if err != nil && !errors.Is(err, record.ErrCorrupt) {
			return err
		}
		for i := range list {
			c := &list[i]
			if meta != nil {
				c.Title = meta.Title
			}
			if c.Reason != "" {
				c.For = max(now.Unix()-l.Since, 0)
			}
			if err := fn(c); err != nil {
				return err
			}
		}
		return nil
	})
}

func changesOf(r *record.Record, l *record.Look, since Since) (list []Change) {
	add := func(what string, at int64, status uint16) {
		list = append(list, Change{What: what, URL: r.URL, Time: time.Unix(at, 0).UTC().Format(time.RFC3339), Status: status, Reason: l.Reason})
	}
	// Looks of two runs may be of the same second.
	counts := func(at, run int64) bool {
		if since.Run != 0 && run != 0 {
			return run >= int64(since.Run)
		}
		return at >= since.Time && at != 0
	}
	isNew := r.Found >= since.Time || l.Changes == 0 && r.Time >= since.Time
	if since.Run != 0 {
		isNew = r.Run >= since.Run
	}
	switch {
	case isNew && l.Changes == 0:
		add("new", r.Time, r.Status)
	case isNew:
		add("new", r.Found, r.Status)
	case counts(l.Back, l.BackRun):
		add("back", l.Back, r.Status)
	}
	if !isNew && counts(l.Changed, l.ChangedRun) {
		add("changed", l.Changed, r.Status)
		list[len(list)-1].Measure = measureOf(l.Difference)
	}
	for i := range list {
		list[i].Reason = "" // the page was found
	}
	if counts(l.Since, l.SinceRun) {
		switch {
		case l.Moved():
			add("moved", l.Since, l.Status)
			list[len(list)-1].Target = l.Target
		case l.Gone():
			add("gone", l.Since, l.Status)
		default:
			add("failing", l.Since, l.Status)
		}
	}
	return list
}

// ChangeFormats are the forms in which WriteChanges writes.
var ChangeFormats = []string{"tsv", "jsonl", "atom"}

// WriteChanges writes what Changes calls its function with, as TSV with a title, as JSON lines, or
// as an Atom feed.
func WriteChanges(ctx context.Context, index *storage.Index, since Since, format string, w io.Writer) error {
	now := time.Now()
	switch format {
	case "atom":
		return writeFeed(ctx, index, since, now, w)
	case "jsonl":
		lines := json.NewEncoder(w)
		lines.SetEscapeHTML(false)
		return Changes(ctx, index, since, now, func(c *Change) error { return lines.Encode(c) })
	}
	if _, err := fmt.Fprintln(w, "change\tURL\ttime\tstatus\treason\ttarget\tfor\tdistance\tadded\tremoved"); err != nil {
		return err
	}
	return Changes(ctx, index, since, now, func(c *Change) error {
		lasts, measure := "-", "-\t-\t-"
		if c.Reason != "" {
			lasts = words.Span(time.Duration(c.For) * time.Second)
		}
		if m := c.Measure; m != nil {
			measure = fmt.Sprintf("%s\t%d\t%d", m.distance(), m.Added, m.Removed)
		}
		_, err := fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\n",
			c.What, c.URL, c.Time, c.Status, orDash(c.Reason), orDash(c.Target), lasts, measure)
		return err
	})
}

// String returns what was measured for people.
func (m *Measure) String() string {
	text := words.Count(m.Added, "link") + " added, " + words.Count(m.Removed, "link") + " removed"
	if m.Distance != nil {
		text = fmt.Sprintf("the text differs in %d of 64 bits, ", *m.Distance) + text
	}
	return text
}

func (m *Measure) distance() string {
	if m.Distance == nil {
		return "-"
	}
	return strconv.FormatInt(*m.Distance, 10)
}
