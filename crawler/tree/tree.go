// Package tree reads the pages of a tree, whether a crawl fills it meanwhile or not.
//
//	t, err := tree.Open("iut")
//	...
//	defer t.Close()
//	for page, err := range t.Pages(ctx, tree.Query{Prefix: "https://example.org/docs"}) {
//		if err != nil {
//			return err
//		}
//		text, err := page.Text()
//		...
//	}
//
// What the index has of pages is asked for in parts, of the crawl that has the tree, or else of the
// index; bodies are read from the tree's files. So no lock and no transaction is held while a
// caller looks at a page, however long that takes: a crawl may begin and end meanwhile. A page that
// is forgotten, compacted or converted after it was returned has no body any more.
package tree

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"urltree/crawler"
	"urltree/internal/ctl"
	"urltree/internal/inspect"
	"urltree/iut"
	"urltree/storage/record"
)

var (
	// ErrNotFound says that no page of a URL is stored.
	ErrNotFound = inspect.ErrNotFound
	// ErrQuery says that a URL or prefix is none.
	ErrQuery = inspect.ErrUsage
)

// A Tree is a folder with pages. Its methods may be called from any goroutine, but for Close at the
// end.
type Tree struct {
	root   string
	disk   *iut.Disk
	pages  *iut.Tree
	linker *crawler.Linker
}

// Open opens the tree in the folder dir for reading. Errors: fs.ErrNotExist if there is none, and
// iut.ErrFormat for one that this program does not know.
func Open(dir string) (t *Tree, err error) {
	if _, err := iut.ReadFormat(dir); err != nil {
		return nil, fmt.Errorf("tree %s: %w", dir, err)
	}
	t = &Tree{root: dir}
	if t.disk, err = iut.OpenDisk(dir, iut.SyncNone); err != nil {
		return nil, fmt.Errorf("tree %s: %w", dir, err)
	}
	if t.pages, err = iut.Open("", iut.Options{FS: t.disk, ReadOnly: true}); err == nil {
		t.linker, err = crawler.NewLinker(t.pages.Format())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("tree %s: %w", dir, err), t.Close())
	}
	return t, nil
}

// Close releases what the tree holds. Bodies that are open may be read on.
func (t *Tree) Close() error {
	var err error
	if t.pages != nil {
		err = t.pages.Close()
	}
	return errors.Join(err, t.disk.Close())
}

// A Query says which of the stored pages are wanted. The zero value is all.
type Query struct {
	// Prefix is a URL prefix, which ends where a folder of the tree does: a scheme ("https://"), a
	// host ("https://example.org"), or a path with or without its last slash. "": all pages.
	Prefix string
	// Since and Until choose the pages that were answered from the one time on, and before the other,
	// in whole seconds. Zero: at any time.
	Since, Until time.Time
}

// Pages returns the stored pages, in the order of the tree: by scheme, by the labels of the host
// from the last one on, by path. Of pages that are stored meanwhile it may have some.
//
// It ends after an error, of which the page is nil: ErrQuery, the cause of ctx, iut.ErrBusy while
// something other than a crawl has had the tree for half a minute, record.ErrDamaged for an index
// that cannot be read, and those of the system.
func (t *Tree) Pages(ctx context.Context, q Query) iter.Seq2[*Page, error] {
	ask := inspect.Question{Command: "pages", URL: q.Prefix, Lines: part, Since: seconds(q.Since), Until: seconds(q.Until)}
	return func(yield func(*Page, error) bool) {
		for {
			lines, err := t.ask(ctx, ask)
			if errors.Is(err, ErrNotFound) { // nothing is below Prefix
				return
			}
			if err != nil {
				yield(nil, err)
				return
			}
			ask.After = ""
			for _, l := range lines {
				if l.Record == nil {
					ask.After = l.Next
				} else if !yield(t.page(l), nil) {
					return
				}
			}
			if ask.After == "" {
				return
			}
		}
	}
}

// Page returns the stored page of a URL, in any spelling. Errors: ErrNotFound, and those of Pages.
func (t *Tree) Page(ctx context.Context, url string) (*Page, error) {
	lines, err := t.ask(ctx, inspect.Question{Command: "stored", URL: url})
	if err != nil {
		return nil, err
	}
	return t.page(lines[0]), nil
}

// Versions returns the versions of a page that are kept, the oldest first, in any spelling of its
// URL; Options.Versions of a crawl says how many it keeps. Meta is known of the last one alone.
// Errors are those of Page.
func (t *Tree) Versions(ctx context.Context, url string) (list []*Page, err error) {
	lines, err := t.ask(ctx, inspect.Question{Command: "stored versions", URL: url})
	for _, l := range lines {
		list = append(list, t.page(l))
	}
	return list, err
}

const (
	part    = 1000 // pages that are asked for at once
	patient = 30 * time.Second
)

// ask asks a question whose answer is some StoredPages. A crawl that only begins or ends answers
// nobody for a moment: it is asked again.
func (t *Tree) ask(ctx context.Context, q inspect.Question) (lines []inspect.StoredPage, err error) {
	late := time.After(patient)
	for {
		var answer bytes.Buffer
		if err = crawler.Ask(ctx, t.root, q, nil, &answer); err == nil {
			return decode(&answer)
		}
		if !errors.Is(err, iut.ErrBusy) && !errors.Is(err, ctl.ErrEnding) && !errors.Is(err, ctl.ErrCut) {
			return nil, fmt.Errorf("tree %s: %w", t.root, err)
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-late:
			return nil, fmt.Errorf("tree %s: %w", t.root, err)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func decode(answer io.Reader) (lines []inspect.StoredPage, err error) {
	for in := json.NewDecoder(bufio.NewReader(answer)); ; {
		var l inspect.StoredPage
		switch err := in.Decode(&l); {
		case err == io.EOF:
			return lines, nil
		case err != nil:
			return nil, fmt.Errorf("answer about pages: %w", err)
		}
		lines = append(lines, l)
	}
}

func (t *Tree) page(l inspect.StoredPage) *Page {
	r := l.Record
	p := &Page{
		URL: r.URL, Source: r.Source, Via: r.Via, Depth: int(r.Depth), Status: int(r.Status),
		Time: time.Unix(r.Time, 0).UTC(), Found: time.Unix(r.Found, 0).UTC(),
		Media: r.Media, Charset: r.Charset, Bytes: r.Bytes, SHA256: r.Digest,
		tree: t, facts: iut.FactsOf(r),
	}
	p.facts.Earlier = l.Earlier
	if l.Meta != nil {
		p.Meta = *l.Meta
	}
	return p
}

// seconds returns a time in Unix seconds, 0 for the zero one.
func seconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}

// Seed is the Source of a page that was given, not found.
const Seed = record.Seed
