package storage

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"time"

	"pgregory.net/rapid"

	"urltree/storage/record"
)

// check compares all that the index tells with the model, and the index with itself.
func (w *world) check(t *rapid.T) {
	ctx := context.Background()
	var want record.Totals
	for _, r := range w.records {
		want.Count(r, 1)
	}
	want.Seq = w.seq
	scanned, err := w.x.Verify(ctx, func(fault string) { t.Error("fault:", fault) })
	if err != nil || scanned != want || w.x.Totals() != want {
		t.Fatalf("scan %+v, %v\ncounters %+v\nwant %+v", scanned, err, w.x.Totals(), want)
	}
	// To read by key empties the inbox, so it is left for later now and then.
	if w.x.opts.ReadOnly || rapid.IntRange(0, 3).Draw(t, "by key") == 0 {
		w.checkByKey(t)
	}
	has, err := w.x.Has(universe)
	for i, url := range universe {
		if err != nil || has[i] != (w.records[url] != nil) {
			t.Fatalf("has %s: %v, %v", url, has[i], err)
		}
		rec, err := w.x.Record(url)
		rec.Found = 0 // by the clock
		if m := w.records[url]; m == nil && !errors.Is(err, ErrNotFound) || m != nil && (err != nil || rec != *m) {
			t.Fatalf("record of %s: %+v, %v\nwant %+v", url, rec, err, m)
		}
		if meta, err := w.x.Meta(url); err != nil || !reflect.DeepEqual(meta, w.meta[url]) {
			t.Fatalf("metadata of %s: %+v, %v; want %+v", url, meta, err, w.meta[url])
		}
	}
	for _, host := range []string{"a.org", "www.a.org", "b.org", "c.org"} {
		w.checkHost(t, host)
	}
	var shorter []string
	list, err := w.x.Shorter(1000)
	for _, r := range list {
		shorter = append(shorter, r.URL)
	}
	if slices.Sort(shorter); err != nil || !slices.Equal(shorter, slices.Sorted(maps.Keys(w.shorter))) {
		t.Fatalf("shorter %v, %v; want %v", shorter, err, w.shorter)
	}
	var scope []string
	err = w.x.Seeds().EachOfScope(context.Background(), func(url string) error {
		scope = append(scope, url)
		return nil
	})
	if wantScope := slices.Sorted(maps.Keys(w.scope)); err != nil || !slices.Equal(scope, wantScope) {
		t.Fatalf("scope %v, %v; want %v", scope, err, wantScope)
	}
	robots, ok, err := w.x.Hosts().Robots("http://a.org")
	if wantRobots, has := w.robots["http://a.org"]; err != nil || ok != has || robots != wantRobots {
		t.Fatalf("robots %+v, %v, %v; want %+v", robots, ok, err, wantRobots)
	}
	if got := w.x.Runs().Current(); w.run.ID != 0 && !sameRun(got, w.run) {
		t.Fatalf("run %+v\nwant %+v", got, w.run)
	}
}

// checkByKey compares what is read in the order of keys: records and folders.
func (w *world) checkByKey(t *rapid.T) {
	ctx := context.Background()
	last := ""
	n := 0
	err := w.x.Records(ctx, nil, func(r record.Record, err error) error {
		if err != nil {
			return err
		}
		r.Found = 0 // by the clock
		if m := w.records[r.URL]; m == nil || r != *m {
			t.Fatalf("record %+v\nwant %+v", r, m)
		}
		if k, _ := record.Key(r.URL); string(k) <= last {
			t.Fatalf("%s is out of order", r.URL)
		} else {
			last = string(k)
		}
		n++
		return nil
	})
	if err != nil || n != len(w.records) {
		t.Fatalf("%d records, %v; want %d", n, err, len(w.records))
	}
	w.checkFolders(t)
}

func sameRun(a, b record.Run) bool {
	a.Start, a.End, b.Start, b.End = 0, 0, 0, 0
	return reflect.DeepEqual(a, b)
}

func (w *world) checkHost(t *rapid.T, host string) {
	var later, now, held []record.Row
	var counts record.Counts
	for _, r := range w.records {
		if record.Host(r.URL) != host {
			continue
		}
		counts.Count(r, 1)
		switch {
		case r.State != record.Pending:
		case r.Range == record.Later:
			later = append(later, r.Row)
		case r.Range == record.Now:
			now = append(now, r.Row)
		default:
			held = append(held, r.Row)
		}
	}
	slices.SortFunc(later, func(a, b record.Row) int { return cmp.Or(cmp.Compare(a.Due, b.Due), cmp.Compare(a.Seq, b.Seq)) })
	slices.SortFunc(now, func(a, b record.Row) int { return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.Seq, b.Seq)) })
	slices.SortFunc(held, func(a, b record.Row) int { return cmp.Or(cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Seq, b.Seq)) })

	h, err := w.x.Hosts().Get(host)
	want := w.hosts[host]
	want.Name, want.Counts, want.Counted = host, counts, h.Counted
	if counts.Used() > 0 {
		want.Counted = 1
	}
	if err != nil || h != want {
		t.Fatalf("host %+v, %v\nwant %+v", h, err, want)
	}
	skip := ""
	if len(now) > 0 {
		skip = now[rapid.IntRange(0, len(now)-1).Draw(t, "skip")].URL
	}
	const at = 3 // some of Later are due
	var refill []record.Row
	for _, r := range later {
		if r.Due <= at {
			refill = append(refill, r)
		}
	}
	for _, r := range now {
		if r.URL != skip {
			refill = append(refill, r)
		}
	}
	n := rapid.IntRange(1, 9).Draw(t, "window")
	got, due, err := w.x.Queues().Refill(host, time.Unix(0, at), n, -1, func(url string) bool { return url == skip })
	if err != nil || !slices.Equal(got, refill[:min(n, len(refill))]) {
		t.Fatalf("refill of %s: %+v, %v\nwant %+v", host, got, err, refill)
	}
	wantDue := int64(0)
	for _, r := range later { // by Due
		if wantDue == 0 && !slices.Contains(got, r) {
			wantDue = max(r.Due, 1)
		}
	}
	if due != wantDue {
		t.Fatalf("next due of %s: %d, want %d; rows %+v", host, due, wantDue, later)
	}
	without := rapid.SampledFrom([]string{"", "depth", "scope", "budget-host", "form"}).Draw(t, "reason")
	held = slices.DeleteFunc(held, func(r record.Row) bool { return r.Reason == without })
	var heldRows []record.Row
	for from := []byte(nil); ; {
		some, next, err := w.x.Queues().HeldRows(host, from, n, func(reason string) bool { return reason != without }, func(*record.Row) bool { return true })
		if err != nil || len(some) > n {
			t.Fatalf("held of %s: %+v, %v", host, some, err)
		}
		heldRows = append(heldRows, some...)
		if from = next; from == nil {
			break
		}
	}
	if !slices.Equal(heldRows, held) {
		t.Fatalf("held of %s: %+v\nwant %+v", host, heldRows, held)
	}
}

// checkFolders goes down from the whole tree by Children and finds all records, with the
// counts of each folder.
func (w *world) checkFolders(t *rapid.T) {
	if err := w.x.Settle(context.Background()); err != nil {
		t.Fatal(err)
	}
	found := 0
	var below func(folder []byte) record.Counts
	below = func(folder []byte) record.Counts {
		var sum record.Counts
		var after []byte
		var all []record.Child
		for {
			list, err := w.x.Folders().Children(folder, after, 2)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, list...)
			for _, c := range list {
				inside := below(c.Key)
				if c.Below != inside {
					t.Fatalf("folder %q says %+v, its children %+v", c.Key, c.Below, inside)
				}
				sum = sum.Plus(inside, 1)
				if c.Record != nil {
					sum.Count(c.Record, 1)
					found++
				}
				after = c.Key
			}
			if len(list) < 2 {
				if !w.x.opts.ReadOnly {
					w.checkOpen(t, folder, all)
				}
				checkState(t, folder, sum, all)
				return sum
			}
		}
	}
	if sum := below(nil); sum != w.x.Totals().Counts || found != len(w.records) {
		t.Fatalf("%d of %d records by folder, %+v", found, len(w.records), sum)
	}
}
