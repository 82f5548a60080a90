package crawler

import (
	"cmp"
	"crypto/sha1"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strconv"
	"strings"
	"time"

	"urltree/crawler/weburl"
	"urltree/internal/captures"
	"urltree/internal/extract"
	"urltree/internal/fetch"
	"urltree/internal/warc"
	"urltree/iut"
	"urltree/storage/record"
)

// An origin is what an archive says of where a URL comes from.
type origin struct {
	source     string // the URL that it was found on, or record.Seed; "": nothing is said
	via        string // the URL that redirected to it; "": none, or not said
	redirected bool   // source is the URL that redirected to it
	depth      int    // links from a seed; -1: not said
	time       int64  // of the outcome, in Unix seconds; 0: not said
}

// isSeed reports whether a URL is to be a seed: it is said to be one, or nothing is said of it.
func (o origin) isSeed() bool { return o.source == "" || o.source == record.Seed && o.via == "" }

// url returns the URL that a capture is imported under, "" if it is no answer to a request for a
// page, or only for a part of it.
func (i *importing) url(c *captures.Capture) string {
	url := i.canonical(c.URL)
	answer := fetch.Response{Status: c.Answer.StatusCode, Header: c.Answer.Header}
	switch {
	case url == "", pathOf(url) == "/robots.txt", c.Method() != http.MethodGet:
		return ""
	case c.Kind == warc.Response && (answer.Partial() || answer.Status == http.StatusNotModified):
		return ""
	}
	return url
}

// canonical returns the canonical form of a URL as the tree has it, "" if it has none.
func (i *importing) canonical(text string) string {
	url, err := weburl.Canonical(text)
	if url = i.e.rules.linker.strip.Apply(url); err != nil || len(url) > maxRecord {
		return ""
	}
	return url
}

// originOf returns what an archive says of where a URL comes from: by the facts of a tree's own
// segments; by the fields of an export, or of Heritrix; or by the Referer of its request.
func (i *importing) originOf(c *captures.Capture, url string) (o origin) {
	if f, err := iut.ParseFacts(c.About["facts"]); err == nil && f.URL == url {
		return origin{source: f.Source, via: i.canonical(c.About["redirected-from"]), depth: int(f.PageDepth), time: f.Time}
	}
	o = origin{depth: -1}
	if at, err := time.Parse(time.RFC3339, c.About["time"]); err == nil {
		o.time = at.Unix()
	}
	via := c.About["via"]
	if via == "" {
		via = c.Referer()
	}
	if via != record.Seed {
		if via = i.canonical(via); via == url {
			via = ""
		}
	}
	if o.source = via; via == "" {
		return o
	}
	o.via = i.canonical(c.About["redirected-from"])
	if depth, err := strconv.ParseUint(c.About["depth"], 10, 31); err == nil {
		o.depth = int(depth)
	}
	if hops, ok := c.About["hopsfromseed"]; ok {
		o.depth, o.redirected = hopsFromSeed(hops)
		if o.redirected {
			o.via = o.source
		}
	}
	return o
}

// hopsFromSeed reads the way from a seed as Heritrix writes it, a letter for each hop: R is a
// redirect, and P what has to be asked before. Of a long way the number of the first ones stands
// before a plus sign.
func hopsFromSeed(path string) (depth int, redirected bool) {
	path = strings.TrimSpace(path)
	if first, rest, ok := strings.Cut(path, "+"); ok {
		n, _ := strconv.ParseUint(first, 10, 16)
		depth, path = int(n), rest
	}
	depth += len(path) - strings.Count(path, "R") - strings.Count(path, "P")
	return depth, strings.HasSuffix(path, "R")
}

// addAbout adds to an answer what only the metadata of a capture says: of a body alone the headers
// that counted, and that it was cut.
func (i *importing) addAbout(c *captures.Capture, res *fetch.Response) {
	res.Truncated = res.Truncated || c.Truncated && res.Status/100 == 2
	if c.Kind != warc.Resource {
		return
	}
	if status, err := strconv.ParseUint(c.About["status"], 10, 16); err == nil && status/100 == 2 {
		res.Status = int(status)
	}
	if strings.Contains(c.About["flags"], flagNoFollow) {
		res.Header.Set("X-Robots-Tag", "nofollow")
	}
	res.Header["Link"] = extract.LinkHeader(strings.Fields(c.About["links"]))
}

// read reads the answer of a capture; of a revisit the body is that of the record which it is the
// same as. It returns what is to be closed, nil if nothing is, and false if there is no such body.
func (i *importing) read(c *captures.Capture, url string, a *arrival) (from io.Closer, ok bool, err error) {
	if c.Kind != warc.Revisit {
		return nil, true, i.take(c, c.Answer, a)
	}
	if !strings.Contains(c.Profile, "identical-payload-digest") {
		return nil, false, nil // it has only the headers that say that nothing has changed
	}
	at, ok, err := i.scan.Original(c.Place)
	if err != nil {
		return nil, false, err
	}
	if !ok {
		return i.readFromTree(c, url, a)
	}
	original, from, err := i.files.At(at)
	if err != nil {
		if captures.IsDamage(err) {
			err = nil
		}
		return nil, false, err
	}
	answer, head := c.Answer, c.Head
	if head == nil {
		answer, c.Head = original.Answer, original.Head
	}
	answer.Body, answer.ContentLength, answer.TransferEncoding = original.Answer.Body, original.Answer.ContentLength, original.Answer.TransferEncoding
	return from, true, i.take(c, answer, a)
}

// readFromTree is read for a revisit of a page that an earlier run has stored: the body has to have
// the digest that the revisit names.
func (i *importing) readFromTree(c *captures.Capture, url string, a *arrival) (from io.Closer, ok bool, err error) {
	rec, err := i.e.store.index.Record(cmp.Or(i.canonical(c.RefersTo), url))
	if err != nil || rec.State != record.Stored {
		if isAbsent(err) {
			err = nil
		}
		return nil, false, err
	}
	for again := range 2 {
		body, answer, err := i.e.store.tree.Answer(iut.FactsOf(&rec))
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, iut.ErrTorn):
			return nil, false, nil
		case err != nil:
			return nil, false, err
		}
		if again == 1 {
			if answer == nil {
				c.Answer.Header.Del("Content-Encoding") // the digest is that of the decoded body
			}
			c.Answer.Body, c.Answer.ContentLength = body, -1
			return body, true, i.take(c, c.Answer, a)
		}
		sum := sha1.New()
		if _, err := io.Copy(sum, body); err != nil || !strings.EqualFold(warc.DigestOf([sha1.Size]byte(sum.Sum(nil))), c.Digest) {
			return nil, false, body.Close()
		}
		if err := body.Close(); err != nil {
			return nil, false, fmt.Errorf("%w: %w", iut.ErrDisk, err)
		}
	}
	return nil, false, nil
}
