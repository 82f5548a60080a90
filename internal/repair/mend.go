package repair

import (
	"context"
	"errors"
	"strings"

	"urltree/iut"
	"urltree/storage/record"
)

// salvage takes over what is whole in the damaged index at path, and remembers what is not.
func (r *rebuild) salvage(ctx context.Context, path string) error {
	done, err := salvage(ctx, path, r.index)
	if errors.Is(err, record.ErrDamaged) {
		return nil // the folders are left
	}
	if err != nil {
		return iut.DiskError("take over the old index", err)
	}
	r.report.Salvaged, r.salvaged = done.records, done
	r.lost = make(map[string]bool, len(done.lost))
	for _, url := range done.lost {
		r.lost[url] = true
	}
	return nil
}

// mend sees to it that no URL is lost with its record: it parses all stored pages again, and what
// they or a redirect name gets a record if it has none.
//
// A URL of which no record is left may have been named by an answer without a folder. Then whatever
// can have given it is asked again. A damaged key reads as a URL that never was; that is no loss
// as long as as many other URLs turned out to have no record as there are lost ones that nobody
// names.
func (r *rebuild) mend(ctx context.Context) error {
	if r.lost == nil {
		return nil
	}
	grown, err := r.index.Marks().NeedsRelink()
	if err != nil {
		return err
	}
	err = r.index.Records(ctx, nil, func(rec record.Record, err error) error {
		if err != nil {
			return err
		}
		o, flags, err := r.answer(&rec)
		if err != nil {
			return err
		}
		// Where links were cut, or will be looked at anew, one without a record is nothing new.
		counts := rec.State == record.Redirected || !grown && rec.Cut == 0 && !strings.Contains(flags, flagCut)
		return r.relinkMissing(ctx, o, counts)
	})
	if err == nil {
		err = r.commit(ctx)
	}
	if err != nil {
		return err
	}
	return r.askAgain(ctx)
}

// relinkMissing takes the links of an answer again if one of them has no record, or had lost it:
// from every answer that names it, for the shortest way. All of them, so that the answer's record
// says how many were cut.
func (r *rebuild) relinkMissing(ctx context.Context, o *record.Outcome, counts bool) error {
	urls := make([]string, len(o.Links))
	for i := range o.Links {
		urls[i] = o.Links[i].URL
	}
	has, err := r.index.Has(urls)
	if err != nil {
		return err
	}
	missing := false
	for i, url := range urls {
		if counts && !has[i] && !r.lost[url] {
			r.lost[url] = true
			r.others++
		}
		missing = missing || !has[i] || r.lost[url]
	}
	if !missing {
		return context.Cause(ctx)
	}
	return r.take(ctx, o)
}

// askAgain opens what may have named the URLs that nothing names now, if there are any.
func (r *rebuild) askAgain(ctx context.Context) error {
	has, err := r.index.Has(r.salvaged.lost)
	if err != nil {
		return err
	}
	unnamed := r.salvaged.nameless
	for _, ok := range has {
		if !ok {
			unnamed++
		}
	}
	if unnamed <= r.others && !r.salvaged.named {
		return nil
	}
	again, err := r.index.Reopen(ctx, nil, func(rec *record.Record) bool {
		return rec.GaveLinks() || rec.State == record.Redirected && rec.Source == record.Seed
	}, nil)
	if err == nil {
		_, err = r.index.Sitemaps().Reopen(ctx, func(s *record.Record) bool { return s.State == record.Read }, nil)
	}
	if err == nil {
		err = r.index.Hosts().ForgetRobots()
	}
	r.log.Warn("no stored page names what was lost: what may have named it is asked again",
		"lost", unnamed, "URLs", again)
	return iut.DiskError("mend", err)
}
