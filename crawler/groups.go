package crawler

import (
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"time"

	"urltree/crawler/scope"
	"urltree/crawler/weburl"
	"urltree/iut"
)

// Bounds are the part of [Options] that says which URLs belong to the crawl, and which of their
// answers are pages. But for Strip, a later run may have other ones: it goes through stored pages
// again where they count now.
type Bounds struct {
	Scope     scope.Mode       // which links are followed; zero: any
	Include   []*regexp.Regexp // a URL must match one of them, if it is no seed; nil: any
	Exclude   []*regexp.Regexp // a URL must match none of them, if it is no seed; nil: none
	MaxDepth  int              // links from a seed, by the shortest way; what is further away is held; 0: no limit
	SeedsOnly bool             // hold all that is no seed, nor what one redirects to; MaxDepth must be 0
	MaxURL    int              // bytes of a URL that is asked for, at most 8192; 0: 8000, as RFC 9110, 4.1 recommends
	Strip     weburl.Strip     // taken out of every URL; fixed when the tree is made
	Assets    bool             // follow images, styles, fonts, scripts, media, icons and manifests as well
	Accept    []string         // media types that are stored, such as "text/html", "text/*", "*/*"; nil: DefaultAccept, with Assets all
	NoFollow  NoFollow         // whose nofollow counts; "": NoFollowPage

	// NoSitemaps reads no sitemaps. Neither does a crawl with IgnoreRobots, or of the seeds alone.
	NoSitemaps bool
	// SkipDuplicates refuses a page, not its links, whose SHA-256 a stored page has. It takes 16
	// bytes of memory for each stored page.
	SkipDuplicates bool
}

// Limits are the part of [Options] that ends a run, or keeps back what is too much.
type Limits struct {
	Time     time.Duration // fetch this long in this run, then drain; 0: until nothing is left
	MaxPages int64         // pages stored in this run; 0: no limit
	MaxBytes int64         // bytes stored in this run; fetching stops when it is reached; 0: no limit
	MaxSize  int64         // bytes of one body; 0: 16 MiB
	CutLarge bool          // keep the first MaxSize bytes of a larger body, and mark the page, instead of refusing it
	Budgets  Budgets       // what one host may fill the crawl with
}

// Politeness is the part of [Options] that says how much a crawl asks of the servers of others.
type Politeness struct {
	Delay        time.Duration // between requests to one host; 0: auto, 5 x its answer time; negative: none
	PerHost      int           // requests to one host at a time; 0: 1
	PerIP        int           // requests at a time to one address, hosts that share it counted together; 0: no limit
	MaxDelay     time.Duration // the longest Crawl-delay of a robots.txt that is honoured; 0: 1 min
	MaxWait      time.Duration // end rather than wait longer than this for a host, or for a proxy that fails; 0: 10 min
	LimitRate    int64         // bytes per second over all; 0: no limit
	IgnoreRobots bool          // ask no robots.txt, and store pages that say noindex
}

// HTTP is the part of [Options] that says how requests are made.
type HTTP struct {
	UserAgent    string        // "": urltree/VERSION
	Header       http.Header   // sent to the seeds' origins only: scheme, host and port
	User         string        // with Password: basic authentication, at the seeds' origins only
	Password     string        // of User
	Cookies      []byte        // Netscape cookie file, for the seeds' hosts only, there by the rules of cookies; its bad lines are told to Log and left out
	Proxy        *url.URL      // nil: as the environment says
	Network      Network       // one family of addresses; "": both
	Bind         netip.Addr    // the local address of connections; zero: any
	Insecure     bool          // accept any certificate, TLS 1.0 and 1.1, and key exchanges that are not safe any more
	HTTP1        bool          // ask by HTTP/1.1 alone, not by HTTP/2
	AllowPrivate bool          // links may lead to loopback and private addresses
	Timeout      time.Duration // of one request; 0: 30 s
	FirstByte    time.Duration // of one request until the first byte of its answer; 0: Timeout
	MinRate      int64         // slowest rate of a body, bytes per second over 10 s; 0: any
	Retries      int           // after passing faults of a URL, not of its host; 10,000 at most; 0: 2; negative: none
}

// Ordering is the part of [Options] that says which URL is next.
type Ordering struct {
	// Order is OrderBreadth or OrderPriority, among the URLs of one host, or OrderTree; "":
	// breadth. A later run may have another one: a URL keeps the place that it got when it was
	// found, and those without a score, seeds among them, come first.
	Order   Order
	ScoreBy ScoreBy // of priority alone; "": ScoreOPIC. Score takes its place
	Queue   Queue   // of priority alone; "": QueueCBT
	Queues  int     // of priority alone: queues side by side, for each host, filled by hash; 0: 1
	Pick    Pick    // how a crawler takes URLs; "": PickExtended
	// Step lets links wait until as many URLs as Step, or all that are left, have their outcomes; then
	// as many come next, the best of all hosts. So what is asked in which step follows from the
	// answers alone, and Result.Trace is the same in each crawl that gets the same ones. With
	// Cluster each process has as many URLs in a step, and waits for the others. A crawl that has
	// begun so goes on so. 0: links are followed as they come.
	Step int
	// StepTime ends a step after so long: what is not being asked goes to the next one. Traces may
	// differ then. 0: a step takes as long as it takes.
	StepTime time.Duration
}

// Revisits are the part of [Options] that says when stored pages are asked again.
type Revisits struct {
	// Recrawl is how long after the last look at a stored page the next one is due: it is asked
	// again behind the URLs of its host that were not asked yet, in this run if it is due before
	// that ends, or in a later one. It stays stored meanwhile. What it has now replaces what is
	// stored if that differs; what does not find the page leaves it as it is. RecrawlNow: all that
	// is stored when the run begins, once. RecrawlAuto: each page by how often looks have found
	// that it changes, between RecrawlMin and RecrawlMax after the last one, and those that are due
	// in the order of what a look gains; not before its server says that it may have changed. 0:
	// only what an earlier run, or crawler recrawl, has left due.
	Recrawl time.Duration
	// RecrawlMin and RecrawlMax bound the time between two looks of RecrawlAuto, in whole seconds.
	// 0: a day, and 30 days.
	RecrawlMin, RecrawlMax time.Duration
	// RecrawlShare is how many of 100 pages that a host is asked are stored ones that are due, while
	// URLs of it wait that were not asked yet; not with OrderTree or Step. 0: these come first.
	RecrawlShare int
	// Versions is how many versions of a page stay stored that is asked again, the newest included:
	// once there are more, the oldest goes. 0: 1; negative, as AllVersions: all.
	Versions int
}

// Storage is the part of [Options] that says how pages are kept, and what besides.
type Storage struct {
	// Store is where pages are kept: StoreFolders, each in a folder, or StoreWARC, all of them in WARC
	// files, as they came. It is fixed when the tree is made. "": as the tree has them, a new one in
	// folders.
	Store Store
	WARC  WARC // of StoreWARC alone

	// Edges keeps of each stored page all its references, with element, rel and link text, in the
	// file edges of the tree. Pages that were stored without get theirs before the run begins.
	Edges bool

	NoSync bool // leave out all syncing: safe against a kill, not against a power cut
	// Below so many free bytes or inodes on the tree's disk fetching pauses, until there is an
	// eighth more. 0: what the other options may bring to the disk after that; negative: not
	// watched. What the index has yet to write to move new URLs to their places stays free besides.
	MinFree, MinFreeInodes int64

	FS iut.FS // the disk of the tree; nil: the real one. Tests let it be slow or fail
}

// Resources are the part of [Options] that says how much is done at a time, and in how much memory;
// see [Options.Memory].
type Resources struct {
	Buffers       int           // buffers between crawlers and tree, each with its builder; 0: 6
	BufferSize    int           // items in a buffer; 0: 1000
	BufferBytes   int64         // bytes of bodies that are not written, and of links that are not committed, in a buffer; 0: 16 MiB
	FlushInterval time.Duration // longest time an item waits in a buffer; 0: 1 s
	Crawlers      int           // crawlers, which share the buffers; 0: 12
	Downloads     int           // in flight per crawler: Crawlers x Downloads are source C's download workers; 0: 4
	// Parsers are the parse workers: so many pages are parsed, and told to OnPage and Edge, at a
	// time. A page takes one more place for each 256 KiB. Each beyond 4 may take 16 MiB that Memory
	// does not count. 0: GOMAXPROCS, at most 4.
	Parsers int
	// QueueSize bounds both queues of source C: the URLs that a crawler has taken from the frontier
	// and not begun, and the pages that wait for a parse worker while their download worker goes on
	// with other URLs. 0: up to 64, and no such pages: a download worker waits until its page is in
	// a buffer.
	QueueSize     int
	MemoryBodies  int64 // bytes of bodies between request and buffer; 0: 64 MiB
	FrontierBytes int64 // bytes of frontier windows; 0: 64 MiB
	SeenBytes     int64 // bytes of the seen filter, beyond which the index is asked too; 0: 256 MiB

	// LimitHeap sets Go's memory limit, which is of the whole process, to a little below Memory
	// while the crawl runs: for a program that has one crawl and little else.
	LimitHeap bool
}

// WARC says how WARC files are written: from the beginning of a run on, since none is opened again.
type WARC struct {
	Size      int64  // bytes after which a new file is begun; 0: 1 GiB
	Plain     bool   // without compression
	NoRevisit bool   // keep a body once more whose bytes are kept already, in place of naming it
	All       bool   // keep also the bodies of redirects, the answers that failed, and those for robots.txt
	Operator  string // who is named as the operator of the crawl; "": nobody
}
