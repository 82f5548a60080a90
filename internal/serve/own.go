package serve

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"strings"

	"urltree/internal/inspect"
)

// pagePolicy comes with each stored page. The sandbox gives its scripts an origin that is no
// other's, so that they read nothing of the server; they can load from the server alone, and ask it
// nothing.
const pagePolicy = "sandbox allow-scripts allow-downloads; default-src 'none'; " +
	"script-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:; style-src 'self' 'unsafe-inline' data: blob:; " +
	"img-src 'self' data: blob:; font-src 'self' data: blob:; media-src 'self' data: blob:; " +
	"frame-src 'self' data: blob:; object-src 'self' data:; worker-src 'none'; connect-src 'none'; " +
	"form-action 'none'; base-uri 'self'; webrtc 'block'"

// connections is, for browsers that know it, what pages may connect to in any way: this server,
// which redirects to itself alone.
const connections = "(response-origin);redirects=allow;webrtc=block"

// ownPolicy comes with the server's own pages, which have no scripts.
const ownPolicy = "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'"

// isPart reports whether pages show, run or play what is of this media type.
func isPart(media string) bool {
	kind, _, _ := strings.Cut(media, "/")
	switch kind {
	case "image", "audio", "video", "font":
		return true
	}
	return media == "text/css" || media == "text/vtt" || strings.HasSuffix(media, "javascript") || strings.HasSuffix(media, "ecmascript") ||
		strings.Contains(media, "font") || media == "application/octet-stream"
}

//go:embed pages.html
var pages string

var templates = template.Must(template.New("").Parse(pages))

// A view is what a page of the server shows.
type view struct {
	Title   string
	Lines   []string
	Prefix  string // of the server
	List    *inspect.Listing
	At      string // the prefix that is listed
	IsStart bool
}

// Page returns the address of a page.
func (*view) Page(url string) template.URL { return template.URL(pagePath + url) }

// Folder returns the address of a list.
func (*view) Folder(below, after string) template.URL {
	return template.URL("/?" + url.Values{"below": {below}, "after": {after}}.Encode())
}

func (h *Handler) show(w http.ResponseWriter, r *http.Request, status int, name string, v *view) {
	v.Prefix = h.Prefix
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_ = templates.ExecuteTemplate(w, name, v)
	}
}

// start serves a list of what is below a prefix, at first that of the server, or leads to the page
// whose URL was typed.
func (h *Handler) start(w http.ResponseWriter, r *http.Request, query string) error {
	asked, err := url.ParseQuery(query)
	if err != nil {
		return h.explain(w, r, "", []string{"The address cannot be read: " + err.Error() + "."})
	}
	if url := strings.TrimSpace(asked.Get("url")); url != "" {
		p, _, err := h.load(r.Context(), url, 0)
		if errors.Is(err, inspect.ErrUsage) {
			return h.explain(w, r, url, []string{"This is not an http(s) URL, and the tree has no others."})
		}
		if err != nil {
			return err
		}
		return h.redirect(w, r, p.URL)
	}
	below := asked.Get("below")
	v := &view{Title: "Pages of the tree", IsStart: below == "" && asked.Get("after") == "", At: below}
	if below == "" {
		below = h.Prefix
	}
	answer, err := h.ask(r.Context(), inspect.Question{Command: "list", URL: below, Below: h.Prefix, After: asked.Get("after"), Lines: entries})
	if err == nil {
		err = json.Unmarshal(answer.Bytes(), &v.List)
	}
	if err != nil {
		return err
	}
	if v.List.Prefix != "" {
		v.Title = v.List.Prefix
	}
	h.show(w, r, http.StatusOK, "list", v)
	return nil
}

// missing explains why a URL has no page.
func (h *Handler) missing(w http.ResponseWriter, r *http.Request, p *inspect.Page) error {
	if p.Fault != "" {
		return h.explain(w, r, p.URL, []string{"The page is stored, but it cannot be read: " + p.Fault + ". See crawler check."})
	}
	lines, err := h.why(r.Context(), p.URL)
	if err != nil {
		return err
	}
	return h.explain(w, r, p.URL, lines)
}

// why returns what crawler why says of a URL.
func (h *Handler) why(ctx context.Context, url string) ([]string, error) {
	text, err := h.ask(ctx, inspect.Question{Command: "why", URL: url})
	if err != nil {
		return nil, err
	}
	return strings.Split(strings.TrimSpace(text.String()), "\n"), nil
}

// explain says why there is no page.
func (h *Handler) explain(w http.ResponseWriter, r *http.Request, url string, lines []string) error {
	v := &view{Title: "Not in the tree", Lines: lines}
	if url != "" {
		v.Title += ": " + url
	}
	h.show(w, r, http.StatusNotFound, "message", v)
	return nil
}
