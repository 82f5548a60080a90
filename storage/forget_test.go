package storage

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"urltree/internal/testseed"

	"urltree/storage/record"
)

// TestForgetModel commits random URLs with random outcomes, removes random ones, and compares what
// is left with a map. All counters, and the rows of hosts and domains, are those of what is left:
// so faultsOf finds.
func TestForgetModel(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(testseed.Draw(t), 1))
	x, _ := newIndex(t, 0)
	x.opts.Limits = Limits{Domain: 2, Host: 40, Query: 20}
	want := map[string]record.State{}
	url := func() string {
		return fmt.Sprintf("http://h%d.d%d.test/%d/%d?%d", rng.IntN(3), rng.IntN(3), rng.IntN(3), rng.IntN(4), rng.IntN(6))
	}
	for round := range 60 {
		var set []*record.Outcome
		o := &record.Outcome{}
		for range rng.IntN(60) {
			o.Links = append(o.Links, record.Link{URL: url(), Source: "http://s.test/", Depth: 1})
		}
		for n := range rng.IntN(3) {
			o.Links = append(o.Links, record.Link{Kind: record.SitemapRow, URL: fmt.Sprintf("http://h%d.d0.test/%d.xml", n, rng.IntN(9)), Depth: 1})
		}
		set = append(set, o)
		for link := range want {
			rec, err := x.Record(link)
			if err != nil {
				t.Fatal(err)
			}
			if rec.State == record.Pending && rec.Range == record.Now && rng.IntN(3) == 0 {
				end := &record.Outcome{Row: rec.Row, State: []record.State{record.Stored, record.Failed, record.Redirected, record.Refused}[rng.IntN(4)]}
				end.Page.Bytes, end.Meta = 7, &record.Meta{Title: "t"}
				if end.State != record.Stored {
					end.Meta = nil
				}
				set = append(set, end)
				want[link] = end.State
			}
		}
		if _, err := x.Commit(set); err != nil {
			t.Fatal(err)
		}
		for _, l := range o.Links {
			if rec, err := x.Record(l.URL); l.Kind == record.PageRow && err == nil {
				want[l.URL] = rec.State
			}
		}
		gone, most := &Forgetting{}, rng.IntN(40)
		if round%20 == 19 {
			most = len(want) // all
		}
		for link := range want {
			if len(gone.URLs) < most {
				gone.URLs = append(gone.URLs, link)
			} else if rng.IntN(4) == 0 {
				rec, err := x.Record(link)
				if err != nil {
					t.Fatal(err)
				}
				rec.Source = record.Forgotten
				gone.Clean = append(gone.Clean, rec)
			}
		}
		if err := x.Sitemaps().Each(context.Background(), func(s *record.Record) error {
			if round%20 == 19 || rng.IntN(3) == 0 {
				gone.Sitemaps = append(gone.Sitemaps, s.URL)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		for range 2 { // a second time it changes nothing
			if err := x.Forget(gone); err != nil {
				t.Fatal(err)
			}
		}
		for _, link := range gone.URLs {
			delete(want, link)
			if _, err := x.Record(link); !errors.Is(err, ErrNotFound) {
				t.Fatalf("%s: %v", link, err)
			}
		}
		for _, r := range gone.Clean {
			if rec, err := x.Record(r.URL); err != nil || rec.Source != record.Forgotten {
				t.Fatalf("%s has the source %q, %v", r.URL, rec.Source, err)
			}
		}
		total := x.Totals()
		if total.Records() != int64(len(want)) || total.Discovered() != int64(len(want)) {
			t.Fatalf("%d records, %d discovered, want %d", total.Records(), total.Discovered(), len(want))
		}
		if faults := faultsOf(t, x); len(faults) > 0 {
			t.Fatal(faults)
		}
		if round%20 == 19 {
			if err := x.Hosts().Each(context.Background(), func(h record.HostRow) error { return fmt.Errorf("host %s has a row", h.Name) }); err != nil {
				t.Error(err)
			}
			if d, err := x.Hosts().Domain("d0.test"); err != nil || d != (record.DomainRow{}) {
				t.Errorf("its domain has %+v, %v", d, err)
			}
		}
	}
}
