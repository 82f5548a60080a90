package captures

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"iter"

	"urltree/internal/spool"
	"urltree/internal/warc"
)

// A Scan is what a first pass over files found out. Its memory does not depend on how much that is:
// the rest is in temporary files.
type Scan struct {
	urls      *spool.Sorter // by URL, then by place: whether a capture says where its URL came from
	bodies    *spool.Sorter // by digest: places of bodies, then of revisits without one
	originals *spool.Sorter // by place of a revisit: the place of its body; nil: not joined yet

	next   spool.Cursor // of originals
	latest spool.Row
	err    error
}

const (
	scanBytes = 8 << 20 // of memory for each sorter
	scanFan   = 16
)

// Scan reads all captures once. url returns the URL that a capture is imported under, "" if it is
// not, and whether that is to be a seed. Damage is passed over. Errors are those of Each, and
// storage.ErrDisk.
func (f *Files) Scan(ctx context.Context, url func(*Capture) (url string, seed bool)) (*Scan, error) {
	s := &Scan{
		urls: spool.NewSorter(scanBytes, scanFan), bodies: spool.NewSorter(scanBytes, scanFan), originals: spool.NewSorter(scanBytes, scanFan),
	}
	_, err := f.Each(ctx, func(r *Reader, c *Capture) error {
		if err := r.Rest(c); err != nil {
			return err
		}
		url, seed := url(c)
		if url == "" {
			return nil
		}
		return s.add(c, url, seed)
	}, func(Damage) {})
	if err == nil {
		err = s.join()
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Close removes the temporary files.
func (s *Scan) Close() error {
	return errors.Join(s.urls.Close(), s.bodies.Close(), s.originals.Close())
}

func (s *Scan) add(c *Capture, url string, seed bool) error {
	row := spool.Row{Key: url, Sub: keyOf(c.Place)}
	if seed {
		row.Values[0] = "seed"
	}
	if err := s.urls.Add(row); err != nil || c.Digest == "" {
		return err
	}
	kind := "body"
	if c.Kind == warc.Revisit {
		kind = "revisit"
	}
	return s.bodies.Add(spool.Row{Key: c.Digest, Sub: kind + keyOf(c.Place)})
}

// Seeds returns the URLs that are to be seeds by their first capture, in byte order.
func (s *Scan) Seeds() iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		next, last := s.urls.Sorted(), ""
		for {
			row, err := next()
			switch {
			case err == io.EOF:
				return
			case err != nil:
				yield("", err)
				return
			case row.Key == last:
				continue
			}
			if last = row.Key; row.Values[0] != "" && !yield(row.Key, nil) {
				return
			}
		}
	}
}

// join finds the first body of each revisit's digest.
func (s *Scan) join() error {
	next, body := s.bodies.Sorted(), spool.Row{}
	for {
		row, err := next()
		if err == io.EOF {
			s.next = s.originals.Sorted()
			s.latest, s.err = s.next()
			return nil
		}
		if err != nil {
			return err
		}
		place, isRevisit := cutKind(row.Sub)
		switch {
		case !isRevisit && body.Key != row.Key:
			body = spool.Row{Key: row.Key, Sub: place}
		case isRevisit && body.Key == row.Key:
			if err := s.originals.Add(spool.Row{Key: place, Sub: body.Sub}); err != nil {
				return err
			}
		}
	}
}

func cutKind(sub string) (place string, isRevisit bool) {
	n := len(sub) - keySize
	return sub[n:], sub[:n] == "revisit"
}

// Original returns where the body of a revisit is. It is called with places in their order. The
// error is storage.ErrDisk.
func (s *Scan) Original(revisit Place) (at Place, ok bool, err error) {
	key := keyOf(revisit)
	for s.err == nil && s.latest.Key < key {
		s.latest, s.err = s.next()
	}
	switch {
	case s.err == io.EOF:
		return at, false, nil
	case s.err != nil:
		return at, false, s.err
	}
	return placeOf(s.latest.Sub), s.latest.Key == key, nil
}

// keySize is the length of a key, in bytes.
const keySize = 20

// keyOf writes a place so that keys are in the order of places.
func keyOf(p Place) string {
	b := binary.BigEndian.AppendUint64(nil, uint64(p.File))
	b = binary.BigEndian.AppendUint64(b, uint64(p.Offset))
	return string(binary.BigEndian.AppendUint32(b, uint32(p.Nth)))
}

func placeOf(key string) Place {
	b := []byte(key)
	return Place{int(binary.BigEndian.Uint64(b)), int64(binary.BigEndian.Uint64(b[8:])), int(binary.BigEndian.Uint32(b[16:]))}
}
