package crawler

import (
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"urltree/internal/disk"
	"urltree/internal/extract"
	"urltree/iut"
	"urltree/storage/record"
)

// A Page is what OnPage is called with: an answer with a 2xx status whose body was read. Whether it
// is stored, OnOutcome reports. Header, Body and Links are to be read only, and only until OnPage
// returns; the strings in Links may be kept.
type Page struct {
	URL     string // canonical
	Source  string // the URL that it was found on; "seed" of a seed
	Depth   int    // links from a seed, by the shortest way known so far
	Status  int
	Header  http.Header
	Media   string // media type, lower case, without parameters
	Charset string // that its links were decoded by; if it is not HTML, that of the header, "" without one
	Body    []byte // without content coding
	// Links are all of the page, whether they are followed or not, in page order and with repeats:
	// first those of its Link and Refresh headers, whatever their rel, last those that are not
	// followed for the media type that they declare. Those that a nofollow takes out are missing; so
	// are references that are no http(s) URL.
	Links []Link
	Meta  record.Meta // title, description, headings and the like; zero if it is not HTML
}

// A Link is one of the links of a page.
type Link struct {
	URL     string // canonical
	Element string // name of the element; "header", "feed", "style" in CSS, "other" of an attribute with an asset, or, of LinkLines, "line"
	Rel     string // the words of its rel attribute in lower case, a space between two
}

// A CallbackError is what Run returns after a call-back of Options has failed or panicked.
type CallbackError struct {
	Name  string // of the field of Options
	URL   string // that it was called for, or ""
	Err   error  // what it returned, or what it panicked with
	Stack []byte // of a panic; else nil
}

func (e *CallbackError) Error() string {
	what := e.Name
	if e.URL != "" {
		what += " of " + e.URL
	}
	if e.Stack != nil {
		what += ": panic"
	}
	return what + ": " + e.Err.Error()
}

func (e *CallbackError) Unwrap() error { return e.Err }

var errGoexit = errors.New("it ended its goroutine")

// call calls a call-back. The first one that fails stops the crawl; after that none is called any
// more. It tells whether fn was called and went well.
//
// Not to be called with a lock held: nobody knows how long fn takes.
func (e *ends) call(name, url string, fn func() error) (ok bool) {
	return e.callWithin(0, name, url, fn)
}

// callWithin is call for a call-back that may take so much longer than others.
func (e *ends) callWithin(more time.Duration, name, url string, fn func() error) (ok bool) {
	if e.broken.Load() != nil {
		return false
	}
	failure := &CallbackError{Name: name, URL: url, Err: errGoexit}
	defer func() {
		if !ok && e.broken.CompareAndSwap(nil, failure) {
			e.stop(failure)
			e.cut()
		}
	}()
	if err := e.foreign("call "+name, url, more, func(*disk.Step) error { return fn() }); err != nil {
		failure.Err = err
		if p, isPanic := err.(panicked); isPanic {
			failure.Err, failure.Stack = p.err, p.stack
		}
		return false
	}
	return true
}

// A panicked is the error of a function that panicked.
type panicked struct {
	err   error
	stack []byte
}

func (p panicked) Error() string { return "panic: " + p.err.Error() }

// recovered, deferred, makes a panic the error of its function.
func recovered(err *error) {
	if p := recover(); p != nil {
		cause, isError := p.(error)
		if !isError {
			cause = fmt.Errorf("%v", p)
		}
		*err = panicked{cause, debug.Stack()}
	}
}

// foreign calls fn, which does what others decide: code of the library's user, or a parser with
// what a server sent. It may hang, which is reported, and panic, which is an error.
func (e *ends) foreign(what, url string, more time.Duration, fn func(*disk.Step) error) (err error) {
	defer recovered(&err)
	return e.watch.Work(what, url, more, fn)
}

// tell calls the call-backs of a page, before its links get their scores: OnPage, then Edge of
// each link. All of one page are called by the same goroutine.
func (c *crawler) tell(item *iut.Item, header http.Header, body []byte, page *extract.Result) bool {
	row := &item.Row
	if c.opts.OnPage != nil && !c.ends.call("OnPage", row.URL, func() error {
		told := Page{
			URL: row.URL, Source: row.Source, Depth: int(row.Depth), Status: int(item.Outcome.Page.Status),
			Header: header, Media: item.Outcome.Page.Media, Charset: page.Charset, Body: body,
		}
		told.Links = c.toldLinks(item, header, page)
		if page.Meta != nil {
			told.Meta = *page.Meta
		}
		return c.opts.OnPage(told)
	}) {
		return false
	}
	return c.opts.Edge == nil || c.ends.call("Edge", row.URL, func() error {
		for i := range page.Links {
			c.opts.Edge(row.URL, c.rules.linker.strip.Apply(page.Links[i].URL))
		}
		return nil
	})
}

// toldLinks returns the links of a page as OnPage receives them.
func (c *crawler) toldLinks(item *iut.Item, header http.Header, page *extract.Result) []Link {
	list := make([]Link, 0, len(page.Links)+len(page.Unwanted))
	add := func(l extract.Link) {
		l.URL = c.rules.linker.strip.Apply(l.URL)
		list = append(list, Link(l))
	}
	if c.opts.NoFollow == NoFollowNone || !strings.Contains(item.Outcome.Page.Flags, flagNoFollow) {
		for _, l := range extract.HeaderLinks(item.Row.URL, header) {
			add(extract.Link{URL: l.URL, Element: "header", Rel: l.Rel})
		}
	}
	for _, links := range [][]extract.Link{page.Links, page.Unwanted} {
		for _, l := range links {
			if l.Element != "header" { // those are there with their rel
				add(l)
			}
		}
	}
	return list
}

// allows asks Options.Allow, for each URL once before its turn.
func (c *crawler) allows(row *record.Row) (allowed, ok bool) {
	if c.opts.Allow == nil {
		return true, true
	}
	ok = c.ends.call("Allow", row.URL, func() error {
		allowed = c.opts.Allow(Candidate{URL: row.URL, Source: row.Source, Depth: int(row.Depth)})
		return nil
	})
	return allowed, ok
}
