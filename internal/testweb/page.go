package testweb

import (
	"context"
	"math/bits"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// A variant says which of its answers a page gives.
type variant uint8

const (
	first    variant = iota
	linkless         // with other text and without links
	reworded         // with other text and its links in another order
	vanished         // 404
)

const (
	fillerSpan = 32 << 10 // bodies begin at different places of the filler
	imageSize  = 256
	filePNG    = "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00"
)

var bodies = sync.Pool{New: func() any { return new([]byte) }}

// serve answers a request to a host and notes it.
func (w *Web) serve(rw http.ResponseWriter, r *http.Request, host string) {
	h, ok := w.host(host)
	path := r.URL.EscapedPath()
	if ok && path == "/robots.txt" {
		w.robots[h].Add(1)
		rules := "User-agent: *\nDisallow:\n"
		if w.opts.Private > 0 {
			rules = "User-agent: *\nDisallow: /private/\n"
		}
		if w.opts.Hidden > 0 {
			rules += "Sitemap: /maps.xml\n"
		}
		w.send(rw, "text/plain; charset=utf-8", []byte(rules))
		return
	}
	if ok && (strings.HasPrefix(path, "/maps") || path == "/sitemap.xml") {
		w.serveSitemap(rw, path, h)
		return
	}
	if r.URL.RawQuery != "" {
		path += "?" + r.URL.RawQuery
	}
	n, ok := w.find(host, path)
	if !ok {
		w.mu.Lock()
		w.other["http://"+r.Host+path]++
		w.mu.Unlock()
		http.NotFound(rw, r)
		return
	}
	again := w.asked[n].Add(1) > 1
	w.pause(r.Context(), n)
	if !again && w.in(w.opts.Flaky, n, 'y') {
		resetConnection(rw)
		return
	}
	v := first
	if again && w.opts.Kind == Changing {
		rnd := newRandom(w.opts.Seed, uint64(n), 'v')
		v = linkless + variant(rnd.below(3))
	}
	media := "text/html; charset=utf-8"
	switch w.classes[n] {
	case redirect:
		rw.Header().Set("Location", w.url(int(w.children[n][0])))
		rw.WriteHeader(http.StatusFound)
		return
	case notFound:
		http.NotFound(rw, r)
		return
	case broken:
		http.Error(rw, "broken", http.StatusInternalServerError)
		return
	case reset:
		resetConnection(rw)
		return
	case text:
		media = "text/plain; charset=utf-8"
	case image:
		media = "image/png"
	}
	if v == vanished {
		http.NotFound(rw, r)
		return
	}
	p := bodies.Get().(*[]byte)
	*p = w.body((*p)[:0], n, v)
	if w.in(w.opts.Drips, n, 'd') {
		w.drip(r.Context(), rw, media, *p)
	} else {
		w.send(rw, media, *p)
	}
	bodies.Put(p)
}

// drip sends a body in eight pieces, slowly.
func (w *Web) drip(ctx context.Context, rw http.ResponseWriter, media string, body []byte) {
	rw.Header().Set("Content-Type", media)
	rw.Header().Set("Content-Length", strconv.Itoa(len(body)))
	for piece := range slices.Chunk(body, len(body)/8+1) {
		if _, err := rw.Write(piece); err != nil {
			return
		}
		_ = http.NewResponseController(rw).Flush()
		wait(ctx, w.opts.Latency)
	}
}

func (w *Web) send(rw http.ResponseWriter, media string, body []byte) {
	rw.Header().Set("Content-Type", media)
	rw.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = rw.Write(body)
}

// resetConnection ends a connection without an answer.
func resetConnection(rw http.ResponseWriter) {
	c, _, err := rw.(http.Hijacker).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

// links returns the pages that the first answer of page n leads to, in page order, repeats
// included.
func (w *Web) links(n int) []int {
	var to []int
	for _, m := range w.children[n] {
		to = append(to, int(m))
	}
	if w.opts.Kind != Linked || w.classes[n] != plain && w.classes[n] != noIndex {
		return to
	}
	r := newRandom(w.opts.Seed, uint64(n), 'l')
	more := w.opts.Links
	if more == 0 {
		more = 5 + r.below(20)
	}
	for range more {
		u := r.float()
		m := int(float64(w.opts.Pages) * u * u * u)
		if r.below(5) != 0 { // mostly to a neighbour on the same host
			if same := m - w.hostNumber(m) + w.hostNumber(n); same < w.opts.Pages {
				m = same
			}
		}
		// A target has one way in; to link to it would not be wrong, but would hide its loss.
		if slices.Contains(w.unlinked[w.hostNumber(m)], int32(m)) {
			continue
		}
		if p := w.parent[m]; p < 0 || w.classes[p] != redirect {
			to = append(to, m)
		}
	}
	return to
}

// body appends an answer of page n.
func (w *Web) body(b []byte, n int, v variant) []byte {
	r := newRandom(w.opts.Seed, uint64(n), 'b')
	u := r.float()
	size := w.opts.MinSize + int(u*u*float64(w.opts.MaxSize-w.opts.MinSize))
	if v != first {
		r = newRandom(w.opts.Seed, uint64(n), 'r')
	}
	start := len(b)
	switch w.classes[n] {
	case image:
		b = append(b, filePNG...)
		return append(b, w.filler[r.below(fillerSpan):][:imageSize]...)
	case text:
		if v == first && w.in(w.opts.Twins, n, 't') {
			n, size = n%3, w.opts.MinSize
			r = newRandom(w.opts.Seed, uint64(n), 't')
		}
		b = append(b, "Page "...)
		b = strconv.AppendInt(b, int64(n), 10)
		b = append(b, '\n')
		return append(b, w.filler[r.below(fillerSpan):][:size]...)
	}
	b = append(b, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"...)
	if w.classes[n] == noIndex {
		b = append(b, "<meta name=\"robots\" content=\"noindex\">"...)
	}
	b = append(b, "<title>Page "...)
	b = strconv.AppendInt(b, int64(n), 10)
	b = append(b, "</title></head>\n<body>\n"...)
	var to []int
	if v != linkless {
		to = w.links(n)
	}
	gap := max(0, size-len(b)+start-64*len(to)) / (len(to) + 1)
	for i := range to {
		m := to[i]
		if v == reworded {
			m = to[len(to)-1-i]
		}
		b = w.appendFiller(b, gap, &r)
		b = w.appendLink(b, n, m, &r)
	}
	b = w.appendFiller(b, gap, &r)
	return append(b, "</body></html>\n"...)
}

func (w *Web) appendFiller(b []byte, n int, r *random) []byte {
	b = append(b, "<p>"...)
	b = append(b, w.filler[r.below(fillerSpan):][:n]...)
	return append(b, '\n')
}

// appendLink spells a link as pages do: from the root within a host, absolute to another, now and
// then with a fragment.
func (w *Web) appendLink(b []byte, from, to int, r *random) []byte {
	b = append(b, "<a href=\""...)
	if w.hostNumber(from) != w.hostNumber(to) || r.below(8) == 0 {
		b = append(b, w.origin(w.hostNumber(to))...)
	}
	start := len(b)
	b = w.appendPath(b, to)
	if path := string(b[start:]); strings.Contains(path, "&") {
		b = append(b[:start], strings.ReplaceAll(path, "&", "&amp;")...)
	}
	if r.below(8) == 0 {
		b = append(b, "#part"...)
	}
	b = append(b, "\">page "...)
	b = strconv.AppendInt(b, int64(to), 10)
	return append(b, "</a>"...)
}

// appendPath appends the path and query of page n, in canonical spelling.
func (w *Web) appendPath(b []byte, n int) []byte {
	if n < w.opts.Hosts {
		return append(b, '/')
	}
	const hex = "0123456789abcdef"
	r := newRandom(w.opts.Seed, uint64(n), 'u')
	s := r.next()
	if w.classes[n] == private {
		b = append(b, "/private"...)
	}
	b = append(b, "/s"...)
	b = append(b, hex[s&15], hex[s>>4&15])
	number := func(b []byte) []byte { return strconv.AppendInt(b, int64(n), 10) }
	switch shape := s >> 8 & 15; {
	case w.classes[n] == image:
		return append(number(append(b, "/image-"...)), ".png"...)
	case shape == 0:
		return append(number(append(b, "/folder-"...)), '/')
	case shape == 1:
		return number(append(b, "/item?a=b&id="...))
	case shape == 2:
		return number(append(b, "/x/y/z/deep-"...))
	}
	b = append(b, "/t"...)
	b = append(b, hex[s>>16&15])
	return append(number(append(b, "/page-"...)), ".html"...)
}

// makeFiller makes text without mark-up.
func makeFiller(seed uint64, n int) []byte {
	words := strings.Fields(`crawler tree page link folder buffer builder frontier host queue record index
		sync commit permit batch seed depth order fetch parse store path lock shard filter state open closed`)
	r := newRandom(seed, 0, 'f')
	b := make([]byte, 0, n+32)
	for len(b) < n {
		b = append(b, words[r.below(len(words))]...)
		b = append(b, " \n"[r.below(12)/11])
	}
	return b
}

// random is a sequence of numbers that depends on the seed, a page and a purpose alone
// (SplitMix64).
type random uint64

func newRandom(seed, n uint64, purpose byte) random {
	return random(mix(mix(seed+uint64(purpose)<<56) ^ n))
}

func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func (r *random) next() uint64 {
	*r += 0x9e3779b97f4a7c15
	return mix(uint64(*r))
}

// below returns a number from 0 to n-1; n must be above 0.
func (r *random) below(n int) int {
	hi, _ := bits.Mul64(r.next(), uint64(n))
	return int(hi)
}

func (r *random) float() float64 { return float64(r.next()>>11) / (1 << 53) }
