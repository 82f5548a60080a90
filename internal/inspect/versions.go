package inspect

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"urltree/internal/extract"
	"urltree/iut"
	"urltree/storage"
	"urltree/storage/record"
)

// A Version is one of the contents of a page that are kept: that of its record, or an earlier one.
type Version struct {
	record.Record
	Earlier bool
}

// Facts returns the facts by which a tree finds the version.
func (v *Version) Facts() iut.Facts {
	if v.Earlier {
		return iut.VersionOf(&v.Record)
	}
	return iut.FactsOf(&v.Record)
}

// VersionsOf returns the versions of a page that are kept, the oldest first. The error is
// ErrNotFound for a URL of which none is.
func VersionsOf(index *storage.Index, url string) (list []Version, err error) {
	for {
		r, err := index.Record(url)
		if errors.Is(err, storage.ErrNotFound) {
			return nil, fmt.Errorf("%w: %s is not in the index", ErrNotFound, url)
		}
		if err != nil {
			return nil, err
		}
		earlier, err := index.Versions().Of(url)
		if err != nil {
			return nil, err
		}
		again, err := index.Record(url)
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			return nil, err
		}
		if again.Page != r.Page || again.State != r.State {
			continue // a crawl has stored a new version meanwhile
		}
		for _, e := range earlier {
			list = append(list, Version{Record: e, Earlier: true})
		}
		if r.State == record.Stored {
			list = append(list, Version{Record: r})
		}
		if len(list) == 0 {
			return nil, fmt.Errorf("%w: no page of %s is stored: it is %s", ErrNotFound, url, r.State)
		}
		return list, nil
	}
}

// VersionAt returns the version that was the latest at a time in Unix seconds. The error is
// ErrNotFound if none that is kept is as old.
func VersionAt(index *storage.Index, url string, at int64) (Version, error) {
	list, err := VersionsOf(index, url)
	if err != nil {
		return Version{}, err
	}
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].Time <= at {
			return list[i], nil
		}
	}
	return Version{}, fmt.Errorf("%w: the oldest version of %s that is kept is of %s", ErrNotFound, url, stamp(list[0].Time))
}

// What a version has other than the one before.
var versionWords = []Term{
	{"first", "It is the oldest that is kept."},
	{"text", "Its text differs; of what has no text, its bytes."},
	{"markup", "Its bytes differ, and its text does not."},
	{"type", "It has another media type."},
	{"status", "It came with another status."},
	{"unreadable", "It, or the one before, cannot be read; crawler check says why."},
}

// A versionLine is a line of the answer to versions.
type versionLine struct {
	URL     string   `json:"url"`
	Time    string   `json:"time"`
	Status  uint16   `json:"status"`
	Bytes   int64    `json:"bytes"`
	Digest  string   `json:"sha256"`
	Media   string   `json:"type"`
	Changes []string `json:"changed"`
}

// versions writes a line for each version of a page that is kept, the newest first.
func (i *Inspector) versions(ctx context.Context, q Question, url string, w *bufio.Writer) error {
	list, err := VersionsOf(i.Index, url)
	if err != nil {
		return err
	}
	if q.Format != "jsonl" {
		fmt.Fprintln(w, "time\tstatus\tbytes\ttype\tchanged\tSHA-256")
	}
	out := json.NewEncoder(w)
	for n := len(list) - 1; n >= 0; n-- {
		v := &list[n]
		l := versionLine{
			URL: v.URL, Time: stamp(v.Time), Status: v.Status, Bytes: v.Bytes, Digest: hex.EncodeToString(v.Digest[:]), Media: v.Media,
			Changes: []string{"first"},
		}
		if n > 0 {
			if l.Changes, err = i.changed(&list[n-1], v); err != nil {
				return err
			}
		}
		if q.Format == "jsonl" {
			err = out.Encode(&l)
		} else {
			_, err = fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%s\t%s\n", l.Time, l.Status, l.Bytes, orDash(l.Media), strings.Join(l.Changes, ","), l.Digest)
		}
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// changed returns what a version has other than the one before it.
func (i *Inspector) changed(before, v *Version) (list []string, err error) {
	texts := [2][]byte{}
	word := "text"
	for n, of := range []*Version{before, v} {
		body, err := i.bodyOf(of)
		switch {
		case errors.Is(err, iut.ErrDisk):
			return nil, err
		case err != nil:
			word = "unreadable"
		default:
			texts[n] = body
		}
	}
	if word == "text" && before.Media == v.Media && bytes.Equal(texts[0], texts[1]) {
		word = "markup"
	}
	list = []string{word}
	if before.Media != v.Media {
		list = append(list, "type")
	}
	if before.Status != v.Status {
		list = append(list, "status")
	}
	return list, nil
}

// bodyOf returns the text of a version, or its bytes if it has none that can be read.
func (i *Inspector) bodyOf(v *Version) ([]byte, error) {
	if v.Bytes > mostRead || !extract.IsShown(v.Media) {
		return v.Digest[:], nil
	}
	_, body, err := i.Tree.Load(v.Facts())
	if err != nil {
		return nil, err
	}
	return extract.AppendText(nil, factsOf(&v.Record), body, mostText), nil
}

// open opens the content of a page as it was at a time, see Question; 0: as it is.
func (i *Inspector) open(url string, at int64) (io.ReadCloser, error) {
	v, err := i.version(url, at)
	if err != nil {
		return nil, err
	}
	if v.State != record.Stored {
		return nil, fmt.Errorf("%w: no page of %s, which is %s", ErrNotFound, url, v.State)
	}
	content, err := i.Tree.Content(v.Facts())
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, iut.ErrTorn) {
		return nil, fmt.Errorf("%w: the index calls %s stored, its folder is not whole: %w", ErrNotFound, url, err)
	}
	return content, err
}

// version returns what the index has of a URL as it was at a time; 0: now.
func (i *Inspector) version(url string, at int64) (v Version, err error) {
	if at != 0 {
		return VersionAt(i.Index, url, at)
	}
	v.Record, err = i.record(url)
	return v, err
}

// storedVersions writes a StoredPage for each version of a page, the oldest first.
func (i *Inspector) storedVersions(_ context.Context, url string, w *bufio.Writer) error {
	list, err := VersionsOf(i.Index, url)
	if err != nil {
		return err
	}
	out := json.NewEncoder(w)
	for n := range list {
		if !list[n].Earlier {
			return i.writeStored(out, &list[n].Record)
		}
		if err := out.Encode(StoredPage{Record: &list[n].Record, Earlier: true}); err != nil {
			return err
		}
	}
	return nil
}
