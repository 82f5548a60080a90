// Package serve shows the pages of a tree in a browser, as an HTTP handler.
//
// The server answers from the tree alone. References of a page are rewritten to the server itself,
// under /page/ and the URL, and a policy that comes with each page keeps scripts from asking
// anybody else, and from reading what else the server has. What the tree does not have is
// explained.
package serve

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"urltree/internal/inspect"
	"urltree/internal/rewrite"
	"urltree/iut"
)

const (
	pagePath = "/page/" // the URL follows, as it is
	entries  = 200      // of a list on one page
	piece    = 1 << 20  // bytes of a page that are asked for at a time, at its beginning
	most     = 8 << 20  // the same far behind: a store may have to read all that is before
	atOnce   = 4        // questions
)

// A Handler serves one tree. Its fields do not change while it serves.
type Handler struct {
	// Ask answers a question about the tree. It is called from several goroutines.
	Ask func(context.Context, inspect.Question, io.Writer) error
	// Prefix is the URL prefix that is served; "": the whole tree.
	Prefix string
	// Host is the name that requests may have besides IP addresses and localhost.
	Host string

	turns chan struct{}
}

// New returns a Handler.
func New(ask func(context.Context, inspect.Question, io.Writer) error, prefix, host string) *Handler {
	return &Handler{Ask: ask, Prefix: prefix, Host: host, turns: make(chan struct{}, atOnce)}
}

// ServeHTTP answers a request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Referrer-Policy", "no-referrer")
	head.Set("Cross-Origin-Resource-Policy", "same-origin")
	head.Set("Cache-Control", "no-cache")
	head.Set("Connection-Allowlist", connections)
	head.Set("Content-Security-Policy", ownPolicy)
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		head.Set("Allow", "GET, HEAD")
		http.Error(w, "only GET and HEAD", http.StatusMethodNotAllowed)
		return
	}
	if !h.isOurs(r.Host) {
		http.Error(w, "the Host header names another host than this server", http.StatusMisdirectedRequest)
		return
	}
	var err error
	// The path as it was sent: a URL in it may have what a cleaned path has not.
	switch path, query, _ := strings.Cut(r.RequestURI, "?"); {
	case strings.HasPrefix(path, pagePath):
		err = h.page(w, r, strings.TrimPrefix(r.RequestURI, pagePath))
	case path == "/":
		err = h.start(w, r, query)
	default:
		err = h.explain(w, r, "", []string{"This server has no " + path + ". Pages are below " + pagePath + ": a script may have made an address of its own."})
	}
	if err != nil && r.Context().Err() == nil {
		h.fail(w, r, err)
	}
}

// isOurs reports whether a Host header may be sent: a page of another host whose name was made to
// lead here must not read ours.
func (h *Handler) isOurs(host string) bool {
	name := host
	if n, _, err := net.SplitHostPort(host); err == nil {
		name = n
	}
	name = strings.ToLower(strings.Trim(name, "[]"))
	return net.ParseIP(name) != nil || name == "localhost" || h.Host != "" && name == strings.ToLower(h.Host)
}

// ask returns the answer to a question.
func (h *Handler) ask(ctx context.Context, q inspect.Question) (*bytes.Buffer, error) {
	select {
	case h.turns <- struct{}{}:
		defer func() { <-h.turns }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	var b bytes.Buffer
	return &b, h.Ask(ctx, q, &b)
}

// load asks for a page and its bytes from some place on.
func (h *Handler) load(ctx context.Context, url string, from int64) (p inspect.Page, body []byte, err error) {
	answer, err := h.ask(ctx, inspect.Question{Command: "page", URL: url, Below: h.Prefix, From: from, Most: min(max(piece, from), most)})
	if err != nil {
		return p, nil, err
	}
	line, err := answer.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &p)
	}
	return p, answer.Bytes(), err
}

// page serves what the tree has of a URL.
func (h *Handler) page(w http.ResponseWriter, r *http.Request, spelt string) error {
	p, body, err := h.load(r.Context(), spelt, 0)
	switch {
	case errors.Is(err, inspect.ErrUsage):
		return h.explain(w, r, spelt, []string{"This is not an http(s) URL, and the tree has no others."})
	case err != nil:
		return err
	case p.Outside:
		return h.explain(w, r, p.URL, []string{fmt.Sprintf("This server shows only what is below %s.", h.Prefix)})
	case p.URL != spelt:
		return h.redirect(w, r, p.URL)
	case p.Target != "":
		return h.redirect(w, r, p.Target)
	case !p.IsStored():
		return h.missing(w, r, &p)
	}
	head := w.Header()
	head.Set("Content-Security-Policy", pagePolicy)
	p.Media = cmp.Or(strings.ToLower(p.Media), "application/octet-stream")
	if isPart(p.Media) {
		// The origin of a page in a sandbox is none: what it shows comes from another one.
		head.Set("Cross-Origin-Resource-Policy", "cross-origin")
		head.Set("Vary", "Sec-Fetch-Dest")
		if to := r.Header.Get("Sec-Fetch-Dest"); to == "font" || to == "script" {
			head.Set("Access-Control-Allow-Origin", "*")
		}
	}
	if head.Set("Content-Type", p.Media); p.Charset != "" {
		head.Set("Content-Type", p.Media+"; charset="+p.Charset)
	}
	content := &content{ctx: r.Context(), from: h, page: p, piece: body}
	if !rewrite.Applies(p.Media) {
		head.Set("ETag", `"`+p.Digest+`"`)
		http.ServeContent(w, r, "", time.Time{}, content)
		return nil
	}
	if r.Method == http.MethodHead {
		return nil
	}
	d := rewrite.Document{URL: p.URL, Media: p.Media, Charset: p.Charset, Replace: toServer, Detach: true, OneWindow: true}
	if err := d.Copy(w, content); err != nil {
		panic(http.ErrAbortHandler) // it is cut, and the browser shall know
	}
	return nil
}

func (h *Handler) redirect(w http.ResponseWriter, r *http.Request, url string) error {
	w.Header().Set("Location", pagePath+url)
	w.WriteHeader(http.StatusFound)
	return nil
}

// toServer returns the address under which the server has a reference.
func toServer(r rewrite.Reference) string {
	switch {
	case r.URL != "":
		return pagePath + r.URL + r.Fragment
	case isLocal(r.Text):
		return r.Text
	}
	return pagePath + url.PathEscape(strings.TrimSpace(r.Text))
}

// isLocal reports whether a reference that is no http(s) URL leads to no host.
func isLocal(ref string) bool {
	scheme, _, ok := strings.Cut(strings.TrimSpace(ref), ":")
	return ok && slices.Contains([]string{"data", "javascript", "about", "blob", "mailto", "tel"}, strings.ToLower(scheme))
}

// content reads a page by pieces, so that no question waits for a slow client.
type content struct {
	ctx   context.Context
	from  *Handler
	page  inspect.Page
	at    int64
	piece []byte
	begin int64 // where piece is in the page
}

func (c *content) Read(b []byte) (int, error) {
	if c.at >= c.page.Bytes {
		return 0, io.EOF
	}
	if c.at < c.begin || c.at >= c.begin+int64(len(c.piece)) {
		p, piece, err := c.from.load(c.ctx, c.page.URL, c.at)
		if err == nil && (p.Digest != c.page.Digest || len(piece) == 0) {
			err = fmt.Errorf("%s has changed", c.page.URL)
		}
		if err != nil {
			return 0, err
		}
		c.piece, c.begin = piece, c.at
	}
	n := copy(b, c.piece[c.at-c.begin:])
	c.at += int64(n)
	return n, nil
}

// Seek is that of [io.Seeker]. As [http.ServeContent] does, it goes to no place before the page.
func (c *content) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += c.at
	case io.SeekEnd:
		offset += c.page.Bytes
	}
	c.at = offset
	return offset, nil
}

// fail answers a request that could not be answered.
func (h *Handler) fail(w http.ResponseWriter, r *http.Request, err error) {
	status := http.StatusInternalServerError
	switch {
	case errors.Is(err, inspect.ErrUsage):
		status = http.StatusBadRequest
	case errors.Is(err, inspect.ErrNotFound):
		status = http.StatusNotFound
	case errors.Is(err, iut.ErrBusy):
		status = http.StatusServiceUnavailable
	}
	h.show(w, r, status, "message", &view{Title: http.StatusText(status), Lines: []string{err.Error()}})
}
