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

// flag makes one flag, with its environment variable.
func flag(name string, value cli.Generic, usage string) cli.Flag {
	return &cli.GenericFlag{
		Name: name, Value: value, Usage: usage, DefaultText: value.String(),
		EnvVars: []string{"URLTREE_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))},
	}
}

func (f *flags) tree() cli.Flag {
	if f.opts.Tree == "" {
		f.opts.Tree = "iut"
	}
	return flag("tree", text{&f.opts.Tree}, "the folder of the tree")
}

func (f *flags) output() cli.Flag {
	if f.opts.Output == "" {
		f.opts.Output = "res.txt"
	}
	return flag("output", text{&f.opts.Output}, "the result `FILE`; res2.txt, statistics.txt and hourly_statistics.txt lie beside it")
}

// crawl gives the flags of the crawl command.
func (f *flags) crawl() []cli.Flag {
	o := &f.opts
	f.scope, f.sync, f.format, f.depth = "any", "full", "text", -1
	f.buffers, f.size, f.crawlers, f.downloads, f.perHost = 6, 1000, 12, 4, 1
	o.BufferBytes, o.FlushInterval, o.MaxSize, o.Timeout = 16<<20, time.Second, 16<<20, 30*time.Second
	o.MemoryBodies, o.FrontierBytes, o.SeenBytes = 64<<20, 64<<20, 256<<20
	o.UserAgent = "urltree/" + crawler.Version
	return []cli.Flag{
		flag("time", duration{p: &o.Time, least: time.Millisecond, zero: "until nothing is left"}, "fetch for so long, then finish: 90s, 10h"),
		flag("input", text{&f.input}, "the seed `FILE`, one URL a line; - reads standard input; may be missing when the tree has URLs to do"),
		f.output(),
		f.tree(),
		flag("scope", choice{&f.scope, []string{"any", "domain", "host", "prefix"}}, "which links to follow, relative to the seeds: `any, domain, host, prefix` (below the seed's folder)"),
		flag("include", patterns{&o.Include}, "follow only URLs that match this `RE2` (one of them, if given several times); seeds are exempt"),
		flag("exclude", patterns{&o.Exclude}, "do not follow URLs that match this `RE2`; seeds are exempt"),
		flag("max-depth", number{p: &f.depth, least: 0, zero: "0"}, "hold URLs more than `N` links from a seed, by the way that found them first (default: no limit)"),
		flag("max-pages", number{p: &o.MaxPages, zero: "no limit"}, "store at most `N` pages in this run"),
		flag("max-bytes", size{p: &o.MaxBytes, least: 1, zero: "no limit"}, "stop when so many bytes are stored in this run"),
		flag("max-size", size{p: &o.MaxSize, least: 1}, "refuse a page that is larger"),
		flag("timeout", duration{p: &o.Timeout, least: time.Millisecond}, "the longest time for one request"),
		flag("delay", duration{p: &o.Delay, word: "auto", zero: "auto"}, "between two requests to a host; auto: 5 times its answer time, 100ms to 30s"),
		flag("per-host", number{p: &f.perHost, least: 1}, "requests to one host at a time"),
		flag("user-agent", text{&o.UserAgent}, "who we say we are; its first run of letters, - and _ is looked for in robots.txt"),
		flag("header", headers{&o.Header}, "a header `'K: V'` for the seeds' hosts (may be repeated)"),
		flag("user", text{&o.User}, "user name for the seeds' hosts"),
		flag("password", text{&o.Password}, "and the password"),
		flag("cookies", text{&f.cookies}, "a cookie `FILE` in Netscape format, for the seeds' hosts"),
		flag("limit-rate", size{p: &o.LimitRate, least: 1, zero: "no limit"}, "bytes per second over all downloads"),
		flag("proxy", proxy{&o.Proxy}, "the proxy `URL` for all requests (default: as http_proxy, https_proxy, no_proxy say)"),
		flag("allow-private", toggle{&o.AllowPrivate}, "let links lead to loopback and private addresses"),
		flag("buffers", number{p: &f.buffers, least: 1}, "buffers between crawlers and tree, each with its builder"),
		flag("buffer-size", number{p: &f.size, least: 1}, "items in a buffer"),
		flag("buffer-bytes", size{p: &o.BufferBytes, least: 1}, "bytes of pages in a buffer"),
		flag("crawlers", number{p: &f.crawlers, least: 1}, "crawlers; crawler i uses buffer i mod -buffers"),
		flag("downloads", number{p: &f.downloads, least: 1}, "downloads in flight per crawler"),
		flag("memory-bodies", size{p: &o.MemoryBodies, least: 64 << 10}, "memory for pages between request and buffer"),
		flag("frontier-memory", size{p: &o.FrontierBytes, least: 64 << 10}, "memory for URLs that are next to be asked"),
		flag("seen-memory", size{p: &o.SeenBytes, least: 1 << 20}, "memory for the filter of known URLs; beyond it the index is asked"),
		flag("flush-interval", duration{p: &o.FlushInterval, least: time.Millisecond}, "the longest time a page waits in a buffer: what kill -9 makes us ask again"),
		flag("sync", choice{&f.sync, []string{"full", "none"}}, "`full`: safe against power cuts; none: against kill -9 only"),
		flag("quiet", toggle{&f.quiet}, "print errors only"),
		flag("verbose", toggle{&f.verbose}, "print a line per outcome: URL, outcome, status, bytes, ms"),
		flag("log-format", choice{&f.format, []string{"text", "json"}}, "of log lines on standard error: `text or json`"),
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
