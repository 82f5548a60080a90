package iut

import (
	"urltree/storage/record"
)

// An Item is one outcome on its way from a crawler through a buffer to the builder and the
// committer. For a stored page it carries the body until the tree has it.
//
// Owner: the crawler until Buffer.Add returns nil, then the builder, then the committer.
type Item struct {
	record.Outcome
	Body []byte // content.html of a stored page, unless Temp is set
	Temp string // file in tmp/ that becomes content.html
	// Answer, if not nil, is how a page came, see [Page]; or a redirect or another answer that is
	// kept, whose body is in Body or Temp likewise.
	Answer *Answer
	// Edges are the edges of a stored page, made by edges.AppendPage; nil: it has none, or they are
	// not kept.
	Edges []byte
	// Adopt says that the folder is said to hold the page already: nothing is written, record,
	// links and metadata come from the folder.
	Adopt bool
	// Free releases the memory of the body; nil: nothing to release. The builder calls it once.
	Free func()
	// Crawler is the number of the crawler that made the item; its batch counts it as removed.
	Crawler int
	// Ticket is for the engine: the item is a page that counts towards a limit of pages.
	Ticket bool
	// Over is for the engine: the bytes that the item takes beyond what its buffer can count.
	Over int64
	// Then, if not nil, is for the engine: it is called once the item is durable. refused says that
	// its links were not taken, see record.Outcome.Arrived.
	Then func(refused bool)
}

// revises reports whether the item is a new version of a stored page.
func (it *Item) revises() bool {
	return it.Row.Kind == record.RevisitRow && it.State == record.Stored && !it.Same
}

// facts returns what is kept with the page of an item that is stored.
func (it *Item) facts() Facts {
	return Facts{URL: it.Row.URL, Source: it.Row.Source, Page: it.Outcome.Page}
}

// free lets go of the body.
func (it *Item) free() {
	it.Body = nil
	if it.Free != nil {
		it.Free()
		it.Free = nil
	}
}

func freeAll(items []*Item) {
	for _, it := range items {
		it.free()
	}
}

// A Parse reads a page from what its folder holds: the facts of source.txt and content.html. It
// depends on nothing else but FORMAT, so the answer and the folder give the same links, today
// and after a crash.
type Parse func(f Facts, body []byte) Parsed

// Parsed is what a page says.
type Parsed struct {
	Links []record.Link
	Meta  *record.Meta // nil: it says nothing about itself
	Edges []byte       // see Item.Edges
}

// Fail makes the outcome a failure with a reason.
func (it *Item) Fail(reason string) { it.State, it.Reason = record.Failed, reason }

// Refuse makes the outcome a refusal with a reason: we did not want it, whatever it is.
func (it *Item) Refuse(reason string) { it.State, it.Reason = record.Refused, reason }
