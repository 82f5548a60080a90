package crawler

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"sync"
	"time"

	"urltree/internal/captures"
	"urltree/internal/fetch"
	"urltree/internal/warc"
	"urltree/iut"
	"urltree/storage"
	"urltree/storage/record"
)

// errImported ends a run with Options.Archives.
var errImported = errors.New("all archives read")

// Imported says what became of what stands in the archives of a run.
type Imported struct {
	Captures int64             // that brought an outcome in this run
	There    int64             // of URLs that had their outcome, by a capture before or by an earlier run
	ToAsk    int64             // of servers that failed, 429 or 5xx: a crawl asks for their URLs
	Outside  int64             // of URLs that do not belong to the crawl by its options
	Lost     int64             // revisits whose body is in none of the files, nor in the tree
	Passed   int64             // records that are no answer to a request for a page
	Damaged  []captures.Damage // files that were not read to their end
	All      bool              // nothing ended the run before all files were read
}

// importing is what a run with Options.Archives does in place of fetching: it reads the archives
// once to learn which of their URLs are seeds and where the bodies of revisits are, then once more,
// and brings each capture to its outcome. The frontier lends nothing; new URLs stay pending.
//
// One goroutine reads, in the order of the files. Captures are parsed at the same time, as many as
// there are parse workers, and go into the one buffer in that order again: so a tree depends on its
// archives alone, and a kill changes nothing. Whoever waits for a turn has a parse worker, and gets
// that in the order of turns, so the first of those that wait never waits for another.
type importing struct {
	e      *engine
	files  *captures.Files
	scan   *captures.Scan
	client *fetch.Client
	jobs   sync.WaitGroup
	last   chan struct{} // closed when the latest capture is in the buffer
	report Imported      // the reader's

	mu     sync.Mutex
	flying map[string]flight // guarded by mu; URLs on their way to a commit
}

// A flight is what is known of a URL whose outcome is on its way.
type flight struct {
	source string
	depth  uint32
}

// openArchives looks at the archives, before anything is made.
func (o *Options) openArchives() (*importing, error) {
	if len(o.Archives) == 0 {
		return nil, nil
	}
	files, err := captures.Open(o.Archives)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOptions, err)
	}
	last := make(chan struct{})
	close(last)
	return &importing{files: files, last: last, flying: map[string]flight{}}, nil
}

// checkArchives says what is wrong with options beside Archives. An import has one buffer, for its
// order.
func (o *Options) checkArchives() error {
	if len(o.Archives) == 0 {
		return nil
	}
	if name := o.firstSet("NoTree", "Fetch"); name != "" {
		return fmt.Errorf("%w: Archives fill a tree: %s must be unset", ErrOptions, name)
	}
	o.Crawlers, o.Buffers = 1, 1
	return nil
}

// scanArchives reads the archives for the first time, and appends to seeds.txt those of their URLs
// that are seeds and have no record.
func (e *engine) scanArchives(ctx context.Context) (err error) {
	i := e.importing
	if i == nil {
		return nil
	}
	i.e = e
	told := time.Now()
	i.scan, err = i.files.Scan(ctx, func(c *captures.Capture) (string, bool) {
		if e.opts.Progress != nil && time.Since(told) >= time.Second {
			p := Progress{Phase: "scan"}
			p.Read, p.Size = i.files.Progress()
			told = time.Now()
			e.opts.Progress(p)
		}
		url := i.url(c)
		return url, url != "" && i.originOf(c, url).isSeed()
	})
	if err != nil {
		return err
	}
	return e.addSeedList(ctx, func(yield func(string, error) bool) {
		for url, err := range i.scan.Seeds() {
			if err == nil {
				if _, err = e.store.index.Record(url); err == nil {
					continue
				}
				if isAbsent(err) {
					err = nil
				}
			}
			if !yield(url, err) {
				return
			}
		}
	})
}

// isAbsent reports whether an error says that the index has no record that can be read.
func isAbsent(err error) bool {
	return errors.Is(err, storage.ErrNotFound) || errors.Is(err, record.ErrCorrupt) || errors.Is(err, record.ErrKey)
}

// startImporting starts the reader.
func (e *engine) startImporting(p *pipeline) {
	i := e.importing
	i.client = fetch.New(fetch.Options{
		MaxSize: e.opts.MaxSize, Bodies: fetch.NewBudget(e.opts.MemoryBodies),
		Temp: func() (fetch.Temp, error) { return e.store.tree.Temp(nil) },
		Wire: e.store.tree.Format().Store == iut.StoreWARC, All: e.opts.WARC.All,
	})
	e.startIn(&p.crawlers, i.run)
	e.startIn(&p.others, func() error { return e.fillFilter(e.ends.fetching) })
}

// run imports until all archives are read or fetching stops. An error ends the run.
func (i *importing) run() error {
	defer i.client.Close()
	defer i.jobs.Wait()
	others, err := i.files.Each(i.e.ends.fetching, i.capture, func(d captures.Damage) {
		i.report.Damaged = append(i.report.Damaged, d)
	})
	i.report.Passed += others
	switch {
	case i.e.ends.fetching.Err() != nil:
		return nil
	case err != nil:
		return err
	}
	i.jobs.Wait()
	i.report.All = true
	i.e.ends.stop(errImported)
	return nil
}

// close releases what the first pass has left.
func (i *importing) close() error {
	if i == nil || i.scan == nil {
		return nil
	}
	return i.scan.Close()
}

// An arrival is a capture that was read.
type arrival struct {
	row   record.Row
	known bool // the index has the URL, pending
	at    time.Time
	res   *fetch.Response // nil: err is why
	err   error
}

// capture brings a capture to its outcome in the buffer, if it brings one.
func (i *importing) capture(r *captures.Reader, c *captures.Capture) error {
	e := i.e
	if !e.network.pause.wait(e.ends.fetching, func() bool { return true }) {
		return context.Cause(e.ends.fetching)
	}
	url := i.url(c)
	if url == "" {
		i.report.Passed++
		return r.Rest(c)
	}
	a := arrival{at: c.Time}
	there, err := i.find(url, &a)
	if err != nil {
		return err
	}
	if there {
		i.report.There++
		return r.Rest(c)
	}
	from, ok, err := i.read(c, url, &a)
	if err == nil {
		err = r.Rest(c) // a capture that is not whole is none
	}
	if from != nil {
		err = errors.Join(err, from.Close())
	}
	switch {
	case err != nil:
	case !ok:
		i.report.Lost++
		e.opts.Log.Warn("skipped a revisit: its body is in none of the archives, nor in the tree", "url", url, "digest", c.Digest)
	default:
		ok, err = i.admit(c, url, &a)
	}
	if err != nil || !ok {
		a.release()
		return err
	}
	return i.start(&a)
}

func (a *arrival) release() {
	if a.res != nil {
		a.res.Body.Release()
	}
}

// find reports whether a URL has its outcome, or is on its way to one. If it is pending, a has its
// row.
func (i *importing) find(url string, a *arrival) (there bool, err error) {
	i.mu.Lock()
	_, there = i.flying[url]
	i.mu.Unlock()
	if there {
		return true, nil
	}
	rec, err := i.e.store.index.Record(url)
	switch {
	case err == nil && rec.State != record.Pending:
		return true, nil
	case err == nil:
		a.row, a.known = rec.Row, true
	case isAbsent(err):
		err = nil
	}
	return false, err
}

// take reads the answer of a capture.
func (i *importing) take(c *captures.Capture, answer *http.Response, a *arrival) error {
	w := i.e.crawlers[0]
	a.res, a.err = i.client.Take(i.e.ends.transfers, answer,
		&fetch.Wire{Head: c.Head, Protocol: c.Protocol, Addr: c.Peer, Sent: c.Time},
		fetch.Request{Wants: w.wants, Looks: w.looks, KeepLarge: i.e.opts.CutLarge, KeepBroken: true})
	switch {
	case a.err == nil:
		if c.Head == nil && c.Kind == warc.Resource {
			a.res.Wire = nil // there was no answer
		}
		return nil
	case i.e.ends.transfers.Err() != nil:
		return a.err
	case errors.Is(a.err, fetch.ErrDisk):
		return fmt.Errorf("%w: body of %s: %w", iut.ErrDisk, c.URL, a.err)
	}
	return nil
}

// admit completes the row of a capture that was read, and reports whether it brings an outcome.
func (i *importing) admit(c *captures.Capture, url string, a *arrival) (ok bool, err error) {
	if res := a.res; res != nil {
		i.addAbout(c, res)
		if res.Wire != nil {
			res.Wire.Request = c.Request
		}
	}
	if i.url(c) == "" { // now its request is known
		i.report.Passed++
		return false, nil
	}
	o := i.originOf(c, url)
	if o.time > 0 {
		a.at = time.Unix(o.time, 0)
	}
	if err := i.place(&a.row, url, o); err != nil {
		return false, err
	}
	if a.row.Source == record.Seed && a.row.Via != "" {
		i.e.rules.linker.scope.Widen(url) // before its links, and captures behind it, are looked at
	}
	if len(url) > i.e.opts.MaxURL || i.e.rules.linker.hold(&a.row) != "" {
		i.report.Outside++
		return false, nil
	}
	if a.fails() {
		i.report.ToAsk++
		return !a.known, nil // it gets a record
	}
	i.report.Captures++
	return true, nil
}

// start has a capture judged by a goroutine of its own, once there is a parse worker for it.
func (i *importing) start(a *arrival) error {
	e := i.e
	if !e.limit.take(e.ends.fetching) {
		a.release()
		return context.Cause(e.ends.fetching)
	}
	size := int64(0)
	if a.res != nil {
		size = a.res.Body.Len()
	}
	parsed, err := e.places.acquireParser(e.ends.transfers, size)
	if err != nil {
		e.limit.buffered(false)
		a.release()
		return context.Cause(e.ends.transfers)
	}
	if !a.fails() { // else a later capture of the URL may do better
		i.mu.Lock()
		i.flying[a.row.URL] = flight{a.row.Source, a.row.Depth}
		i.mu.Unlock()
	}
	e.crawlers[0].batch.added.Add(1)
	c := e.newCrawler(1, e.buffers[0])
	turn := make(chan struct{})
	c.turn, i.last = i.last, turn
	i.jobs.Go(func() {
		defer close(turn)
		defer parsed()
		i.e.limit.buffered(c.bring(a))
	})
	return nil
}

// bring puts the outcome of a capture into the buffer, and reports whether that is a page which is
// to be stored.
func (c *crawler) bring(a *arrival) (stored bool) {
	item := &iut.Item{Outcome: record.Outcome{Row: a.row}, Crawler: c.number}
	if a.fails() {
		a.release()
		item.State, item.Next = record.Pending, record.Row{Range: record.Now}
	} else if c.judge(item, true, a.res, a.err); item.State == record.Pending {
		item.Fail(item.Next.Reason) // what an archive has does not become better
	}
	if c.ends.broken.Load() != nil {
		drop(item)
		return false
	}
	item.Outcome.Page.Time = max(a.at.Unix(), 1)
	if a.row.Source == record.Seed && a.row.Via != "" { // where a seed's redirect led
		item.Links = append(item.Links, record.Link{URL: a.row.URL, Source: record.Seed, Via: a.row.Via, Areas: c.rules.linker.Areas(a.row.URL)})
	}
	keeps := item.State == record.Stored
	item.Ticket = keeps && c.limit.tickets != nil
	if !c.add(item, 0) {
		return false
	}
	if a.res != nil {
		a.res.Body.HandOver() // the buffer counts its bytes now
	}
	return keeps
}

// fails reports whether the answer is that of a server which failed, and may do better.
func (a *arrival) fails() bool {
	return a.res != nil && (a.res.Status == http.StatusTooManyRequests || a.res.Status >= http.StatusInternalServerError)
}

// committed forgets the URLs of a set that is durable.
func (i *importing) committed(set []*iut.Item) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, it := range set {
		if it.OfPage() && !it.Part && it.State != record.Pending {
			delete(i.flying, it.Row.URL)
		}
	}
}

// place sets the row of a URL, given what the archive says of where that comes from.
func (i *importing) place(row *record.Row, url string, o origin) error {
	row.URL = url
	switch {
	case o.source == "": // it is a seed, or the index knows better
		if row.Source == "" {
			row.Source = record.Seed
		}
		return nil
	case o.source == record.Seed:
		row.Source, row.Via, row.Depth, row.Hops = record.Seed, o.via, 0, 0
		return nil
	}
	row.Source, row.Via, row.Depth, row.Hops = o.source, o.via, uint32(max(o.depth, 1)), 0
	if o.depth >= 0 && !o.redirected {
		return nil
	}
	from, known, err := i.lookUp(o.source)
	if err != nil || !known {
		return err
	}
	if o.redirected { // then its depth is said
		row.Source, row.Hops, row.Depth = from.source, 1, uint32(o.depth)
	} else {
		row.Depth = min(from.depth, math.MaxUint32-1) + 1
	}
	return nil
}

// lookUp returns what is known of a URL that has its outcome, or is on its way to one.
func (i *importing) lookUp(url string) (f flight, known bool, err error) {
	i.mu.Lock()
	f, known = i.flying[url]
	i.mu.Unlock()
	if known {
		return f, true, nil
	}
	rec, err := i.e.store.index.Record(url)
	switch {
	case isAbsent(err):
		return f, false, nil
	case err != nil:
		return f, false, err
	}
	return flight{rec.Source, rec.PageDepth}, rec.State != record.Pending, nil
}
