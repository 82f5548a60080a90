package repair

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"urltree/iut"
	"urltree/storage"
	"urltree/storage/record"
)

// maxSeed is the longest seed that the index takes, in bytes.
const maxSeed = 8 << 10

// Bounds of the seeds of one transaction.
const (
	setSeeds     = 10_000
	setSeedBytes = 1 << 20
)

// isSeed reports whether a line of seeds.txt is a URL. Something else may have written there.
func isSeed(tree *iut.Tree, line string) bool {
	_, err := record.Key(line)
	if err == nil {
		_, err = tree.Path(line)
	}
	return err == nil && len(line) <= maxSeed
}

// EnterSeeds takes into the index what it lacks of seeds.txt: a record of each seed, its origin,
// and its areas by the parser, whose scope has this name. If the index has areas of another scope,
// or has taken in what seeds.txt does not begin with, that starts anew. A line that is no URL costs
// this line and not the tree. The memory does not depend on the number of seeds. It may be cut off
// and done again.
//
// EnterSeeds returns the number of records that it made, and whether seeds.txt has a line.
func EnterSeeds(ctx context.Context, tree *iut.Tree, index *storage.Index, p Parser, scope string, log *slog.Logger) (made int, any bool, err error) {
	seeds, err := index.Seeds().Read()
	if err != nil && !errors.Is(err, record.ErrCorrupt) {
		return 0, false, iut.DiskError("seeds", err)
	}
	forgotten := tree.Forgotten()
	known := seeds // as the index has them; in seeds are those of links, too
	var links []record.Link
	bytes := 0 // of their URLs
	commit := func() error {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		done, err := index.Commit([]*record.Outcome{{Links: links, Seeds: &seeds}})
		made += done.New
		links, bytes, known = links[:0], 0, seeds
		return iut.DiskError("seeds", err)
	}
	enter := func() error {
		mark := iut.SeedMark{Bytes: seeds.Bytes, Sum: seeds.Sum}
		return tree.Seeds(mark, func(line string, mark iut.SeedMark) error {
			gone, err := forgotten.Has(line) // a person may have written it there
			switch {
			case err != nil:
				return err
			case gone:
			case isSeed(tree, line):
				links = append(links, record.Link{URL: line, Source: record.Seed, Areas: p.Areas(line)})
				bytes += len(line)
			default:
				log.Warn("skipped a line of seeds.txt: not a URL", "line", fmt.Sprintf("%.80q", line))
			}
			seeds.Bytes, seeds.Sum = mark.Bytes, mark.Sum
			if len(links) < setSeeds && bytes < setSeedBytes {
				return nil
			}
			return commit()
		})
	}
	err = iut.ErrSeedMark
	if seeds.Scope == scope {
		err = enter()
	}
	if errors.Is(err, iut.ErrSeedMark) {
		if err = iut.DiskError("seeds", index.Seeds().Forget()); err == nil {
			err = enterTargets(ctx, index, p)
		}
		if err == nil {
			seeds = record.Seeds{Scope: scope}
			err = enter()
		}
	}
	if err == nil && seeds != known {
		err = commit()
	}
	return made, seeds.Bytes > 0, err
}

// enterTargets enters the areas of the targets of seeds' redirects.
func enterTargets(ctx context.Context, index *storage.Index, p Parser) error {
	var areas []string
	err := index.Seeds().EachOfScope(ctx, func(url string) (err error) {
		areas, err = enterAreas(index, append(areas, p.Areas(url)...), setSeeds)
		return err
	})
	if err == nil {
		_, err = enterAreas(index, areas, 1)
	}
	if err == nil || errors.Is(err, iut.ErrDisk) || context.Cause(ctx) != nil {
		return err
	}
	return iut.DiskError("seeds", err)
}

// enterAreas enters areas if there are at least so many, and returns those that are left.
func enterAreas(index *storage.Index, areas []string, least int) ([]string, error) {
	if len(areas) < least {
		return areas, nil
	}
	return areas[:0], iut.DiskError("seeds", index.Seeds().AddAreas(areas))
}
