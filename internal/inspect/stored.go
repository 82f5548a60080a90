package inspect

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"urltree/storage/record"
)

// A StoredPage is a line of the answers to the questions stored and pages: what the index has of a
// stored page. The last line of an answer to pages is another one if there are more pages: it has
// Next alone.
type StoredPage struct {
	Record *record.Record `json:",omitempty"`
	Meta   *record.Meta   `json:",omitempty"` // nil: there is none
	Next   string         `json:",omitempty"` // Question.After of the pages behind
	// Earlier says that the record is that of an earlier version.
	Earlier bool `json:",omitempty"`
}

const mostPages = 1000

// stored writes the StoredPage of a URL.
func (i *Inspector) stored(_ context.Context, url string, w *bufio.Writer) error {
	r, err := i.record(url)
	if err != nil {
		return err
	}
	if r.State != record.Stored {
		return fmt.Errorf("%w: no page of %s is stored: it is %s", ErrNotFound, url, r.State)
	}
	return i.writeStored(json.NewEncoder(w), &r)
}

// pages writes the stored pages of a part in the order of the tree, so many of them at most.
func (i *Inspector) pages(ctx context.Context, q Question, w *bufio.Writer) error {
	in, err := i.newPart(ctx, &q)
	if err != nil {
		return err
	}
	after, err := hex.DecodeString(q.After)
	if err != nil {
		return fmt.Errorf("%q is no place among pages: %w", q.After, ErrUsage)
	}
	if len(after) == 0 {
		after = nil
	}
	out := json.NewEncoder(w)
	enough, left, last := errors.New("enough"), min(max(q.Lines, 1), mostPages), ""
	err = i.Index.Folders().Records(ctx, in.key, after, func(r record.Record, damage error) error {
		if damage != nil || r.State != record.Stored || !in.takes(&r) { // damage is for check to name
			return nil
		}
		if left == 0 {
			return enough
		}
		left, last = left-1, r.URL
		return i.writeStored(out, &r)
	})
	if err != enough {
		return err
	}
	key, err := record.Key(last)
	if err != nil {
		return err
	}
	return out.Encode(StoredPage{Next: hex.EncodeToString(key)})
}

// writeStored writes a StoredPage. Metadata that is damaged is for check to name.
func (i *Inspector) writeStored(out *json.Encoder, r *record.Record) error {
	meta, err := i.Index.Meta(r.URL)
	if err != nil && !errors.Is(err, record.ErrCorrupt) {
		return err
	}
	return out.Encode(StoredPage{Record: r, Meta: meta})
}
