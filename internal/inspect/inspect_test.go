package inspect

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	bolt "go.etcd.io/bbolt"
	"go.uber.org/goleak"

	"urltree/internal/edges"
	"urltree/internal/rank"
	"urltree/iut"
	"urltree/storage"
	"urltree/storage/record"
)

var update = flag.Bool("update", false, "write testdata/answers.txt anew")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open makes an inspector of an empty tree and index.
func open(t *testing.T) *Inspector {
	t.Helper()
	root := t.TempDir()
	tree, err := iut.Open(root, iut.Options{Sync: iut.SyncNone, Identity: &iut.Identity{Canonical: "1"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tree.Close() })
	file := filepath.Join(root, "index.db")
	if err := storage.Create(file); err != nil {
		t.Fatal(err)
	}
	index, err := storage.Open(file, storage.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { index.Close() })
	return &Inspector{
		Index: index, Tree: tree,
		Scope:     func(string) (reason, rule string) { return "", "any URL" },
		Form:      func(string) string { return "" },
		Robots:    func(string) (ok bool, line string, known bool) { return false, "", false },
		Edges:     func(context.Context, func(edges.Page) error) error { return nil },
		Ranks:     func() (*rank.File, error) { return nil, fs.ErrNotExist },
		Canonical: func(url string) (string, error) { return url, nil },
	}
}

// commit writes outcomes. A stored one's page goes into the tree if it has a body.
func commit(t *testing.T, i *Inspector, outcomes ...*record.Outcome) {
	t.Helper()
	for _, o := range outcomes {
		if o.Row.URL != "" && o.Row.Range == 0 {
			if rec, err := i.Index.Record(o.Row.URL); err == nil {
				tries := o.Row.Tries
				o.Row = rec.Row
				o.Row.Tries = tries
			}
		}
	}
	if _, err := i.Index.Commit(outcomes); err != nil {
		t.Fatal(err)
	}
}

// links makes links, alternately URL and source; a source "> URL" is a redirect from there.
func links(depth uint32, pairs ...string) []record.Link {
	var list []record.Link
	for k := 0; k < len(pairs); k += 2 {
		l := record.Link{URL: pairs[k], Source: pairs[k+1], Depth: depth}
		if via, ok := strings.CutPrefix(l.Source, "> "); ok {
			l.Source, l.Via, l.Hops = "https://example.org/", via, 1
		}
		list = append(list, l)
	}
	return list
}

// sample fills a tree with a record of every kind.
func sample(t *testing.T) *Inspector {
	t.Helper()
	const (
		home  = "https://example.org/"
		docs  = "https://example.org/docs/"
		moved = "https://example.org/docs/old"
	)
	i := open(t)
	if _, _, _, err := i.Index.Runs().Begin(); err != nil {
		t.Fatal(err)
	}
	outcome := func(url string, state record.State, reason string, page record.Page) *record.Outcome {
		page.Time = time.Now().Unix()
		return &record.Outcome{Row: record.Row{URL: url, Tries: 1}, State: state, Reason: reason, Page: page}
	}
	stored := func(url, source string, depth uint32, body string) *record.Outcome {
		page := record.Page{
			Time: time.Now().Unix(), Status: 200, Bytes: int64(len(body)),
			Media: "text/html", Charset: "utf-8", Flags: "-", PageDepth: depth,
		}
		p := &iut.Page{Facts: iut.Facts{URL: url, Source: source, Page: page}, Body: []byte(body)}
		if _, err := i.Tree.Store(p); err != nil {
			t.Fatal(err)
		}
		facts, ok, err := i.Tree.Complete(iut.Facts{URL: url}, true)
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		return outcome(url, record.Stored, "", facts.Page)
	}

	commit(t, i, &record.Outcome{Links: links(0, home, record.Seed, "http://127.0.0.1:8080/", record.Seed)})
	o := stored(home, record.Seed, 0, "<p>home\x1b[31m\n")
	o.Links = links(1, docs, home, moved, home, "https://example.org/private", home,
		"https://example.org:8443/", home, "https://example.org/?lang=en", home)
	commit(t, i, o)

	o = stored(docs, home, 1, "<p>docs\n")
	o.Meta = &record.Meta{
		Title: "Docs – all", Description: "What there is.", Language: "en", Canonical: docs,
		Robots: "noarchive", RobotsHeader: "kite: all",
		Headings:  []record.Heading{{Level: 1, Text: "Docs"}, {Level: 3, Text: "About\x1b"}},
		LinkTexts: []string{"All docs", "Slow"},
	}
	o.Links = links(2, "https://example.org/docs/slow", docs, "https://example.org/docs/slow?page=2", docs,
		"https://example.org.example.net/far", docs)
	o.Links[2].Held = "depth"
	o.Page.Flags = "tc"
	commit(t, i, o)

	o = outcome(moved, record.Redirected, "", record.Page{Status: 301, HeaderLinks: "https://example.org/docs/new"})
	o.Links = links(1, "https://example.org/docs/new", "> "+moved)
	commit(t, i, o)
	commit(t, i, stored("https://example.org/docs/new", home, 1, "<p>new\n"))

	slow := outcome("https://example.org/docs/slow", record.Failed, "timeout", record.Page{})
	slow.Row.Tries = 3
	commit(t, i, slow, outcome("https://example.org/private", record.Refused, "robots", record.Page{}))

	const index = "https://example.org/sitemap.xml"
	sitemap := func(url string, level uint32, source string, state record.State, reason string) *record.Outcome {
		return &record.Outcome{
			Row:   record.Row{URL: url, Kind: record.SitemapRow, Depth: level, Source: source, Tries: 1},
			State: state, Reason: reason, Page: record.Page{Time: time.Now().Unix(), Status: 200},
		}
	}
	sitemaps := sitemap(index, 1, "https://example.org/robots.txt", record.Read, "")
	sitemaps.Page.Bytes, sitemaps.Cut = 3, 1
	for _, name := range []string{"a", "b", "c"} {
		sitemaps.Links = append(sitemaps.Links, record.Link{Kind: record.SitemapRow, URL: "https://example.org/" + name + ".xml", Depth: 2, Source: index})
	}
	sitemaps.Links = append(sitemaps.Links, record.Link{URL: "https://example.org/alone", Source: index, Depth: 1})
	failed := sitemap(sitemaps.Links[0].URL, 2, index, record.Failed, "no-sitemap")
	later := sitemap(sitemaps.Links[1].URL, 2, index, record.Pending, "")
	later.Row.Tries, later.Next = 2, record.Row{Range: record.Later, Reason: "http-5xx", Due: time.Now().Add(time.Hour).UnixNano()}
	commit(t, i, sitemaps, failed, later, sitemap("https://example.org:8443/sitemap.xml", 1, "", record.Read, "redirect"))

	due := time.Now().Add(time.Minute).UnixNano()
	again := outcome("https://example.org:8443/", record.Pending, "", record.Page{})
	again.Next = record.Row{Range: record.Later, Due: due, Reason: "http-5xx", Tries: 1}
	again.Host = &record.HostTimes{Name: "example.org", Next: due, Backoff: int64(time.Minute), Fails: 1}
	commit(t, i, again)
	return i
}

// question reads a question as the command does, its flags anywhere behind the command.
func question(args ...string) (q Question) {
	if len(args) == 0 {
		return q
	}
	set := flag.NewFlagSet("", flag.PanicOnError)
	set.BoolVar(&q.Recursive, "r", false, "")
	set.Int64Var(&q.Lines, "n", 0, "")
	set.StringVar(&q.State, "state", "", "")
	set.StringVar(&q.What, "what", "", "")
	set.StringVar(&q.Format, "format", "", "")
	set.StringVar(&q.Columns, "columns", "", "")
	q.Command = args[0]
	for args = args[1:]; ; args = args[1:] {
		if err := set.Parse(args); err != nil {
			panic(err)
		}
		if args = set.Args(); len(args) == 0 {
			return q
		}
		q.URL = args[0]
	}
}

func answer(i *Inspector, args ...string) (string, error) {
	var out bytes.Buffer
	err := i.Run(context.Background(), question(args...), &out)
	return out.String(), err
}

// TestAnswers compares the answers about the sample with testdata/answers.txt, in which the
// name of a section is the question. The clock stands.
func TestAnswers(t *testing.T) {
	file := filepath.Join("testdata", "answers.txt")
	want, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		i := sample(t)
		i.Live = func() string { return "fetching for 1m0s\n3 hosts\x1b[2J resting\n" }
		i.Scope = func(url string) (reason, rule string) {
			if strings.Contains(url, "elsewhere") {
				return "scope", "-scope host, and no seed has the host elsewhere.example"
			}
			return "", "-scope any"
		}
		i.Limits = storage.Limits{Host: 1000, Prefix: 20, Query: 10, MaxHeld: 100}
		i.Form = func(url string) string {
			if strings.Contains(url, "elsewhere") {
				return "budget-repeat"
			}
			return ""
		}
		i.Robots = func(url string) (ok bool, line string, known bool) {
			switch {
			case strings.HasSuffix(url, "/private"):
				return false, "Disallow: /private", true
			case strings.Contains(url, ":8443"):
				return true, "", true
			}
			return false, "", false
		}
		for k := range want.Files {
			f := &want.Files[k]
			got, err := answer(i, strings.Fields(f.Name)...)
			if err != nil {
				got += "error: " + err.Error() + "\n"
			}
			if *update {
				f.Data = []byte(got)
			} else if diff := cmp.Diff(string(f.Data), got); diff != "" {
				t.Errorf("%s: %s", f.Name, diff)
			}
		}
	})
	if *update {
		if err := os.WriteFile(file, txtar.Format(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestErrors(t *testing.T) {
	i := sample(t)
	i.Canonical = func(url string) (string, error) {
		if strings.HasPrefix(url, "bad") {
			return "", errors.New("it is \x1b[31mbad")
		}
		return strings.TrimSuffix(url, "#x"), nil
	}
	for _, tt := range []struct {
		args string
		want error
	}{
		{"", ErrUsage},
		{"rm", ErrUsage},
		{"ls -state lost", ErrUsage},
		{"ls bad", ErrUsage},
		{"ls https://example.org/docs/ -r -state held", nil},
		{"ls https://example.org/nothing/", ErrNotFound},
		{"ls https://example.com/", ErrNotFound},
		{"ls http://", nil},
		{"show", ErrUsage},
		{"show bad", ErrUsage},
		{"show no-url", ErrUsage},
		{"show https://example.org/nothing", ErrNotFound},
		{"show https://example.org/#x", nil},
		{"path https://example.org/nothing", ErrNotFound},
		{"path https://example.org:8443/", nil},
		{"cat https://example.org/nothing", ErrNotFound},
		{"cat https://example.org:8443/", ErrNotFound},
		{"cat https://example.org/docs/old", ErrNotFound},
		{"why https://example.org/nothing", nil},
		{"why", ErrUsage},
		{"export -state lost", ErrUsage},
		{"export -columns url,urls", ErrUsage},
		{"export -columns url,status,url", ErrUsage},
		{"export -columns ,", ErrUsage},
		{"export -format xml", ErrUsage},
		{"export -columns title,URL", nil},
		{"export https://example.com/", ErrNotFound},
		{"export https://example.org/nothing", ErrNotFound},
		{"export -state refused https://example.org/docs/", nil},
	} {
		t.Run(tt.args, func(t *testing.T) {
			out, err := answer(i, strings.Fields(tt.args)...)
			if !errors.Is(err, tt.want) {
				t.Fatalf("error %v, want %v", err, tt.want)
			}
			if (err == nil) != (out != "") {
				t.Errorf("error %v with the output %q", err, out)
			}
			if err != nil && strings.ContainsFunc(err.Error(), func(r rune) bool { return r < ' ' }) {
				t.Errorf("control characters: %q", err)
			}
		})
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	cancel(enough)
	for _, args := range [][]string{{"ls"}, {"export"}, {"show", "https://example.org/"}} {
		if err := i.Run(ctx, question(args...), io.Discard); !errors.Is(err, enough) && !errors.Is(err, context.Canceled) {
			t.Errorf("%s after the end of its context: %v", args, err)
		}
	}
	full := errors.New("full")
	for _, args := range [][]string{{"ls"}, {"export"}, {"stats"}, {"why", "https://example.org/"}} {
		if err := i.Run(t.Context(), question(args...), failing{full}); !errors.Is(err, full) {
			t.Errorf("%s to an output that fails: %v", args, err)
		}
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// TestTornPage: a page that the index calls stored and whose folder is not whole is not found.
func TestTornPage(t *testing.T) {
	i := sample(t)
	const url = "https://example.org/docs/new"
	rel, err := i.Tree.Path(url)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(i.Tree.Root(), rel, "content.html"), []byte("?"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := answer(i, "cat", url); !errors.Is(err, ErrNotFound) || out != "" {
		t.Errorf("cat: %q, %v", out, err)
	}
}

// TestDamagedMeta: metadata that cannot be read do not hide the record.
func TestDamagedMeta(t *testing.T) {
	i := sample(t)
	const url = "https://example.org/docs/"
	file := filepath.Join(i.Tree.Root(), "index.db")
	if err := i.Index.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := bolt.Open(file, 0o644, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		key, err := record.Key(url)
		return errors.Join(err, tx.Bucket([]byte("meta")).Put(key, []byte("metadata")))
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	if i.Index, err = storage.Open(file, storage.Options{ReadOnly: true}); err != nil {
		t.Fatal(err)
	}
	defer i.Index.Close()
	out, err := answer(i, "show", url)
	if err != nil || !strings.Contains(out, "\nmetadata      a value of index.db is not what was written") || !strings.Contains(out, "a seed\n") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestCleanOutput: whatever a server and a record say, no control character comes out but the
// newlines and tabs of our own.
func TestCleanOutput(t *testing.T) {
	const nasty = "a\x1b[31m\r\n\tb\x9b\x7f\u0085\u202e\xff"
	i := sample(t)
	bad := &record.Outcome{
		Row: record.Row{URL: "https://example.org/?lang=en"}, State: record.Failed, Reason: nasty,
		Page: record.Page{Time: 1, Status: 200, Media: nasty, Charset: nasty, Flags: nasty, HeaderLinks: nasty},
		Links: []record.Link{
			{URL: "https://example.org/nasty", Source: nasty, Via: nasty, Held: nasty},
		},
	}
	commit(t, i, bad, &record.Outcome{
		Row: record.Row{URL: "https://example.org/docs/slow?page=2"}, State: record.Stored,
		Meta: &record.Meta{
			Title: nasty, Description: nasty, Language: nasty, Canonical: nasty, Robots: nasty, RobotsHeader: nasty,
			Headings: []record.Heading{{Level: 1, Text: nasty}}, LinkTexts: []string{nasty},
		},
	})
	i.Live = func() string { return nasty }
	i.Scope = func(string) (string, string) { return nasty, nasty }
	i.Robots = func(string) (bool, string, bool) { return false, nasty, true }
	for _, question := range []string{
		"ls -r", "export", "stats", "show https://example.org/?lang=en", "why https://example.org/?lang=en",
		"show https://example.org/docs/slow?page=2", "show https://example.org/nasty", "why https://example.org/nasty", "why https://example.org/unknown",
	} {
		out, err := answer(i, strings.Fields(question)...)
		if err != nil {
			t.Errorf("%s: %v", question, err)
		}
		for n, r := range out {
			if r != '\n' && (r != '\t' || question != "export") && (r < ' ' || r >= 0x7f) {
				t.Errorf("%s: %q at %d of %q", question, r, n, out)
			}
		}
		for line := range strings.Lines(out) {
			if question == "export" && strings.Count(line, "\t") != 9 {
				t.Errorf("ledger line %q", line)
			}
		}
	}
}

// TestMeanings: a sentence is one, and every reason that the crawler gives has one.
func TestMeanings(t *testing.T) {
	for reason := range strings.FieldsSeq(`dns connect tls timeout reset truncated too-large header
		protocol coding no-content partial http-3xx http-4xx http-5xx redirect-loop redirect-location
		fetch not-allowed panic parse-budget tree address robots noindex duplicate type length depth scope include exclude
		budget-host budget-prefix budget-query budget-repeat budget-depth max-held
		robots-unreachable no-sitemap damaged cut nesting`) {
		if text := meaning(reason); !strings.HasSuffix(text, ".") {
			t.Errorf("%s: %q", reason, text)
		}
	}
	if text := meaning("another"); text != "" {
		t.Errorf("unknown reason: %q", text)
	}
}

// TestNoTransaction: while the output is stuck, nothing of the index is held; it can even close.
func TestNoTransaction(t *testing.T) {
	for _, command := range []string{"ls -r", "export"} {
		t.Run(command, func(t *testing.T) {
			i := open(t)
			var list []record.Link
			for n := range 500 {
				url := fmt.Sprintf("https://example.org/%d/%d%s", n%50, n, strings.Repeat("x", 100))
				list = append(list, record.Link{URL: url, Source: record.Seed})
			}
			commit(t, i, &record.Outcome{Links: list})
			closing := &closingWriter{index: i.Index}
			err := i.Run(t.Context(), question(strings.Fields(command)...), closing)
			if !closing.closed {
				t.Errorf("closing the index had to wait for the output: %v", err)
			}
		})
	}
}

// closingWriter closes the index within the first Write.
type closingWriter struct {
	index  *storage.Index
	closed bool
}

func (c *closingWriter) Write(p []byte) (int, error) {
	if c.closed {
		return len(p), nil
	}
	done := make(chan struct{})
	go func() {
		c.index.Close()
		close(done)
	}()
	select {
	case <-done:
		c.closed = true
		return len(p), nil
	case <-time.After(time.Minute):
		return 0, errors.New("stuck")
	}
}

// TestWhyPauses: what waits is told to wait for room while fetching pauses, and only then.
func TestWhyPauses(t *testing.T) {
	i := sample(t)
	narrow := "1 MB free, 2 MB are needed"
	i.Pause = func() string { return narrow }
	for _, pauses := range []bool{true, false} {
		out, err := answer(i, "why", "https://example.org/alone")
		if err != nil || strings.Contains(out, "Fetching pauses: 1 MB free, 2 MB are needed.\n") != pauses {
			t.Errorf("pauses %v: %v, %s", pauses, err, out)
		}
		narrow = ""
	}
}

func TestNamed(t *testing.T) {
	for want, s := range map[string]record.Record{
		"it names 0 URLs": {},
		"it names 1 URL":  {Page: record.Page{Bytes: 1}},
		"it names 1 URL, 1 of them outside of this crawl or beyond -max-held":  {Page: record.Page{Bytes: 1}, Cut: 1},
		"it names 3 URLs, 2 of them outside of this crawl or beyond -max-held": {Page: record.Page{Bytes: 3}, Cut: 2},
	} {
		if got := named(&s); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestTypesOfMany: of a tree with many URLs, and beside a crawl, stats does not read all records.
func TestTypesOfMany(t *testing.T) {
	for name, i := range map[string]*Inspector{"many": {}, "a crawl": {Live: func() string { return "" }}} {
		var b bytes.Buffer
		w := bufio.NewWriter(&b)
		s := &Sums{}
		if s.Totals.Stored = 1; name == "many" {
			s.Totals.Stored = mostScanned + 1
		}
		if err := errors.Join(i.types(t.Context(), s), WriteStats(w, s)); err != nil {
			t.Fatal(err)
		}
		if w.Flush(); !strings.Contains(b.String(), "media types with most pages: see the statistics of the latest run") {
			t.Errorf("%s: it says %q", name, b.String())
		}
	}
}

// TestStatus: at rest a Status has the last run and the whole tree, and nothing of a crawl.
func TestStatus(t *testing.T) {
	in := open(t)
	if _, _, _, err := in.Index.Runs().Begin(); err != nil {
		t.Fatal(err)
	}
	links := []record.Link{{URL: "http://a.example/", Source: record.Seed}, {URL: "http://a.example/x", Source: record.Seed}}
	if _, err := in.Index.Commit([]*record.Outcome{{Links: links}}); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Index.Runs().Finish(); err != nil {
		t.Fatal(err)
	}
	ask := func() (s Status) {
		var b bytes.Buffer
		if err := in.Run(t.Context(), Question{Command: "status"}, &b); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(b.Bytes(), &s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	if s := ask(); s.Phase != "rest" || s.Crawl != nil || s.URLs.Waiting != 2 || s.Run.ID != 1 || s.Run.Found != 2 || !s.Run.Clean {
		t.Errorf("at rest: %+v", s)
	}
	in.Status = func(s *Status) { s.Phase, s.Crawl = "fetch", &Crawl{Stuck: 7} }
	if s := ask(); s.Phase != "fetch" || s.Crawl == nil || s.Crawl.Stuck != 7 || s.URLs.Waiting != 2 {
		t.Errorf("with a crawl: %+v", s)
	}
}
