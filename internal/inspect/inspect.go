// Package inspect answers questions about a tree, the same with a crawl going on or without: ls,
// show, cat, path, why, versions, export, broken and stats. [Duplicates] needs no more than the
// folders.
//
// No read transaction is open while an answer is written, however slowly it is taken, and the
// memory that an answer needs does not grow with the tree. So an answer given during a crawl
// holds what each of its lines was at its own moment.
//
// Of what the web sent, nothing but the page reaches the output as it is, of export as text or in
// UTF-8: all else is cleaned, so that it cannot steer a terminal or break a line.
package inspect

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"

	"urltree/internal/edges"
	"urltree/internal/rank"
	"urltree/iut"
	"urltree/storage"
	"urltree/storage/record"
)

var (
	// ErrUsage says that a question cannot be answered as it stands; its text tells how to ask.
	ErrUsage = errors.New("usage")
	// ErrNotFound says that there is no such URL, or no page of it.
	ErrNotFound = errors.New("not found")
)

// An Inspector answers questions about one tree. Index and Tree may be in use by a crawl; what can
// be nil says so. All methods may be called from any goroutine if the functions may.
type Inspector struct {
	Index *storage.Index
	Tree  *iut.Tree
	// Live returns the state of the crawl that is going on, for stats; nil: there is none.
	Live func() string
	// Progress returns that state as it is to be encoded in JSON; nil: there is no crawl.
	Progress func() any
	// Status adds to a Status what the crawl that is going on knows; nil: there is no crawl.
	Status func(*Status)
	// Pause returns why fetching pauses, such as for room on the disk, or ""; nil: nothing pauses.
	Pause func() string
	// Working returns the URLs that the crawl has in hand; nil: it has none.
	Working func() []string
	// Scope returns why scope rejects a URL, or "", and in words the rule that decides.
	Scope func(url string) (reason, rule string)
	// Form returns the reason why a URL is held for its path alone, or "".
	Form func(url string) string
	// Limits are those by which URLs are held.
	Limits storage.Limits
	// Robots reports whether robots.txt lets a URL be asked and by which line; known is false
	// while there is no answer of its origin.
	Robots func(url string) (ok bool, line string, known bool)
	// Edges calls fn with each page of the link graph, as repair.Graph does.
	Edges func(ctx context.Context, fn func(edges.Page) error) error
	// Ranks opens what crawler rank has found, fs.ErrNotExist if it was never asked.
	Ranks func() (*rank.File, error)
	// Others are of the other trees that an export is of, which no crawl has.
	Others []*Inspector
	// Tell, if not nil, is told how far an export is: how many of how many, of which it has as many
	// as the question asks for. total 0: nobody knows.
	Tell func(what string, done, total int64)
	// Software names the program in the archives that it writes.
	Software string
	// Canonical makes the one spelling of a URL that somebody typed.
	Canonical func(string) (string, error)
}

// A Question is what somebody wants to know. It is JSON on its way to the crawl that has the tree.
//
// A URL prefix ends where a folder does: a scheme ("https://"), a host, or a path with or without
// its last slash; "" is the whole tree.
type Question struct {
	// Command is what to write:
	//
	//	ls      what lies below a URL prefix, with states and counts
	//	show    the record and metadata of a URL, field by field
	//	cat     its content.html
	//	path    its folder below the root of the tree
	//	why     what happened to it, or what it waits for
	//	export  the ledger below a URL prefix, a row per record, or what What says
	//	broken  broken links, for a program to put in order: see ReadBroken
	//	stats   totals and runs
	//	sums    Sums in JSON, of which WriteStats makes that text
	//	seeds   the lines of seeds.txt with the states of their URLs
	//	forgotten  what is forgotten
	//	page    a Page in a line, and a part of the stored page
	//	versions  a line for each version of a page that is kept
	//	stored versions  a StoredPage in a line for each of these
	//	list    a Listing of what is directly below a URL prefix
	//	stored  a StoredPage in a line
	//	pages   a StoredPage in a line for each of the stored pages below a URL prefix
	//	progress  the state of the crawl that is going on, in JSON
	//	status  a Status in JSON
	Command string
	URL     string `json:",omitempty"` // or a URL prefix

	Below string `json:",omitempty"` // of page: the URL prefix outside of which it is left out
	From  int64  `json:",omitempty"` // of page: the first byte of the page that is written
	Most  int64  `json:",omitempty"` // of page: bytes at most
	After string `json:",omitempty"` // of list and pages: Listing.Next, StoredPage.Next of the part before

	Recursive bool   `json:",omitempty"` // of ls: folders below folders too
	Lines     int64  `json:",omitempty"` // of ls, list and pages: at most so many; of ls 0: all
	State     string `json:",omitempty"` // of ls and export: only what is in it; "": any
	What      string `json:",omitempty"` // of export: urls, pages, edges, ranks, warc, cdxj, wacz or mirror; "": urls
	At        int64  `json:",omitempty"` // of show and cat: the page as it was at this time, in Unix seconds; 0: as it is
	Format    string `json:",omitempty"` // of versions: tsv or jsonl; of export: tsv, csv, jsonl, parquet, of edges also graphml or dot; of warc and cdxj gzip or plain; "": the first
	Columns   string `json:",omitempty"` // of export: names of columns of urls and pages, with commas between them; "": the usual ones
	Since     int64  `json:",omitempty"` // of export and pages: only what was answered from this time on, in Unix seconds
	Until     int64  `json:",omitempty"` // of export and pages: only what was answered before this time; 0: now and later too
	Text      string `json:",omitempty"` // of export of pages, urls and wacz: which texts, plain or main; "": of wacz none
}

// Ways of asking, as usage errors name them.
const (
	usageLs     = "ls [-r] [-state S] [-n N] [URL-PREFIX]"
	usageExport = "export [-what W] [-format F] [-columns C] [-state S] [-from T] [-to T] [-text T] [URL-PREFIX]"

	usageServe  = "serve [-listen ADDR] [URL-PREFIX]"
	usageBroken = "broken [-format F] [-fail] [-output FILE] [URL-PREFIX]"

	commands = "ls, show, cat, path, why, versions, export, broken, stats"
)

// Run answers a question by writing to w. Errors: ErrUsage, ErrNotFound, the cause of ctx, or what
// failed in the index, the tree or w.
func (i *Inspector) Run(ctx context.Context, q Question, w io.Writer) error {
	out := bufio.NewWriterSize(w, 32<<10)
	err := i.run(ctx, q, out)
	return cmp.Or(err, out.Flush())
}

func (i *Inspector) run(ctx context.Context, q Question, w *bufio.Writer) error {
	switch q.Command {
	case "ls":
		return i.ls(ctx, q, w)
	case "export":
		return i.export(ctx, q, w)
	case "broken":
		if i.Live != nil {
			return i.broken(ctx, q, markWords/8, w)
		}
		return i.broken(ctx, q, markWords, w)
	case "list":
		return i.list(ctx, q, w)
	case "pages":
		return i.pages(ctx, q, w)
	case "stats":
		return i.stats(ctx, w)
	case "sums":
		return i.jsonSums(ctx, w)
	case "seeds":
		return i.seeds(ctx, w)
	case "forgotten":
		return i.forgotten(w)
	case "status":
		return i.status(w)
	case "progress":
		if i.Progress == nil {
			return fmt.Errorf("%w: no crawl is going on", ErrNotFound)
		}
		return json.NewEncoder(w).Encode(i.Progress())
	}
	one := map[string]func(ctx context.Context, url string, w *bufio.Writer) error{
		"show": func(ctx context.Context, url string, w *bufio.Writer) error { return i.show(ctx, q, url, w) },
		"cat":  func(ctx context.Context, url string, w *bufio.Writer) error { return i.cat(q, url, w) },
		"path": i.path, "why": i.why,
		"versions":        func(ctx context.Context, url string, w *bufio.Writer) error { return i.versions(ctx, q, url, w) },
		"stored versions": i.storedVersions,
		"page":            func(ctx context.Context, url string, w *bufio.Writer) error { return i.page(ctx, q, url, w) },
		"stored":          i.stored,
	}[q.Command]
	if one == nil {
		return fmt.Errorf("%w: no command %q, but these: %s", ErrUsage, q.Command, commands)
	}
	url, err := i.canonical(q.URL, q.Command+" URL")
	if err != nil {
		return err
	}
	return one(ctx, url, w)
}

func (i *Inspector) canonical(url, usage string) (string, error) {
	canonical, err := i.Canonical(url)
	if err == nil {
		_, err = record.Key(canonical)
	}
	if err != nil {
		return "", fmt.Errorf("%q: %s; %w: crawler %s", url, clean(err.Error()), ErrUsage, usage)
	}
	return canonical, nil
}

// folder returns the key of the folder that a URL prefix, as in a Question, names; nil: the whole
// tree. A prefix that is none is ErrUsage, with the usage of the subcommand.
func (i *Inspector) folder(prefix, usage string) ([]byte, error) {
	switch prefix {
	case "":
		return nil, nil
	case "http://", "https://":
		return append([]byte(strings.TrimSuffix(prefix, "://")), 0), nil
	}
	url, err := i.canonical(prefix, usage)
	if err != nil {
		return nil, err
	}
	key, err := record.Key(url)
	// A slash at the end means the folder before it, not the page that the slash names.
	if lastSlash := []byte{0, record.Segment, 0}; bytes.HasSuffix(key, lastSlash) {
		key = key[:len(key)-2]
	}
	return key, err
}

// lastKind returns the kind of a key's last component, such as record.Label; 0: a scheme, or none.
func lastKind(key []byte) byte {
	i := bytes.LastIndexByte(key[:max(len(key), 1)-1], 0)
	if i < 0 {
		return 0
	}
	return key[i+1]
}

func (i *Inspector) record(url string) (record.Record, error) {
	rec, err := i.Index.Record(url)
	if errors.Is(err, storage.ErrNotFound) {
		return rec, fmt.Errorf("%w: %s is not in the index", ErrNotFound, url)
	}
	return rec, err
}

// clean replaces what does not print: control characters above all, which a server may send in
// a media type, or in a robots.txt.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}

// orDash returns a cleaned field, "-" for an empty one.
func orDash(s string) string { return clean(cmp.Or(s, "-")) }
