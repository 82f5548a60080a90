package inspect

import (
	"context"
	"errors"
	"iter"

	"urltree/storage"
	"urltree/storage/record"
)

// count counts a record, of a URL or of a target outside; t is what is broken there, or nil.
func (s *BrokenSum) count(r *record.Record, t *BrokenTarget) {
	if r.Kind != record.OutsideRow {
		if t == nil && r.State == record.Pending {
			s.Waiting++
		}
		return
	}
	s.Outside++
	switch r.State {
	case record.Pending:
		s.OutsideWaiting++
	case record.Refused:
		s.OutsideRefused++
	}
}

// outside says in sentences what came of a target outside, or what it waits for; false: it is none.
func (i *Inspector) outside(url string, say func(string, ...any)) (bool, error) {
	r, ok, err := i.Index.Outside().Get(url)
	if err != nil || !ok {
		return false, err
	}
	switch r.State {
	case record.Pending:
		say("%s is no URL of this crawl: it is a target outside, which crawler broken -external is still to ask.", url)
		if r.Tries > 0 {
			say("It has been asked %s. The last time it came to: %s.", times(r.Tries), orDash(r.Reason))
		}
	case record.Works:
		say("%s is no URL of this crawl: asked as a target outside it answered with status %d, %s.", url, r.Status, stamp(r.Time))
	case record.Redirected:
		say("%s is no URL of this crawl: asked as a target outside it redirected with status %d to %s, %s.", url, r.Status, r.HeaderLinks, stamp(r.Time))
	default:
		say("%s is no URL of this crawl: as a target outside it came to %s, %s, %s.", url, r.State, r.Reason, stamp(r.Time))
		explain(r.Reason, say)
	}
	say("%s refers to it.", r.Source)
	if r.Via != "" {
		say("It was found because %s redirected to it.", r.Via)
	}
	return true, nil
}

// maxChain is how many redirects are followed; a crawl follows fewer.
const maxChain = 32

// target returns what is broken of a record.
func (i *Inspector) target(r *record.Record) (t BrokenTarget, broken bool, err error) {
	t = BrokenTarget{URL: r.URL, Status: int64(r.Status), External: r.Kind == record.OutsideRow}
	if r.Time != 0 {
		t.Time = stamp(r.Time)
	}
	if r.State != record.Redirected {
		t.State, t.Reason, broken = brokenState(r)
		return t, broken, nil
	}
	t.State, t.Reason, t.End = "redirected", "redirect-loop", r.HeaderLinks
	for range maxChain {
		end, known, err := i.find(t.End)
		if err != nil || !known {
			return t, false, err // where it leads is not known
		}
		if end.State != record.Redirected {
			_, t.Reason, broken = brokenState(&end)
			t.Status = int64(end.Status)
			return t, broken, nil
		}
		t.End = end.HeaderLinks
	}
	return t, true, nil
}

// find returns the record of a URL, or else that of a target outside; known is false where there is
// none, or none that can be read.
func (i *Inspector) find(url string) (r record.Record, known bool, err error) {
	r, err = i.Index.Record(url)
	if errors.Is(err, storage.ErrNotFound) {
		r, known, err = i.Index.Outside().Get(url)
		return r, known, unlessUnreadable(err)
	}
	return r, err == nil, unlessUnreadable(err)
}

// unlessUnreadable returns nil for an error that says that a record cannot be read: it is for check
// to name.
func unlessUnreadable(err error) error {
	if errors.Is(err, record.ErrKey) || errors.Is(err, record.ErrCorrupt) {
		return nil
	}
	return err
}

// targets calls fn with each record, and, where it is broken, with what is: those of the URLs of
// the crawl and those of targets outside, in the order of the tree. A URL that has become one of
// the crawl is no target outside any more.
func (i *Inspector) targets(ctx context.Context, fn func(*record.Record, *BrokenTarget) error) error {
	visit := func(r *record.Record) error {
		switch t, broken, err := i.target(r); {
		case err != nil:
			return err
		case broken:
			return fn(r, &t)
		}
		return fn(r, nil)
	}
	outside := newOutsideWalk(ctx, i.Index)
	defer outside.stop()
	err := i.Index.Records(ctx, nil, func(r record.Record, damage error) error {
		if damage != nil {
			return nil // it is for check to name
		}
		if err := outside.before(&r, visit); err != nil {
			return err
		}
		return visit(&r)
	})
	if err != nil {
		return err
	}
	return outside.before(nil, visit)
}

// An outsideWalk goes through the targets outside, in the order of keys.
type outsideWalk struct {
	pull func() (*record.Record, error, bool)
	stop func()
	next *record.Record // nil: there is none
	key  string         // of next
	err  error
}

func newOutsideWalk(ctx context.Context, index *storage.Index) *outsideWalk {
	ended := errors.New("the walk has ended")
	w := &outsideWalk{}
	w.pull, w.stop = iter.Pull2(func(yield func(*record.Record, error) bool) {
		err := index.Outside().Each(ctx, func(r *record.Record) error {
			if !yield(r, nil) {
				return ended
			}
			return nil
		})
		if err != nil && err != ended {
			yield(nil, err)
		}
	})
	w.step()
	return w
}

func (w *outsideWalk) step() {
	w.next, w.err, _ = w.pull()
	if w.next != nil {
		key, _ := record.Key(w.next.URL) // which it was read by
		w.key = string(key)
	}
}

// before calls visit with all targets before a record of the crawl, and passes over one of the same
// URL; nil: with all others.
func (w *outsideWalk) before(r *record.Record, visit func(*record.Record) error) error {
	if w.next == nil {
		return w.err
	}
	var end []byte
	if r != nil {
		var err error
		if end, err = record.Key(r.URL); err != nil {
			return nil // it is for check to name
		}
	}
	for w.next != nil && (r == nil || w.key <= string(end)) {
		if r == nil || w.key < string(end) {
			if err := visit(w.next); err != nil {
				return err
			}
		}
		w.step()
	}
	return w.err
}
