package inspect

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"time"

	"urltree/internal/archive"
	"urltree/internal/warc"
	"urltree/iut"
	"urltree/storage/record"
)

// exportArchive writes the stored pages of a part, in the order of the tree: as a WARC file,
// as the index of that file, or as a package that has both. A page whose folder is not whole any
// more is left out: crawler check names it.
func (i *Inspector) exportArchive(ctx context.Context, q Question, in *part, w *bufio.Writer) error {
	made, err := i.latestRun()
	if err != nil {
		return err
	}
	about := warc.Header{
		{Name: "software", Value: i.Software},
		{Name: "format", Value: "WARC file version 1.1"},
		{Name: "conformsTo", Value: "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/"},
		{Name: "robots", Value: i.Tree.Format().Links.Robots},
	}
	if q.What == "wacz" {
		return i.exportPackage(ctx, in, made, about, q.Text, w)
	}
	name, plain := "pages.warc.gz", false
	if q.Format == "plain" {
		name, plain = "pages.warc", true
	}
	if q.What == "cdxj" {
		return i.exportIndex(ctx, in, made, about, name, plain, w)
	}
	out, err := archive.NewWriter(w, plain, "", made, about)
	if err != nil {
		return err
	}
	return i.archivePages(ctx, in, func(_ *Inspector, _ *Version, p *archive.Page) error {
		_, err := out.Page(p)
		return err
	})
}

// latestRun returns when the latest run began: the time of an archive. So two of one tree are the
// same, and an index that is made later fits.
func (i *Inspector) latestRun() (time.Time, error) {
	latest := int64(0)
	for _, of := range i.all() {
		runs, err := of.Index.Runs().All()
		if err != nil {
			return time.Unix(0, 0), err
		}
		if len(runs) > 0 {
			latest = max(latest, runs[len(runs)-1].Start)
		}
	}
	return time.Unix(latest, 0), nil
}

// exportIndex writes the index of a WARC file that is not kept.
func (i *Inspector) exportIndex(ctx context.Context, in *part, made time.Time, about warc.Header, name string, plain bool, w *bufio.Writer) (err error) {
	index := archive.NewIndex(name)
	defer func() { err = errors.Join(err, index.Close()) }()
	out, err := archive.NewWriter(io.Discard, plain, "", made, about)
	if err != nil {
		return err
	}
	err = i.archivePages(ctx, in, func(_ *Inspector, _ *Version, p *archive.Page) error {
		c, err := out.Page(p)
		if err != nil {
			return err
		}
		return index.Add(&c)
	})
	if err != nil {
		return err
	}
	return index.Lines(func(_, line string) error {
		_, err := w.WriteString(line + "\n")
		return err
	})
}

// exportPackage writes a WACZ file, with the texts of the pages or without.
func (i *Inspector) exportPackage(ctx context.Context, in *part, made time.Time, about warc.Header, texts string, w *bufio.Writer) (err error) {
	out, err := archive.NewPackage(w, made, about, texts != "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	t := pageReader{main: texts == mainText}
	err = i.archivePages(ctx, in, func(of *Inspector, v *Version, p *archive.Page) error {
		title, text := "", ""
		switch meta, err := of.Index.Meta(p.Record.URL); {
		case v.Earlier: // what is kept is that of the page as it is
		case err != nil && !errors.Is(err, record.ErrCorrupt): // what is damaged is for check to name
			return err
		case err == nil && meta != nil:
			title = clean(meta.Title)
		}
		if texts != "" && archive.IsListed(p.Record.Media) {
			if err := t.read(of.Tree, v.Facts(), mostRead); err != nil {
				return err
			}
			text = t.text(p.Record)
		}
		return out.Page(p, title, text)
	})
	if err != nil {
		return err
	}
	return out.End()
}

// archivePages calls fn with the stored pages that an export has, all versions of each, and with
// the redirects whose answers the trees keep.
func (i *Inspector) archivePages(ctx context.Context, in *part, fn func(*Inspector, *Version, *archive.Page) error) error {
	return i.records(ctx, in, func(of *Inspector, r record.Record, damage error) error {
		kept := r.State == record.Stored || r.State == record.Redirected && !r.Extent.IsZero()
		if damage != nil || !kept || !in.takes(&r) {
			return nil
		}
		earlier, err := of.Index.Versions().Of(r.URL)
		if err != nil && !errors.Is(err, record.ErrCorrupt) {
			return err
		}
		for n := range earlier {
			if err := archivePage(of, &Version{Record: earlier[n], Earlier: true}, fn); err != nil {
				return err
			}
		}
		return archivePage(of, &Version{Record: r}, fn)
	})
}

// archivePage calls fn with a version of a page, unless that is not whole any more.
func archivePage(of *Inspector, v *Version, fn func(*Inspector, *Version, *archive.Page) error) error {
	gone := false // the page, and no file of the archive
	err := fn(of, v, &archive.Page{Record: &v.Record, Open: func() (io.ReadCloser, *archive.Answer, error) {
		body, answer, err := of.Tree.Answer(v.Facts())
		gone = errors.Is(err, fs.ErrNotExist) || errors.Is(err, iut.ErrTorn)
		return body, answer, err
	}})
	if gone {
		return nil
	}
	return err
}
