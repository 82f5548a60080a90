package storage

// An Outcome is one thing that happened to a URL, to the robots.txt of an origin or to a sitemap:
// the unit of work that a transaction takes. Crawlers make it, the committer writes it.
type Outcome struct {
	// Row is the pending row as it was taken. With an empty URL only Links, Host, Robots
	// and what is of sitemaps count.
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
	// Meta is what the page says about itself; it is kept if State is Stored. nil: nothing.
	Meta *Meta
	// EdgesEnd is the length of the file of edges once those of this stored page are in it, see
	// Edges; 0: they are not kept.
	EdgesEnd int64
	// Links are the admitted links and redirect targets, canonical, in page order, repeats included.
	Links []Link
	// Again says that the URL has its outcome, and that Links are those of the same answer looked
	// at once more: nothing else counts.
	Again bool
	// Part says that Links are the first of an outcome that comes later, see TakeAhead: nothing else
	// counts.
	Part bool
	// Host, if set, replaces the times of the host.
	Host *HostTimes
	// Robots, if set, replaces the robots.txt answer of its origin.
	Robots *Robots
	// Seeds, if set, says how much of the list of seeds is in with these links.
	Seeds *Seeds
	// Sitemap, if set, is what a sitemap has come to: it replaces its row.
	Sitemap *Sitemap
	// Sitemaps are named by a robots.txt or a sitemap: URL, Level, Hops and Source. Those that are
	// not known, or were read long ago, are to be read.
	Sitemaps []Sitemap
}

// A Link is a URL that an answer or a person named and that scope admits.
type Link struct {
	URL    string
	Source string
	Via    string
	Held   string // the reason if its form is one that this run does not ask, or ""
	Rank   uint64 // its row's place within Now, more than any depth; 0: the depth
	Depth  uint32 // from the depth that the outcome's page has, which the index may know better
	Hops   uint8
	// Cookie says that one of the redirects that led here set a cookie: a record that has only
	// redirected so far is pending again, at most twice.
	Cookie bool
	// Areas are what of a seed, or of the target of a seed's redirect, decides which URLs belong to
	// the crawl: nil if nothing does. If one is new, the stored pages must be parsed again.
	Areas []string
}

// Kinds of addresses. A name with addresses of both kinds is private.
const (
	KindPublic  = 1 // of the public Internet
	KindPrivate = 2 // any other
)

// HostTimes is the politeness of one host: what survives a restart besides its counts.
type HostTimes struct {
	Name    string
	Next    int64  // Unix nanoseconds before which it may not be asked
	Answer  int64  // smoothed answer time in nanoseconds; 0: unknown
	Backoff int64  // present back-off in nanoseconds; 0: none
	Fails   uint32 // failures in a row
	Delay   int64  // Crawl-delay of its robots.txt in nanoseconds; 0: none
	Pace    int64  // nanoseconds between requests that its refusals have led to; 0: none
	Kind    int64  // of the addresses that the name of a seed had when it was first looked up: KindPublic or KindPrivate; 0: not known
	// Seq numbers the answers of the host in this run. Two crawlers may bring them to the index in
	// either order, even in different transactions: the last answer counts.
	Seq uint64
}

// A HostRow is a row of the host table: a host name, any scheme and port.
type HostRow struct {
	HostTimes
	Run      uint32 // that the times are of
	Sitemaps int64  // that are to be read
	Counted  int64  // 1: the host counts towards Limits.Domain
	Counts          // of its records
}

// Counts numbers records by state, pending ones by range.
type Counts struct {
	Now, Later, Held, Stored, Redirected, Failed, Refused int64
}

// Robots is the answer of one origin to the request for its robots.txt.
type Robots struct {
	Origin string // scheme, host name, port
	Time   int64  // Unix seconds of the answer
	Status uint16 // HTTP status after redirects; 0: no answer
	Tries  uint32 // failed tries in a row
	Reason string // what the last of them came to, such as "dns" or "http-5xx"
	Text   string // the file, for 2xx
}
