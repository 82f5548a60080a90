package crawler

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"runtime"
	"slices"

	"urltree/internal/extract"
	"urltree/internal/fetch"
)

// LinkLines is the media type of pages in the format of source C: a line that has "link:" in it
// links to what stands behind it, relative to the page or not.
const LinkLines = extract.LinkLines

// Content is what Options.Fetch returns for a URL. It counts as an answer of a server does: a
// status of 300 to 399 with a Location redirects, 404 is a broken link, a body over MaxSize is
// refused.
type Content struct {
	Body   []byte      // copied before Run returns; not to be changed
	Media  string      // media type, parameters allowed; "": as Header says, or told by the body
	Status int         // of HTTP; 0: 200. Outside 200 to 999 it is a broken link, with the reason "protocol"
	Header http.Header // such as Link or X-Robots-Tag; nil: none. It is not changed
}

// reasonFetch is the reason of URLs for which Options.Fetch gave an error.
const reasonFetch = "fetch"

// asks replaces zero values by what is their default with Options.Fetch, which is asked for pages
// alone, for each once, and as fast as it answers.
func (o *Options) asks() error {
	if o.Fetch == nil {
		return nil
	}
	if name := o.firstSet("Header", "User", "Password", "Cookies", "Proxy", "Network", "Bind", "Insecure", "HTTP1", "PerIP"); name != "" {
		return fmt.Errorf("%w: %s is of no use with Fetch, which makes the requests itself", ErrOptions, name)
	}
	o.IgnoreRobots, o.AllowPrivate = true, true
	if o.Accept == nil && !o.Assets {
		o.Accept = append(slices.Clone(DefaultAccept), LinkLines)
	}
	o.Retries, o.Delay = cmp.Or(o.Retries, -1), cmp.Or(o.Delay, -1)
	if o.PerHost == 0 && o.Delay < 0 {
		o.PerHost = math.MaxInt32
	}
	return nil
}

// parsers returns the number of parse workers.
func (o *Options) parsers() int {
	if o.Parsers == 0 {
		return min(runtime.GOMAXPROCS(0), parsersMost)
	}
	return o.Parsers
}

// source is what the client asks in place of the network, nil without Options.Fetch.
func (e *engine) source() func(ctx context.Context, url string) (*http.Response, error) {
	if e.opts.Fetch == nil {
		return e.opts.network
	}
	return func(ctx context.Context, url string) (*http.Response, error) {
		var c Content
		var err error
		if !e.ends.callWithin(e.opts.Timeout, "Fetch", url, func() error { c, err = e.opts.Fetch(ctx, url); return nil }) {
			return nil, &fetch.Error{Reason: reasonFetch, Err: context.Canceled}
		}
		if err != nil && ctx.Err() != nil {
			return nil, err // it took too long, which the client knows
		}
		if err != nil {
			return nil, &fetch.Error{Reason: reasonFetch, Err: err}
		}
		if c.Status != 0 && (c.Status < 200 || c.Status > 999) {
			return nil, &fetch.Error{Reason: fetch.Protocol, Err: fmt.Errorf("status %d", c.Status)}
		}
		h := &http.Response{
			StatusCode: cmp.Or(c.Status, http.StatusOK), Header: http.Header{}, ContentLength: int64(len(c.Body)),
			Body: io.NopCloser(bytes.NewReader(c.Body)),
		}
		maps.Copy(h.Header, c.Header)
		if c.Media != "" {
			h.Header.Set("Content-Type", c.Media)
		}
		return h, nil
	}
}
