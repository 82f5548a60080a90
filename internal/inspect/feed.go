package inspect

import (
	"context"
	"crypto/sha256"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"urltree/internal/spool"
	"urltree/storage"
)

const (
	atomSpace  = "http://www.w3.org/2005/Atom"
	feedMemory = 8 << 20 // bytes of entries that are sorted in memory
)

// An atomEntry is a change as RFC 4287 has it.
type atomEntry struct {
	XMLName  xml.Name `xml:"entry"`
	ID       string   `xml:"id"`
	Title    string   `xml:"title"`
	Updated  string   `xml:"updated"`
	Category struct {
		Term string `xml:"term,attr"`
	} `xml:"category"`
	Link struct {
		Rel  string `xml:"rel,attr"`
		Href string `xml:"href,attr"`
	} `xml:"link"`
	Summary string `xml:"summary"`
}

// writeFeed writes changes as an Atom feed, the latest first. A change has the same id in each feed
// of one index that has it, and a feed the same as all others.
func writeFeed(ctx context.Context, index *storage.Index, since Since, now time.Time, w io.Writer) (err error) {
	latest := time.Unix(since.Time, 0)
	entries := spool.NewSorter(feedMemory, 16)
	defer func() { err = errors.Join(err, entries.Close()) }()
	err = Changes(ctx, index, since, now, func(c *Change) error {
		at, err := time.Parse(time.RFC3339, c.Time)
		if err != nil {
			return err
		}
		if at.After(latest) {
			latest = at
		}
		text, err := xml.Marshal(entryOf(index, c))
		if err != nil {
			return err
		}
		// Sorted by how long before the end of all times.
		key := fmt.Sprintf("%016x %s", uint64(math.MaxInt64-at.Unix()), c.What)
		return entries.Add(spool.Row{Key: key, Sub: c.URL, Values: [2]string{string(text)}})
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s<feed xmlns=%q>\n<id>%s</id>\n<title>Changes</title>\n<author><name>urltree</name></author>\n<updated>%s</updated>\n",
		xml.Header, atomSpace, feedID(index, "changes"), latest.UTC().Format(time.RFC3339))
	for next := entries.Sorted(); err == nil; {
		row, end := next()
		if end == io.EOF {
			_, err = fmt.Fprintln(w, "</feed>")
			return err
		}
		if err = end; err == nil {
			_, err = fmt.Fprintln(w, row.Values[0])
		}
	}
	return err
}

func entryOf(index *storage.Index, c *Change) *atomEntry {
	e := &atomEntry{ID: feedID(index, strings.Join([]string{c.What, c.Time, c.URL}, " ")), Updated: c.Time}
	e.Title = c.What + ": " + c.URL
	if c.Title != "" {
		e.Title = c.What + ": " + c.Title
	}
	e.Category.Term, e.Link.Rel, e.Link.Href = c.What, "alternate", c.URL
	said := []string{c.URL, fmt.Sprintf("status %d", c.Status)}
	if c.Reason != "" {
		said = append(said, c.Reason)
	}
	if c.Target != "" {
		said = append(said, "redirects to "+c.Target)
	}
	if c.Measure != nil {
		said = append(said, c.Measure.String())
	}
	e.Summary = strings.Join(said, "; ")
	return e
}

// feedID returns a UUID of version 8 for a name within the feeds of an index.
func feedID(index *storage.Index, name string) string {
	secret := index.Derive("feed")
	sum := sha256.Sum256(append(secret[:], name...))
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}
