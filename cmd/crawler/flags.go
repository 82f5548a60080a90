package main

import (
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"urltree/crawler"
)

// flags are the flags of the crawl command, with what they came to.
type flags struct {
	opts    crawler.Options
	input   string
	cookies string
	scope   string
	sync    string
	format  string
	depth   int64 // -1: no limit
	quiet   bool
	verbose bool

	buffers, size, crawlers, downloads, perHost int64
}

// flag makes one flag, with its environment variable. The word of usage in backquotes stands for
// the value in the help text.
func flag(name string, value cli.Generic, usage string) cli.Flag {
	f := plainFlag(name, value, usage)
	f.EnvVars = []string{envOf(name)}
	return f
}

// plainFlag makes a flag of a subcommand that no environment variable sets.
func plainFlag(name string, value cli.Generic, usage string) *cli.GenericFlag {
	return &cli.GenericFlag{Name: name, Value: value, Usage: usage, DefaultText: value.String()}
}

func envOf(name string) string {
	return "URLTREE_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

func (f *flags) tree() cli.Flag {
	if f.opts.Tree == "" {
		f.opts.Tree = "iut"
	}
	return flag("tree", text{&f.opts.Tree}, "the `FOLDER` of the tree")
}

func (f *flags) output() cli.Flag {
	if f.opts.Output == "" {
		f.opts.Output = "res.txt"
	}
	return flag("output", text{&f.opts.Output}, "the result `FILE`; res2.txt, statistics.txt and hourly_statistics.txt lie beside it")
}

// crawl gives the flags of the crawl command, in groups for the help text.
func (f *flags) crawl() []group {
	o := &f.opts
	f.scope, f.sync, f.format, f.depth = "any", "full", "text", -1
	f.buffers, f.size, f.crawlers, f.downloads, f.perHost = 6, 1000, 12, 4, 1
	o.BufferBytes, o.FlushInterval, o.MaxSize, o.Timeout = 16<<20, time.Second, 16<<20, 30*time.Second
	o.MemoryBodies, o.FrontierBytes, o.SeenBytes = 64<<20, 64<<20, 256<<20
	o.UserAgent = "urltree/" + crawler.Version
	return []group{
		{"Seeds, time and files", []cli.Flag{
			flag("time", duration{p: &o.Time, least: time.Millisecond, zero: "until nothing is left"}, "fetch for this `TIME`, then finish: 90s, 10h"),
			flag("input", text{&f.input}, "the seed `FILE`, one URL a line, - for standard input; not needed when the tree has URLs to do"),
			f.output(),
			f.tree(),
		}},
		{"What to fetch", []cli.Flag{
			flag("scope", choice{&f.scope, []string{"any", "domain", "host", "prefix"}}, "which links to follow, a `SCOPE`: any; domain or host: those of a seed; prefix: its host, below its folder"),
			flag("include", patterns{&o.Include}, "follow only URLs that match this `RE2`, or one of them; seeds are exempt; repeatable"),
			flag("exclude", patterns{&o.Exclude}, "do not follow URLs that match this `RE2`; seeds are exempt; repeatable"),
			flag("max-depth", number{p: &f.depth, least: 0, unset: -1, none: "no limit"}, "hold URLs more than `N` links from a seed, by the way that found them first"),
			flag("max-pages", number{p: &o.MaxPages, least: 1, none: "no limit"}, "store at most `N` pages in this run"),
			flag("max-bytes", size{p: &o.MaxBytes, least: 1, zero: "no limit"}, "stop once pages of this `SIZE` in all are stored in this run: 500MB, 2GiB"),
			flag("max-size", size{p: &o.MaxSize, least: 1}, "refuse a page of more than this `SIZE`"),
		}},
		{"How to ask", []cli.Flag{
			flag("delay", duration{p: &o.Delay, word: "auto", zero: "auto"}, "the `TIME` between two requests to a host; auto: 5 times its answer time, 100ms to 30s; longer where robots.txt or the server says so"),
			flag("per-host", number{p: &f.perHost, least: 1}, "`N` requests to one host at a time"),
			flag("timeout", duration{p: &o.Timeout, least: time.Millisecond}, "the longest `TIME` for one request"),
			flag("limit-rate", size{p: &o.LimitRate, least: 1, zero: "no limit"}, "at most this `SIZE` per second over all downloads"),
			flag("user-agent", text{&o.UserAgent}, "who we say we are; the first run of letters, - and _ in this `TEXT` is looked for in robots.txt"),
			flag("header", headers{&o.Header}, "a header `'K: V'`, sent to the seeds' hosts only; repeatable"),
			flag("user", text{&o.User}, "the user `NAME`, sent to the seeds' hosts only"),
			flag("password", text{&o.Password}, "and the `PASSWORD`"),
			flag("cookies", text{&f.cookies}, "a cookie `FILE` in Netscape format, for the seeds' hosts only"),
			flag("proxy", proxy{&o.Proxy}, "the proxy `URL` for all requests"),
			flag("allow-private", toggle{&o.AllowPrivate}, "let links lead to loopback and private addresses; seeds may always"),
		}},
		{"What to print", []cli.Flag{
			flag("quiet", toggle{&f.quiet}, "print errors only"),
			flag("verbose", toggle{&f.verbose}, "print a line per outcome: URL, outcome, status, bytes, ms"),
			flag("log-format", choice{&f.format, []string{"text", "json"}}, "the `FORMAT` of log lines on standard error: text or json"),
		}},
		{"How much at a time", []cli.Flag{
			flag("crawlers", number{p: &f.crawlers, least: 1}, "`N` crawlers; crawler i uses buffer i mod -buffers"),
			flag("downloads", number{p: &f.downloads, least: 1}, "`N` downloads in flight per crawler"),
			flag("buffers", number{p: &f.buffers, least: 1}, "`N` buffers between crawlers and tree, each with its builder"),
			flag("buffer-size", number{p: &f.size, least: 1}, "`N` items in a buffer"),
			flag("buffer-bytes", size{p: &o.BufferBytes, least: 1}, "the `SIZE` of the pages in a buffer"),
			flag("memory-bodies", size{p: &o.MemoryBodies, least: 64 << 10}, "the `SIZE` of pages between request and buffer"),
			flag("frontier-memory", size{p: &o.FrontierBytes, least: 64 << 10}, "the `SIZE` of memory for URLs that are next"),
			flag("seen-memory", size{p: &o.SeenBytes, least: 1 << 20}, "the `SIZE` of the filter of known URLs; beyond it the index is asked too"),
			flag("flush-interval", duration{p: &o.FlushInterval, least: time.Millisecond}, "the longest `TIME` an item waits in a buffer"),
			flag("sync", choice{&f.sync, []string{"full", "none"}}, "the `MODE` of writing; full: safe against power cuts; none: against kill -9 only"),
		}},
	}
}

// options gives the engine's options once the flags are read.
func (f *flags) options() crawler.Options {
	o := f.opts
	o.Buffers, o.BufferSize, o.Crawlers = int(f.buffers), int(f.size), int(f.crawlers)
	o.Downloads, o.PerHost = int(f.downloads), int(f.perHost)
	o.NoSync = f.sync == "none"
	switch {
	case f.depth == 0:
		o.MaxDepth = -1
	case f.depth > 0:
		o.MaxDepth = int(f.depth)
	}
	return o
}
