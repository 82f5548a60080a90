package inspect

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"

	"urltree/internal/mirror"
	"urltree/internal/rewrite"
	"urltree/iut"
	"urltree/storage"
	"urltree/storage/record"
)

// A copying writes the stored pages of a part as the files of a mirror.
type copying struct {
	*Inspector
	in    *part
	out   mirror.Writer
	names recent
	err   error // of a look for a reference
}

// exportMirror writes the stored pages of a part as a stream of files, in the order of the
// tree, and behind them the seeds. A page whose folder is not whole any more is left out: crawler
// check names it.
func (i *Inspector) exportMirror(ctx context.Context, in *part, w *bufio.Writer) error {
	c := &copying{Inspector: i, in: in, out: mirror.Writer{W: w}}
	expected := int64(0)
	for _, of := range i.all() {
		counts, err := of.Index.Folders().Counts(in.key)
		if err != nil {
			return err
		}
		expected += counts.Stored
	}
	err := i.records(ctx, in, func(of *Inspector, r record.Record, damage error) error {
		if damage != nil {
			return c.out.Entry(mirror.Entry{Stays: true})
		}
		if r.State != record.Stored || !in.takes(&r) {
			return nil
		}
		most := expected
		expected = 0
		return c.page(of, &r, most)
	})
	if err != nil {
		return err
	}
	if err := c.seeds(); err != nil {
		return err
	}
	return c.out.Entry(mirror.Entry{Last: true})
}

func mediaOf(r *record.Record) string {
	return cmp.Or(strings.ToLower(r.Media), "application/octet-stream")
}

// page writes a page.
func (c *copying) page(of *Inspector, r *record.Record, expected int64) error {
	media := mediaOf(r)
	name := mirror.Name(r.URL, media)
	content, err := of.Tree.Content(iut.FactsOf(r))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, iut.ErrTorn) {
		return c.out.Entry(mirror.Entry{Name: name, Stays: true})
	}
	if err != nil {
		return err
	}
	err = c.out.File(mirror.Entry{Name: name, Time: r.Time, Of: expected}, func(w io.Writer) error {
		if media == "text/plain" {
			return rewrite.Text(w, content, r.Charset)
		}
		if !rewrite.Applies(media) {
			_, err := io.Copy(w, content)
			return err
		}
		d := rewrite.Document{
			URL: r.URL, Media: media, Charset: r.Charset, Detach: true, Declare: true,
			Replace: func(ref rewrite.Reference) string { return c.reference(name, ref) },
		}
		return errors.Join(d.Copy(w, content), c.err)
	})
	return errors.Join(err, content.Close())
}

// mostSeedLooks is how many seeds are looked at for the first page of a mirror.
const mostSeedLooks = 10_000

// seeds writes the first seeds that lead to a page, which a run of another part may have written.
func (c *copying) seeds() error {
	enough := errors.New("enough")
	looks := 0
	for _, of := range c.all() {
		err := of.Tree.Seeds(iut.SeedMark{}, func(url string, _ iut.SeedMark) error {
			if looks++; looks > mostSeedLooks {
				return enough
			}
			canonical, err := c.Canonical(url)
			if err != nil {
				return nil
			}
			r, err := c.end(canonical)
			if err != nil || r == nil {
				return err
			}
			return c.out.Entry(mirror.Entry{Seed: url, Name: mirror.Name(r.URL, mediaOf(r))})
		})
		if err != nil && err != enough {
			return err
		}
	}
	return nil
}

// reference returns what stands for a reference in the file of a name: a relative one to another
// file, or else the URL.
func (c *copying) reference(from string, ref rewrite.Reference) string {
	if ref.URL == "" {
		return ref.Text
	}
	to, err := c.file(ref.URL)
	switch {
	case err != nil:
		c.err = err
	case to != "":
		return mirror.Relative(from, to) + ref.Fragment
	case isAbsolute(ref.Text):
		return ref.Text
	}
	return ref.URL + ref.Fragment
}

// isAbsolute reports whether an http(s) reference names its scheme and host.
func isAbsolute(text string) bool {
	scheme, rest, _ := strings.Cut(strings.TrimSpace(text), ":")
	return (strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https")) && strings.HasPrefix(rest, "//")
}

// mostHops is how many redirects in a row lead from a reference to a file.
const mostHops = 10

// file returns the name of the file that a URL leads to, "" if none is in the mirror.
func (c *copying) file(url string) (name string, err error) {
	if name, ok := c.names.get(url); ok {
		return name, nil
	}
	asked := strings.Clone(url)
	if url, err = c.Canonical(asked); err != nil {
		return "", nil
	}
	r, err := c.end(url)
	if err != nil {
		return "", err
	}
	if r != nil && c.in.has(r.URL) && c.in.takes(r) {
		name = mirror.Name(r.URL, mediaOf(r))
	}
	c.names.put(asked, name)
	return name, nil
}

// end returns the record of the stored page that a URL leads to, nil if there is none.
func (c *copying) end(url string) (*record.Record, error) {
	for range mostHops {
		_, r, err := c.owner(url)
		switch {
		case errors.Is(err, storage.ErrNotFound) || errors.Is(err, record.ErrCorrupt) || errors.Is(err, record.ErrKey):
			return nil, nil
		case err != nil:
			return nil, err
		case r.State == record.Redirected && r.HeaderLinks != "":
			url = r.HeaderLinks
		case r.State == record.Stored:
			return &r, nil
		default:
			return nil, nil
		}
	}
	return nil, nil
}

// mostRecent bounds the texts of each half of a recent, in bytes.
const mostRecent = 4 << 20

// A recent keeps answers that were given of late, in bounded memory.
type recent struct {
	now, before map[string]string
	bytes       int // of now
}

func (c *recent) get(key string) (value string, ok bool) {
	if value, ok = c.now[key]; ok {
		return value, true
	}
	if value, ok = c.before[key]; ok {
		c.put(key, value)
	}
	return value, ok
}

func (c *recent) put(key, value string) {
	if c.now == nil || c.bytes > mostRecent {
		c.now, c.before, c.bytes = map[string]string{}, c.now, 0
	}
	c.now[key] = value
	c.bytes += len(key) + len(value) + 64
}
