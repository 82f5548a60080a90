// Package repair brings the index of a tree and its folders into agreement, and says where they
// are not.
//
// The folders are the truth: what they hold, and seeds.txt and FORMAT name, is all that is needed
// to go on ([NewIndex], [Merge]). A run has seeds taken into the index by [EnterSeeds], and links
// that count now by [Relink] and [Nearer]. [Check] proves on a tree at rest that index, folders and
// results say the same. All of it may be cut off at any place and done again; nothing else may
// write to the index meanwhile.
package repair

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"urltree/cleaner"
	"urltree/internal/cluster"
	"urltree/internal/edges"
	"urltree/internal/words"
	"urltree/iut"
	"urltree/storage"
	"urltree/storage/record"
)

// CheckOptions say what to check besides index and folders.
type CheckOptions struct {
	// Links parses every stored page again: each link that scope admits must have a record.
	Links bool
	// Output is the result file, see [cleaner.FilesFor]. It and res2.txt are compared where they
	// exist and are not older than the index.
	Output string
	Tell   Tell // nil: nobody is told
}

// A CheckReport is what Check looked at, and how many faults it found.
type CheckReport struct {
	Faults   int
	Records  int64  // in the index
	Versions int64  // earlier ones in the index
	Pages    int    // complete, in the folders
	Links    int64  // looked up, with CheckOptions.Links
	Cut      int64  // links without a record, by -max-held: of their pages no link is judged
	Results  bool   // the result files were compared
	NotRead  string // the result file for which they were not, and why
	// What a kill leaves is no fault. The next run, or merge, sees to it.
	Torn    int   // pages that are not whole
	Unknown int   // complete pages that the index does not call stored yet
	Temp    int   // files in tmp/
	Seeds   int   // seeds that have no record yet
	Edges   int64 // pages whose edges are cut off the end of the file of edges
	// Relink: scope has grown, so that the next run parses the stored pages again. Until then
	// links that have no record are no fault.
	Relink bool
}

func (r *CheckReport) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "checked: %s, %s", words.Count(r.Records, "record"), words.Count(r.Pages, "page"))
	if r.Versions > 0 {
		fmt.Fprintf(&b, ", %s", words.Count(r.Versions, "earlier version"))
	}
	if r.Links > 0 {
		fmt.Fprintf(&b, ", %s", words.Count(r.Links, "link"))
	}
	if r.Results {
		b.WriteString(", the result files")
	}
	b.WriteByte('\n')
	if r.NotRead != "" {
		fmt.Fprintf(&b, "result files not compared: %s\n", r.NotRead)
	}
	if r.Cut > 0 {
		fmt.Fprintf(&b, "over -max-held, no fault: %s without a record; the links of their pages are not judged\n", words.Count(r.Cut, "link"))
	}
	if r.Torn+r.Unknown+r.Temp+r.Seeds > 0 {
		fmt.Fprintf(&b, "left by a kill, no fault: %s, %s unknown to the index, %s in tmp, %s without a record\n",
			words.Count(r.Torn, "torn page"), words.Count(r.Unknown, "page"), words.Count(r.Temp, "file"), words.Count(r.Seeds, "seed"))
	}
	if r.Edges > 0 {
		fmt.Fprintf(&b, "left by a kill, no fault: the file of edges is cut off, those of %s are in the folders alone\n", words.Count(r.Edges, "page"))
	}
	if r.Relink {
		b.WriteString("scope has grown: the next run parses the stored pages again, links are not judged before\n")
	}
	fmt.Fprintf(&b, "faults: %d\n", r.Faults)
	return b.String()
}

// Check proves on a tree at rest that the index agrees with itself, that every record it calls
// stored has a complete page whose SHA-256 and facts are the record's, that nothing else is in
// the folders, and what opts ask for. Each fault is told to fault, which may be nil. An error
// means that the check could not be ended: iut.ErrDisk, or record.ErrDamaged if the index
// cannot be read at all.
func Check(ctx context.Context, tree *iut.Tree, index *storage.Index, p Parser, opts CheckOptions, fault func(string)) (CheckReport, error) {
	c := &checker{tree: tree, index: index, parser: p, opts: opts}
	c.opts.Tell = orSilent(opts.Tell)
	c.fault = func(format string, args ...any) {
		c.report.Faults++
		if fault != nil {
			fault(fmt.Sprintf(format, args...))
		}
	}
	c.opts.Tell("reading the index", 0, 0)
	totals, err := index.Verify(ctx, func(text string) { c.fault("%s", text) })
	if err != nil {
		return c.report, fmt.Errorf("check the index: %w", err)
	}
	c.report.Records, c.stored = totals.Records(), totals.Stored
	if c.report.Relink, err = index.Marks().NeedsRelink(); err != nil {
		return c.report, fmt.Errorf("check the index: %w", err)
	}
	node, err := index.Marks().Cluster()
	if err == nil {
		c.away, err = cluster.AwayOf(node)
	}
	if err == nil {
		err = c.readPosted()
	}
	if err != nil {
		return c.report, fmt.Errorf("check the index: %w", err)
	}
	for _, step := range []func(context.Context) error{c.seeds, c.pages, c.versions, c.folders, c.edges, c.results} {
		if err := step(ctx); err != nil {
			return c.report, fmt.Errorf("check: %w", err)
		}
	}
	if err := c.parser.Err(); err != nil {
		return c.report, fmt.Errorf("check: %w", err)
	}
	return c.report, nil
}

type checker struct {
	tree   *iut.Tree
	index  *storage.Index
	parser Parser
	opts   CheckOptions
	fault  func(format string, args ...any)
	report CheckReport
	stored int64 // pages of the index
	// away says of which hosts other nodes of the crawl may have what is missing here; nil: none.
	away func(host string) bool
	// posted are hashes of the URLs that wait in the outbox: in supersteps all links do, until their
	// step ends.
	posted map[uint64]bool
	hash   maphash.Seed

	links   []string // of pages, to be looked up
	sources []string // the pages that name them
}

// seeds looks for the records of the seeds, and for what else the index keeps of them.
func (c *checker) seeds(ctx context.Context) error {
	c.parser.Use(c.index)
	known, err := c.index.Seeds().Read()
	if err != nil && !errors.Is(err, record.ErrCorrupt) { // Verify has named it
		return err
	}
	if known.Scope != c.tree.Format().Links.Scope {
		known = record.Seeds{} // the next start begins anew
	}
	return c.tree.Seeds(iut.SeedMark{}, func(url string, mark iut.SeedMark) error {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if !isSeed(c.tree, url) {
			c.fault("seeds.txt: %.80q is no URL", url)
			return nil
		}
		if gone, err := c.tree.Forgotten().Has(url); gone || err != nil {
			return err
		}
		switch _, err := c.index.Record(url); {
		case errors.Is(err, storage.ErrNotFound):
			if !c.isAway(url) {
				c.report.Seeds++
			}
		case errors.Is(err, record.ErrCorrupt): // Verify has named it
		case err != nil:
			return err
		}
		if mark.Bytes > known.Bytes {
			return nil
		}
		whole, err := c.index.Seeds().HasOrigin(record.Origin(url))
		for _, area := range c.parser.Areas(url) {
			if err == nil && whole {
				whole, err = c.index.Seeds().HasArea(area)
			}
		}
		if err == nil && !whole {
			c.fault("seeds.txt: the index has not kept the origin and the scope of %s", url)
		}
		return err
	})
}

// pages reads the page of each record that the index calls stored.
func (c *checker) pages(ctx context.Context) error {
	done := int64(0)
	err := c.index.Records(ctx, nil, func(r record.Record, err error) error {
		c.report.Cut += int64(r.Cut)
		if err != nil || r.State != record.Stored {
			return context.Cause(ctx) // damaged records were named by Verify
		}
		c.opts.Tell("reading pages", done, c.stored)
		done++
		f, body, err := c.tree.Load(iut.FactsOf(&r))
		switch {
		case errors.Is(err, iut.ErrDisk):
			return err
		case errors.Is(err, fs.ErrNotExist):
			c.fault("%s: the index calls it stored, its folder has no page", r.URL)
			return nil
		case err != nil:
			c.fault("%s: the index calls it stored, its folder does not hold it: %v", r.URL, err)
			return nil
		}
		if r.Source == record.Forgotten {
			f.Source = r.Source // a segment has the old one, which may not be forgotten any more
		}
		if folder, kept := f.AppendLine(nil), iut.FactsOf(&r).AppendLine(nil); !bytes.Equal(folder, kept) {
			c.fault("%s: index and folder differ\n  index:  %s  folder: %s", r.URL, kept, folder)
		}
		if c.opts.Links && !c.report.Relink && r.Cut == 0 && !strings.Contains(f.Flags, flagCut) {
			for _, l := range c.parser.Parse(f, body).Links {
				c.report.Links++
				c.links, c.sources = append(c.links, l.URL), append(c.sources, r.URL)
				if len(c.links) == setPages {
					if err := c.lookUp(); err != nil {
						return err
					}
				}
			}
		}
		return context.Cause(ctx)
	})
	if err != nil {
		return err
	}
	return c.lookUp()
}

// readPosted reads which URLs wait in the outbox.
func (c *checker) readPosted() error {
	c.posted, c.hash = map[uint64]bool{}, maphash.MakeSeed()
	for part := range uint16(cluster.Partitions) {
		for after := uint64(0); ; {
			rows, err := c.index.Outbox().Read(part, after, 1000)
			if err != nil {
				return err
			}
			if len(rows) == 0 {
				break
			}
			for i := range rows {
				c.posted[maphash.String(c.hash, rows[i].URL)] = true
			}
			after = rows[len(rows)-1].Seq
		}
	}
	return nil
}

// isAway reports whether a URL needs no record: another node of the crawl may have it, or it waits
// in the outbox.
func (c *checker) isAway(url string) bool {
	if c.posted[maphash.String(c.hash, url)] {
		return true
	}
	return c.away != nil && c.away(record.Host(url))
}

// flagCut marks a page that has more links than are followed.
const flagCut = "c"

func (c *checker) lookUp() error {
	has, err := c.index.Has(c.links)
	if err != nil {
		return err
	}
	for i, ok := range has {
		if !ok && !c.isAway(c.links[i]) {
			c.fault("%s: named by %s, and has no record", c.links[i], c.sources[i])
		}
	}
	c.links, c.sources = c.links[:0], c.sources[:0]
	return nil
}

// folders looks for what the index does not know of.
func (c *checker) folders(ctx context.Context) error {
	err := c.tree.Walk(func(url, rel string, st iut.PageStatus, f iut.Facts) error {
		switch st.Kind {
		case iut.PageComplete:
			c.opts.Tell("looking for other pages", int64(c.report.Pages), c.stored)
			c.report.Pages++
			if rec, err := c.index.Record(url); err != nil || rec.State != record.Stored {
				c.report.Unknown++
			}
		case iut.PageTorn:
			c.report.Torn++
		case iut.PageEarlier:
			if err := c.surplus(url, rel, st, f); err != nil {
				return err
			}
		case iut.PageDefect:
			c.fault("%s: %v", rel, st.Err)
		case iut.PageForeign:
			c.fault("%s: not of this program: %v", rel, st.Err)
		}
		return context.Cause(ctx)
	})
	if err != nil {
		return err
	}
	left, err := os.ReadDir(filepath.Join(c.tree.Root(), "tmp"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return iut.DiskError("list tmp", err)
	}
	c.report.Temp = len(left)
	return nil
}

// results compares the result files with what would be written now. The records have been compared
// with the folders, so this compares the lists with those as well.
func (c *checker) results(ctx context.Context) error {
	c.opts.Tell("reading the results", 0, 0)
	files, err := cleaner.FilesFor(c.tree.Root(), c.opts.Output)
	if err != nil {
		return err
	}
	written, err := os.Stat(filepath.Join(c.tree.Root(), indexName))
	if err != nil {
		return iut.DiskError("check the results", err)
	}
	c.report.NotRead, err = files.Compare(ctx, c.index, written.ModTime(), c.fault)
	c.report.Results = err == nil && c.report.NotRead == ""
	return err
}

// edges checks that the file of edges is whole, and that each of its pages is stored. Pages whose
// edges are cut off its end are counted: the folders have them, and the next run that keeps edges
// writes them again.
func (c *checker) edges(ctx context.Context) error {
	kept, _, err := c.index.Marks().Edges()
	if errors.Is(err, record.ErrCorrupt) {
		c.fault("index: %v", err)
		return nil
	}
	if err != nil {
		return err
	}
	_, pages, err := c.tree.ReadEdges(kept.End, func(p edges.Page) error {
		if rec, err := c.index.Record(p.URL); errors.Is(err, storage.ErrNotFound) || err == nil && rec.State != record.Stored {
			c.fault("edges: %s is not stored", p.URL)
		}
		return ctx.Err()
	})
	switch {
	case errors.Is(err, edges.ErrCut):
		c.report.Edges = kept.Pages - pages
	case errors.Is(err, edges.ErrDamaged):
		c.fault("%v", err)
	case err != nil:
		return err
	case pages != kept.Pages:
		c.fault("edges: %s, the index counts %d", words.Count(pages, "page"), kept.Pages)
	}
	return nil
}
