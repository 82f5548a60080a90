package crawler

import (
	"sync/atomic"

	"urltree/buffer"
	"urltree/internal/frontier"
	"urltree/iut"
)

// A crawler takes loans from the frontier, works on several at a time, and puts what came of each
// URL into its buffer. The files have the story of a URL in this order: take.go, fetch.go with
// pages.go, sitemap.go and robots.go, outcome.go, parse.go, put.go.
//
// Owner: its own goroutine has the stack of loans; each loan is one goroutine's while it is worked
// on, and always ends with Frontier.Return.
type crawler struct {
	opts        *Options
	lastUnclean uint32 // rows of runs up to this one may have their page in the tree

	ends     *ends
	store    *stores
	rules    *rules
	network  *network
	frontier *frontier.Frontier
	places   *places
	limit    *pageLimit
	check    *finalCheck
	measured *measured

	number int // from 1
	buf    *buffer.Buffer[*iut.Item]
	turn   <-chan struct{} // closed when its items may go into the buffer; nil: at any time
	batch  queue           // URLs taken, and URLs done or given back
	flying atomic.Int64
}

// newCrawler returns one of the crawlers of a run.
func (e *engine) newCrawler(number int, buf *buffer.Buffer[*iut.Item]) *crawler {
	return &crawler{
		opts: &e.opts, lastUnclean: e.begun.lastUnclean,
		ends: &e.ends, store: &e.store, rules: &e.rules, network: &e.network, frontier: e.frontier,
		places: &e.places, limit: &e.limit, check: &e.check, measured: &e.measured,
		number: number, buf: buf,
	}
}
