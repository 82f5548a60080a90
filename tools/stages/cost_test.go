package stages

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"golang.org/x/net/html"

	"urltree/crawler"
	"urltree/crawler/scope"
	"urltree/internal/extract/scan"
	"urltree/internal/faultfs"
	"urltree/internal/fetch"
	"urltree/iut"
)

// What a page of a handbook may cost: 15 % more than the most that it did in twelve runs, half of
// them beside other work, when the figure was last renewed. That most stands behind it. Of what
// hardly varies it is 3 to 10 % more, so that one call of each page shows.
//
// To renew them run the second command of the package comment, which prints what is measured. A
// figure that has become smaller is renewed as well, or the next growth goes unseen. One that has
// to become larger is a decision: its commit says why.
var most = struct {
	allocations   float64 // of a page, in a crawl from end to end
	warcAllocs    float64 // the same with WARC files
	calls         float64 // of the file system seam, of a page: make a folder, open, write, close
	warcCalls     float64 // the same with WARC files: a write
	systemCalls   float64 // of a page, but for those that go by time
	opened        float64 // of these, those that open a file or folder of the tree
	steadyCalls   float64 // of these, all that neither open nor close anything
	securedCalls  float64 // of a page by TLS, HTTP/2 and gzip, but for those that go by time
	securedSteady float64 // of these, all that neither open nor close anything
	securedAllocs float64 // allocations of such a page
	decodeAllocs  float64 // allocations that a body in gzip takes beside those of the same one as it is
	bytes         float64 // written of a page besides its content: source.txt, index, results, the request
	warcBytes     float64 // the same with WARC files: what else stands in the records
	indexPages    float64 // of the index, each of 4 KiB, that 1,000 pages of the web write
	indexAllocs   float64 // allocations of the index, of a page
	scannerLeast  float64 // how many times quicker the scanner is than the tokenizer: two thirds of the least that was measured
}{
	allocations:   180,   // 156.4, at least 139.1
	warcAllocs:    200,   // 174.0, at least 169.8
	calls:         7.5,   // 7.05
	warcCalls:     1.1,   // 1.03
	systemCalls:   18.8,  // 16.4 with eight threads, 15.5 with two, at least 13.5
	opened:        2.85,  // 2.60 with eight threads, 2.49 with two, at least 2.19; without the folder that is kept, 3.06
	steadyCalls:   9.5,   // 9.04, at least 8.69
	securedCalls:  14.4,  // 12.5 with eight threads, 12.0 with two, at least 11.4
	securedSteady: 8.2,   // 7.43, at least 6.78
	decodeAllocs:  4.5,   // 4 each time; 9 by a reader
	securedAllocs: 183,   // 158.7, at least 135.9
	bytes:         7_350, // 6,390, at least 4,320, by the number of commits
	warcBytes:     9_500, // 6,900, at least 6,270, when those of folders were at most 4,850
	indexPages:    653,   // 633.5, each time
	indexAllocs:   105,   // 100.7, at least 100.5
	scannerLeast:  5,     // 7.2
}

// TestCostOfCrawl crawls a handbook from end to end, into either store.
func TestCostOfCrawl(t *testing.T) {
	skipRaced(t)
	t.Run("folders", func(t *testing.T) {
		costOfCrawl(t, crawler.Options{}, most.calls, most.bytes, most.allocations)
	})
	t.Run("warc", func(t *testing.T) {
		costOfCrawl(t, crawler.Options{Storage: crawler.Storage{Store: crawler.StoreWARC, WARC: crawler.WARC{Plain: true}}}, most.warcCalls, most.warcBytes, most.warcAllocs)
	})
}

func costOfCrawl(t *testing.T, o crawler.Options, mostCalls, mostBytes, mostAllocs float64) {
	const pages = 1500
	h := serveHandbook(t, pages)
	dir := t.TempDir()
	tree := filepath.Join(dir, "iut")
	if err := mkdir(tree); err != nil {
		t.Fatal(err)
	}
	disk, err := iut.OpenDisk(tree, iut.SyncNone)
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	count := faultfs.Count(disk)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	written, counted := bytesWritten(t)
	o.Tree, o.Output, o.Seeds, o.Scope = tree, filepath.Join(dir, "res.txt"), []string{h.url}, scope.Host
	o.Delay, o.PerHost, o.NoSync, o.FlushInterval, o.FS = -1, 5, true, time.Hour, count
	result, err := crawler.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	writtenAfter, _ := bytesWritten(t)
	written = writtenAfter - written - h.written.Load()
	if result.Run.Stored != pages {
		t.Fatalf("%d pages stored, want %d", result.Run.Stored, pages)
	}
	calls := 0
	for _, call := range count.Calls() {
		if !strings.HasPrefix(call, "sync") { // these are of a flush
			calls++
		}
	}
	guard(t, "calls of the file system seam, of a page", float64(calls)/pages, mostCalls)
	if counted {
		guard(t, "bytes written besides a page", float64(written)/pages-pageSize, mostBytes)
	}
	guard(t, "allocations of a page", float64(after.Mallocs-before.Mallocs)/pages, mostAllocs)
}

// skipRaced: the race detector lets pools forget, and is slow enough for another number of commits.
func skipRaced(t *testing.T) {
	if raced {
		t.Skip("costs are looked at without the race detector: make test does both")
	}
}

// guard compares what was measured of a page with what it may be.
func guard(t *testing.T, what string, is, most float64) {
	t.Helper()
	if is > most {
		t.Errorf("%s: %.2f, at most %.2f", what, is, most)
		return
	}
	t.Logf("%s: %.2f, at most %.2f", what, is, most)
}

// TestCostOfIndex commits a handbook of 30,000 pages, a thousand at a time: so many that a list of
// the inbox becomes long twice, and is moved.
func TestCostOfIndex(t *testing.T) {
	skipRaced(t)
	c := newCommits(t, 1000)
	var before, after runtime.MemStats
	pages, waiting, moved := c.index.Stats().Written, c.index.Stats().Waiting, false
	runtime.ReadMemStats(&before)
	for range 30 {
		c.next(t)
		now := c.index.Stats().Waiting
		moved, waiting = moved || now < waiting, now
	}
	runtime.ReadMemStats(&after)
	if !moved {
		t.Error("no list of the inbox was moved")
	}
	guard(t, "pages of the index, for 1,000 of the web", 1000*float64(c.index.Stats().Written-pages)/float64(c.n), most.indexPages)
	guard(t, "allocations of the index, of a page", float64(after.Mallocs-before.Mallocs)/float64(c.n), most.indexAllocs)
}

// TestCostOfDecoding compares answers in gzip with the same ones as they are: a body that is one
// member is decoded at once, without a reader and without a buffer that grows.
func TestCostOfDecoding(t *testing.T) {
	skipRaced(t)
	text := page(0, 1000)
	var coded bytes.Buffer
	w := gzip.NewWriter(&coded)
	_, err := w.Write(text)
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	allocations := func(coding string, body []byte) float64 {
		c := fetch.New(fetch.Options{Source: func(context.Context, string) (*http.Response, error) {
			head := http.Header{"Content-Type": {"text/html"}}
			if coding != "" {
				head.Set("Content-Encoding", coding)
			}
			return &http.Response{
				StatusCode: http.StatusOK, Header: head, ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body)),
			}, nil
		}})
		defer c.Close()
		return testing.AllocsPerRun(500, func() {
			res, err := c.Get(t.Context(), "http://docs.example/", fetch.Request{})
			if err != nil || res.Body.Len() != pageSize {
				t.Fatal(res, err)
			}
			res.Body.Release()
		})
	}
	guard(t, "allocations to decode a body", allocations("gzip", coded.Bytes())-allocations("", text), most.decodeAllocs)
}

// TestCostOfScanning: the scanner beside the tokenizer, on the same pages in the same process.
func TestCostOfScanning(t *testing.T) {
	skipRaced(t)
	pages := realPages(t)
	took := func(read func([]byte) int) time.Duration {
		start := time.Now()
		for _, p := range pages {
			if n := read(p.body); n != len(p.refs) {
				t.Fatalf("%s: %d links, want %d", p.url, n, len(p.refs))
			}
		}
		return time.Since(start)
	}
	scanner, tokenizer := time.Hour, time.Hour
	for range 200 { // the machine may have something else to do; the least is what it takes
		scanner, tokenizer = min(scanner, took(countLinks)), min(tokenizer, took(countTokens))
	}
	if ratio := float64(tokenizer) / float64(scanner); ratio < most.scannerLeast {
		t.Errorf("the scanner is %.1f times quicker than the tokenizer (%v, %v), at least %.1f", ratio, scanner, tokenizer, most.scannerLeast)
	} else {
		t.Logf("the scanner is %.1f times quicker than the tokenizer (%v, %v), at least %.1f", ratio, scanner, tokenizer, most.scannerLeast)
	}
}

// countLinks counts the links of a page by the scanner.
func countLinks(page []byte) (n int) {
	for s := scan.New(links, page, true); s.Next() == scan.Start; {
		if _, ok := s.Attr(0); ok {
			n++
		}
	}
	return n
}

// countTokens does the same by the tokenizer.
func countTokens(page []byte) (n int) {
	z := html.NewTokenizer(bytes.NewReader(page))
	for {
		switch z.Next() {
		case html.ErrorToken:
			if z.Err() != io.EOF {
				panic(z.Err())
			}
			return n
		case html.StartTagToken, html.SelfClosingTagToken:
			name, more := z.TagName()
			isLink := string(name) == "a" || string(name) == "area"
			for isLink && more {
				var key []byte
				if key, _, more = z.TagAttr(); string(key) == "href" {
					n++
				}
			}
		}
	}
}
