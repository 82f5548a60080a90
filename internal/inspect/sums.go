package inspect

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"urltree/internal/top"
	"urltree/storage/record"
)

// Sums are what stats says of a tree, in JSON on their way from the crawl that has it.
type Sums struct {
	Root     string `json:"-"`
	Totals   record.Totals
	Runs     []record.Run
	Types    []TypeSum // of the pages
	Unread   bool      // the types are not counted: there are too many pages, or a crawl goes on
	Hosts    [hostLists][]HostSum
	Sitemaps SitemapSum
	Live     string // the state of the crawl that is going on; "": there is none
}

// A TypeSum is what a tree has of a media type.
type TypeSum struct {
	Media        string
	Pages, Bytes int64
}

// A HostSum is what a tree has of a host.
type HostSum struct {
	Name                    string
	Stored, Pending, Failed int64
	Answer                  int64 // nanoseconds that it takes to answer; 0: not known
}

// A SitemapSum numbers the sitemaps of a tree by their states, and the URLs in them.
type SitemapSum struct{ Read, URLs, Pending, Failed int64 }

// sums returns what stats says of the tree.
func (i *Inspector) sums(ctx context.Context) (s *Sums, err error) {
	s = &Sums{Totals: i.Index.Totals()}
	if s.Runs, err = i.Index.Runs().All(); err != nil {
		return nil, err
	}
	if err := i.types(ctx, s); err != nil {
		return nil, err
	}
	lists := newHostLists()
	err = i.Index.Hosts().Each(ctx, func(h record.HostRow) error {
		lists.add(HostSum{h.Name, h.Stored, h.Pending(), h.Failed, h.Answer})
		return nil
	})
	if err != nil {
		return nil, err
	}
	for k := range lists {
		s.Hosts[k] = lists[k].Items()
	}
	if i.Live != nil {
		s.Live = i.Live()
	}
	return s, i.sumSitemaps(ctx, &s.Sitemaps)
}

// Of media types stats counts at most so many, of at most so many records: there are no counters of
// types, servers name them as they like, and more records would take too long.
const (
	mostSums    = 10_000
	mostScanned = 1_000_000
)

// types counts the media types, if no crawl goes on.
func (i *Inspector) types(ctx context.Context, s *Sums) error {
	if s.Totals.Stored == 0 {
		return nil
	}
	// Beside a crawl Records would first bring new records to their places, which waits for room on
	// a disk that is nearly full.
	if s.Unread = s.Totals.Records() > mostScanned || i.Live != nil; s.Unread {
		return nil
	}
	sums := typeSums{}
	err := i.Index.Records(ctx, nil, func(r record.Record, damage error) error {
		if damage == nil && r.State == record.Stored {
			sums.add(TypeSum{r.Media, 1, r.Bytes})
		}
		return nil
	})
	s.Types = slices.Collect(maps.Values(sums))
	return err
}

// typeSums are by media type.
type typeSums map[string]TypeSum

func (s typeSums) add(t TypeSum) {
	if _, there := s[t.Media]; !there && len(s) >= mostSums {
		t.Media = "others"
	}
	sum := s[t.Media]
	s[t.Media] = TypeSum{t.Media, sum.Pages + t.Pages, sum.Bytes + t.Bytes}
}

func (i *Inspector) sumSitemaps(ctx context.Context, sum *SitemapSum) error {
	return i.Index.Sitemaps().Each(ctx, func(s *record.Record) error {
		switch {
		case s.Absent(): // as with most sites
		case s.State == record.Read:
			sum.Read++
			sum.URLs += s.Bytes
		case s.State == record.Pending:
			sum.Pending++
		case s.State == record.Failed:
			sum.Failed++
		}
		return nil
	})
}

const (
	hostLists = 3
	mostHosts = 10 // in each
)

// A hostList has the hosts of which a value is the greatest.
type hostList struct {
	title string
	value func(*HostSum) int64
	top.List[HostSum]
}

type hostSums [hostLists]hostList

func newHostLists() *hostSums {
	lists := hostSums{
		{title: "hosts with most pages", value: func(h *HostSum) int64 { return h.Stored }},
		{title: "hosts with most failures", value: func(h *HostSum) int64 { return h.Failed }},
		{title: "slowest hosts", value: func(h *HostSum) int64 { return h.Answer }},
	}
	for k := range lists {
		value := lists[k].value
		lists[k].List = top.List[HostSum]{N: mostHosts, Compare: func(a, b HostSum) int { return cmp.Compare(value(&b), value(&a)) }}
	}
	return &lists
}

func (l *hostSums) add(h HostSum) {
	for k := range l {
		if l[k].value(&h) > 0 {
			l[k].Add(h)
		}
	}
}

// join adds the lists of a tree.
func (l *hostSums) join(s *Sums) {
	for k := range l {
		for _, h := range s.Hosts[k] {
			l[k].Add(h)
		}
	}
}
