package crawler

import (
	"errors"
	"io"
	"sync"
	"time"

	"urltree/internal/frontier"
	"urltree/storage/record"
)

// A taking is the loop in which a crawler takes loans and has them worked on.
type taking struct {
	c        *crawler
	taker    *frontier.Taker
	stack    []*frontier.Loan // taken, and not begun
	slots    chan struct{}    // the free downloads
	most     chan struct{}    // goroutines that work on loans
	wg       sync.WaitGroup
	patience *time.Timer // of the stack
}

// run works until nothing is left or fetching stops. An error ends the crawl.
func (c *crawler) run() error {
	t := &taking{
		c: c, taker: c.frontier.Taker(),
		slots: make(chan struct{}, c.opts.Downloads), most: make(chan struct{}, c.goroutines()),
		patience: time.NewTimer(stackPatience),
	}
	for range c.opts.Downloads {
		t.slots <- struct{}{}
	}
	defer t.wg.Wait()
	defer t.giveBackStack()
	defer t.patience.Stop()
	for t.ready() {
		switch more, err := t.fill(); {
		case err != nil || !more:
			return err
		case len(t.stack) == 0:
			t.slots <- struct{}{}
		default:
			t.begin()
		}
	}
	return nil
}

// stackPatience is how long the loans on the stack of a crawler wait for a download of its own.
// Then others get them: its downloads may all be held by servers that never end, and hosts that do
// no harm would wait as long.
const stackPatience = time.Second

// ready waits until a download is free, and nothing keeps it from being used, see pause. It returns
// false when fetching stops.
func (t *taking) ready() bool {
	for free := false; !free; {
		t.patience.Reset(stackPatience)
		select {
		case <-t.slots:
			free = true
		case <-t.patience.C:
			t.giveBackStack()
		case <-t.c.ends.fetching.Done():
			return false
		}
	}
	if t.c.network.pause.on() {
		t.giveBackStack()
		return t.c.network.pause.wait(t.c.ends.fetching, t.c.frontier.Left)
	}
	return true
}

// fill takes loans for the free downloads, if there are too few on the stack. It returns false when
// nothing is left or fetching stops.
func (t *taking) fill() (more bool, err error) {
	free := len(t.slots) + 1
	start := time.Now()
	if len(t.stack) > 0 {
		if len(t.stack) < free && t.c.opts.Pick == PickExtended {
			// Source D's extended crawling: look for more, but never wait while there is work.
			if loans, ok := t.taker.TryTake(free - len(t.stack)); ok {
				t.push(loans, time.Since(start))
			}
		}
		return true, nil
	}
	looked := t.c.check.looked.Load()
	loans, err := t.taker.Take(t.c.ends.fetching, free)
	switch {
	case errors.Is(err, io.EOF):
		if more, err = t.c.check.again(t.c.ends.fetching, looked); err != nil || !more {
			t.c.ends.stop(errNothingLeft)
		}
		return more, err
	case err != nil && t.c.ends.fetching.Err() != nil:
		return false, nil
	case err != nil:
		return false, err
	}
	t.push(loans, time.Since(start))
	return true, nil
}

func (t *taking) push(loans []*frontier.Loan, took time.Duration) {
	urls := 0
	for _, l := range loans {
		urls += pages(l.Rows)
		for i := range l.Held {
			urls += pages([]record.Row{l.Held[i].Row})
		}
	}
	if urls > 0 {
		t.c.batch.added.Add(int64(urls))
		t.c.measured.stages[stagePick].addMany(took/time.Duration(urls), urls)
	}
	t.stack = append(t.stack, loans...)
}

// begin has the first loan of the stack worked on, with the download that is free.
func (t *taking) begin() {
	loan := t.stack[0]
	t.stack = t.stack[1:]
	t.most <- struct{}{} // there is a place, or will be at once
	t.wg.Go(func() {
		free := sync.OnceFunc(func() { t.slots <- struct{}{} })
		defer func() {
			<-t.most
			free()
		}()
		t.c.work(loan, free)
	})
}

func (t *taking) giveBackStack() {
	for _, loan := range t.stack {
		rows := loan.Rows
		for _, h := range loan.Held {
			rows = append(rows, h.Row)
		}
		t.c.giveBack(loan, rows)
	}
	t.stack = nil
}

func (c *crawler) giveBack(loan *frontier.Loan, unasked []record.Row) {
	c.batch.removed.Add(int64(pages(unasked)))
	c.frontier.Return(loan, unasked)
}

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
func (c *crawler) goroutines() int {
	if c.places.fetched == nil {
		return c.opts.Downloads
	}
	return c.opts.Downloads + cap(c.places.fetched) + c.opts.parsers()
}
