package main

import (
	"cmp"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"urltree/crawler"
	"urltree/crawler/weburl"
	"urltree/internal/words"
	"urltree/iut"
)

// flags are the flags of the crawl command, with what they came to.
type flags struct {
	groups []group   // for the help text
	all    []*option // those of all groups

	opts     crawler.Options
	inputs   []string // of seeds
	cookies  string
	scope    string
	sync     string
	format   string
	failOn   string
	depth    int // -1: no limit
	sitemaps bool
	quiet    bool
	verbose  bool

	robots, nofollow, oversize string
	store, compression         string
	revisit                    bool
	strip                      weburl.Strip
	accept                     []string
	ipv4, ipv6                 bool

	listen  listenFlags
	cluster clusterFlags
}

// An option is a flag of the crawl or of a subcommand.
type option struct {
	name  string
	value value
	usage string // the word in backquotes stands for the value in the help text
	usual string // what it is by default, for the help text
	kind  kind   // 0: it is one of a subcommand alone, and no environment variable sets it
	given bool   // it is set, be it by the environment
}

// A value is that of a flag. Set takes a text or says in one line what is allowed; String gives the
// default for the help text.
type value interface {
	Set(text string) error
	String() string
}

// isBool reports whether the flag has no value.
func (o *option) isBool() bool {
	_, ok := o.value.(toggle)
	return ok
}

func (o *option) isRepeatable() bool {
	switch o.value.(type) {
	case inputs, patterns, headers, trees:
		return true
	}
	return false
}

// flag makes one flag of the crawl, with its environment variable.
func flag(name string, k kind, v value, usage string) *option {
	o := plainFlag(name, v, usage)
	o.kind = k
	return o
}

// plainFlag makes a flag of a subcommand that no environment variable sets.
func plainFlag(name string, v value, usage string) *option {
	return &option{name: name, value: v, usage: usage, usual: v.String()}
}

// userAgent makes -user-agent, whose default is another one in each version.
func userAgent(p *string, usage string) *option {
	o := flag("user-agent", ofCrawl, text{p}, usage)
	o.usual = "urltree/VERSION"
	return o
}

// again is the time between two looks at a page. To look once is of one run: it is not kept.
type again struct{ amount[time.Duration] }

// byChange is the again by which each page has its own time.
const byChange = "auto"

func (v again) Set(s string) error {
	if strings.EqualFold(strings.TrimSpace(s), byChange) {
		*v.p = crawler.RecrawlAuto
		return nil
	}
	if err := v.amount.Set(s); err != nil {
		return fmt.Errorf("%s, %w", byChange, err)
	}
	return nil
}

func (v again) String() string {
	if *v.p == crawler.RecrawlAuto {
		return byChange
	}
	return v.amount.String()
}

func (v again) texts() []string {
	switch *v.p {
	case crawler.RecrawlNow:
		return nil
	case crawler.RecrawlAuto:
		return []string{byChange}
	}
	return v.amount.texts()
}

// names returns the values of an option of the library as choice takes them.
func names[S ~string](values []S) []string {
	list := make([]string, len(values))
	for i, v := range values {
		list[i] = string(v)
	}
	return list
}

// budget is a number of which 0 is no limit.
func budget(p *int64) amount[int64] { return amount[int64]{in: numbers, p: p, none: "no limit"} }

func (f *flags) tree() *option {
	return flag("tree", ofPlace, text{&f.opts.Tree}, "the `FOLDER` of the tree")
}

func (f *flags) output() *option {
	return flag("output", ofPlace, text{&f.opts.Output}, "the result `FILE`, or a pipe or /dev/stdout; res2.txt, statistics.txt and hourly_statistics.txt lie beside it, else in the current folder; beside A.tsv they are A2.tsv, A.statistics.txt and A.hourly_statistics.txt")
}

// newFlags returns the flags with the defaults of the engine.
func newFlags() *flags {
	o := crawler.DefaultOptions()
	f := &flags{
		opts:  o,
		scope: "any", sync: "full", format: "text", failOn: "seeds", depth: -1, sitemaps: true,
		store: iut.StoreFolders, compression: "gzip", revisit: true,
		cluster: clusterFlags{engine: "external", name: "crawl", nodes: 1, lease: 15 * time.Second},
		robots:  "obey", nofollow: string(o.NoFollow), oversize: "refuse", accept: o.Accept,
	}
	f.opts.Accept = nil // see options
	f.groups = append(f.what(), f.how()...)
	for _, g := range f.groups {
		f.all = append(f.all, g.flags...)
	}
	return f
}

// kindOf returns the kind of what FORMAT keeps by this name, 0 if it keeps nothing.
func (f *flags) kindOf(name string) kind {
	for _, o := range f.all {
		if o.name == name {
			return o.kind
		}
	}
	if name == seedLogin {
		return ofSecret
	}
	return 0
}

// isSet reports whether the flag of this name is given, be it by the environment.
func (f *flags) isSet(name string) bool {
	return slices.ContainsFunc(f.all, func(o *option) bool { return o.name == name && o.given })
}

// what returns the flags that say what to crawl, in groups for the help text.
func (f *flags) what() []group {
	o, budgets := &f.opts, &f.opts.Budgets
	return []group{
		{"Seeds, time and files", []*option{
			flag("time", ofRun, amount[time.Duration]{in: times, p: &o.Time, least: time.Millisecond, none: "until nothing is left"}, "fetch for this `TIME`, then finish: 90s, 10h"),
			flag("input", ofPlace, inputs{&f.inputs}, "a seed `FILE`, one URL a line, the first column if there are tabs; - for standard input; repeatable; not needed when the tree has URLs to do"),
			f.output(),
			f.tree(),
			flag("fail-on", ofRun, choice{&f.failOn, []string{"seeds", "any"}}, "end with status 5 if `WHAT` failed or could not be reached in this run; seeds: all of them, and no page was stored; any: a single URL"),
		}},
		{"What to fetch", []*option{
			flag("scope", ofCrawl, choice{&f.scope, []string{"any", "domain", "host", "prefix"}}, "which links to follow, a `SCOPE`: any; domain or host: those of a seed; prefix: its host, below its folder"),
			flag("include", ofCrawl, patterns{&o.Include}, "follow only URLs that match this `RE2`, or one of them; seeds are exempt; repeatable"),
			flag("exclude", ofCrawl, patterns{&o.Exclude}, "do not follow URLs that match this `RE2`; seeds are exempt; repeatable"),
			flag("max-depth", ofCrawl, amount[int]{in: numbers, p: &f.depth, least: 0, unset: -1, none: "no limit"}, "hold URLs more than `N` links from a seed, by the shortest way"),
			flag("max-pages", ofRun, amount[int64]{in: numbers, p: &o.MaxPages, least: 1, none: "no limit"}, "store at most `N` pages in this run"),
			flag("max-bytes", ofRun, amount[int64]{in: sizes, p: &o.MaxBytes, least: 1, none: "no limit"}, "stop once pages of this `SIZE` in all are stored in this run: 500MB, 2GiB"),
			flag("recrawl", ofCrawl, again{amount[time.Duration]{in: times, p: &o.Recrawl, word: "never", none: "never"}}, "ask each stored page again this `TIME` after the last look at it, behind new URLs of its host; 0s: once, in this run; auto: as often as it changes, and first what gains most; never: only what crawler recrawl has marked"),
			flag("recrawl-min", ofCrawl, amount[time.Duration]{in: times, p: &o.RecrawlMin, least: time.Second}, "the shortest `TIME` between two looks of -recrawl auto: what the page that is worth most looks gets"),
			flag("recrawl-max", ofCrawl, amount[time.Duration]{in: times, p: &o.RecrawlMax, least: time.Second}, "the longest `TIME` between two looks of -recrawl auto"),
			flag("recrawl-share", ofCrawl, amount[int]{in: percents, p: &o.RecrawlShare, most: 100, none: "none"}, "while a host has new URLs, ask it for stored pages that are due with this `SHARE` of requests: 30%; not with -order tree or -bsp"),
			flag("versions", ofCrawl, amount[int]{in: numbers, p: &o.Versions, least: 1, unset: crawler.AllVersions, word: "all", none: "all"}, "keep `N` versions of a page that is asked again, the newest included, or all; with fewer than before, the oldest go once the page has other content"),
			flag("max-size", ofCrawl, amount[int64]{in: sizes, p: &o.MaxSize, least: 1}, "refuse a page of more than this `SIZE`"),
			flag("oversize", ofCrawl, choice{&f.oversize, []string{"refuse", "cut"}}, "`WHAT` to do with such a page: refuse; cut: keep its beginning, and mark it"),
			flag("assets", ofCrawl, toggle{&o.Assets}, "follow the images, styles, fonts, scripts, media, icons and manifests that HTML and CSS name as well, and store every type unless -accept says which"),
			flag("accept", ofCrawl, types{&f.accept}, "store these media `TYPES`, comma-separated: text/html,text/*; */* for all"),
			flag("skip-duplicates", ofCrawl, toggle{&o.SkipDuplicates}, "refuse a page whose content, byte for byte, is stored already under another URL; its links count"),
			flag("edges", ofCrawl, toggle{&o.Edges}, "keep the link graph: every reference of every stored page, with element, rel and text; see export -h, stats -h, rank -h"),
			flag("max-url-length", ofCrawl, amount[int]{in: numbers, p: &o.MaxURL, least: 1, most: 8 << 10}, "refuse URLs of more than `N` bytes"),
			flag("strip-params", ofTree, params{&f.strip}, "take these `PARAMETERS` of queries and path segments (;jsessionid=1) out of all URLs, comma-separated: utm_*,jsessionid; fixed when the tree is made"),
			flag("strip-www", ofTree, toggle{&f.strip.WWW}, "take www. off all host names; fixed when the tree is made"),
			flag("sitemaps", ofCrawl, toggle{&f.sitemaps}, "read the sitemaps that robots.txt names, and /sitemap.xml, for the URLs of pages; -sitemaps=false does not"),
			flag("robots", ofCrawl, choice{&f.robots, []string{"obey", "ignore"}}, "whether to `obey` or ignore robots.txt and noindex"),
			flag("nofollow", ofCrawl, choice{&f.nofollow, []string{"page", "all", "none"}}, "whose nofollow to obey: that of a `page`, all (of single links too), or none"),
		}},
		{"Traps: what is over a budget is held, until a run with a higher one; 0: no limit", []*option{
			flag("budget-domain", ofCrawl, budget(&budgets.Domain), "at most `N` hosts of one registrable domain, such as example.co.uk"),
			flag("budget-host", ofCrawl, budget(&budgets.Host), "at most `N` URLs of one host"),
			flag("budget-prefix", ofCrawl, budget(&budgets.Prefix), "at most `N` URLs below any one folder of a host"),
			flag("budget-query", ofCrawl, budget(&budgets.Query), "at most `N` URLs of one path that differ by their query"),
			flag("budget-repeat", ofCrawl, budget(&budgets.Repeat), "one segment at most `N` times in a path"),
			flag("budget-depth", ofCrawl, budget(&budgets.Depth), "at most `N` segments in a path"),
			flag("max-held", ofCrawl, budget(&budgets.MaxHeld), "hold at most `N` URLs of a host; further links are counted, and their page is marked"),
		}},
		{"Where pages are kept", []*option{
			flag("store", ofTree, choice{&f.store, iut.Stores}, "`WHERE` pages are kept; folders: each in a folder, decoded; warc: in WARC files, as they came; fixed when the tree is made, but for crawler convert"),
			flag("warc-size", ofCrawl, amount[int64]{in: sizes, p: &o.WARC.Size, least: 1}, "begin a new WARC file after this `SIZE`"),
			flag("warc-compression", ofCrawl, choice{&f.compression, []string{"gzip", "none"}}, "`HOW` records are compressed: gzip or none"),
			flag("warc-revisit", ofCrawl, toggle{&f.revisit}, "keep a body that is kept already as a revisit record, which names the other one; -warc-revisit=false keeps it again"),
			flag("warc-all", ofCrawl, toggle{&o.WARC.All}, "keep as well what is no page: the bodies of redirects, the answers that failed, and those for robots.txt"),
			flag("operator", ofCrawl, text{&o.WARC.Operator}, "name `WHO` runs the crawl at the beginning of each WARC file"),
		}},
	}
}

// how returns the flags that say how to crawl.
func (f *flags) how() []group {
	o := &f.opts
	return []group{
		{"In which order", []*option{
			flag("order", ofCrawl, choice{(*string)(&o.Order), names(crawler.Orders)}, "which URL is next, an `ORDER`: breadth: of a host, the fewest links from a seed; priority: of a host, the best score; tree: each crawler walks down its own part of the tree"),
			flag("score", ofCrawl, choice{(*string)(&o.ScoreBy), names(crawler.Scores)}, "the `SCORE` of -order priority: opic: pages hand theirs to what they link to; inlinks: the number of links; rank: what crawler rank has found; depth"),
			flag("queue", ofRun, choice{(*string)(&o.Queue), names(crawler.Queues)}, "the `KIND` of queue of -order priority: cbt or quickheap"),
			flag("queues", ofRun, amount[int]{in: numbers, p: &o.Queues, least: 1}, "`N` such queues side by side for each host, filled by hash"),
			flag("bsp", ofCrawl, amount[int]{in: numbers, p: &o.Step, none: "off"}, "go in supersteps of `N` URLs: what they link to waits until all of them are done, so that the same answers make the same crawl, step by step; with -cluster, N for each node; for the whole crawl"),
			flag("bsp-step", ofCrawl, amount[time.Duration]{in: times, p: &o.StepTime, least: time.Millisecond, none: "no limit"}, "end a superstep after this `TIME`: what is not being asked is left for the next one, and crawls may differ"),
			flag("pick", ofRun, choice{(*string)(&o.Pick), names(crawler.Picks)}, "`HOW` a crawler takes URLs: extended: more while it has some; batch: several once it has none; single: one"),
		}},
		{"How to ask", []*option{
			flag("delay", ofCrawl, amount[time.Duration]{in: times, p: &o.Delay, word: "auto", none: "auto"}, "the `TIME` between two requests to a host; auto: 5 times its answer time, 100ms to 30s; longer where robots.txt or the server says so"),
			flag("per-host", ofCrawl, amount[int]{in: numbers, p: &o.PerHost, least: 1}, "`N` requests to one host at a time"),
			flag("per-ip", ofCrawl, amount[int]{in: numbers, p: &o.PerIP, none: "no limit"}, "`N` requests at a time to one address, hosts that share it counted together"),
			flag("max-crawl-delay", ofRun, amount[time.Duration]{in: times, p: &o.MaxDelay, least: time.Millisecond}, "honour a Crawl-delay in robots.txt up to this `TIME`"),
			flag("max-wait", ofRun, amount[time.Duration]{in: times, p: &o.MaxWait, least: time.Millisecond}, "end when the next host may be asked only after this `TIME`, or when the proxy has failed for so long"),
			flag("retries", ofRun, amount[int]{in: numbers, p: &o.Retries, most: 10_000}, "ask `N` times more after passing faults of a URL, each after its back-off; 429, 503 and failures to connect count on its host"),
			flag("timeout", ofRun, amount[time.Duration]{in: times, p: &o.Timeout, least: time.Millisecond}, "the longest `TIME` for one request"),
			flag("first-byte", ofRun, amount[time.Duration]{in: times, p: &o.FirstByte, least: time.Millisecond, none: "as -timeout"}, "the longest `TIME` until an answer begins"),
			flag("min-rate", ofRun, amount[int64]{in: sizes, p: &o.MinRate, least: 1, none: "any"}, "give up an answer slower than this `SIZE` per second"),
			flag("limit-rate", ofCrawl, amount[int64]{in: sizes, p: &o.LimitRate, least: 1, none: "no limit"}, "at most this `SIZE` per second over all downloads"),
			userAgent(&o.UserAgent, "the `TEXT` of the header User-Agent; its first run of letters, - and _ is the name that is looked for in robots.txt"),
			flag("header", ofSecret, headers{&o.Header}, "a header `'K: V'`, sent to the seeds' origins (scheme, host, port) only; repeatable"),
			flag("user", ofSecret, text{&o.User}, "the user `NAME`, sent to the seeds' origins (scheme, host, port) only"),
			flag("password", ofSecret, text{&o.Password}, "the `PASSWORD` of -user; better in the environment, since other users see command lines"),
			flag("cookies", ofSecret, text{&f.cookies}, "a cookie `FILE` in Netscape format, for the seeds' hosts only; bad lines are reported and skipped"),
			flag("proxy", ofSecret, parsed[*url.URL]{&o.Proxy, parseProxy, "as http_proxy, https_proxy and no_proxy say"}, "the proxy `URL` for all requests"),
			flag("4", ofRun, toggle{&f.ipv4}, "use IPv4 only"),
			flag("6", ofRun, toggle{&f.ipv6}, "use IPv6 only"),
			flag("bind", ofSecret, parsed[netip.Addr]{&o.Bind, parseAddress, "any"}, "the local `ADDRESS` of connections"),
			flag("insecure", ofRun, toggle{&o.Insecure}, "accept any certificate, TLS from 1.0 on, and RSA key exchange"),
			flag("http1", ofRun, toggle{&o.HTTP1}, "ask by HTTP/1.1 alone, not by HTTP/2"),
			flag("allow-private", ofCrawl, toggle{&o.AllowPrivate}, "let links lead to loopback and private addresses; seeds may always"),
		}},
		{"What to print", []*option{
			flag("quiet", ofRun, toggle{&f.quiet}, "print errors only, and which dangerous options are kept from an earlier run: -robots ignore, -allow-private"),
			flag("verbose", ofRun, toggle{&f.verbose}, "print a line per outcome: URL, outcome, status, bytes, ms; also why requests failed, and each step of the end"),
			flag("log-format", ofRun, choice{&f.format, []string{"text", "json"}}, "the `FORMAT` of lines on standard error: text, or json: each line is an object, and durations are in milliseconds (_ms)"),
		}},
		f.listenGroup(),
		f.clusterGroup(),
		{"How much at a time", []*option{
			flag("crawlers", ofRun, amount[int]{in: numbers, p: &o.Crawlers, least: 1}, "`N` crawlers; crawler i uses buffer i mod -buffers"),
			flag("downloads", ofRun, amount[int]{in: numbers, p: &o.Downloads, least: 1}, "`N` downloads in flight per crawler"),
			flag("buffers", ofRun, amount[int]{in: numbers, p: &o.Buffers, least: 1}, "`N` buffers between crawlers and tree, each with its builder"),
			flag("buffer-size", ofRun, amount[int]{in: numbers, p: &o.BufferSize, least: 1}, "`N` items in a buffer"),
			flag("buffer-bytes", ofRun, amount[int64]{in: sizes, p: &o.BufferBytes, least: 1}, "the `SIZE` of the pages in a buffer"),
			flag("memory-bodies", ofRun, amount[int64]{in: sizes, p: &o.MemoryBodies, least: 64 << 10}, "the `SIZE` of pages between request and buffer"),
			flag("frontier-memory", ofRun, amount[int64]{in: sizes, p: &o.FrontierBytes, least: 64 << 10}, "the `SIZE` of memory for URLs that are next"),
			flag("seen-memory", ofRun, amount[int64]{in: sizes, p: &o.SeenBytes, least: 32 << 10}, "the `SIZE` of the filter of known URLs; beyond it the index is asked too"),
			flag("flush-interval", ofRun, amount[time.Duration]{in: times, p: &o.FlushInterval, least: time.Millisecond}, "the longest `TIME` an item waits in a buffer"),
			flag("min-free", ofRun, amount[int64]{in: sizes, p: &o.MinFree, word: "auto", none: "auto"}, "fetch only while the disk of the tree has this `SIZE` free; auto: what the buffers may still bring to it; 0: do not look"),
			flag("min-free-inodes", ofRun, amount[int64]{in: numbers, p: &o.MinFreeInodes, word: "auto", none: "auto"}, "fetch only while that disk has `N` inodes free, as -min-free"),
			flag("sync", ofRun, choice{&f.sync, []string{"full", "none"}}, "the `MODE` of writing; full: safe against power cuts; none: against kill -9 only"),
		}},
	}
}

// options returns the engine's options once the flags are read.
func (f *flags) options() crawler.Options {
	o := f.opts
	o.Retries = cmp.Or(o.Retries, -1)
	b := &o.Budgets
	for _, p := range []*int64{&b.Domain, &b.Host, &b.Prefix, &b.Query, &b.Repeat, &b.Depth, &b.MaxHeld} {
		*p = cmp.Or(*p, -1)
	}
	if o.Order != crawler.OrderPriority {
		o.ScoreBy, o.Queue, o.Queues = "", "", 0
	}
	if !f.shares() {
		o.RecrawlShare = 0
	}
	o.Store, o.WARC.Plain, o.WARC.NoRevisit = crawler.Store(f.store), f.compression == "none", !f.revisit
	o.NoSync, o.NoSitemaps = f.sync == "none", !f.sitemaps
	o.IgnoreRobots, o.NoFollow, o.CutLarge = f.robots == "ignore", crawler.NoFollow(f.nofollow), f.oversize == "cut"
	if o.Strip = f.strip; !o.Assets || !slices.Equal(f.accept, crawler.DefaultAccept) {
		o.Accept = f.accept
	}
	switch {
	case f.ipv4:
		o.Network = crawler.NetworkIPv4
	case f.ipv6:
		o.Network = crawler.NetworkIPv6
	}
	switch {
	case f.depth == 0:
		o.SeedsOnly = true
	case f.depth > 0:
		o.MaxDepth = f.depth
	}
	return o
}

// shares reports whether the order leaves stored pages a share: those of tree and supersteps have
// their own.
func (f *flags) shares() bool { return f.opts.Order != crawler.OrderTree && f.opts.Step == 0 }

// check refuses flags that are set, be it by the environment, and have no effect beside the others.
func (f *flags) check() error {
	if f.opts.RecrawlMin > f.opts.RecrawlMax {
		return usagef("-recrawl-min is %s, and -recrawl-max only %s", words.Duration(f.opts.RecrawlMin), words.Duration(f.opts.RecrawlMax))
	}
	for _, name := range []string{"recrawl-min", "recrawl-max"} {
		if f.isSet(name) && f.opts.Recrawl != crawler.RecrawlAuto {
			return usagef("-%s is for -recrawl auto", name)
		}
	}
	if f.isSet("recrawl-share") && f.opts.RecrawlShare > 0 && !f.shares() {
		return usagef("-recrawl-share is not for -order tree or -bsp")
	}
	for _, name := range []string{"score", "queue", "queues"} {
		if f.isSet(name) && f.opts.Order != crawler.OrderPriority {
			return usagef("-%s is for -order priority, and the order is %s", name, f.opts.Order)
		}
	}
	switch {
	case f.opts.Step == 0 && f.opts.StepTime != 0:
		return usagef("-bsp-step is for a crawl in supersteps, which -bsp makes of it")
	case f.opts.Step > 0 && f.opts.Order == crawler.OrderTree:
		return usagef("-bsp takes the first URLs of a queue, and -order tree has none: choose another order")
	case f.opts.Step > 0 && f.opts.SkipDuplicates:
		return usagef("-skip-duplicates keeps the page that comes first, on which nothing may depend with -bsp: leave one of them out")
	case f.ipv4 && f.ipv6:
		return usagef("-4 or -6, not both: without them both are used")
	case f.opts.User != "" && f.opts.Password == "":
		return usagef("-user needs -password as well")
	case f.opts.Password != "" && f.opts.User == "":
		return usagef("-password needs -user as well")
	}
	if err := f.listen.check(); err != nil {
		return err
	}
	return f.checkCluster()
}
