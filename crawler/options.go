package crawler

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"urltree/internal/disk"
	"urltree/iut"
	"urltree/storage"
	"urltree/storage/record"
)

// RecrawlNow, as Options.Recrawl, asks all stored pages again once.
const RecrawlNow = -1

// RecrawlAuto, as Options.Recrawl, asks each stored page again as often as it changes.
const RecrawlAuto = -2

// AllVersions, as Options.Versions, keeps all versions of a page.
const AllVersions = storage.AllVersions

// mostRecrawl is what Recrawl may be at most: a record counts the nanoseconds to when it is due.
const mostRecrawl = 100 * 365 * 24 * time.Hour

// mostRetries is what Retries may be at most: a record counts its tries in 16 bits.
const mostRetries = 10_000

// Options say what to crawl, how fast and how much to keep in memory. The zero value of every
// field means its default: a polite crawl of all that the seeds lead to, into the tree iut.
//
// Most fields stand in groups, which are embedded: opts.Delay is opts.Politeness.Delay, and in a
// literal it is Politeness: crawler.Politeness{Delay: time.Second}.
//
// A number, or a time, that is 0 stands for the default that its field names. A negative one turns
// off what it says, where the field has a meaning for it: no delay, no retries, no limit.
// Everywhere else a negative one is ErrOptions.
type Options struct {
	Tree   string // folder of the tree; "": iut
	Output string // result file; "": res.txt. The others lie beside it, see cleaner.FilesFor, none of them in the tree.

	// NoTree keeps nothing: no pages, no result files, and no index once Run returns. Pages are for
	// OnPage alone. Tree, Output and FS must be unset then. The index is a file without a name in
	// [os.TempDir]; the rest is in memory, bodies of more than 1 MiB included, and with MaxDepth
	// or a Scope all pages, since a shorter way to one may call for another look at it.
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

	Bounds
	Limits
	Politeness
	HTTP
	Ordering
	Revisits
	Storage
	Resources

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
	// Score returns the score of each new link of a page, the greater the better, in place of
	// ScoreBy; with it Order "" is priority. It is called once OnPage of that page has returned.
	Score func(Candidate) float64
	// Allow is asked before each request for a page, seeds included. A URL that it does not allow
	// is held for this run with the reason "not-allowed"; the next one asks Allow again.
	Allow     func(Candidate) bool
	OnOutcome func(Outcome)  // told every outcome of this run, before it goes to the index
	Started   func()         // called when the tree is open, before anything is asked
	Progress  func(Progress) // called about once a second, and once when all is stored

	steps  disk.Limits              // of the watchdog
	logins map[string]*url.Userinfo // of seeds, by origin
	given  Settings                 // before defaults were filled in
	// network answers in place of the network, with robots.txt and politeness as usual; nil: the
	// network.
	network func(ctx context.Context, url string) (*http.Response, error)
	idle    int  // connections kept open without a request
	silent  bool // other processes get no answers: a socket keeps virtual time from passing
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
	case o.Edges, o.ScoreBy == ScoreRank, o.Recrawl != 0:
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
