package crawler

import (
	"slices"
	"strings"

	"urltree/storage"
	"urltree/storage/record"
)

// Reasons of URLs that are held for their form.
const (
	heldRepeat = "budget-repeat" // over Budgets.Repeat
	heldPath   = "budget-depth"  // over Budgets.Depth
)

// Budgets bound what an endless site can do to a crawl: calendars, session ids, paths that nest
// for ever. URLs over a budget are held; a run with a higher one goes on with them. In every
// field 0 means its default, and a negative number no limit.
type Budgets struct {
	// Domain bounds the hosts of a registrable domain by the public suffix list; 0: 10,000. An IP
	// address, or a name that has no such domain, is one by itself. A host counts from its first URL
	// that is not held on.
	Domain int64
	Host   int64 // URLs of a host; 0: 1,000,000
	Prefix int64 // URLs below any one folder of a host; 0: 500,000
	Query  int64 // URLs of one path that differ by their query; 0: 10,000
	Repeat int64 // how often one segment may stand in a path; 0: 3
	Depth  int64 // segments of a path; 0: 100
	// MaxHeld bounds the URLs of a host that are held, whatever the reason, and those of all hosts of
	// a domain that are held because of Domain; 0: 500,000. Links beyond it get no record. They are
	// counted, and their page is marked, so that a run with other budgets looks at it again.
	MaxHeld int64
}

// all returns the budgets.
func (b *Budgets) all() []*int64 {
	return []*int64{&b.Domain, &b.Host, &b.Prefix, &b.Query, &b.Repeat, &b.Depth, &b.MaxHeld}
}

// limits are those that the index counts.
func (o *Options) limits() storage.Limits {
	b, depth := o.Budgets, o.MaxDepth
	if o.SeedsOnly {
		depth = -1
	}
	return storage.Limits{MaxDepth: depth, Domain: b.Domain, Host: b.Host, Prefix: b.Prefix, Query: b.Query, MaxHeld: b.MaxHeld}
}

// boundsDepth reports whether URLs are held for their distance from a seed.
func (o *Options) boundsDepth() bool { return o.MaxDepth != 0 || o.SeedsOnly }

// heldByOptions reports whether a reason follows from the options in FORMAT and the seeds.
func heldByOptions(reason string) bool {
	return reason == record.HeldDepth || reason == heldScope || strings.HasPrefix(reason, "budget-")
}

// form returns the reason why a URL is held for its path alone, or "".
func (b *Budgets) form(url string) string {
	path, _, _ := strings.Cut(pathOf(url), "?")
	segments := int64(strings.Count(path, "/"))
	if strings.HasSuffix(path, "/") {
		segments-- // a closing slash names nothing
	}
	if b.Depth > 0 && segments > b.Depth {
		return heldPath
	}
	if b.Repeat > 0 && segments > b.Repeat && repeats(path, b.Repeat) {
		return heldRepeat
	}
	return ""
}

// repeats reports whether a segment stands more than most times in a path.
func repeats(path string, most int64) bool {
	var few [16]string // most paths have no more: no allocation
	list := slices.AppendSeq(few[:0], strings.SplitSeq(path[1:], "/"))
	slices.Sort(list)
	for i := most; i < int64(len(list)); i++ {
		if list[i] == list[i-most] {
			return true
		}
	}
	return false
}
