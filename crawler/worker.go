package crawler

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"urltree/buffer"
	"urltree/internal/disk"
	"urltree/internal/extract"
	"urltree/internal/fetch"
	"urltree/internal/frontier"
	"urltree/internal/sitemap"
	"urltree/iut"
	"urltree/storage/record"
)

// A worker is one crawler: it takes loans from the frontier, works on several at a time, and
// puts what came of each URL into its buffer. Fed by Frontier.Take, feeds Buffer.Add.
//
// Owner: its own goroutine has the stack of loans; each loan is one goroutine's while it is
// worked on, and always ends with Frontier.Return.
type worker struct {
	*engine
	number int // from 1
	buf    *buffer.Buffer[*iut.Item]
	batch  queue // URLs taken, and URLs done or given back
	flying atomic.Int64
}

// run works until nothing is left or fetching stops. An error ends the crawl.
func (w *worker) run() error {
	var (
		taker = w.frontier.Taker()
		stack []*frontier.Loan
		slots = make(chan struct{}, w.opts.Downloads) // the free downloads
		most  = make(chan struct{}, w.goroutines())   // goroutines that may be started
		wg    sync.WaitGroup
	)
	for range w.opts.Downloads {
		slots <- struct{}{}
	}
	defer wg.Wait()
	giveBack := func() {
		for _, loan := range stack {
			rows := loan.Rows
			for _, h := range loan.Held {
				rows = append(rows, h.Row)
			}
			w.giveBack(loan, rows)
		}
		stack = nil
	}
	defer giveBack()
	patience := time.NewTimer(stackPatience)
	defer patience.Stop()
	push := func(loans []*frontier.Loan, took time.Duration) {
		urls := 0
		for _, l := range loans {
			urls += pages(l.Rows)
			for i := range l.Held {
				urls += pages([]record.Row{l.Held[i].Row})
			}
		}
		if urls > 0 {
			w.batch.added.Add(int64(urls))
			w.stages[stagePick].addMany(took/time.Duration(urls), urls)
		}
		stack = append(stack, loans...)
	}
	for {
		patience.Reset(stackPatience)
		select {
		case <-slots:
		case <-patience.C:
			giveBack()
			continue
		case <-w.fetching.Done():
			return nil
		}
		if !w.room.Wait(w.fetching, w.frontier.Left) {
			return nil
		}
		if w.outage.out() {
			giveBack()
			if !w.outage.wait(w.fetching) {
				return nil
			}
		}
		free := len(slots) + 1
		start := time.Now()
		if len(stack) == 0 {
			looked := w.looked.Load()
			loans, err := taker.Take(w.fetching, free)
			switch {
			case errors.Is(err, io.EOF):
				more, err := w.lookAgain(looked)
				if err != nil || !more {
					w.stop(errNothingLeft)
					return err
				}
				slots <- struct{}{}
				continue
			case err != nil && w.fetching.Err() != nil:
				return nil
			case err != nil:
				return err
			}
			push(loans, time.Since(start))
		} else if len(stack) < free && w.opts.Pick == "extended" {
			// Source D's extended crawling: look for more, but never wait while there is work.
			if loans, ok := taker.TryTake(free - len(stack)); ok {
				push(loans, time.Since(start))
			}
		}
		if len(stack) == 0 {
			slots <- struct{}{}
			continue
		}
		loan := stack[0]
		stack = stack[1:]
		most <- struct{}{} // one is free, or will be at once
		wg.Go(func() {
			free := sync.OnceFunc(func() { slots <- struct{}{} })
			defer func() {
				<-most
				free()
			}()
			w.work(loan, free)
		})
	}
}

// stackPatience is how long the loans on the stack of a crawler wait for a download of its own.
// Then others get them: its downloads may all be held by servers that never end, and hosts that do
// no harm would wait as long.
const stackPatience = time.Second

// pages returns how many of the rows are of pages.
func pages(rows []record.Row) (n int) {
	for i := range rows {
		if rows[i].Kind == record.PageRow {
			n++
		}
	}
	return n
}

// goroutines returns how many of a crawler may be at work on loans: its downloads, and the pages
// that have left theirs for the queue or a parse worker.
func (w *worker) goroutines() int {
	if w.fetched == nil {
		return w.opts.Downloads
	}
	return w.opts.Downloads + cap(w.fetched) + w.opts.parsers()
}

// work asks for the URLs of a loan one after the other. free lets the next download begin; it is
// called once a page waits for a parse worker, or else by the caller.
func (w *worker) work(loan *frontier.Loan, free func()) {
	rows := loan.Rows
	defer func() { w.giveBack(loan, rows) }()
	for _, h := range loan.Held {
		o := record.Outcome{Row: h.Row, State: record.Pending, Next: h.Row}
		o.Next.Range, o.Next.Reason = record.Held, h.Reason
		if h.Row.Kind == record.RobotsRow {
			o.Robots = w.robots.lost(h.Row.Source, h.Reason)
		}
		w.add(&iut.Item{Outcome: o}, 0)
	}
	for len(rows) > 0 {
		if w.fetching.Err() != nil || w.room.Low() { // taken before there was too little
			return
		}
		done, next, err := w.row(loan, &rows[0], free)
		if err != nil {
			w.fail(err)
			return
		}
		if !done {
			return
		}
		rows = rows[1:]
		if next > w.frontier.Now() {
			return // the host wants to rest before the others
		}
	}
}

func (w *worker) giveBack(loan *frontier.Loan, unasked []record.Row) {
	w.batch.removed.Add(int64(pages(unasked)))
	w.frontier.Return(loan, unasked)
}

// early decides on a page whose outcome needs no request: then item has a state. It returns false
// if the row stays as it is.
func (w *worker) early(item *iut.Item) (ok bool, err error) {
	row := &item.Row
	if row.Run <= w.lastUnclean {
		there, err := w.tree.Has(row.URL)
		if err != nil {
			return false, err
		}
		if there {
			item.State, item.Adopt = record.Stored, true
			return true, nil
		}
	}
	if len(row.URL) > w.opts.MaxURL {
		item.Refuse("length")
		return true, nil
	}
	if !w.opts.IgnoreRobots {
		if known, err := w.obeys(item); !known || item.State != 0 {
			return known, err
		}
	}
	allowed, ok := w.allows(row)
	if ok && !allowed {
		item.State, item.Next = record.Pending, *row
		item.Next.Range, item.Next.Reason = record.Held, heldAllow
	}
	return ok, nil
}

// url brings a page to an outcome in the buffer: see row. free lets the next download begin.
func (w *worker) url(loan *frontier.Loan, row *record.Row, free func()) (done bool, next int64, err error) {
	item := &iut.Item{Outcome: record.Outcome{Row: *row}, Crawler: w.number}
	if ok, err := w.early(item); !ok {
		return false, 0, err
	}
	if item.State != 0 {
		return w.add(item, 0), 0, nil
	}
	stored := false
	if w.tickets != nil {
		// One of -max-pages tickets: kept by a page until it is committed, and by what is stored;
		// given back by everything else.
		if w.tickets.Acquire(w.fetching, 1) != nil {
			return false, 0, nil
		}
		defer func() {
			if stored {
				w.ticketUsed()
			} else {
				w.tickets.Release(1)
			}
		}()
	}
	r, ok, err := w.request(loan, row.URL, fetch.Request{
		Wants: w.wants, Looks: w.looks, KeepLarge: w.opts.CutLarge,
		KeepBroken: int(row.Tries)-int(row.Spared) >= w.opts.Retries, // the last try keeps what there is
	})
	if !ok {
		return false, 0, err
	}
	res := r.res
	if res != nil {
		if w.fetched != nil {
			w.fetched <- struct{}{}
			free()
		}
		// Kept until the item is in the buffer: what waits there with its links is bounded too.
		parsed, err := w.parse(res.Body.Len())
		if w.fetched != nil {
			<-w.fetched
		}
		if err != nil {
			res.Body.Release()
			return false, 0, nil
		}
		defer parsed()
	}
	a := w.answer(item, loan.Known, res, r.err)
	if w.broken.Load() != nil {
		// Whether this page's call-backs were called or not: it is pending, and comes again.
		drop(item)
		return false, 0, nil
	}
	if res != nil {
		w.stages[stageRequest].add(res.First)
		w.stages[stageResponse].add(res.Total - res.First)
	}
	keeps := item.State == record.Stored
	item.Ticket = keeps && w.tickets != nil
	if next, ok = w.finish(loan, row, item, a, r.start); !ok {
		return false, 0, nil
	}
	stored = keeps
	if res != nil {
		res.Body.HandOver() // the buffer counts its bytes now
	}
	return true, next, nil
}

// drop releases the resources of an item that will not be buffered.
func drop(item *iut.Item) {
	if item.Free != nil {
		item.Free()
	}
}

// add puts an item into the buffer, waiting for a place, and tells OnOutcome of it, with the time
// that its request took. It fails only when the crawl does.
func (w *worker) add(item *iut.Item, took time.Duration) bool {
	item.Crawler = w.number
	if item.State == record.Refused && item.Outcome.Page.Time == 0 { // without a request
		item.Outcome.Page = record.Page{Time: time.Now().Unix(), PageDepth: item.Row.Depth}
	}
	told := Outcome{
		URL: item.Row.URL, Source: item.Row.Source, Depth: int(item.Row.Depth), State: item.State, Reason: item.Reason,
		Status: int(item.Outcome.Page.Status), Bytes: item.Outcome.Page.Bytes, Took: took,
	}
	switch item.State {
	case record.Pending:
		told.Reason = item.Next.Reason
	case record.Redirected:
		told.Target = item.Outcome.Page.HeaderLinks
	}
	if w.opts.OnOutcome != nil && item.OfPage() {
		// Before the item is out of our hands: what was not told is asked again.
		ok := w.call("OnOutcome", told.URL, func() error { w.opts.OnOutcome(told); return nil })
		if !ok {
			drop(item)
			return false
		}
	}
	return w.put(item)
}

// put is add without a word to anybody.
func (w *worker) put(item *iut.Item) bool {
	for len(item.Links) > linksAhead {
		if !w.put(&iut.Item{Outcome: *item.Ahead(linksAhead), Crawler: w.number}) {
			drop(item)
			return false
		}
	}
	// A buffer counts no item for more than it may hold. What goes over is counted for all
	// together, until it is committed, which is at once: then there is never much of it.
	over := max(0, min(weigh(item)-w.opts.BufferBytes, overBytes))
	if item.Over = over; over > 0 && w.over.Acquire(w.alive, over) != nil {
		drop(item)
		return false
	}
	if err := w.buf.Add(w.alive, item); err != nil {
		drop(item)
		return false
	}
	if over > 0 {
		w.buf.Flush()
	}
	if w.frontier.Starved() {
		w.buf.Flush() // nothing else is left to do before this is committed
	}
	return true
}

// overBytes is what items may take together beyond what buffers count.
const overBytes = 8 << 20

// weigh returns the bytes that an item holds in memory: the place of its body, which is larger
// than the body, its links, edges and metadata.
func weigh(item *iut.Item) int64 {
	n := cap(item.Body) + cap(item.Edges) + item.Meta.Size() + cap(item.Links)*int(unsafe.Sizeof(record.Link{}))
	for i := range item.Links {
		n += len(item.Links[i].URL)
	}
	if item.Robots != nil {
		n += len(item.Robots.Text)
	}
	return int64(n)
}

// pathOf returns path and query of a canonical URL.
func pathOf(url string) string { return url[len(record.Origin(url)):] }

// wants reports whether the body of an answer is read: to be stored, or for its links if it is a
// feed.
func (w *worker) wants(media string) bool { return w.opts.accepts(media) || extract.IsFeed(media) }

// looks returns what decides by its first bytes whether an answer is read on; nil: it is. JSON of
// no special kind hardly ever is a feed, and often large.
func (w *worker) looks(media string) func(head []byte) bool {
	if media != "application/json" || w.opts.accepts(media) {
		return nil
	}
	return func(head []byte) bool { return sitemap.Detect(head).Feed() }
}

// errParseBudget says that a page asks for more work than one may.
var errParseBudget = errors.New("parse-budget")

// parsePage finds links and metadata of an answer. What panics is the page's fault, not the
// crawl's, and so is errParseBudget.
func (w *worker) parsePage(item *iut.Item, res *fetch.Response) (noindex bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("parse %s: panic: %v", item.Row.URL, p)
		}
	}()
	start := time.Now()
	facts := iut.Facts{URL: item.Row.URL, Source: item.Row.Source, Page: item.Outcome.Page}
	said := extractFacts(facts)
	said.Language = strings.Join(res.Header["Content-Language"], ",")
	said.Robots = res.Header["X-Robots-Tag"]
	var r *reader
	if res.Body.Len() <= parseShare {
		r = w.linker.reader()
		defer w.linker.readers.Put(r)
	} else {
		r = newReader() // what it holds after a large page may be large as well
	}
	var page extract.Result
	_ = w.watch.Work("parse", item.Row.URL, 0, func(*disk.Step) error {
		page = r.Parse(said, res.Body.Bytes(), w.linker.opts)
		return nil
	})
	item.Outcome.Page.Charset = page.Charset
	if page.Exhausted {
		return false, errParseBudget
	}
	if page.NoFollow {
		// The folder says so by itself, whatever name the next run looks for.
		item.Outcome.Page.Flags = addFlag(item.Outcome.Page.Flags, flagNoFollow)
	}
	if page.Cut {
		item.Outcome.Page.Flags = addFlag(item.Outcome.Page.Flags, flagCut)
	}
	if !w.tell(item, res.Header, res.Body.Bytes(), &page) {
		return false, nil // url drops the page
	}
	item.Meta, item.Edges = page.Meta, w.linker.edges(page, facts.URL)
	w.links(item, r, page, facts)
	w.stages[stageParse].add(time.Since(start))
	return page.NoIndex, nil
}
