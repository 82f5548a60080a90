// Package testweb is a web made from a number, with the right answer known: bodies, statuses, links
// and delays are pure functions of the options and the URL, so what a full crawl must find can be
// told without crawling. It serves loopback addresses only.
//
// The pages are numbered. The roots of the first hosts are the seeds; every other page is linked by
// exactly one other, its parent, which has a lower number. In a [Tree] there are no other links, so
// that a single lost URL shows. [Linked] adds links that favour low numbers, as a power law.
// [Changing] is a tree whose pages answer in another way when they are asked again.
//
// A hidden page has no parent: only a sitemap of its host names it.
//
// A redirect has one child, its target. Pages that fail or that a crawler refuses have none.
package testweb

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A Kind says how pages are linked.
type Kind uint8

const (
	Linked   Kind = iota // a tree and links that favour few pages
	Tree                 // one way to each page
	Changing             // a tree; each further answer of a page differs from its first
)

const (
	// maxSeeds is how many hosts are named by Seeds; the others are found by links.
	maxSeeds = 10
	// recent is how many of the last possible parents most pages choose from: it makes trees deep.
	recent = 64
)

// Options say what web to make. Shares are of all pages, between 0 and 1, and together at most 1.
type Options struct {
	Kind  Kind
	Hosts int // 0: 1
	Pages int // of all hosts together, at least one each; 0: 100
	Seed  uint64

	MinSize int // bytes of an HTML body, at least what its links take; 0: 2 KiB
	MaxSize int // 0: 30 KiB
	Links   int // of a page of Linked, beside those to its children; 0: 5 to 24

	Latency time.Duration // before each answer
	Slow    float64       // share of pages that take ten times Latency
	Drips   float64       // share of pages whose body comes in eight pieces, with Latency between them
	Flaky   float64       // share of pages that reset the connection when they are asked for the first time

	Redirects float64 // share that answers 302 to a page that nobody else links to
	Errors    float64 // share that fails: a third each 404, 500, connection reset
	Texts     float64 // share of text/plain, stored but without links
	Twins     float64 // share of the texts whose body is one of three
	Images    float64 // share of image/png, refused by type
	NoIndex   float64 // share that asks not to be kept and has links of its own
	Private   float64 // share that robots.txt forbids
	Hidden    float64 // share of HTML pages that only sitemaps name
}

// What a page is. Only plain and noindex pages have links; they are the parents.
type class uint8

const (
	plain class = iota
	noIndex
	redirect
	notFound
	broken
	reset
	text
	image
	private
	hidden // while a page is drawn; then it is plain
)

// A Web is a made-up web. Between New and Start its origins have no port.
type Web struct {
	opts     Options
	classes  []class
	parent   []int32 // -1 for seeds
	children [][]int32
	unlinked [][]int32 // hidden pages by host
	filler   []byte

	port   int
	hostOf map[string]int // by name
	server *http.Server
	serves sync.WaitGroup

	asked  []atomic.Int32 // requests by page
	robots []atomic.Int32 // requests for robots.txt by host
	mu     sync.Mutex
	other  map[string]int // guarded by mu; requests for what is no page
	maps   map[string]int // guarded by mu; requests for sitemaps, by URL
}

// New makes the web. The same options give the same web, whatever the port.
func New(opts Options) *Web {
	opts.Hosts = max(1, opts.Hosts)
	if opts.Pages == 0 {
		opts.Pages = 100
	}
	opts.Pages = max(opts.Pages, opts.Hosts)
	if opts.MinSize == 0 {
		opts.MinSize = 2 << 10
	}
	if opts.MaxSize == 0 {
		opts.MaxSize = 30 << 10
	}
	opts.MaxSize = max(opts.MinSize, opts.MaxSize)
	w := &Web{
		opts:     opts,
		classes:  make([]class, opts.Pages),
		parent:   make([]int32, opts.Pages),
		children: make([][]int32, opts.Pages),
		unlinked: make([][]int32, opts.Hosts),
		filler:   makeFiller(opts.Seed, max(opts.MaxSize, imageSize)+fillerSpan),
		hostOf:   make(map[string]int, opts.Hosts),
		asked:    make([]atomic.Int32, opts.Pages),
		robots:   make([]atomic.Int32, opts.Hosts),
		other:    make(map[string]int),
		maps:     make(map[string]int),
	}
	for h := range opts.Hosts {
		w.hostOf[hostName(h)] = h
	}
	w.plant()
	return w
}

// plant sets the class and the parent of each page, in the order of the numbers.
func (w *Web) plant() {
	var waiting []int32 // redirects that have no target yet
	var parents []int32 // pages that may have links
	for n := range int32(w.opts.Pages) {
		r := newRandom(w.opts.Seed, uint64(n), 'p')
		w.parent[n] = -1
		if int(n) >= w.opts.Hosts {
			w.classes[n] = w.draw(&r)
		}
		if w.classes[n] == hidden {
			w.classes[n] = plain
			h := w.hostNumber(int(n))
			w.unlinked[h] = append(w.unlinked[h], n)
		} else if int(n) >= w.seeds() {
			if len(waiting) > 0 && w.classes[n] != redirect {
				w.parent[n], waiting = waiting[0], waiting[1:]
			} else {
				from := 0
				if r.below(8) != 0 {
					from = max(0, len(parents)-recent)
				}
				w.parent[n] = parents[from+r.below(len(parents)-from)]
			}
			w.children[w.parent[n]] = append(w.children[w.parent[n]], n)
		}
		switch w.classes[n] {
		case redirect:
			waiting = append(waiting, n)
		case plain, noIndex:
			parents = append(parents, n)
		}
	}
	for _, n := range waiting {
		w.classes[n] = text // no page was left for it to point at
	}
}

func (w *Web) draw(r *random) class {
	u := r.float()
	for _, share := range []struct {
		of float64
		is class
	}{
		{w.opts.Redirects, redirect},
		{w.opts.Errors / 3, notFound},
		{w.opts.Errors / 3, broken},
		{w.opts.Errors / 3, reset},
		{w.opts.Texts, text},
		{w.opts.Images, image},
		{w.opts.NoIndex, noIndex},
		{w.opts.Private, private},
		{w.opts.Hidden, hidden},
	} {
		if u < share.of {
			return share.is
		}
		u -= share.of
	}
	return plain
}

func (w *Web) seeds() int { return min(w.opts.Hosts, maxSeeds) }

// Start listens on one port of one loopback address for each host. Port 0: any free port.
func (w *Web) Start(port int) error {
	if w.server != nil {
		return errors.New("testweb: started twice")
	}
	var listeners []net.Listener
	for h := range w.opts.Hosts {
		l, err := net.Listen("tcp", net.JoinHostPort(hostName(h), strconv.Itoa(port)))
		if err != nil {
			for _, l := range listeners {
				l.Close()
			}
			return fmt.Errorf("testweb: %w", err)
		}
		listeners = append(listeners, l)
		port = l.Addr().(*net.TCPAddr).Port
	}
	w.port = port
	w.server = &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.serve(rw, r, r.Host)
	})}
	for _, l := range listeners {
		w.serves.Go(func() { _ = w.server.Serve(l) })
	}
	return nil
}

// Stop closes all listeners and connections. What was asked stays known.
func (w *Web) Stop() {
	if w.server == nil {
		return
	}
	_ = w.server.Close()
	w.serves.Wait()
}

// Handler serves one host, such as "127.1.0.1", whatever the Host header says.
func (w *Web) Handler(host string) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { w.serve(rw, r, host) })
}

// Seeds returns the URLs to start from: the roots of at most ten hosts.
func (w *Web) Seeds() []string {
	var urls []string
	for n := range w.seeds() {
		urls = append(urls, w.url(n))
	}
	return urls
}

// Requests returns how often each URL was asked for, without robots.txt and sitemaps, and without
// those never asked for.
func (w *Web) Requests() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := maps.Clone(w.other)
	for n := range w.asked {
		if times := w.asked[n].Load(); times > 0 {
			m[w.url(n)] = int(times)
		}
	}
	return m
}

// Asked returns the number of pages that were asked for.
func (w *Web) Asked() (n int) {
	for i := range w.asked {
		if w.asked[i].Load() > 0 {
			n++
		}
	}
	return n
}

// Robots returns how often the robots.txt of each origin was asked for.
func (w *Web) Robots() map[string]int {
	m := make(map[string]int)
	for h := range w.robots {
		if times := w.robots[h].Load(); times > 0 {
			m[w.origin(h)] = int(times)
		}
	}
	return m
}

// Sitemaps returns how often each sitemap was asked for, there or not.
func (w *Web) Sitemaps() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.maps)
}

// Reset forgets all requests; so a [Changing] web gives first answers again.
func (w *Web) Reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.other)
	clear(w.maps)
	for n := range w.asked {
		w.asked[n].Store(0)
	}
	for h := range w.robots {
		w.robots[h].Store(0)
	}
}

// An Answer is what a full crawl comes to that asks each URL until it has an answer: first answers
// count.
type Answer struct {
	Stored     []string          // sorted
	Redirected map[string]string // to its target
	Failed     map[string]string // "404", "500" or "reset"
	Refused    map[string]string // "robots", "type" or "noindex"
}

// Answer follows the links from the seeds, and the sitemaps of each host of which a page is known.
func (w *Web) Answer() Answer {
	a := Answer{
		Redirected: make(map[string]string),
		Failed:     make(map[string]string),
		Refused:    make(map[string]string),
	}
	known := make([]bool, w.opts.Pages)
	reached := make([]bool, w.opts.Hosts)
	var todo []int
	for n := range w.seeds() {
		known[n] = true
		todo = append(todo, n)
	}
	for len(todo) > 0 {
		n := todo[0]
		todo = todo[1:]
		if h := w.hostNumber(n); !reached[h] {
			reached[h] = true
			for _, m := range w.unlinked[h] {
				known[m] = true
				todo = append(todo, int(m))
			}
		}
		url := w.url(n)
		switch w.classes[n] {
		case plain, text:
			a.Stored = append(a.Stored, url)
		case redirect:
			a.Redirected[url] = w.url(int(w.children[n][0]))
		case notFound:
			a.Failed[url] = "404"
		case broken:
			a.Failed[url] = "500"
		case reset:
			a.Failed[url] = "reset"
		case image:
			a.Refused[url] = "type"
		case noIndex:
			a.Refused[url] = "noindex"
		case private:
			a.Refused[url] = "robots"
		}
		for _, m := range w.links(n) {
			if !known[m] {
				known[m] = true
				todo = append(todo, m)
			}
		}
	}
	slices.Sort(a.Stored)
	return a
}

// Body returns the first body of a URL that answers 2xx, or nil.
func (w *Web) Body(url string) []byte {
	rest, ok := strings.CutPrefix(url, "http://")
	if !ok {
		return nil
	}
	host, path, _ := strings.Cut(rest, "/")
	n, ok := w.find(host, "/"+path)
	if !ok {
		return nil
	}
	switch w.classes[n] {
	case plain, noIndex, private, text, image:
		return w.body(nil, n, first)
	}
	return nil
}

// find returns the page of a host, with or without its port, and a path with its query.
func (w *Web) find(host, path string) (n int, ok bool) {
	h, ok := w.host(host)
	if !ok {
		return 0, false
	}
	if path == "/" {
		return h, true
	}
	number := path
	if i := strings.LastIndexAny(path, "-="); i >= 0 {
		number = path[i+1:]
	}
	number = strings.TrimRight(number, "/.abcdefghijklmnopqrstuvwxyz")
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 || n >= w.opts.Pages || w.hostNumber(n) != h {
		return 0, false
	}
	return n, string(w.appendPath(nil, n)) == path
}

func (w *Web) host(name string) (h int, ok bool) {
	if host, _, err := net.SplitHostPort(name); err == nil {
		name = host
	}
	h, ok = w.hostOf[name]
	return h, ok
}

func (w *Web) hostNumber(n int) int { return n % w.opts.Hosts }

// hostName returns the address of host h: 127.1.0.1 and on.
func hostName(h int) string {
	h++
	return fmt.Sprintf("127.%d.%d.%d", 1+h>>16, h>>8&255, h&255)
}

func (w *Web) origin(h int) string {
	if w.port == 0 || w.port == 80 {
		return "http://" + hostName(h)
	}
	return "http://" + hostName(h) + ":" + strconv.Itoa(w.port)
}

func (w *Web) url(n int) string {
	return w.origin(w.hostNumber(n)) + string(w.appendPath(nil, n))
}

// in reports whether page n is one of a share; each purpose has shares of its own.
func (w *Web) in(share float64, n int, purpose byte) bool {
	r := newRandom(w.opts.Seed, uint64(n), purpose)
	return r.float() < share
}

// pause waits for the latency of page n, or until the client is gone.
func (w *Web) pause(ctx context.Context, n int) {
	d := w.opts.Latency
	if w.in(w.opts.Slow, n, 's') {
		d *= 10
	}
	wait(ctx, d)
}

// wait waits for a time, or until the client is gone.
func wait(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
