package crawler

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"io"

	"urltree/internal/cluster"
	"urltree/internal/spool"
	"urltree/storage/record"
)

const (
	mergeMemory = 8 << 20 // bytes of links that are sorted in memory
	mergeAtOnce = 4096    // links of one transaction, or rows that leave the outbox in one
)

// merge makes records of the links of a step: of those in the outbox that are to hosts of this
// process, in the order of their ranks, then of hashes of their URLs. A kill on the way changes
// nothing, since what is merged twice is known the second time; so rows leave the outbox last.
func (s *steps) merge(ctx context.Context) (err error) {
	sorter := spool.NewSorter(mergeMemory, 32)
	defer func() { err = errors.Join(err, sorter.Close()) }()
	gone, err := s.collect(ctx, sorter)
	if err != nil {
		return err
	}
	next := sorter.Sorted()
	for end := false; !end; {
		var links []record.Link
		for len(links) < mergeAtOnce && !end {
			row, err := next()
			if end = errors.Is(err, io.EOF); end {
				break
			}
			if err != nil {
				return err
			}
			p, err := record.DecodePosted([]byte(row.Values[0]), []byte(row.Values[1]))
			if err != nil {
				return err
			}
			links = append(links, p.Link)
		}
		if len(links) > 0 {
			if err := s.commit(ctx, record.Outcome{Links: links, Arrived: true}); err != nil {
				return err
			}
		}
	}
	if s.e.rules.scorer != nil {
		s.e.rules.scorer.Settle()
	}
	for _, d := range gone {
		if err := s.commit(ctx, record.Outcome{Delivered: []record.Delivery{d}}); err != nil {
			return err
		}
	}
	return nil
}

// collect adds the links of the outbox that are to hosts of this process. It returns where they
// lie.
func (s *steps) collect(ctx context.Context, to *spool.Sorter) (lie []record.Delivery, err error) {
	outbox := s.e.store.index.Outbox()
	for part := range uint16(cluster.Partitions) {
		for after := uint64(0); ; {
			rows, err := outbox.Read(part, after, mergeAtOnce)
			if err != nil || ctx.Err() != nil {
				return nil, cmp.Or(err, ctx.Err())
			}
			if len(rows) == 0 || s.e.opts.away(rows[0].URL) {
				break
			}
			for i := range rows {
				if err := to.Add(placeOf(&rows[i])); err != nil {
					return nil, err
				}
			}
			after = rows[len(rows)-1].Seq
			lie = append(lie, record.Delivery{Part: part, First: rows[0].Seq, Last: after})
		}
	}
	return lie, nil
}

// placeOf returns a link with its place in the order of merging. Of links to one URL the first
// makes its record.
func placeOf(p *record.Posted) spool.Row {
	key := binary.BigEndian.AppendUint64(nil, cmp.Or(p.Rank, uint64(p.Depth)))
	key = binary.BigEndian.AppendUint64(key, fingerprint(p.URL))
	key = binary.BigEndian.AppendUint32(append(key, p.URL...), p.Depth)
	return spool.Row{
		Key: string(key), Sub: p.Source + " " + p.Via,
		Values: [2]string{string(record.PostedKey(p.Part, p.Seq)), string(p.Append(nil))},
	}
}

// fingerprint is a hash that is the same in every process.
func fingerprint(id string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(id))
	return h.Sum64()
}

// commit has an outcome without a row committed, and returns once it is durable.
func (s *steps) commit(ctx context.Context, o record.Outcome) error {
	done := make(chan struct{})
	box := mailbox{s.e.store.index.Outbox(), s.e}
	if err := box.put(ctx, o, func(bool) { close(done) }); err != nil {
		return err
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
