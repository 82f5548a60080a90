package storage

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"urltree/internal/testseed"
	"urltree/storage/record"
)

// after has all pages due so long after a look.
type after time.Duration

func (a after) Next(l *record.Look, _ int64) int64 { return l.Time*int64(time.Second) + int64(a) }

func (after) Place(*record.Look, int64) int64 { return 0 }

// dueNow returns the rows of stored pages that Refill reads of a host, by URL.
func dueNow(t *testing.T, x *Index, host string) map[string]record.Row {
	t.Helper()
	rows, _, err := x.Queues().Refill(host, time.Now().Add(time.Hour), 1_000, 0, func(string) bool { return false })
	if err != nil {
		t.Fatal(err)
	}
	found, behind := map[string]record.Row{}, false
	for _, r := range rows {
		if r.Kind == record.RevisitRow {
			found[r.URL] = r
		}
		if behind = behind || r.Kind == record.RevisitRow && r.Range == record.Now; behind && r.Kind == record.PageRow {
			t.Errorf("%s was not asked yet, and stands behind pages that were", r.URL)
		}
	}
	return found
}

// storeAll stores all pages of newIndex.
func storeAll(t *testing.T, x *Index) (urls []string) {
	t.Helper()
	var set []*record.Outcome
	for host := range 4 {
		rows, _, err := x.Queues().Refill(fmt.Sprintf("host%d.org", host), time.Now(), 1_000, -1, func(string) bool { return false })
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			set = append(set, &record.Outcome{Row: r, State: record.Stored, Page: record.Page{Time: 1_000, Status: 200, Bytes: 5}})
			urls = append(urls, r.URL)
		}
	}
	if _, err := x.Commit(set); err != nil {
		t.Fatal(err)
	}
	return urls
}

// TestRevisits does in any order what may happen to stored pages that are asked again, and compares
// the index with a map: when each is due, which ones may be asked, and what it holds. All of them
// stay stored, and nothing of them is pending.
func TestRevisits(t *testing.T) {
	rng := rand.New(rand.NewPCG(testseed.Draw(t), 0))
	x, _ := newIndex(t, 40)
	x.opts.Recrawl = after(time.Minute)
	ctx, now := t.Context(), time.Now()
	urls := storeAll(t, x)
	counts := x.Totals().Counts
	if counts.Stored == 0 {
		t.Fatal("nothing is stored")
	}
	due, asks, size := map[string]int64{}, map[string]bool{}, map[string]int64{}
	for _, url := range urls {
		due[url], size[url] = 1_000*int64(time.Second)+int64(time.Minute), 5
	}
	for range 300 {
		url := urls[rng.IntN(len(urls))]
		switch rng.IntN(4) {
		case 0:
			at := []int64{0, record.DueAtOnce, now.Add(time.Hour).UnixNano()}[rng.IntN(3)]
			key, _ := record.Key(url)
			if _, err := x.Revisits().Mark(ctx, key, func(*record.Record) int64 { return at }); err != nil {
				t.Fatal(err)
			}
			if !asks[url] {
				due[url] = at
			}
		case 1:
			n, want := 0, 0
			got, err := x.Revisits().Queue(ctx, now, func(rows []record.Row, _ uint64) { n += len(rows) })
			for url, at := range due {
				if at != 0 && at <= now.UnixNano() {
					asks[url], due[url] = true, 0
					want++
				}
			}
			if err != nil || n != want || got != want {
				t.Fatalf("%d rows, and %d, want %d: %v", got, n, want, err)
			}
		default:
			rows := dueNow(t, x, record.Host(url))
			row, ok := rows[url]
			if ok != asks[url] {
				t.Fatalf("%s may be asked: %v, want %v", url, ok, asks[url])
			}
			if !ok {
				continue
			}
			o := &record.Outcome{Row: row, Page: record.Page{Time: now.Unix(), Status: 200, Bytes: int64(rng.IntN(100))}}
			asks[url], due[url] = false, now.Unix()*int64(time.Second)+int64(time.Minute)
			switch rng.IntN(5) {
			case 0:
				o.State, o.Next = record.Pending, record.Row{Range: record.Later, Due: now.Add(time.Second).UnixNano()}
				asks[url], due[url] = true, 0
			case 1:
				o.State, o.Next = record.Pending, record.Row{Range: record.Held, Reason: "host given up"}
				due[url] = -1
			case 2:
				o.State, o.Same = record.Stored, true
			case 3:
				o.State, o.Reason = record.Failed, "http-4xx"
			default:
				o.State, size[url] = record.Stored, o.Page.Bytes
			}
			for range 2 { // of an outcome that comes twice the first counts
				done, err := x.Commit([]*record.Outcome{o})
				if err != nil || (done.Next[0].Range != 0) != asks[url] {
					t.Fatal(done.Next, err)
				}
			}
			if due[url] == -1 {
				r, err := x.Record(url)
				if err != nil || r.Due < now.Add(time.Minute).UnixNano() {
					t.Fatalf("%+v, %v", r, err)
				}
				due[url] = r.Due
			}
		}
	}
	n := int64(0)
	for _, url := range urls {
		r, err := x.Record(url)
		if err != nil || r.State != record.Stored || !asks[url] && r.Due != due[url] || r.Bytes != size[url] || (r.Revisits() == 1) != asks[url] {
			t.Errorf("%+v, want due %d, asked now %v, %d bytes: %v", r, due[url], asks[url], size[url], err)
		}
		n += r.Revisits()
	}
	if got := x.Totals(); got.Counts != counts || got.Revisits != n {
		t.Errorf("%+v, want %+v and %d to be asked", got, counts, n)
	}
	if faults := faultsOf(t, x); len(faults) > 0 {
		t.Errorf("faults: %q", faults)
	}
}

// TestRevisitsDueAreFound: what is due is found by reads that do not grow with what is stored.
func TestRevisitsDueAreFound(t *testing.T) {
	looked := map[int]int64{}
	for _, n := range []int{200, 2_000} {
		x, _ := newIndex(t, n)
		x.opts.Recrawl = after(time.Hour * 24 * 365 * 90)
		urls := storeAll(t, x)
		key, _ := record.Key(urls[n/20])
		if _, err := x.Revisits().Mark(t.Context(), key, func(*record.Record) int64 { return record.DueAtOnce }); err != nil {
			t.Fatal(err)
		}
		before := x.Stats().Looked
		if got, err := x.Revisits().Queue(t.Context(), time.Now(), nil); err != nil || got != 1 {
			t.Fatal(got, err)
		}
		if looked[n] = x.Stats().Looked - before; looked[n] > 10 {
			t.Errorf("%d keys were looked at in a tree of %d pages", looked[n], n)
		}
	}
	if looked[200] != looked[2_000] {
		t.Errorf("keys looked at by the number of pages: %v", looked)
	}
}

// TestRevisitFaults: check notices rows and looks that do not fit the records.
func TestRevisitFaults(t *testing.T) {
	for name, spoil := range map[string]func(tx *bolt.Tx, url string, key []byte) error{
		"row is gone": func(tx *bolt.Tx, _ string, _ []byte) error {
			k, _ := tx.Bucket(record.BucketRevisit).Cursor().First()
			return tx.Bucket(record.BucketRevisit).Delete(k)
		},
		"one row too many": func(tx *bolt.Tx, _ string, key []byte) error {
			return tx.Bucket(record.BucketRevisit).Put((&record.Record{Row: record.Row{Due: 7}}).AppendRevisitKey(nil, key), make([]byte, 4))
		},
		"host counts another number": func(tx *bolt.Tx, url string, _ []byte) error {
			h, err := record.DecodeHost(record.Host(url), tx.Bucket(record.BucketHost).Get([]byte(record.Host(url))))
			h.Revisits++
			return errors.Join(err, tx.Bucket(record.BucketHost).Put([]byte(h.Name), h.Append(nil)))
		},
		"look is damaged": func(tx *bolt.Tx, _ string, key []byte) error {
			return tx.Bucket(record.BucketLook).Put(key, []byte("damaged"))
		},
		"look at what is not there": func(tx *bolt.Tx, _ string, _ []byte) error {
			key, _ := record.Key("http://nowhere.org/")
			return tx.Bucket(record.BucketLook).Put(key, (&record.Look{State: record.Stored}).Append(nil, key))
		},
	} {
		t.Run(name, func(t *testing.T) {
			x, _ := newIndex(t, 4)
			urls := storeAll(t, x)
			if _, err := x.Revisits().Mark(t.Context(), nil, func(*record.Record) int64 { return record.DueAtOnce }); err != nil {
				t.Fatal(err)
			}
			if _, err := x.Revisits().Queue(t.Context(), time.Now(), nil); err != nil {
				t.Fatal(err)
			}
			if faults := faultsOf(t, x); len(faults) > 0 {
				t.Fatalf("before: %q", faults)
			}
			key, _ := record.Key(urls[0])
			if err := x.file.Update(func(tx *bolt.Tx) error { return spoil(tx, urls[0], key) }); err != nil {
				t.Fatal(err)
			}
			if faults := faultsOf(t, x); len(faults) == 0 {
				t.Error("check finds nothing")
			}
		})
	}
}

// TestForgottenIsNotAskedAgain: of what is forgotten no row and no look is left.
func TestForgottenIsNotAskedAgain(t *testing.T) {
	x, _ := newIndex(t, 8)
	urls := storeAll(t, x)
	ctx := t.Context()
	mark := func() {
		t.Helper()
		if _, err := x.Revisits().Mark(ctx, nil, func(r *record.Record) int64 {
			if slices.Contains(urls, r.URL) {
				return record.DueAtOnce
			}
			return 0
		}); err != nil {
			t.Fatal(err)
		}
		if _, err := x.Revisits().Queue(ctx, time.Now(), nil); err != nil {
			t.Fatal(err)
		}
	}
	mark()
	row := dueNow(t, x, record.Host(urls[0]))[urls[0]]
	if _, err := x.Commit([]*record.Outcome{{Row: row, State: record.Stored, Same: true, Page: record.Page{Time: 2_000}}}); err != nil {
		t.Fatal(err)
	}
	mark()
	if err := x.Forget(&Forgetting{URLs: urls[:2]}); err != nil {
		t.Fatal(err)
	}
	left := map[string]record.Row{}
	for host := range 4 {
		maps.Copy(left, dueNow(t, x, fmt.Sprintf("host%d.org", host)))
	}
	for _, url := range urls[:2] {
		if _, ok := left[url]; ok {
			t.Errorf("%s is to be asked", url)
		}
		if _, ok, err := x.Revisits().Look(url); ok || err != nil {
			t.Errorf("a look at %s is left: %v", url, err)
		}
	}
	if len(left) != len(urls)-2 || x.Totals().Revisits != int64(len(left)) {
		t.Errorf("%d are left, counted %d", len(left), x.Totals().Revisits)
	}
	if faults := faultsOf(t, x); len(faults) > 0 {
		t.Errorf("faults: %q", faults)
	}
}

// TestLooks: what is kept of looks at one page, one after the other. The time from which on a page
// is gone, has moved or fails begins anew where one of them becomes another, so that none is taken
// for longer than it was seen to be.
func TestLooks(t *testing.T) {
	x, _ := newIndex(t, 1)
	url := storeAll(t, x)[0]
	const away = "http://away.example/"
	for i, tt := range []struct {
		state   record.State
		status  uint16
		other   bool // content
		since   int64
		changed int64
		back    int64
		target  string
	}{
		{state: record.Failed, status: 500, since: 1},
		{state: record.Failed, status: 404, since: 2},
		{state: record.Failed, status: 410, since: 2},
		{state: record.Redirected, status: 301, since: 4, target: away},
		{state: record.Redirected, status: 302, since: 4, target: away},
		{state: record.Failed, status: 404, since: 6},
		{state: record.Stored, status: 200, other: true, changed: 7, back: 7},
		{state: record.Stored, status: 304, changed: 7, back: 7},
		{state: record.Redirected, status: 301, changed: 7, back: 7, since: 9, target: away},
	} {
		run, _, _, err := x.Runs().Begin()
		if err != nil {
			t.Fatal(err)
		}
		key, err := record.Key(url)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := x.Revisits().Mark(t.Context(), key, func(*record.Record) int64 { return record.DueAtOnce }); err != nil {
			t.Fatal(err)
		}
		var rows []record.Row
		if _, err := x.Revisits().Queue(t.Context(), time.Now(), func(list []record.Row, _ uint64) { rows = list }); err != nil || len(rows) != 1 {
			t.Fatal(rows, err)
		}
		o := &record.Outcome{Row: rows[0], State: tt.state, Same: tt.state == record.Stored && !tt.other, Page: record.Page{Time: int64(i + 1), Status: tt.status}}
		if tt.state == record.Redirected {
			o.Page.HeaderLinks = away
		}
		if tt.other {
			o.Difference = record.Difference{Bits: 3, Added: 2, Removed: 1}
		}
		if _, err := x.Commit([]*record.Outcome{o}); err != nil {
			t.Fatal(err)
		}
		l, ok, err := x.Revisits().Look(url)
		if err != nil || !ok {
			t.Fatal(l, ok, err)
		}
		if l.Since != tt.since || l.Changed != tt.changed || l.Back != tt.back || l.Target != tt.target || (l.Difference == record.Difference{Bits: 3, Added: 2, Removed: 1}) != (tt.changed != 0) {
			t.Errorf("look %d: %+v, want %+v", i+1, l, tt)
		}
		// The run of each look is as many as the look.
		if l.SinceRun != tt.since || l.ChangedRun != tt.changed || l.BackRun != tt.back || run.ID != uint32(i+1) {
			t.Errorf("look %d, of run %d: %+v", i+1, run.ID, l)
		}
	}
	if err := x.Forget(&Forgetting{Looks: []string{url}}); err != nil {
		t.Fatal(err)
	}
	if l, ok, err := x.Revisits().Look(url); l.Target != "" || !l.Moved() || !ok || err != nil {
		t.Errorf("%+v, %v, %v", l, ok, err)
	}
}
