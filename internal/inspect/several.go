package inspect

import (
	"cmp"
	"context"
	"errors"

	"urltree/internal/groups"
	"urltree/storage"
	"urltree/storage/record"
)

// A TreeError is an error of one of the trees that an export is of.
type TreeError struct {
	Root string
	Err  error
}

func (e *TreeError) Error() string { return e.Err.Error() }

func (e *TreeError) Unwrap() error { return e.Err }

// all returns the inspectors of all trees that an export is of.
func (i *Inspector) all() []*Inspector { return append([]*Inspector{i}, i.Others...) }

// A visit is called with a record, or with what is wrong with it, and with the tree that it is of.
type visit func(of *Inspector, r record.Record, damage error) error

// records calls fn with the records below the folder of a part, in the order of the tree, and tells
// how far it is. Of a URL that several trees have it is the record that counts in a union.
func (i *Inspector) records(ctx context.Context, in *part, fn visit) error {
	done, total := int64(0), int64(0)
	tell := func(int) {}
	if i.Tell != nil {
		for _, of := range i.all() {
			counts, err := of.Index.Folders().Counts(in.key)
			if err != nil && !errors.Is(err, record.ErrCorrupt) { // for check to name
				return &TreeError{of.Tree.Root(), err}
			}
			total += counts.Records()
		}
		tell = func(n int) {
			i.Tell("writing URLs", done, total)
			done += int64(n)
		}
	}
	if len(i.Others) == 0 {
		return i.Index.Records(ctx, in.key, func(r record.Record, damage error) error {
			tell(1)
			return fn(i, r, damage)
		})
	}
	return i.joined(ctx, in.key, func(list []groups.Item[found]) error {
		tell(len(list))
		return i.counting(list, fn)
	})
}

// A found is a record, or what is wrong with it.
type found struct {
	record.Record
	damage error
}

// joined calls fn with the records of each key that begins with prefix, of all trees. A damaged
// record comes with the key of the one before it.
func (i *Inspector) joined(ctx context.Context, prefix []byte, fn func([]groups.Item[found]) error) error {
	var walks []groups.Walk[found]
	for _, of := range i.all() {
		walks = append(walks, func(each func(key []byte, f found) error) error {
			key := []byte{}
			err := of.Index.Records(ctx, prefix, func(r record.Record, damage error) error {
				if damage == nil {
					var err error
					if key, err = record.Key(r.URL); err != nil {
						return err
					}
				}
				return each(key, found{r, damage})
			})
			if err != nil {
				return &TreeError{of.Tree.Root(), err}
			}
			return nil
		})
	}
	g, err := groups.Of(walks)
	if err != nil {
		return err
	}
	defer g.Close()
	for {
		list, err := g.Next()
		if err != nil || len(list) == 0 {
			return err
		}
		if err := fn(list); err != nil {
			return err
		}
	}
}

// counting calls fn with the damaged records of a list, and with the one that the others make.
func (i *Inspector) counting(list []groups.Item[found], fn visit) error {
	all := i.all()
	var of *Inspector
	var r record.Record
	for _, it := range list {
		if err := it.Value.damage; err != nil {
			if err := fn(all[it.Part], it.Value.Record, err); err != nil {
				return err
			}
			continue
		}
		of, r = join(of, r, all[it.Part], it.Value.Record)
	}
	if of == nil {
		return nil
	}
	if gone, err := i.isForgotten(r.URL); gone || err != nil {
		return err
	}
	return fn(of, r, nil)
}

// isForgotten reports whether one of the trees keeps a URL out: then none of them shows it.
func (i *Inspector) isForgotten(url string) (bool, error) {
	for _, of := range i.all() {
		if gone, err := of.Tree.Forgotten().Has(url); gone || err != nil {
			return gone, err
		}
	}
	return false, nil
}

// join returns the record of a URL of which there are two, and the tree that has its page. Without
// a first tree the second one has it.
func join(of *Inspector, r record.Record, other *Inspector, second record.Record) (*Inspector, record.Record) {
	if of == nil {
		return other, second
	}
	joined := record.Join(r, second)
	r.Depth, r.Rank, r.Seq = joined.Depth, joined.Rank, joined.Seq
	if r == joined {
		return of, joined
	}
	return other, joined
}

// owner returns the record of a URL as [Inspector.records] does, and the tree that has its page.
// The error is ErrNotFound of storage if no tree has one.
func (i *Inspector) owner(url string) (of *Inspector, r record.Record, err error) {
	missing := error(nil)
	for _, other := range i.all() {
		second, err := other.Index.Record(url)
		switch {
		case errors.Is(err, storage.ErrNotFound), errors.Is(err, record.ErrCorrupt):
			missing = cmp.Or(missing, err)
			continue
		case err != nil:
			return nil, r, err
		}
		of, r = join(of, r, other, second)
	}
	if of == nil {
		return nil, r, missing
	}
	if gone, err := i.isForgotten(url); gone || err != nil {
		return nil, r, cmp.Or(err, storage.ErrNotFound)
	}
	return of, r, nil
}
