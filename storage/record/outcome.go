package record

import "strings"

// An Outcome is one thing that happened to a URL, to the robots.txt of an origin, to a sitemap, to
// a target outside or to a stored page that was asked again: the unit of work that a transaction
// takes. Crawlers make it, the committer writes it.
type Outcome struct {
	// Row is the pending row as it was taken. With an empty URL, and if it is of the kind RobotsRow,
	// only Links, Host, Robots and Seeds count.
	Row Row
	// State is Pending for "again" (Next.Range Later) and "held" (Next.Range Held).
	State State
	// Next says where the row goes when State is Pending: Range, Due, Reason. Tries and
	// Spared are the new counts. Run is that of Row where nothing was asked or looked up; 0: this run,
	// unless it is held.
	Next Row
	// Reason is why, for Failed and Refused: a short word such as "timeout" or "robots".
	Reason string
	// Page holds the facts of the answer, for all states but Pending.
	Page Page
	// Same says, of a revisit that is Stored, that the content is what is kept already: nothing of the
	// answer but the look counts.
	Same bool
	// Kept says, of a revisit that is Stored with other content, that the tree keeps what it had.
	Kept bool
	// Difference is, of a revisit that is Stored, how much other content differs from what was kept.
	Difference Difference
	// ETag and Modified are these headers of the answer, kept for the next look at a stored page.
	ETag, Modified string
	// Fresh is how many seconds a stored page will not change, as the answer says; 0: it does not.
	Fresh int64
	// Meta is what the page says about itself; it is kept if State is Stored. nil: nothing.
	Meta *Meta
	// EdgesEnd is the length of the file of edges once those of this stored page are in it, see
	// Edges; 0: they are not kept.
	EdgesEnd int64
	// Open says, of segments, where the first answer in them begins that no transaction has, once
	// this outcome is in one; -1: none is left.
	Open map[uint32]int64
	// Links are the admitted links and redirect targets, canonical, in page order, repeats included,
	// and the sitemaps that a robots.txt or another sitemap names.
	Links []Link
	// Cut is the number of URLs that a sitemap names and that are not among Links.
	Cut uint32
	// Again says that the URL has its outcome, and that Links are those of the same answer looked
	// at once more: nothing else counts.
	Again bool
	// Part says that Links, which alone count, are of an outcome that comes later, see TakeAhead.
	Part bool
	// Arrived says that Links and Moved came from another process, and are for hosts that are asked by
	// this one. If one of them is not any more, none counts: see Committed.Refused of storage.
	Arrived bool
	// Repost says that Links count as those that nobody has named yet: what the process knew that they
	// were sent to is lost.
	Repost bool
	// Moved is what another process hands over, see Moved.Check.
	Moved []Moved
	// Delivered are the rows of the outbox that other processes have now.
	Delivered []Delivery
	// Host, if set, replaces the times of the host.
	Host *HostTimes
	// Robots, if set, replaces the robots.txt answer of its origin.
	Robots *Robots
	// Seeds, if set, says how much of the list of seeds is in with these links.
	Seeds *Seeds
}

// OfPage reports whether the outcome is that of a URL of the crawl.
func (o *Outcome) OfPage() bool { return o.Row.URL != "" && o.Row.Kind == PageRow }

// A Link is a URL that an answer or a person named and that scope admits. Of the kind SitemapRow it
// is a sitemap, which is to be read if it is not known or was read long ago: then only URL, Source,
// Depth, its level, and Hops count. Of the kind OutsideRow it is a target outside, which is to be
// asked if it is known neither as one nor as a URL of the crawl: then only URL, Source, Via and
// Hops count.
type Link struct {
	URL    string
	Source string
	Via    string
	Held   string // the reason if its form is one that this run does not ask, or ""
	Rank   uint64 // its row's place within Now, more than any depth; 0: the depth
	Depth  uint32 // from the depth that the outcome's page has, which the index may know better
	Hops   uint8
	Kind   Kind
	// Cookie says that one of the redirects that led here set a cookie: a record that has only
	// redirected so far is pending again, at most twice.
	Cookie bool
	// Areas are what of a seed, or of the target of a seed's redirect, decides which URLs belong to
	// the crawl: nil if nothing does. If one is new, the stored pages must be parsed again.
	Areas []string
}

// MostWeight is how many bytes a transaction should write because of links, as Weight has them.
// Until it has ended, memory holds several copies of its keys and every page of the index that it
// touches.
const MostWeight = 6 << 20

// weigh estimates the bytes that a transaction writes because of a link: its record and pending
// row, and the counts of all folders of its host and path, whose keys begin its own.
func weigh(l *Link) int {
	folders := max(strings.Count(l.URL, "/")-2, 0) + max(strings.Count(authority(l.URL), ".")-2, 0)
	return 400 + 3*len(l.URL) + len(l.Source) + folders*(100+len(l.URL)/2)
}

// Weight estimates the bytes that a transaction writes because of links, a robots.txt and what is
// handed over.
func (o *Outcome) Weight() int {
	bytes := 0
	if o.Robots != nil {
		bytes += 2 * len(o.Robots.Text)
	}
	for i := range o.Links {
		bytes += weigh(&o.Links[i])
	}
	for i := range o.Moved {
		bytes += 400 + 3*len(o.Moved[i].Name) + len(o.Moved[i].Value)
	}
	return bytes
}

// TakeAhead takes from an outcome that has more links than one transaction should take the first of
// them, to be committed before it: no URL gets an outcome before its links have records. nil: there
// are no more than that.
func (o *Outcome) TakeAhead() *Outcome {
	bytes := 0
	for i := range o.Links {
		if bytes += weigh(&o.Links[i]); bytes > MostWeight && i > 0 {
			return o.Ahead(i)
		}
	}
	return nil
}

// Ahead takes the first n links from an outcome, to be committed before it.
func (o *Outcome) Ahead(n int) *Outcome {
	ahead := &Outcome{Row: o.Row, Page: Page{PageDepth: o.Page.PageDepth}, Links: o.Links[:n:n], Part: true}
	o.Links = o.Links[n:]
	return ahead
}
