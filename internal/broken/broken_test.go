package broken

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	nethtml "golang.org/x/net/html"

	"urltree/internal/inspect"
	"urltree/internal/spool"
)

// answer returns the lines of an answer to "broken".
func answer(lines ...string) func(io.Writer) error {
	return func(w io.Writer) error {
		// In pieces that do not end where lines do.
		text := []byte(strings.Join(lines, "\n") + "\n")
		for len(text) > 0 {
			n := min(7, len(text))
			if _, err := w.Write(text[:n]); err != nil {
				return err
			}
			text = text[n:]
		}
		return nil
	}
}

// sum, link and target are lines of an answer.
func sum(pages, reread, waiting int64) string {
	return line(inspect.BrokenLine{Sum: &inspect.BrokenSum{Pages: pages, Reread: reread, Waiting: waiting}})
}

func link(page, to, element, text string) string {
	return line(inspect.BrokenLine{Link: &inspect.BrokenLink{Page: page, To: to, Element: element, Text: text}})
}

func target(url, state, reason string, status int64, end, time, source, how string) string {
	return line(inspect.BrokenLine{Target: &inspect.BrokenTarget{
		URL: url, State: state, Reason: reason, Status: status, End: end, Time: time, Source: source, How: how,
	}})
}

func line(l inspect.BrokenLine) string {
	text, err := json.Marshal(l)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func noProgress(int64, int64) {}

// TestProgress: what the answer says of its progress is passed on.
func TestProgress(t *testing.T) {
	var got []int64
	_, err := Write(t.Context(), "text", io.Discard, answer(sum(9, 0, 0), line(inspect.BrokenLine{Read: 4}), line(inspect.BrokenLine{Read: 8})), func(read, of int64) {
		got = append(got, read, of)
	})
	if diff := cmp.Diff([]int64{4, 9, 8, 9}, got); err != nil || diff != "" {
		t.Errorf("%v, %s", err, diff)
	}
}

// evil is what a page may have as the text of a link.
const evil = `</td><script>alert("1")</script>{{.}}=&amp;'`

// sampleAnswer has links in no order, one to a URL that is broken no more, and sources that no page
// stands for.
var sampleAnswer = answer(
	sum(9, 2, 3),
	link("http://a/2", "http://a/gone", "a", evil),
	link("http://a/1", "http://b/", "a", "up again"),
	link("http://a/1", "http://a/old", "area", ""),
	link("http://a/1", "http://a/gone", "a", "first"),
	link("http://a/1", "http://a/gone", "link", "second"),
	target("http://a/alone", "failed", "dns", 0, "", "", "", ""),
	target("http://a/gone", "failed", "http-4xx", 404, "", "2026-01-02T03:04:05Z", "http://a/1", "link"),
	target("http://a/named", "unreachable", "connect", 0, "", "", "http://a/feed", "link"),
	target("http://a/old", "redirected", "http-5xx", 503, "http://c/?a=1&b=\"2\"", "2026-01-02T03:04:05Z", "", "seed"),
	target("http://c/'onclick=alert(1)", "failed", "timeout", 0, "", "2026-01-02T03:04:05Z", "http://c/sitemap.xml", "sitemap"),
)

// sampleLinks are its rows: URL, end, page, element, text.
var sampleLinks = [][]string{
	{"http://a/gone", "", "http://a/1", "a", "first"},
	{"http://a/gone", "", "http://a/1", "link", "second"},
	{"http://a/gone", "", "http://a/2", "a", evil},
	{"http://a/named", "", "http://a/feed", "", ""},
	{"http://a/old", "http://c/?a=1&b=\"2\"", "http://a/1", "area", ""},
	{"http://a/old", "http://c/?a=1&b=\"2\"", "", "seed", ""},
	{"http://c/'onclick=alert(1)", "", "http://c/sitemap.xml", "sitemap", ""},
}

func reportOf(t *testing.T, format string) string {
	t.Helper()
	var out bytes.Buffer
	sum, err := Write(t.Context(), format, &out, sampleAnswer, noProgress)
	if want := (Sum{BrokenSum: inspect.BrokenSum{Pages: 9, Reread: 2, Waiting: 3}, Targets: 4, Links: 7}); err != nil || sum != want {
		t.Fatalf("%s: %v, %v", format, sum, err)
	}
	return out.String()
}

// TestFormats: each format has the same links, as a reader of that format sees them.
func TestFormats(t *testing.T) {
	records, err := csv.NewReader(strings.NewReader(reportOf(t, "csv"))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var got [][]string
	for _, r := range records[1:] {
		got = append(got, []string{r[0], r[4], r[6], r[7], r[8]})
	}
	if diff := cmp.Diff(sampleLinks, got); diff != "" {
		t.Errorf("csv: %s", diff)
	}

	var doc struct {
		Pages, Waiting, Targets, Links int
		Broken                         []struct {
			URL, End string
			Links    []struct{ Page, Element, Text string }
		}
	}
	d := json.NewDecoder(strings.NewReader(reportOf(t, "json")))
	if err := d.Decode(&doc); err != nil {
		t.Fatal(err)
	}
	got = nil
	for _, b := range doc.Broken {
		for _, l := range b.Links {
			got = append(got, []string{b.URL, b.End, l.Page, l.Element, l.Text})
		}
	}
	if diff := cmp.Diff(sampleLinks, got); diff != "" || doc.Targets != 4 || doc.Links != 7 || doc.Pages != 9 || doc.Waiting != 3 {
		t.Errorf("json: %+v: %s", doc, diff)
	}

	text := reportOf(t, "text")
	for _, want := range []string{
		"http://a/gone: http-4xx, status 404\n  on http://a/1 <a> \"first\"\n",
		"http://a/named: its host cannot be reached, connect\n  on http://a/feed\n",
		"http://a/old redirects to http://c/?a=1&b=\"2\": http-5xx, status 503\n  on http://a/1 <area>\n  a seed\n",
		"(1): timeout\n  in the sitemap http://c/sitemap.xml\n",
		"\n4 broken URLs with 7 links; the tree has 9 pages\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in %s", want, text)
		}
	}
}

// TestHTML: a parser of HTML finds the texts in the cells, the URLs in the links, and nothing that
// runs, fetches or stands where the page did not put it.
func TestHTML(t *testing.T) {
	text := reportOf(t, "html")
	root, err := nethtml.Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var got [][]string
	var url, end string
	allowed := strings.Fields("html head meta title style body h1 h2 p a span strong table tbody tr td")
	for n := range root.Descendants() {
		if n.Type != nethtml.ElementNode {
			continue
		}
		if !slices.Contains(allowed, n.Data) {
			t.Errorf("<%s>", n.Data)
		}
		for _, a := range n.Attr {
			if strings.HasPrefix(a.Key, "on") || a.Key == "src" || a.Key == "style" {
				t.Errorf("<%s %s=%q>", n.Data, a.Key, a.Val)
			}
		}
		switch n.Data {
		case "h2":
			url, end = content(n), ""
		case "a":
			if href := n.Attr[0].Val; content(n) != unescape(href) {
				t.Errorf("%q leads to %q", content(n), href)
			}
			if n.Parent.Data == "p" {
				end = content(n)
			}
		case "tr":
			var cells []string
			for c := range n.ChildNodes() {
				cells = append(cells, content(c))
			}
			got = append(got, slices.Concat([]string{url, end}, cells))
		}
	}
	if diff := cmp.Diff(sampleLinks, got); diff != "" {
		t.Errorf("html: %s", diff)
	}
	if !strings.Contains(html.UnescapeString(text), "4 broken URLs with 7 links") {
		t.Error("no sum")
	}
}

// unescape undoes what html/template does to a URL beside HTML's own escapes.
func unescape(href string) string {
	return strings.NewReplacer("%22", `"`, "%27", "'", "%28", "(", "%29", ")").Replace(href)
}

func content(n *nethtml.Node) string {
	var b strings.Builder
	for c := range n.Descendants() {
		if c.Type == nethtml.TextNode {
			b.WriteString(c.Data)
		}
	}
	return b.String()
}

// TestNoneBroken: a report of nothing is whole in each format.
func TestNoneBroken(t *testing.T) {
	for _, format := range Formats {
		var out bytes.Buffer
		sum, err := Write(t.Context(), format, &out, answer(sum(1, 0, 0)), noProgress)
		if err != nil || sum.Targets != 0 {
			t.Errorf("%s: %v, %v", format, sum, err)
		}
		if format == "json" && !json.Valid(out.Bytes()) {
			t.Errorf("%q", out.String())
		}
		if format == "text" && out.String() != "no broken links; the tree has 1 page\n" {
			t.Errorf("%q", out.String())
		}
	}
}

// TestErrors: what goes wrong before the end is the error of the report.
func TestErrors(t *testing.T) {
	cut := errors.New("cut")
	if _, err := Write(t.Context(), "text", io.Discard, func(io.Writer) error { return cut }, noProgress); !errors.Is(err, cut) {
		t.Error(err)
	}
	if _, err := Write(t.Context(), "text", io.Discard, answer("what"), noProgress); err == nil {
		t.Error("an answer that is none was taken")
	}
	if _, err := Write(t.Context(), "pdf", io.Discard, sampleAnswer, noProgress); !errors.Is(err, ErrFormat) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Write(ctx, "text", io.Discard, sampleAnswer, noProgress); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	full := errors.New("full")
	for _, format := range Formats {
		if _, err := Write(t.Context(), format, failing{full}, sampleAnswer, noProgress); !errors.Is(err, full) {
			t.Errorf("%s: %v", format, err)
		}
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// TestMemory: a report of many links holds as much memory as one of few.
func TestMemory(t *testing.T) {
	const targets, links = 300, 12_000
	ask := func(w io.Writer) error {
		if _, err := fmt.Fprintln(w, sum(1, 0, 0)); err != nil {
			return err
		}
		for n := range links {
			l := link(fmt.Sprintf("http://pages.example/%d", n), fmt.Sprintf("http://gone.example/%03d", n*7%targets), "a", fmt.Sprintf("the text of a link, number %d", n))
			if _, err := fmt.Fprintln(w, l); err != nil {
				return err
			}
		}
		for n := range targets {
			if _, err := fmt.Fprintln(w, target(fmt.Sprintf("http://gone.example/%03d", n), "failed", "dns", 0, "", "", "", "")); err != nil {
				return err
			}
		}
		return nil
	}
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before, most := heap(), uint64(0)
	for _, format := range []string{"json", "html"} {
		at := int64(0)
		watched := watch(func(n int) {
			if at += int64(n); at > 500_000 { // in the middle of the report
				at = -1 << 62
				most = max(most, heap())
			}
		})
		sum, err := write(t.Context(), newReport(format, watched), spool.NewSorter(16<<10, 8), ask, noProgress)
		if err != nil || sum.Links != links || sum.Targets != targets {
			t.Fatalf("%s: %v, %v", format, sum, err)
		}
	}
	if most == 0 || most > before+3<<19 {
		t.Errorf("%d bytes in the middle of a report, %d before", most, before)
	}
}

type watch func(int)

func (f watch) Write(b []byte) (int, error) {
	f(len(b))
	return len(b), nil
}

// TestExternalMarked: each format says which targets are outside of the crawl, and those alone.
func TestExternalMarked(t *testing.T) {
	known := inspect.BrokenSum{Pages: 1, Outside: 3, OutsideWaiting: 1, OutsideRefused: 1}
	outside := inspect.BrokenTarget{URL: "http://z/out", State: "failed", Reason: "dns", External: true}
	ask := answer(
		line(inspect.BrokenLine{Sum: &known}), link("http://a/", "http://a/in", "a", ""), link("http://a/", "http://z/out", "a", ""),
		target("http://a/in", "failed", "http-4xx", 404, "", "", "", ""), line(inspect.BrokenLine{Target: &outside}),
	)
	for format, want := range map[string][]string{
		"text": {"\nhttp://z/out (external): dns\n", "2 broken URLs with 2 links, 1 of them outside of the crawl; the tree has 1 page\n"},
		"csv":  {",a,,\r\n", "http://z/out,failed,dns,,,,http://a/,a,,yes\r\n"},
		"json": {`"external":{"targets":3,"waiting":1,"refused":1},"broken":`, `{"url":"http://z/out","state":"failed","reason":"dns","external":true,"links":`},
		"html": {`http://z/out</a> (external)</h2>`, "External targets not asked yet: 1"},
	} {
		var out bytes.Buffer
		sum, err := Write(t.Context(), format, &out, ask, noProgress)
		if err != nil || sum.External != 1 || sum.Targets != 2 {
			t.Errorf("%s: %+v, %v", format, sum, err)
		}
		for _, text := range want {
			if !strings.Contains(out.String(), text) {
				t.Errorf("%s: %q is not in %s", format, text, out.String())
			}
		}
		if n := strings.Count(out.String(), "(external)") + strings.Count(out.String(), `"external":true`) + strings.Count(out.String(), ",yes\r"); n != 1 {
			t.Errorf("%s: %d are marked: %s", format, n, out.String())
		}
		if format == "json" && !json.Valid(out.Bytes()) {
			t.Errorf("%s", out.String())
		}
	}
}
