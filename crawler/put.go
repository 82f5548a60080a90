package crawler

import (
	"time"
	"unsafe"

	"urltree/iut"
	"urltree/storage/record"
)

// drop releases the resources of an item that will not be buffered.
func drop(item *iut.Item) {
	if item.Free != nil {
		item.Free()
	}
}

// add puts an item into the buffer, waiting for a place, and tells OnOutcome of it, with the time
// that its request took. It fails only when the crawl does.
func (c *crawler) add(item *iut.Item, took time.Duration) bool {
	item.Crawler = c.number
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
	if c.opts.OnOutcome != nil && item.OfPage() {
		// Before the item is out of our hands: what was not told is asked again.
		ok := c.ends.call("OnOutcome", told.URL, func() error { c.opts.OnOutcome(told); return nil })
		if !ok {
			drop(item)
			return false
		}
	}
	return c.put(item)
}

// put is add without a word to anybody.
func (c *crawler) put(item *iut.Item) bool {
	for len(item.Links) > linksAhead {
		if !c.put(&iut.Item{Outcome: *item.Ahead(linksAhead), Crawler: c.number}) {
			drop(item)
			return false
		}
	}
	if c.turn != nil {
		select {
		case <-c.turn:
		case <-c.ends.alive.Done(): // and Add fails
		}
	}
	// A buffer counts no item for more than it may hold. What goes over is counted for all
	// together, until it is committed, which is at once: then there is never much of it.
	over := max(0, min(weigh(item)-c.opts.BufferBytes, overBytes))
	if item.Over = over; over > 0 && c.places.over.Acquire(c.ends.alive, over) != nil {
		drop(item)
		return false
	}
	if err := c.buf.Add(c.ends.alive, item); err != nil {
		drop(item)
		return false
	}
	if over > 0 {
		c.buf.Flush()
	}
	if c.frontier.Starved() {
		c.buf.Flush() // nothing else is left to do before this is committed
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
	if item.Answer != nil {
		n += len(item.Answer.Request) + len(item.Answer.Head)
	}
	if item.Robots != nil {
		n += len(item.Robots.Text)
	}
	return int64(n)
}
