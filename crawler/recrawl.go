package crawler

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"urltree/internal/fetch"
	"urltree/internal/freshness"
	"urltree/storage"
	"urltree/storage/record"
)

// schedule returns by what stored pages are due after a look; nil: none is.
func (o *Options) schedule() storage.Recrawl {
	switch {
	case o.Recrawl > 0:
		return fixed(o.Recrawl)
	case o.Recrawl == RecrawlAuto:
		return auto{freshness.Policy{Min: int64(o.RecrawlMin / time.Second), Max: int64(o.RecrawlMax / time.Second)}}
	}
	return nil
}

// plan returns what the index keeps of that.
func (o *Options) plan() record.Plan {
	switch s := o.schedule().(type) {
	case fixed:
		return record.Plan{Every: int64(s)}
	case auto:
		return record.Plan{Min: s.Min, Max: s.Max}
	}
	return record.Plan{}
}

// A fixed schedule has all pages due so long after a look.
type fixed time.Duration

// Next implements [storage.Recrawl].
func (f fixed) Next(l *record.Look, _ int64) int64 { return l.Time*int64(time.Second) + int64(f) }

// Place implements [storage.Recrawl].
func (fixed) Place(*record.Look, int64) int64 { return 0 }

// An auto schedule has a page due by how often it changes, and those first by which most is gained.
type auto struct{ freshness.Policy }

// Next implements [storage.Recrawl]. What its server calls fresh is not asked for, up to Max.
func (a auto) Next(l *record.Look, fresh int64) int64 {
	return (l.Time + max(a.Interval(history(l), 0), min(fresh, a.Max))) * int64(time.Second)
}

// mostPlace is the place of a page by which nothing is gained.
const mostPlace = 1 << 53

// Place implements [storage.Recrawl].
func (a auto) Place(l *record.Look, now int64) int64 {
	gain := a.Gain(history(l), 0, now-l.Time)
	return max(mostPlace-int64(1000*min(gain, mostPlace/1000)), 1)
}

// history returns that of a page; one that is not found any more is taken for one that has not
// changed since: it is asked for after as long again as it has been gone.
func history(l *record.Look) freshness.History {
	if l.Since != 0 {
		return freshness.History{Same: 1, SameFor: l.Time - l.Since}
	}
	return l.History
}

// freshFor returns for how many seconds an answer says that it will not change, by Cache-Control or
// Expires; 0: it does not.
func freshFor(res *fetch.Response) int64 {
	stays := int64(-1)
	for _, directive := range strings.Split(strings.Join(res.Header["Cache-Control"], ","), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(directive), "=")
		switch strings.ToLower(name) {
		case "no-cache", "no-store":
			return 0
		case "max-age":
			stays, _ = strconv.ParseInt(strings.Trim(value, `"`), 10, 64) // of a bad one 0, as RFC 9111, 4.2.1 has it
		}
	}
	if stays < 0 {
		until, err := http.ParseTime(res.Header.Get("Expires"))
		sent, without := http.ParseTime(res.Header.Get("Date"))
		if err != nil || without != nil {
			return 0
		}
		stays = int64(until.Sub(sent) / time.Second)
	}
	age, _ := strconv.ParseInt(res.Header.Get("Age"), 10, 64)
	return max(stays-max(age, 0), 0)
}
