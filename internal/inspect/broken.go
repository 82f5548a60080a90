package inspect

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"io"
	"slices"
	"strings"
	"time"

	"urltree/internal/edges"
	"urltree/storage/record"
)

// A BrokenLine is a line, in JSON, of the answer to "broken", which is for a program to put in
// order: first one Sum, then Links in any order, among which Read says how far it is, then Targets
// in the order of the tree. Some Links may lead to none of these: they are not broken.
type BrokenLine struct {
	Sum    *BrokenSum    `json:",omitempty"`
	Link   *BrokenLink   `json:",omitempty"`
	Read   int64         `json:",omitempty"` // pages read so far
	Target *BrokenTarget `json:",omitempty"`
}

// A BrokenSum says what was looked at.
type BrokenSum struct {
	Pages   int64 // stored ones
	Reread  int64 // of these, the ones that the crawl kept no edges of: they are read from their folders
	Waiting int64 // URLs that were not asked, or wait to be asked again

	Outside        int64 // targets outside that are known
	OutsideWaiting int64 // of these, the ones that were not asked, or wait to be asked again
	OutsideRefused int64 // and those that must not be asked, such as by robots.txt
}

// A BrokenLink is a link to a broken URL.
type BrokenLink struct{ Page, To, Element, Text string }

// A BrokenTarget is a URL whose links are broken. There need not be any link to it.
type BrokenTarget struct {
	URL    string
	State  string // failed, unreachable (its host gives no answer, so it was not asked) or redirected
	Reason string // of URL or End
	Status int64  // of URL or End; 0: no answer
	End    string // of a redirect: the URL that it ends at, which is broken itself
	Time   string // of the last answer or try, RFC 3339; "": not known
	// Source is the page that named it first, "" for none that is meant: the file of edges has only
	// those of pages that are stored. How says what Source is: link, sitemap, seed (then Source is
	// "").
	Source, How string
	External    bool `json:",omitempty"` // it is a target outside: Source and How are ""
}

// ours are reasons that are faults or limits of this program: a link to such a URL may be right.
var ours = []string{"panic", "parse-budget", "tree"}

// unreached are causes for which a host was not reached.
var unreached = []string{"dns", "connect", "timeout", "reset", "tls"}

// Unreached reports whether a reason, such as "robots-unreachable:dns" or "dns", says that a host
// was not reached, and the last part of it.
func Unreached(reason string) (cause string, yes bool) {
	cause = reason[strings.LastIndexByte(reason, ':')+1:]
	word, _, _ := strings.Cut(cause, "-") // tls-expired
	return cause, slices.Contains(unreached, word)
}

// brokenState reports whether a record, no redirect, is broken, and its state and reason then.
func brokenState(r *record.Record) (state, reason string, broken bool) {
	switch {
	case r.State == record.Failed:
		if cause, yes := Unreached(r.Reason); yes && cause != r.Reason { // of a target outside
			return "unreachable", cause, true
		}
		return "failed", r.Reason, !slices.Contains(ours, r.Reason)
	case r.State == record.Pending && r.Range == record.Held:
		why, _, _ := strings.Cut(r.Reason, ":")
		cause, yes := Unreached(r.Reason)
		return "unreachable", cause, yes && (why == "robots-unreachable" || why == "refused")
	}
	return "", "", false
}

// markWords is how many words the marks of broken URLs take; of those that a crawl holds, which may
// have several to answer, an eighth. With a million such URLs, one link in 64 that leads elsewhere
// seems to lead to one.
const markWords = 1 << 20

// Marks tell URLs from nearly all others: each has a bit, by its hash.
type marks struct {
	seed  maphash.Seed
	words []uint64
}

func (m *marks) of(url string) (word *uint64, bit uint64) {
	h := maphash.String(m.seed, url)
	return &m.words[h/64%uint64(len(m.words))], 1 << (h % 64)
}

// broken writes lines, as ReadBroken reads them: the links of the pages below a URL prefix to what
// is broken, wherever that is.
func (i *Inspector) broken(ctx context.Context, q Question, words int, w *bufio.Writer) error {
	key, err := i.folder(q.URL, usageBroken)
	if err != nil {
		return err
	}
	in, err := newBelow(key)
	if err != nil {
		return err
	}
	if err := i.thereIs(ctx, &in); err != nil {
		return err
	}
	kept, stored, err := i.Index.Marks().Edges()
	if err != nil {
		return err
	}
	sum, any := BrokenSum{Pages: stored, Reread: stored - kept.Pages}, false
	marks := &marks{maphash.MakeSeed(), make([]uint64, words)}
	err = i.targets(ctx, func(r *record.Record, t *BrokenTarget) error {
		if t != nil {
			any = true
			word, bit := marks.of(t.URL)
			*word |= bit
		}
		sum.count(r, t)
		return nil
	})
	if err != nil {
		return err
	}
	out := json.NewEncoder(w)
	if err := out.Encode(BrokenLine{Sum: &sum}); err != nil || !any {
		return err
	}
	if err := i.brokenLinks(ctx, in, marks, w); err != nil {
		return err
	}
	return i.targets(ctx, func(r *record.Record, t *BrokenTarget) error {
		if t == nil {
			return nil
		}
		if !t.External {
			i.nameSource(r, t, in)
		}
		for _, text := range []*string{&t.URL, &t.Reason, &t.End, &t.Source} {
			*text = clean(*text)
		}
		return out.Encode(BrokenLine{Target: t})
	})
}

// brokenLinks writes the links of the pages in a folder to URLs that are marked, and once a second
// how many pages it has read.
func (i *Inspector) brokenLinks(ctx context.Context, in below, marks *marks, w *bufio.Writer) error {
	out, told, read := json.NewEncoder(w), time.Now(), int64(0)
	return i.Edges(ctx, func(p edges.Page) error {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		if read++; read%100 == 0 && time.Since(told) > time.Second {
			told = time.Now()
			if err := cmp.Or(out.Encode(BrokenLine{Read: read}), w.Flush()); err != nil {
				return err
			}
		}
		meant := false
		for k := range p.Edges {
			e := &p.Edges[k]
			// A redirect is no link: whoever links to that URL has one that is broken.
			if word, bit := marks.of(e.To); *word&bit == 0 || e.Element == "redirect" {
				continue
			}
			if !meant && !in.has(p.URL) {
				return nil
			}
			meant = true
			link := BrokenLink{clean(p.URL), clean(e.To), clean(e.Element), clean(e.Text)}
			if err := out.Encode(BrokenLine{Link: &link}); err != nil {
				return err
			}
		}
		return nil
	})
}

// nameSource sets what named a broken URL first, if that is meant.
func (i *Inspector) nameSource(r *record.Record, t *BrokenTarget, in below) {
	switch {
	case r.Via != "": // it is the end of a redirect, which has that source
	case r.Source == record.Seed:
		if in.has(r.URL) {
			t.How = "seed"
		}
	case i.isSitemap(r.Source):
		if in.has(r.Source) {
			t.Source, t.How = r.Source, "sitemap"
		}
	case in.has(r.Source):
		t.Source, t.How = r.Source, "link"
	}
}

// ReadBroken returns a writer that takes the answer to "broken" and calls fn with each of its
// lines. Lines that are none of it are an error.
func ReadBroken(fn func(BrokenLine) error) io.Writer { return &brokenReader{fn: fn} }

type brokenReader struct {
	fn   func(BrokenLine) error
	part []byte // of a line that has not ended
}

func (r *brokenReader) Write(b []byte) (int, error) {
	for rest := b; len(rest) > 0; {
		end := bytes.IndexByte(rest, '\n')
		if end < 0 {
			r.part = append(r.part, rest...)
			break
		}
		r.part = append(r.part, rest[:end]...)
		rest = rest[end+1:]
		var line BrokenLine
		if err := json.Unmarshal(r.part, &line); err != nil || line == (BrokenLine{}) {
			return 0, fmt.Errorf("%q is no answer about broken links", r.part)
		}
		if err := r.fn(line); err != nil {
			return 0, err
		}
		r.part = r.part[:0]
	}
	return len(b), nil
}
