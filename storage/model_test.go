package storage

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"urltree/storage/boltfile"
	"urltree/storage/record"
)

// The universe is small, so that everything happens to the same URLs.
var universe = func() (urls []string) {
	for _, origin := range []string{"http://a.org", "https://a.org", "http://www.a.org:81", "http://b.org"} {
		for _, path := range []string{"/", "/x", "/x/", "/x/y", "/x?q", "/x?r", "/x/y?q"} {
			urls = append(urls, origin+path)
		}
	}
	return urls
}()

// A world is an index and what it should hold.
type world struct {
	path    string
	strict  bool
	x       *Index
	run     record.Run // ID 0: none has begun since the index was opened
	records map[string]*record.Record
	hosts   map[string]record.HostRow
	robots  map[string]record.Robots
	scope   map[string]bool
	meta    map[string]*record.Meta
	seq     uint64
	begun   []record.Run // all runs, as far as the model knows them
	limits  Limits
	shorter map[string]bool
}

func newWorld(t *rapid.T, path string) *world {
	w := &world{
		path: path, strict: true, records: map[string]*record.Record{}, hosts: map[string]record.HostRow{},
		robots: map[string]record.Robots{}, scope: map[string]bool{}, meta: map[string]*record.Meta{}, shorter: map[string]bool{},
	}
	if err := Create(path); err != nil {
		t.Fatal(err)
	}
	w.open(t)
	return w
}

func (w *world) open(t *rapid.T) {
	budget := rapid.Int64Range(0, 4)
	w.limits = Limits{
		MaxDepth: rapid.IntRange(-1, 2).Draw(t, "max depth"), Host: budget.Draw(t, "host"),
		Prefix: budget.Draw(t, "prefix"), Query: budget.Draw(t, "query"), MaxHeld: budget.Draw(t, "held"),
	}
	var err error
	inbox := rapid.IntRange(-1, 4).Draw(t, "inbox")
	if w.x, err = Open(w.path, Options{NoSync: true, Strict: w.strict, Limits: w.limits, Inbox: inbox}); err != nil {
		t.Fatal(err)
	}
	if rapid.Bool().Draw(t, "load the filter") {
		if err := w.x.LoadFilter(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	w.run = record.Run{}
	if rapid.Bool().Draw(t, "begin a run") {
		run, _, _, err := w.x.Runs().Begin()
		if err != nil {
			t.Fatal(err)
		}
		seeds := int64(0) // found before the first run
		for _, r := range w.records {
			if len(w.begun) == 0 && r.State == record.Pending && r.Source == record.Seed {
				seeds++
			}
		}
		if run.Found != seeds {
			t.Fatalf("run %d begins with %d URLs found, want %d", run.ID, run.Found, seeds)
		}
		w.run = run
		w.begun = append(w.begun, run)
	}
}

// move moves a part of the inbox, as commits do before they begin, if there is something to be
// moved.
func (w *world) move(t *rapid.T) {
	w.x.mu.Lock()
	defer w.x.mu.Unlock()
	if movingRows(w.x) == 0 {
		t.Skip("nothing to be moved")
	}
	if err := w.x.move(); err != nil {
		t.Fatal(err)
	}
}

// read looks at the file as a reader does, who may not write.
func (w *world) read(t *rapid.T) {
	if err := w.x.Close(); err != nil {
		t.Fatal(err)
	}
	x, run, limits := w.x, w.run, w.limits
	var err error
	if w.x, err = Open(w.path, Options{ReadOnly: true}); err != nil {
		t.Fatal(err)
	}
	w.run = record.Run{}
	w.check(t)
	if err := w.x.Close(); err != nil {
		t.Fatal(err)
	}
	w.x, w.run, w.limits = x, run, limits
	w.open(t)
}

func (w *world) reopen(t *rapid.T) {
	if err := w.x.Close(); err != nil {
		t.Fatal(err)
	}
	w.open(t)
}

func (w *world) commit(t *rapid.T) {
	var set []*record.Outcome
	for range rapid.IntRange(1, 5).Draw(t, "outcomes") {
		set = append(set, w.draw(t))
	}
	want := w.apply(set)
	got, err := w.x.Commit(set)
	if err != nil {
		t.Fatal(err)
	}
	if got.New != want.New || got.Cut != want.Cut || !slices.Equal(got.Fresh, want.Fresh) || !slices.Equal(got.Next, want.Next) || !slices.Equal(got.Known, want.Known) {
		t.Fatalf("committed %+v\nwant %+v", got, want)
	}
}

func (w *world) draw(t *rapid.T) *record.Outcome {
	o := &record.Outcome{}
	url := rapid.SampledFrom(append([]string{""}, universe...)).Draw(t, "url")
	if r := w.records[url]; r != nil {
		o.Row = r.Row
		if rapid.Bool().Draw(t, "another depth") { // that of the row when it was taken, or of source.txt
			o.Row.Depth = uint32(rapid.IntRange(0, 3).Draw(t, "depth"))
		}
	} else if url != "" { // a page found in its folder
		o.Row = record.Row{URL: url, Source: record.Seed, Depth: uint32(rapid.IntRange(0, 3).Draw(t, "depth"))}
	}
	if url != "" {
		o.State = rapid.SampledFrom(record.States).Draw(t, "state")
		o.Reason = rapid.SampledFrom([]string{"", "timeout", "noindex", "address"}).Draw(t, "reason")
		o.Again = w.records[url] != nil && w.records[url].State != record.Pending && rapid.Bool().Draw(t, "again")
		switch o.State {
		case record.Pending:
			o.Next = record.Row{Range: record.Later, Due: rapid.Int64Range(1, 5).Draw(t, "due"), Tries: o.Row.Tries + 1, Spared: o.Row.Spared + 1, Reason: "503"}
			if rapid.Bool().Draw(t, "hold") {
				o.Next = record.Row{Range: record.Held, Reason: rapid.SampledFrom([]string{"depth", "scope"}).Draw(t, "why")}
			} else if rapid.Bool().Draw(t, "back") {
				o.Next = record.Row{Range: record.Now}
			}
			o.Next.Run = uint32(rapid.IntRange(0, 2).Draw(t, "run of the row"))
		default:
			o.Page = record.Page{Time: 9, Status: uint16(rapid.SampledFrom([]int{0, 200, 301, 404}).Draw(t, "status")), Flags: rapid.SampledFrom([]string{"-", "n"}).Draw(t, "flags")}
		}
		if o.State == record.Stored {
			o.Page.Bytes, o.Page.Digest[0] = rapid.Int64Range(0, 9).Draw(t, "bytes"), 1
		}
		o.Page.PageDepth = o.Row.Depth
		if rapid.Bool().Draw(t, "metadata") {
			o.Meta = &record.Meta{Title: rapid.StringN(0, 3, -1).Draw(t, "title"), Headings: []record.Heading{{Level: 2, Text: "h"}}}
		}
		if rapid.Bool().Draw(t, "times") {
			o.Host = &record.HostTimes{Name: record.Host(url), Next: rapid.Int64Range(0, 9).Draw(t, "next"), Pace: rapid.Int64Range(0, 2).Draw(t, "pace"), Kind: rapid.Int64Range(0, 2).Draw(t, "kind"), Fails: 1, Seq: rapid.Uint64Range(0, 9).Draw(t, "seq")}
		}
	}
	if rapid.IntRange(0, 9).Draw(t, "robots") == 0 {
		o.Robots = &record.Robots{Origin: "http://a.org", Time: rapid.Int64Range(0, 9).Draw(t, "at"), Status: 200, Text: "Disallow:"}
	}
	for range rapid.IntRange(0, 4).Draw(t, "links") {
		l := record.Link{
			URL: rapid.SampledFrom(universe).Draw(t, "link"), Source: "http://b.org/",
			Depth: uint32(rapid.IntRange(1, 4).Draw(t, "link depth")),
		}
		switch rapid.IntRange(0, 5).Draw(t, "kind") {
		case 0:
			l.Source, l.Depth = record.Seed, 0
		case 1:
			l.Held = "form"
		case 2:
			l.Via, l.Hops, l.Cookie = o.Row.URL, 1, true
		case 3:
			l.Source, l.Depth, l.Via, l.Areas = record.Seed, 0, o.Row.URL, []string{l.URL}
		}
		if l.Source != record.Seed && rapid.Bool().Draw(t, "scored") {
			l.Rank = 1<<40 + uint64(rapid.IntRange(0, 3).Draw(t, "rank"))
		}
		o.Links = append(o.Links, l)
	}
	return o
}

// apply says by the rules, record by record, what a set comes to.
func (w *world) apply(set []*record.Outcome) Committed {
	done := Committed{Next: make([]record.Row, len(set))}
	// Budgets count what was there before the set, and what the set has made or released.
	used, held := map[string]int64{}, map[string]int64{}
	spend := func(url string) {
		for _, at := range counted(url) {
			used[at]++
		}
	}
	for url, r := range w.records {
		if r.Range == record.Held {
			held[record.Host(url)]++
		} else {
			spend(url)
		}
	}
	hold := func(l record.Link) (reason string, full bool) {
		if l.Source == record.Seed {
			spend(l.URL)
			return "", false
		}
		if reason = l.Held; reason == "" && w.limits.TooDeep(l.Depth) {
			reason = record.HeldDepth
		}
		for i, at := range counted(l.URL) {
			over := []struct {
				most   int64
				reason string
			}{{w.limits.Host, record.HeldHost}, {w.limits.Query, record.HeldQuery}, {w.limits.Prefix, record.HeldPrefix}}[min(i, 2)]
			if over.most > 0 && used[at] >= over.most && at != "" && (reason == "" || reason == record.HeldQuery && over.reason == record.HeldPrefix) {
				reason = over.reason
			}
		}
		if reason == "" {
			spend(l.URL)
		}
		return reason, reason != "" && w.limits.MaxHeld > 0 && held[record.Host(l.URL)] >= w.limits.MaxHeld
	}
	release := func(r *record.Record) {
		if r.Reason, _ = hold(record.Link{URL: r.URL, Source: r.Source, Depth: r.Depth}); r.Reason == "" {
			r.Range = record.Now
		}
	}
	nearer := func(r *record.Record, depth uint32) {
		if depth >= r.Depth {
			return
		}
		if r.Rank == uint64(r.Depth) {
			r.Rank = uint64(depth)
		}
		r.Depth = depth
		switch {
		case w.limits.MaxDepth == 0:
		case r.State == record.Pending && r.Range == record.Held && r.Reason == record.HeldDepth:
			if release(r); r.Range == record.Now {
				done.Fresh = append(done.Fresh, r.Row)
			}
		case r.State == record.Stored || r.State == record.Redirected:
			w.shorter[r.URL] = true
		case r.State == record.Refused && r.Reason == "noindex":
			w.uncount(r)
			r.State, r.Page, r.Range, r.Tries, r.Spared, r.Due, r.Reason, r.Run, r.Cut = record.Pending, record.Page{}, record.Now, 0, 0, 0, "", w.run.ID, 0
			r.Generation++
			done.Fresh = append(done.Fresh, r.Row)
		}
	}
	create := func(row record.Row) *record.Record {
		w.seq++
		row.Run, row.Range, row.Seq = w.run.ID, record.Now, w.seq
		if row.Rank == 0 {
			row.Rank = uint64(row.Depth)
		}
		r := &record.Record{State: record.Pending, Row: row}
		w.records[row.URL] = r
		w.run.Found++
		done.New++
		return r
	}
	times := map[string]record.HostTimes{} // the last answers that the set brings
	for i, o := range set {
		if o.Row.URL != "" {
			r := w.records[o.Row.URL]
			if r == nil {
				r = create(record.Row{URL: o.Row.URL, Source: o.Row.Source, Depth: o.Row.Depth})
				spend(r.URL)
			}
			switch {
			case o.Again:
				delete(w.shorter, r.URL)
			case r.State != record.Pending:
			case o.State == record.Pending && o.Next.Range == record.Held && o.Next.Reason == record.HeldDepth && !w.limits.TooDeep(r.Depth):
				done.Next[i] = r.Row
			case o.State == record.Pending && o.Next.Range == record.Now && r.Range == record.Held:
				release(r)
				done.Next[i] = r.Row
			default:
				done.Next[i] = w.outcome(r, o)
			}
		}
		cut, from := done.Cut, w.records[o.Row.URL]
		near := uint32(0)
		if w.limits.MaxDepth != 0 && from != nil && o.Page.PageDepth > from.Depth {
			near = o.Page.PageDepth - from.Depth
		}
		for _, l := range o.Links {
			l.Depth -= min(l.Depth, near)
			r := w.records[l.URL]
			if r != nil && l.Rank != 0 {
				done.Known = append(done.Known, KnownLink{w.x.Filter().Fingerprint(l.URL), l.Rank})
			}
			switch {
			case r == nil:
				reason, full := hold(l)
				if full {
					done.Cut++
					continue
				}
				r = create(record.Row{URL: l.URL, Source: l.Source, Via: l.Via, Depth: l.Depth, Hops: l.Hops, Cookie: l.Cookie, Rank: l.Rank})
				if reason != "" {
					r.Range, r.Reason = record.Held, reason
					held[record.Host(r.URL)]++
				} else {
					done.Fresh = append(done.Fresh, r.Row)
				}
			case l.Source == record.Seed && r.Source != record.Seed && l.Via == "":
				if r.State == record.Refused && r.Reason == "address" || r.State == record.Redirected && r.Reason != "" {
					w.uncount(r)
					r.State, r.Page, r.Range, r.Tries, r.Spared, r.Due, r.Reason, r.Run, r.Cut = record.Pending, record.Page{}, record.Held, 0, 0, 0, "", w.run.ID, 0
					r.Generation++
					delete(w.shorter, r.URL)
				}
				if r.State != record.Pending {
					w.scope[r.URL] = true
					nearer(r, 0)
				} else {
					r.Source, r.Via, r.Hops, r.Cookie, r.Depth = record.Seed, "", 0, false, 0
					was := r.Range
					if was != record.Later {
						r.Range, r.Rank, r.Reason = record.Now, 0, ""
					}
					if was == record.Held {
						done.Fresh = append(done.Fresh, r.Row)
					}
				}
			case l.Cookie && r.State == record.Redirected && r.Reopened < 2:
				w.uncount(r)
				r.State, r.Reopened, r.Page, r.Cut = record.Pending, r.Reopened+1, record.Page{}, 0
				r.Generation++
				r.Range, r.Reason, r.Via, r.Hops, r.Cookie, r.Run = record.Now, "", l.Via, l.Hops, l.Cookie, w.run.ID
				delete(w.shorter, r.URL)
				done.Fresh = append(done.Fresh, r.Row)
			case (w.run.ID == 0 || w.limits.MaxDepth != 0) && l.Depth < r.Depth: // shorter ways count in a rebuild
				if w.run.ID == 0 && r.State == record.Pending {
					r.Source, r.Via, r.Hops, r.Cookie = l.Source, l.Via, l.Hops, l.Cookie
				}
				nearer(r, l.Depth)
			}
		}
		if cut = done.Cut - cut; from != nil && from.State != record.Pending && (cut > 0 || o.Again) {
			from.Cut = uint32(cut)
		}
		if h := o.Host; h != nil && times[h.Name].Seq <= h.Seq {
			times[h.Name] = *h
		}
		if o.Robots != nil {
			w.robots[o.Robots.Origin] = *o.Robots
		}
	}
	for name, t := range times {
		if old, ok := w.hosts[name]; !ok || old.Run != w.run.ID || old.Seq <= t.Seq {
			w.hosts[name] = record.HostRow{HostTimes: t, Run: w.run.ID}
		}
	}
	// A URL that a link of the set opened again is told of once, by its outcome.
	for i, o := range set {
		if r := w.records[o.Row.URL]; !o.Again && r != nil && r.State == record.Pending && done.Next[i].Range == 0 {
			done.Next[i] = r.Row
			done.Fresh = slices.DeleteFunc(done.Fresh, func(f record.Row) bool { return f.URL == r.URL })
		}
	}
	return done
}

// counted returns names for what a URL counts towards: its host, its path if it has a query, and
// each folder above it.
func counted(url string) []string {
	rest, _, _ := strings.Cut(url, "?")
	list := []string{record.Host(url), ""}
	if rest != url {
		list[1] = "query of " + rest
		list = append(list, rest) // its page lies in the folder of its path
	}
	origin := record.Origin(url) + "/"
	for rest != origin {
		rest = rest[:strings.LastIndexByte(rest, '/')]
		if rest = rest + ""; len(rest) < len(origin) {
			break
		}
		list = append(list, rest)
	}
	return list
}

func (w *world) outcome(r *record.Record, o *record.Outcome) record.Row {
	r.Spared = max(r.Spared, o.Row.Spared)
	r.Tries = max(r.Tries, o.Row.Tries) // it may have been reopened by the same set
	if o.State == record.Pending {
		r.Range, r.Due, r.Reason, r.Run = o.Next.Range, o.Next.Due, o.Next.Reason, o.Next.Run
		if r.Range != record.Held {
			r.Run = cmp.Or(r.Run, w.run.ID)
		}
		r.Tries, r.Spared = max(r.Tries, o.Next.Tries), max(r.Spared, o.Next.Spared)
		return r.Row
	}
	r.State, r.Reason, r.Page, r.Range, r.Due, r.Run = o.State, o.Reason, o.Page, 0, 0, w.run.ID
	if o.State == record.Stored {
		if r.Source == record.Seed || o.Row.Source == record.Seed {
			w.scope[r.URL] = true
		}
		r.Source, r.Depth = o.Row.Source, min(r.Depth, o.Row.Depth)
		w.meta[r.URL] = o.Meta
	}
	for _, l := range o.Links {
		if o.State == record.Redirected && r.Source == record.Seed && len(l.Areas) > 0 {
			w.scope[l.URL] = true
		}
	}
	w.count(r, 1)
	return record.Row{}
}

// count adds n times the outcome of a record to the run.
func (w *world) count(r *record.Record, n int64) {
	if w.run.ID == 0 {
		return
	}
	w.run.Outcomes[strings.TrimSpace(r.State.String()+" "+r.Reason)] += n
	if r.Status != 0 {
		w.run.Statuses[fmt.Sprintf("%dxx", r.Status/100)] += n
	}
	for _, counters := range []map[string]int64{w.run.Outcomes, w.run.Statuses} {
		maps.DeleteFunc(counters, func(_ string, n int64) bool { return n == 0 })
	}
	if r.Flags == "n" {
		w.run.NoFollow += n
	}
	if r.State == record.Stored {
		w.run.Stored += n
		w.run.Bytes += n * r.Bytes
		if r.Source != record.Seed {
			w.run.NewURLs += n
		}
	}
}

// uncount takes back an outcome of this run that is to come again.
func (w *world) uncount(r *record.Record) {
	if r.Run == w.run.ID {
		w.count(r, -1)
	}
}

func (w *world) retry(t *rapid.T) {
	key, err := record.Key(rapid.SampledFrom(universe).Draw(t, "below"))
	if err != nil {
		t.Fatal(err)
	}
	state := rapid.SampledFrom([]record.State{record.Failed, record.Stored}).Draw(t, "of")
	want := 0
	for url, r := range w.records {
		if k, _ := record.Key(url); r.State == state && strings.HasPrefix(string(k), string(key)) {
			w.uncount(r)
			r.State, r.Page, r.Range, r.Tries, r.Spared, r.Due, r.Reason, r.Run = record.Pending, record.Page{}, record.Now, 0, 0, 0, "", w.run.ID
			r.Cut, r.Generation = 0, r.Generation+1
			delete(w.shorter, url)
			delete(w.meta, url)
			want++
		}
	}
	got, err := w.x.Reopen(context.Background(), key, func(r *record.Record) bool { return r.State == state }, nil)
	if err != nil || got != want {
		t.Fatalf("reopened %d, %v; want %d", got, err, want)
	}
}

func TestModel(t *testing.T) {
	dir, n := t.TempDir(), 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		w := newWorld(t, filepath.Join(dir, fmt.Sprintf("%d.db", n)))
		defer func() {
			w.x.Close()
			os.Remove(w.path)
		}()
		t.Repeat(map[string]func(*rapid.T){
			"commit":  w.commit,
			"commit2": w.commit, // more often than the others
			"retry":   w.retry,
			"reopen":  w.reopen,
			"copy":    w.copyFile,
			"read":    w.read,
			"move":    w.move,
			"":        w.check,
		})
	})
}

// copyFile goes on with a copy of the file as it is between two transactions, as after a kill.
func (w *world) copyFile(t *rapid.T) {
	b, err := os.ReadFile(w.path)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.x.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(w.path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	if rapid.Bool().Draw(t, "compact") {
		if err := boltfile.Compact(w.path, true); err != nil {
			t.Fatal(err)
		}
	}
	w.open(t)
}
