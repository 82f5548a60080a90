package cleaner

import (
	"context"
	"fmt"
	"log/slog"

	"urltree/iut"
	"urltree/storage"
)

// Relink parses every stored page again and gives the links that count now, and have no record,
// one: what a run does whose link options differ from those of FORMAT, before it writes its own
// there, and whenever scope has grown. What had links without leaving a folder, a redirect whose
// target did not count or a page that asked not to be kept, is to be asked again. The parser has been told of all seeds. It may be cut off
// and done again. fresh is told of the new and the reopened rows, once they are durable; nil:
// nobody is.
func Relink(ctx context.Context, tree *iut.Tree, index *storage.Index, p Parser, log *slog.Logger, fresh func([]storage.Row)) (int, error) {
	r := &rebuild{tree: tree, index: index, parser: p, log: log, fresh: fresh}
	err := index.Records(ctx, nil, func(rec storage.Record, err error) error {
		if err != nil || rec.State != storage.Stored {
			return nil // a damaged record is for check to name
		}
		f, body, err := tree.Load(rec.URL)
		if err != nil {
			return fmt.Errorf("%w: %s is stored in the index: %w", storage.ErrDamaged, rec.URL, err)
		}
		return r.take(ctx, &storage.Outcome{Links: p.Parse(f, body).Links})
	})
	if err == nil {
		err = r.commit(ctx)
	}
	if err == nil {
		var again int
		again, err = index.Reopen(ctx, nil, func(rec *storage.Record) bool {
			return rec.State == storage.Redirected && rec.Reason != "" || rec.State == storage.Refused && rec.Reason == "noindex"
		}, fresh)
		if err == nil && again > 0 && log != nil {
			log.Info("redirects and unkept pages are asked again for their links", "URLs", again)
		}
	}
	if err == nil {
		err = wrapDisk("relink", index.Relinked())
	}
	if err != nil {
		return r.report.Found, fmt.Errorf("relink: %w", err)
	}
	return r.report.Found, nil
}
