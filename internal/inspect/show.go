package inspect

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"urltree/internal/score"
	"urltree/internal/words"
	"urltree/iut"
	"urltree/storage"
	"urltree/storage/record"
)

// show writes record and metadata field by field, then the way back to the seed.
func (i *Inspector) show(ctx context.Context, q Question, url string, w *bufio.Writer) error {
	v, err := i.version(url, q.At)
	if err != nil {
		return err
	}
	r := v.Record
	where, err := i.Tree.Where(v.Facts())
	if err != nil {
		where = "- (" + err.Error() + ")"
	}
	field := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%-13s %s\n", name, clean(fmt.Sprintf(format, args...)))
	}
	field("URL", "%s", r.URL)
	field("state", "%s (%s)", r.State, stateWord(countOf(&r), false))
	if r.Reason != "" {
		field("reason", "%s", r.Reason)
	}
	field("folder", "%s", where)
	field("depth", "%d", r.Depth)
	field("source", "%s", orDash(r.Source))
	field("via", "%s", orDash(r.Via))
	field("hops", "%d", r.Hops)
	field("tries", "%d", r.Tries)
	field("reopened", "%d", r.Reopened)
	field("discovery", "%d", r.Seq)
	field("found", "%s", stamp(r.Found))
	if r.Run == 0 {
		field("run", "- (known before a run began)")
	} else {
		field("run", "%d", r.Run)
	}
	if r.State == record.Pending {
		field("waits in", "%s", place(&r))
	} else {
		field("time", "%s", stamp(r.Time))
		field("status", "%d", r.Status)
		field("media type", "%s", orDash(r.Media))
		field("charset", "%s", orDash(r.Charset))
		field("flags", "%s", flagWords(r.Flags))
		field("bytes", "%d", r.Bytes)
		if r.State == record.Redirected {
			field("redirects to", "%s", orDash(r.HeaderLinks))
		} else {
			field("header links", "%s", orDash(r.HeaderLinks))
		}
	}
	if r.Cut > 0 {
		field("links cut", "%d", r.Cut)
	}
	switch first, err := i.duplicateOf(ctx, &r); {
	case err != nil:
		return err
	case first != "":
		field("duplicate of", "%s", first)
	}
	if r.State == record.Stored {
		field("SHA-256", "%s", hex.EncodeToString(r.Digest[:]))
		field("page depth", "%d", r.PageDepth)
		if err := i.ofPage(&v, field); err != nil {
			return err
		}
	}
	fmt.Fprintln(w)
	return i.way(ctx, &r, w)
}

// ofPage writes what is kept of a stored page besides its record: of an earlier version that is
// nothing.
func (i *Inspector) ofPage(v *Version, field func(name, format string, args ...any)) error {
	if v.Earlier {
		field("version", "earlier")
		return nil
	}
	if err := i.looks(&v.Record, field); err != nil {
		return err
	}
	earlier, err := i.Index.Versions().Of(v.URL)
	if err != nil && !errors.Is(err, record.ErrCorrupt) {
		return err
	}
	if len(earlier) > 0 {
		field("versions", "%d, the oldest of %s", len(earlier)+1, stamp(earlier[0].Time))
	}
	return i.meta(v.URL, field)
}

// looks writes what further looks at a stored page came to, and when the next one is due.
func (i *Inspector) looks(r *record.Record, field func(name, format string, args ...any)) error {
	l, ok, err := i.Index.Revisits().Look(r.URL)
	if errors.Is(err, record.ErrCorrupt) {
		field("looks", "%s", err)
		return nil
	}
	if err != nil {
		return err
	}
	if ok && l.Looks > 0 {
		field("looks", "%d, of these %d found other content", l.Looks, l.Changes)
		field("last look", "%s, status %d", stamp(l.Time), l.Status)
		if rate := l.History.Rate(); rate > 0 {
			field("changes", "about every %s, by its last %s", words.Duration(time.Duration(float64(time.Second)/rate)), words.Count(l.History.Looks(), "look"))
		}
		if m := measureOf(l.Difference); m != nil {
			field("last change", "%s: %s", stamp(l.Changed), m)
		}
		switch {
		case l.Since != 0 && l.Target != "":
			field("gone", "since %s: %s to %s", stamp(l.Since), l.Reason, l.Target)
		case l.Since != 0:
			field("gone", "since %s: %s", stamp(l.Since), l.Reason)
		}
	}
	switch {
	case r.Revisits() > 0:
		field("next look", "now")
	case r.Due == record.DueAtOnce:
		field("next look", "with the next run")
	case r.Due != 0:
		field("next look", "not before %s", instant(r.Due))
	}
	return nil
}

// duplicateOf returns the URL of the page that this one repeats byte for byte; "": none.
func (i *Inspector) duplicateOf(ctx context.Context, r *record.Record) (string, error) {
	if r.Bytes == 0 || r.State != record.Stored && r.Reason != record.Duplicate {
		return "", nil
	}
	first, err := i.Index.First(ctx, r.Digest)
	if errors.Is(err, storage.ErrNotFound) || err == nil && first.URL == r.URL {
		return "", nil
	}
	return first.URL, err
}

// meta writes what a page says about itself, as far as it does.
func (i *Inspector) meta(url string, field func(name, format string, args ...any)) error {
	m, err := i.Index.Meta(url)
	if errors.Is(err, record.ErrCorrupt) {
		field("metadata", "%s", strings.TrimPrefix(err.Error(), "metadata: ")) // the record is whole all the same
		return nil
	}
	if err != nil || m == nil {
		return err
	}
	for _, f := range []struct{ name, text string }{
		{"title", m.Title},
		{"description", m.Description},
		{"language", m.Language},
		{"canonical", m.Canonical},
		{"robots", m.Robots},
		{"robots header", m.RobotsHeader},
	} {
		if f.text != "" {
			field(f.name, "%s", f.text)
		}
	}
	for _, h := range m.Headings {
		field(fmt.Sprintf("h%d", h.Level), "%s", h.Text)
	}
	for _, text := range m.LinkTexts {
		field("link text", "%s", text)
	}
	return nil
}

// place says in which queue of its host a pending record waits.
func place(r *record.Record) string {
	switch r.Range {
	case record.Later:
		return "later, not before " + instant(r.Due)
	case record.Held:
		return "held"
	}
	if s, ok := score.Of(r.Rank); ok {
		return fmt.Sprintf("now, score %.3g when found", s)
	}
	return fmt.Sprintf("now, rank %d", r.Rank)
}

// instant returns a time in Unix nanoseconds as RFC 3339, UTC.
func instant(t int64) string { return time.Unix(0, t).UTC().Format(time.RFC3339) }

// flagWords explains the letters of a page's flags.
func flagWords(flags string) string {
	var words []string
	for _, f := range [...]struct{ letter, word string }{{"n", "nofollow"}, {"t", "truncated"}, {"c", "links cut"}} {
		if strings.Contains(flags, f.letter) {
			words = append(words, f.word)
		}
	}
	return orDash(strings.Join(words, ", "))
}

// way writes how a URL was found, from itself back to a seed: a redirect goes back to the URL
// that redirected, a link to the page that had it. It ends early at a URL that it has passed
// already, which redirects in a circle bring about, or that has no record.
func (i *Inspector) way(ctx context.Context, r *record.Record, w io.Writer) error {
	fmt.Fprintf(w, "way           %s\n", r.URL)
	passed := map[string]bool{r.URL: true}
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		how, back := "linked by", r.Source
		if i.isSitemap(back) {
			how = "in the sitemap"
		}
		if r.Via != "" {
			how, back = "redirected from", r.Via
		}
		if back == record.Seed {
			_, err := fmt.Fprintf(w, "              a seed\n")
			return err
		}
		fmt.Fprintf(w, "              %s %s\n", how, orDash(back))
		if passed[back] {
			return nil
		}
		passed[back] = true
		prev, err := i.Index.Record(back)
		if errors.Is(err, storage.ErrNotFound) || errors.Is(err, record.ErrKey) {
			return nil
		}
		if err != nil {
			return err
		}
		r = &prev
	}
}

// cat writes content.html as it was received.
func (i *Inspector) cat(q Question, url string, w *bufio.Writer) error {
	content, err := i.open(url, q.At)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, content)
	return errors.Join(err, content.Close())
}

// path writes where the page of a URL that is known is: its folder, whether it has been made yet or
// not, or file, offset and length of its record.
func (i *Inspector) path(_ context.Context, url string, w *bufio.Writer) error {
	r, err := i.record(url)
	if err != nil {
		return err
	}
	where, err := i.Tree.Where(iut.FactsOf(&r))
	if err != nil {
		return fmt.Errorf("%w: no page of %s: %w", ErrNotFound, url, err)
	}
	_, err = fmt.Fprintln(w, where)
	return err
}
