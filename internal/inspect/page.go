package inspect

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"strings"

	"urltree/iut"
	"urltree/storage/record"
)

// A Page heads the answer to the question page: it stands in the first line, in JSON.
type Page struct {
	// URL is the canonical one, or, if there is no record of that, the one with the other scheme or
	// with or without a slash at the end which is stored or redirects.
	URL     string
	State   string `json:",omitempty"` // "": there is no record
	Outside bool   `json:",omitempty"` // the question leaves the URL out
	Fault   string `json:",omitempty"` // why the page that is stored cannot be read
	Media   string `json:",omitempty"`
	Charset string `json:",omitempty"`
	Bytes   int64  `json:",omitempty"` // of the page
	Digest  string `json:",omitempty"` // SHA-256 of the page
	Target  string `json:",omitempty"` // of a redirect, canonical
}

// IsStored reports whether the page can be read.
func (p *Page) IsStored() bool { return p.State == record.Stored.String() && p.Fault == "" }

// page writes what is known of a URL in a line, and then of its page, if it is stored, the bytes
// that the question names.
func (i *Inspector) page(_ context.Context, q Question, url string, w *bufio.Writer) error {
	url, r, err := i.variant(url)
	if err != nil {
		return err
	}
	key, err := record.Key(url)
	if err != nil {
		return err
	}
	inside, err := i.isBelow(key, q.Below)
	if err != nil {
		return err
	}
	head := json.NewEncoder(w)
	p := Page{URL: url, Outside: !inside, Media: r.Media, Charset: r.Charset, Bytes: r.Bytes}
	if r.State != 0 {
		p.State = r.State.String()
	}
	if r.State == record.Redirected {
		p.Target = r.HeaderLinks
	}
	if r.State != record.Stored || !inside {
		return head.Encode(&p)
	}
	p.Digest = hex.EncodeToString(r.Digest[:])
	content, err := i.Tree.Content(iut.FactsOf(r))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, iut.ErrTorn) {
		p.Fault = clean(err.Error())
		return head.Encode(&p)
	}
	if err != nil {
		return err
	}
	defer content.Close()
	if err := head.Encode(&p); err != nil {
		return err
	}
	if seeker, ok := content.(io.Seeker); ok {
		_, err = seeker.Seek(q.From, io.SeekStart)
	} else {
		_, err = io.CopyN(io.Discard, content, q.From)
	}
	if err == nil {
		_, err = io.CopyN(w, content, q.Most)
	}
	if err == io.EOF {
		return nil
	}
	return err
}

// variant returns the record of a URL, or of one that is usually the same page.
func (i *Inspector) variant(url string) (string, *record.Record, error) {
	r, err := i.record(url)
	if !errors.Is(err, ErrNotFound) {
		return url, &r, err
	}
	other := url
	if rest, ok := strings.CutPrefix(url, "http://"); ok {
		other = "https://" + rest
	} else {
		other = "http://" + strings.TrimPrefix(url, "https://")
	}
	for _, v := range []string{other, withSlash(url), withSlash(other)} {
		switch r, err := i.record(v); {
		case errors.Is(err, ErrNotFound):
		case err != nil:
			return url, &r, err
		case r.State == record.Stored || r.State == record.Redirected:
			return v, &r, nil
		}
	}
	return url, new(record.Record), nil
}

// withSlash returns a URL with the other one of the two ends of its path.
func withSlash(url string) string {
	path, query, _ := strings.Cut(url, "?")
	if rest, ok := strings.CutSuffix(path, "/"); ok {
		path = rest
	} else {
		path += "/"
	}
	if strings.Count(path, "/") < 3 {
		return url // it is the root of a host
	}
	if query != "" {
		path += "?" + query
	}
	return path
}
