package storage

import (
	"context"
	"fmt"

	"urltree/storage/record"
)

// Rerank moves pending URLs to the places within their range Now that rank returns, if ok; seeds
// keep theirs. It works in transactions of bounded size and ends by keeping the version; done
// again, it changes nothing. It gives the number of URLs whose place is another. No copies of rows
// may be in memory.
func (x *Index) Rerank(ctx context.Context, version uint64, rank func(url string) (place uint64, ok bool)) (int, error) {
	n := 0
	var urls []string
	var ranks []uint64
	flush := func(last bool) error {
		if err := x.lock(); err != nil {
			return err
		}
		defer x.mu.Unlock()
		err := x.update(func(c *change) error {
			for i, url := range urls {
				e, err := c.entry(url)
				if err != nil {
					return err
				}
				if r := e.rec; r != nil && r.State == record.Pending && r.Source != record.Seed {
					r.Rank = ranks[i]
				}
			}
			if !last {
				return nil
			}
			return c.tx.Bucket(record.BucketSys).Put(record.KeyRanked, record.AppendRanked(nil, record.KeyRanked, version))
		})
		if err != nil {
			return fmt.Errorf("rerank: %w", err)
		}
		n, urls, ranks = n+len(urls), urls[:0], ranks[:0]
		return nil
	}
	err := x.Records(ctx, nil, func(r record.Record, err error) error {
		if err != nil || r.State != record.Pending || r.Source == record.Seed {
			return nil // damage is for check to name
		}
		place, ok := rank(r.URL)
		if !ok || place == r.Rank {
			return nil
		}
		if urls, ranks = append(urls, r.URL), append(ranks, place); len(urls) >= rerankURLs {
			return flush(false)
		}
		return nil
	})
	if err != nil {
		return n, err
	}
	return n, flush(true)
}

// rerankURLs is how many URLs go into one transaction: each may touch four pages of the index.
const rerankURLs = 2_000
