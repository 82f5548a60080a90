package cleaner

import (
	"context"
	"errors"
	"strings"
	"syscall"

	"urltree/storage"
)

// salvage takes over what is whole in the damaged index at path, and remembers what is not.
func (r *rebuild) salvage(ctx context.Context, path string) error {
	done, err := storage.Salvage(ctx, path, r.index)
	if errors.Is(err, storage.ErrDamaged) || errors.Is(err, syscall.EISDIR) {
		return nil // the folders are left
	}
	if err != nil {
		return wrapDisk("take over the old index", err)
	}
	r.report.Salvaged, r.damaged, r.nameless, r.named = done.Records, done.Lost, done.Nameless, done.Named
	r.lost = make(map[string]bool, len(done.Lost))
	for _, url := range done.Lost {
		r.lost[url] = true
	}
	return nil
}

// mend sees to it that no URL is lost with its record: it parses all stored pages again, and what
// they or a redirect name gets a record if it has none.
//
// A URL of which no record is left may have been named by an answer without a folder. Then whatever
// can have given it is asked again. A damaged key reads as a URL that never was; that is no loss
// as long as as many other URLs turned out to have no record as there are lost ones that nobody names.
func (r *rebuild) mend(ctx context.Context) error {
	if r.lost == nil {
		return nil
	}
	grown, err := r.index.NeedsRelink()
	if err != nil {
		return err
	}
	err = r.index.Records(ctx, nil, func(rec storage.Record, err error) error {
		switch {
		case err != nil:
			return err
		case rec.State == storage.Redirected && rec.Reason == "" && rec.HeaderLinks != "":
			return r.relinkMissing(ctx, redirectLink(&rec), true)
		case rec.State != storage.Stored:
			return context.Cause(ctx)
		}
		f, body, err := r.tree.Load(rec.URL)
		if err != nil {
			return err
		}
		// Where links were cut, or are looked at anew by the next run, one without a record is nothing new.
		all := !grown && rec.Cut == 0 && !strings.Contains(f.Flags, flagCut)
		return r.relinkMissing(ctx, r.parser.Parse(f, body).Links, all)
	})
	if err == nil {
		err = r.commit(ctx)
	}
	if err != nil {
		return err
	}
	return r.askAgain(ctx)
}

// relinkMissing gives links that have lost their record one again. With all that goes for each link
// which has none. It takes a link from every page that has it, for the shortest way.
func (r *rebuild) relinkMissing(ctx context.Context, links []storage.Link, all bool) error {
	urls := make([]string, len(links))
	for i := range links {
		urls[i] = links[i].URL
	}
	has, err := r.index.Has(urls)
	if err != nil {
		return err
	}
	var missing []storage.Link
	for i, l := range links {
		if all && !has[i] && !r.lost[l.URL] {
			r.lost[l.URL] = true
			r.others++
		}
		if r.lost[l.URL] {
			missing = append(missing, l)
		}
	}
	if len(missing) == 0 {
		return context.Cause(ctx)
	}
	return r.take(ctx, &storage.Outcome{Links: missing})
}

// askAgain opens what may have named the URLs that nothing names now, if there are any.
func (r *rebuild) askAgain(ctx context.Context) error {
	has, err := r.index.Has(r.damaged)
	if err != nil {
		return err
	}
	unnamed := r.nameless
	for _, ok := range has {
		if !ok {
			unnamed++
		}
	}
	if unnamed <= r.others && !r.named {
		return nil
	}
	again, err := r.index.Reopen(ctx, nil, func(rec *storage.Record) bool {
		return rec.GaveLinks() || rec.State == storage.Redirected && rec.Source == storage.Seed
	}, nil)
	if err == nil {
		_, err = r.index.RereadSitemaps(ctx, func(s *storage.Sitemap) bool { return s.State == storage.SitemapRead }, nil)
	}
	if err == nil {
		err = r.index.ForgetRobots()
	}
	r.log.Warn("no stored page names what was lost: what may have named it is asked again",
		"lost", unnamed, "URLs", again)
	return wrapDisk("mend", err)
}
