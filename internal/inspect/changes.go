package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

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
}

var changeWords = []Term{
	{"new", "It was stored."},
	{"changed", "It has other content, which is stored."},
	{"gone", "The server says that there is no such page (404 or 410); what was stored stays."},
	{"moved", "It redirects elsewhere; what was stored stays."},
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

// Changes calls fn for what is different since a moment, in the order of the index. Of a page that
// is new nothing else is told but that it is not found any more.
func Changes(ctx context.Context, index *storage.Index, since Since, fn func(Change) error) error {
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
		for _, c := range changesOf(&r, &l, since) {
			if err := fn(c); err != nil {
				return err
			}
		}
		return nil
	})
}

func changesOf(r *record.Record, l *record.Look, since Since) (list []Change) {
	add := func(what string, at int64, status uint16) {
		list = append(list, Change{what, r.URL, time.Unix(at, 0).UTC().Format(time.RFC3339), status, l.Reason})
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
	case l.Back >= since.Time && l.Back != 0:
		add("back", l.Back, r.Status)
	}
	if !isNew && l.Changed >= since.Time && l.Changed != 0 {
		add("changed", l.Changed, r.Status)
	}
	for i := range list {
		list[i].Reason = "" // the page was found
	}
	if l.Since >= since.Time && l.Since != 0 {
		switch {
		case l.State == record.Redirected:
			add("moved", l.Since, l.Status)
		case l.Status == http.StatusNotFound || l.Status == http.StatusGone:
			add("gone", l.Since, l.Status)
		default:
			add("failing", l.Since, l.Status)
		}
	}
	return list
}

// WriteChanges writes what Changes calls its function with, as TSV with a title, or as JSON
// lines.
func WriteChanges(ctx context.Context, index *storage.Index, since Since, format string, w io.Writer) error {
	if format != "jsonl" {
		if _, err := fmt.Fprintln(w, "change\tURL\ttime\tstatus\treason"); err != nil {
			return err
		}
	}
	return Changes(ctx, index, since, func(c Change) error {
		if format == "jsonl" {
			return json.NewEncoder(w).Encode(c)
		}
		_, err := fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\n", c.What, c.URL, c.Time, c.Status, orDash(c.Reason))
		return err
	})
}
