package crawler

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"time"

	"urltree/crawler/scope"
	"urltree/crawler/weburl"
	"urltree/internal/disk"
	"urltree/internal/score"
	"urltree/iut"
	"urltree/storage/record"
)

// RecrawlNow, as Options.Recrawl, asks all stored pages again once.
const RecrawlNow = -1

// RecrawlAuto, as Options.Recrawl, asks each stored page again as often as it changes.
const RecrawlAuto = -2

// mostRecrawl is what Recrawl may be at most: a record counts the nanoseconds to when it is due.
const mostRecrawl = 100 * 365 * 24 * time.Hour

// mostRetries is what Retries may be at most: a record counts its tries in 16 bits.
const mostRetries = 10_000

// Options say what to crawl, how fast and how much to keep in memory. The zero value of every
// field means its default, which is a polite crawl of anything the seeds lead to.
type Options struct {
	Tree   string // folder of the tree; "": iut
	Output string // result file; "": res.txt. The others lie beside it, see cleaner.FilesFor, none of them in the tree.

	// NoTree keeps nothing: no pages, no result files, and no index once Run returns. Pages are for
	// OnPage alone. Tree, Output and FS must be unset then. The index is a file without a name in
	// [os.TempDir]; the rest is in memory, bodies of more than 1 MiB included, and with MaxDepth
	// above 0 or a Scope all pages, since a shorter way to one may call for another look at it.
	NoTree bool

	// Seeds are http(s) URLs, see ReadSeeds. There may be none when the tree has pending URLs. User
	// name and password of a seed go to its origin in this run, in place of User and Password, and
	// are not kept.
	Seeds []string
	// MoreSeeds are further seeds, see ScanSeeds; nil: none. Run reads them once, when the tree is
	// open, and writes them to disk as they come: they take no memory, however many there are. The
	// same ones in the same order add nothing in a later run. An error that comes with one ends Run
	// before anything is fetched; what came before it stays in the tree. Who waits for a seed
	// should end with an error when the context of Run does.
	MoreSeeds iter.Seq2[string, error]
	// Archives are WARC files: the run takes its answers from them in place of the network, and ends
	// when all are read. Each capture of a URL that has no outcome brings one, the first in the order
	// of the files; links become records, and stay pending for a later run without Archives. URLs of
	// which the archive does not say where they come from, and the tree does not know, are seeds. How
	// requests are made does not count then, nor does robots.txt; there is one buffer, and one
	// crawler. A damaged file is read as far as it is whole, see Result.Imported.
	Archives []string
	// External asks, in place of crawling, whether what stored pages refer to works, where that is
	// no URL of the crawl: each such target once, by HEAD, or by GET where that is refused. By the
	// rules of a crawl, but nothing of what comes is followed or stored, no URL of the crawl is
	// asked, and no result file is written. Where a redirect leads is a target of its own. What is
	// known already is not asked again, but if it is older than ExternalAge; 0: never. A URL that
	// Exclude matches is not asked. What came of them is in the answer to crawler broken.
	External    bool
	ExternalAge time.Duration
	Time        time.Duration // fetch this long in this run, then drain; 0: until nothing is left

	Buffers       int           // 0: 6
	BufferSize    int           // items; 0: 1000
	BufferBytes   int64         // bytes of bodies that are not written, and of links that are not committed, in a buffer; 0: 16 MiB
	FlushInterval time.Duration // longest time an item waits in a buffer; 0: 1 s
	Crawlers      int           // 0: 12
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
	NoSync        bool  // leave out all syncing
	// Below so many free bytes or inodes on the tree's disk fetching pauses, until there is an
	// eighth more. 0: what the other options may bring to the disk after that; negative: not
	// watched. What the index has yet to write to move new URLs to their places stays free besides.
	MinFree, MinFreeInodes int64

	// Store is where pages are kept: StoreFolders, each in a folder, or StoreWARC, all of them in WARC
	// files, as they came. It is fixed when the tree is made. "": as the tree has them, a new one in
	// folders.
	Store string
	WARC  WARC // of StoreWARC alone

	Strip    weburl.Strip // taken out of every URL; fixed when the tree is made
	Scope    scope.Mode   // zero: any
	Include  []*regexp.Regexp
	Exclude  []*regexp.Regexp
	MaxDepth int   // links from a seed, by the shortest way; 0: no limit, negative: none, the seeds alone
	MaxPages int64 // pages stored in this run; 0: no limit
	MaxBytes int64 // bytes stored in this run; fetching stops when it is reached; 0: no limit

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

	Budgets Budgets // what one host may fill the crawl with

	// Order is OrderBreadth or OrderPriority, among the URLs of one host, or OrderTree; "":
	// breadth. A later run may have another one: a URL keeps the place that it got when it was
	// found, and those without a score, seeds among them, come first.
	Order   string
	ScoreBy string // of priority alone: "opic", "inlinks", "rank" (crawler rank has been asked) or "depth"; "": opic
	// Score returns the score of each new link of a page, the greater the better, in place of
	// ScoreBy; with it Order "" is priority. It is called once OnPage of that page has returned.
	Score  func(Candidate) float64
	Queue  string // of priority alone: "cbt" or "quickheap"; "": cbt
	Queues int    // of priority alone: queues side by side, for each host, filled by hash; 0: 1
	// Step lets links wait until as many URLs as Step, or all that are left, have their outcomes; then
	// as many come next, the best of all hosts. So what is asked in which step follows from the
	// answers alone, and Result.Trace is the same in each crawl that gets the same ones. With
	// Cluster each process has as many URLs in a step, and waits for the others. A crawl that has
	// begun so goes on so. 0: links are followed as they come.
	Step int
	// StepTime ends a step after so long: what is not being asked goes to the next one. Traces may
	// differ then. 0: a step takes as long as it takes.
	StepTime time.Duration
	Pick     string // how a crawler takes URLs: one after the other ("single"), several when it has none left ("batch"), or more while it has some ("extended"); "": extended

	MaxSize   int64         // bytes of one body; 0: 16 MiB
	CutLarge  bool          // keep the first MaxSize bytes of a larger body, and mark the page, instead of refusing it
	MaxURL    int           // bytes of a URL that is asked for, at most 8192; 0: 8000, as RFC 9110, 4.1 recommends
	Assets    bool          // follow images, styles, fonts, scripts, media, icons and manifests as well
	Accept    []string      // media types that are stored, such as "text/html", "text/*", "*/*"; nil: DefaultAccept, with Assets all
	Timeout   time.Duration // of one request; 0: 30 s
	FirstByte time.Duration // of one request until the first byte of its answer; 0: Timeout
	MinRate   int64         // slowest rate of a body, bytes per second over 10 s; 0: any
	Retries   int           // after passing faults of a URL, not of its host; 10,000 at most; negative: none, 0: 2
	Delay     time.Duration // between requests to one host; 0: auto, 5 x its answer time; negative: none
	PerHost   int           // requests to one host at a time; 0: 1
	PerIP     int           // requests at a time to one address, hosts that share it counted together; 0: no limit
	MaxDelay  time.Duration // the longest Crawl-delay of a robots.txt that is honoured; 0: 1 min
	MaxWait   time.Duration // end rather than wait longer than this for a host, or for a proxy that fails; 0: 10 min
	LimitRate int64         // bytes per second over all; 0: no limit

	// Edges keeps of each stored page all its references, with element, rel and link text, in the
	// file edges of the tree. Pages that were stored without get theirs before the run begins.
	Edges bool

	// SkipDuplicates refuses a page, not its links, whose SHA-256 a stored page has. It takes 16
	// bytes of memory for each stored page.
	SkipDuplicates bool
	// NoSitemaps reads no sitemaps. Neither does a crawl with IgnoreRobots, or of the seeds alone.
	NoSitemaps   bool
	IgnoreRobots bool   // ask no robots.txt, and store pages that say noindex
	NoFollow     string // whose nofollow counts: "page" of header and page, "all" of single links too, "none"; "": page

	UserAgent    string      // "": urltree/VERSION
	Header       http.Header // sent to the seeds' origins only: scheme, host and port
	User         string      // with Password: basic authentication, at the seeds' origins only
	Password     string
	Cookies      []byte     // Netscape cookie file, for the seeds' hosts only, there by the rules of cookies; its bad lines are told to Log and left out
	Proxy        *url.URL   // nil: as the environment says
	Network      string     // "tcp4" or "tcp6" for one family of addresses; "": both
	Bind         netip.Addr // the local address of connections; zero: any
	Insecure     bool       // accept any certificate, TLS 1.0 and 1.1, and key exchanges that are not safe any more
	HTTP1        bool       // ask by HTTP/1.1 alone, not by HTTP/2
	AllowPrivate bool       // links may lead to loopback and private addresses

	// Cluster, if not nil, is what this run is in a crawl of several processes: it asks the hosts
	// alone that are its own, and sends links to others to those who ask them. nil: it is the whole
	// crawl.
	Cluster Node

	// Keep, if not nil, is called once the tree is open and before anything else is written to it.
	// It is passed what FORMAT keeps for the caller and, sorted, the origins of the Seeds that have
	// a user name; it returns what FORMAT keeps from now on. It is called again before seeds of
	// MoreSeeds are written that have a user name for other origins. An error ends Run, which does
	// not interpret what is kept, and leaves it to the caller to report changed options. nil: FORMAT
	// keeps what it has.
	Keep func(was iut.Kept, logins []string) (iut.Kept, error)

	FS  iut.FS       // the disk of the tree; nil: the real one. Tests let it be slow or fail
	Log *slog.Logger // nil: no log

	// The call-backs, all of which may be nil, are called from many goroutines at a time, but those
	// of one page, OnPage and Edge, by one. One that returns an error or panics ends the crawl: see
	// Run. They should return soon, and Fetch once its ctx has ended, since Run waits.
	//
	// Fetch is asked in place of the network, for each URL once unless Retries says otherwise, and
	// for pages alone: no robots.txt and no sitemap is asked for, there is no delay unless Delay
	// says so, and PerHost 0 is no limit. An error is a broken link, with the reason "fetch". ctx
	// ends with Timeout, which is a broken link too, "timeout", and ten seconds after fetching has
	// ended: then the URL is pending. Nothing of how requests are made may be set: Header, User,
	// Password, Cookies, Proxy, Network, Bind, Insecure, HTTP1, PerIP.
	Fetch func(ctx context.Context, url string) (Content, error)
	// OnPage is called with each page that was fetched, before Edge and Score are called for its
	// links and before it is stored. An error ends the crawl, and the page is asked again by the
	// next one.
	OnPage func(Page) error
	// Edge is called with every link of every page that was fetched, once per occurrence: it is
	// Page.Links, one call for each. Both URLs are canonical. A redirect is no link; OnOutcome reports
	// it.
	Edge func(from, to string)
	// Allow is asked before each request for a page, seeds included. A URL that it does not allow
	// is held for this run with the reason "not-allowed"; the next one asks Allow again.
	Allow     func(Candidate) bool
	OnOutcome func(Outcome)  // told every outcome of this run, before it goes to the index
	Started   func()         // called when the tree is open, before anything is asked
	Progress  func(Progress) // called about once a second, and once when all is stored

	// LimitHeap sets Go's memory limit, which is of the whole process, to a little below Memory
	// while the crawl runs: for a program that has one crawl and little else.
	LimitHeap bool

	steps  disk.Limits              // of the watchdog
	logins map[string]*url.Userinfo // of seeds, by origin
	// network answers in place of the network, with robots.txt and politeness as usual; nil: the
	// network.
	network func(ctx context.Context, url string) (*http.Response, error)
	idle    int  // connections kept open without a request
	silent  bool // other processes get no answers: a socket keeps virtual time from passing
}

// Stores, as Options.Store.
const (
	StoreFolders = iut.StoreFolders
	StoreWARC    = iut.StoreWARC
)

// Stores are the values of Options.Store.
var Stores = []string{StoreFolders, StoreWARC}

// WARC says how WARC files are written: from the beginning of a run on, since none is opened again.
type WARC struct {
	Size      int64  // bytes after which a new file is begun; 0: 1 GiB
	Plain     bool   // without compression
	NoRevisit bool   // keep a body once more whose bytes are kept already, in place of naming it
	All       bool   // keep also the bodies of redirects, the answers that failed, and those for robots.txt
	Operator  string // who is named as the operator of the crawl; "": nobody
}

// An Outcome is what came of a URL, as passed to OnOutcome: of a request, or of a URL that was held
// or refused without one. A page that the tree cannot hold is told as stored, and fails later.
type Outcome struct {
	URL    string        // canonical
	Source string        // the URL that it was found on; "seed" of a seed
	Depth  int           // links from a seed, by the shortest way known so far
	State  record.State  // Pending: it is asked again, or held
	Reason string        // of a failure, a refusal or a wait, as in the index; else ""
	Status int           // of HTTP; 0 without a request, as of a page found whole in its folder
	Bytes  int64         // of the body; 0 likewise
	Target string        // of a redirect, canonical; else ""
	Took   time.Duration // from the request to the buffer; 0 without a request
}

// canonicalSeeds replaces each seed by its canonical URL.
func (o *Options) canonicalSeeds() error {
	seeds := make([]string, len(o.Seeds))
	o.logins = map[string]*url.Userinfo{}
	for i, text := range o.Seeds {
		var err error
		if seeds[i], err = o.takeSeed(text); err != nil {
			return err
		}
	}
	o.Seeds = seeds
	return nil
}

// keepsNothing checks the options of a run with NoTree.
func (o *Options) keepsNothing() error {
	switch {
	case !o.NoTree:
		return nil
	case o.Tree != "" || o.Output != "" || o.Store != "" || o.FS != nil || o.Keep != nil:
		return fmt.Errorf("%w: NoTree keeps nothing: Tree, Output, Store, FS and Keep must be unset", ErrOptions)
	case o.Edges, o.ScoreBy == string(score.PageRank), o.Recrawl != 0:
		return fmt.Errorf("%w: NoTree keeps nothing: neither Edges nor ScoreBy rank nor Recrawl can be had", ErrOptions)
	case len(o.Seeds) == 0 && o.MoreSeeds == nil:
		return ErrNoWork
	}
	o.NoSync = true
	return nil
}

// accepts reports whether a media type is stored.
func (o *Options) accepts(media string) bool {
	for _, a := range o.Accept {
		if prefix, ok := strings.CutSuffix(a, "*"); a == media || a == "*/*" || ok && strings.HasPrefix(media, prefix) {
			return true
		}
	}
	return false
}

var (
	// ErrOptions says that options cannot work.
	ErrOptions = errors.New("options")
	// ErrNoWork says that there is nothing to begin with: no seeds in Options, and none in the tree
	// if there is one. A tree that has seeds and nothing pending is no error: that run ends with
	// "nothing left".
	ErrNoWork = errors.New("no seeds and no pending URLs")
)
