package storage

import (
	"context"
	"fmt"

	"urltree/storage/record"
)

// inParts passes what walk passes to each on to fn, in transactions of at most so many items. The
// function that fn returns is called once the transaction is durable, and before the next one.
func inParts[T any](x *Index, most int, walk func(each func(T) error) error, fn func(c *change, part []T) (durable func(), err error)) error {
	var part []T
	flush := func() error {
		if err := x.lock(); err != nil {
			return err
		}
		defer x.mu.Unlock()
		var durable func()
		err := x.update(func(c *change) (err error) {
			durable, err = fn(c, part)
			return err
		})
		if err == nil {
			durable()
		}
		part = part[:0]
		return err
	}
	err := walk(func(item T) error {
		if part = append(part, item); len(part) < most {
			return nil
		}
		return flush()
	})
	if err == nil && len(part) > 0 {
		err = flush()
	}
	return err
}

// Reopen turns records below a prefix back to pending, with no tries: those for which pick is true.
// It works in transactions of bounded size and returns the number reopened, also with an error.
// fresh, if not nil, is called with the rows of each after that is durable; it must not use the
// index.
func (x *Index) Reopen(ctx context.Context, prefix []byte, pick func(*record.Record) bool, fresh func(rows []record.Row, tx uint64)) (int, error) {
	return x.reopen(reopened, fresh, func(each func(url string) error) error {
		return x.Records(ctx, prefix, func(r record.Record, err error) error {
			if err != nil || !pick(&r) {
				return nil // damage is for check to name
			}
			return each(r.URL)
		})
	})
}

// ReopenURLs is Reopen for the records of some URLs.
func (x *Index) ReopenURLs(urls []string) (int, error) {
	return x.reopen(reopened, nil, func(each func(url string) error) error {
		for _, url := range urls {
			if err := each(url); err != nil {
				return err
			}
		}
		return nil
	})
}

// reopened turns a record back to pending, and returns its row; nil: it was pending.
func reopened(c *change, url string) (*record.Row, error) {
	e, err := c.entry(url)
	if err != nil || e.rec == nil || e.rec.State == record.Pending {
		return nil, err
	}
	c.undo(e)
	e.rec.Reopen(c.run.ID)
	return &e.rec.Row, nil
}

// reopenURLs is the number of URLs that one transaction reopens.
const reopenURLs = 10_000

// reopen calls open for each URL that walk passes on, in transactions of bounded size. open returns
// the row of one that it has opened. It returns the number of rows, and calls fresh as Reopen does.
func (x *Index) reopen(open func(c *change, url string) (*record.Row, error), fresh func(rows []record.Row, tx uint64), walk func(each func(url string) error) error) (n int, err error) {
	err = inParts(x, reopenURLs, walk, func(c *change, urls []string) (func(), error) {
		tx := uint64(c.w.Tx.ID())
		var rows []record.Row
		for _, url := range urls {
			row, err := open(c, url)
			if err != nil {
				return nil, fmt.Errorf("reopen: %w", err)
			}
			if row != nil {
				rows = append(rows, *row)
			}
		}
		return func() {
			n += len(rows)
			if fresh != nil {
				fresh(rows, tx)
			}
		}, nil
	})
	return n, err
}

// Rerank moves pending URLs to the places within their range Now that rank returns, if ok; seeds
// keep theirs. It works in transactions of bounded size and ends by keeping the version; done
// again, it changes nothing. It returns the number of URLs whose place is another. No copies of
// rows may be in memory.
func (x *Index) Rerank(ctx context.Context, version uint64, rank func(url string) (place uint64, ok bool)) (n int, err error) {
	type ranked struct {
		url   string
		place uint64
	}
	err = inParts(x, rerankURLs, func(each func(ranked) error) error {
		return x.Records(ctx, nil, func(r record.Record, err error) error {
			if err != nil || r.State != record.Pending || r.Source == record.Seed {
				return nil // damage is for check to name
			}
			if place, ok := rank(r.URL); ok && place != r.Rank {
				return each(ranked{r.URL, place})
			}
			return nil
		})
	}, func(c *change, part []ranked) (func(), error) {
		for _, to := range part {
			e, err := c.entry(to.url)
			if err != nil {
				return nil, fmt.Errorf("rerank: %w", err)
			}
			if r := e.rec; r != nil && r.State == record.Pending && r.Source != record.Seed {
				r.Rank = to.place
			}
		}
		return func() { n += len(part) }, nil
	})
	if err == nil {
		err = x.Marks().put(record.KeyRanked, record.AppendRanked(nil, record.KeyRanked, version))
	}
	return n, err
}

// rerankURLs is how many URLs go into one transaction: each may touch four pages of the index.
const rerankURLs = 2_000
