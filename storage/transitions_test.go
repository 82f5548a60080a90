package storage

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"urltree/storage/record"
)

// TestTransitions commits each event to a record of each stage: the stage that it has then, and of
// the outcomes of the run one more (+) or less (-), whether the row is told as fresh, whether the
// URL counts as a seed for scope, and whether its links are to be looked at again.
func TestTransitions(t *testing.T) {
	const url = "http://a.org/x"
	names := [stages]string{
		"eligible", "waiting", "tooDeep", "heldBack", "stored", "redirected", "redirectedAway", "failed",
		"refused", "refusedLink", "refusedFeed", "refusedPage", "elsewhere",
	}
	pending := func(in record.Range, reason string) record.Record {
		return record.Record{State: record.Pending, Row: record.Row{Range: in, Reason: reason}}
	}
	ended := func(state record.State, reason string, bytes int64) record.Record {
		return record.Record{State: state, Row: record.Row{Reason: reason}, Page: record.Page{Bytes: bytes}}
	}
	records := [stages]record.Record{
		pending(record.Now, ""), pending(record.Later, ""), pending(record.Held, record.HeldDepth), pending(record.Held, "scope"),
		ended(record.Stored, "", 1), ended(record.Redirected, "", 0), ended(record.Redirected, "scope", 0), ended(record.Failed, "timeout", 0),
		ended(record.Refused, "robots", 0), ended(record.Refused, "address", 0), ended(record.Refused, "type", 1), ended(record.Refused, "noindex", 1),
		ended(record.Refused, record.Elsewhere, 0),
	}
	outcomes := map[event]record.Outcome{
		answered:  {State: record.Failed, Reason: "timeout"},
		postponed: {State: record.Pending, Next: record.Row{Range: record.Later, Due: 7}},
		suspended: {State: record.Pending, Next: record.Row{Range: record.Held, Reason: "other"}},
		released:  {State: record.Pending, Next: record.Row{Range: record.Now}},
	}
	links := map[event]record.Link{
		seeded:    {URL: url, Source: record.Seed},
		returned:  {URL: url, Source: "http://b.org/", Via: "http://b.org/to", Depth: 5, Cookie: true},
		shortened: {URL: url, Source: "http://b.org/", Depth: 1},
		nearer:    {URL: url, Source: "http://b.org/", Depth: 1},
	}
	const none = "" // it stays what it is
	want := [stages][events]string{
		eligible:       {"failed +", "waiting", "heldBack", none, none, none, none, none},
		waiting:        {"failed +", none, "heldBack", "eligible", none, none, none, none},
		tooDeep:        {"failed +", "waiting", "heldBack", "eligible", "eligible fresh", none, "eligible fresh", none},
		heldBack:       {"failed +", "waiting", none, "eligible", "eligible fresh", none, none, none},
		stored:         {none, none, none, none, "stored scope", none, "stored links", none},
		redirected:     {none, none, none, none, "redirected scope", "eligible - fresh", "redirected links", none},
		redirectedAway: {none, none, none, none, "eligible - fresh", "eligible - fresh", "redirectedAway links", none},
		failed:         {none, none, none, none, "failed scope", none, none, none},
		refused:        {none, none, none, none, "refused scope", none, none, none},
		refusedLink:    {none, none, none, none, "eligible - fresh", none, none, none},
		refusedFeed:    {none, none, none, none, "eligible - fresh", none, "eligible - fresh", none},
		refusedPage:    {none, none, none, none, "refusedPage scope", none, "eligible - fresh", none},
		elsewhere:      {"failed +", none, none, none, "elsewhere scope", none, "eligible - fresh", none},
	}
	for from := range stages {
		for ev := range events {
			t.Run(fmt.Sprint(names[from], ev), func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "index.db")
				if err := Create(path); err != nil {
					t.Fatal(err)
				}
				limits := Limits{}
				if ev == shortened {
					limits.MaxDepth = 3
				}
				x := open(t, path, Options{NoSync: true, Strict: true, Limits: limits})
				rec := records[from]
				rec.URL, rec.Source, rec.Depth, rec.Rank, rec.Seq = url, "http://c.org/", 5, 5, 1
				if ev != nearer {
					run, _, _, err := x.Runs().Begin()
					if err != nil {
						t.Fatal(err)
					}
					rec.Run = run.ID
				}
				if stageOf(&rec) != from {
					t.Fatalf("the record is %s", names[stageOf(&rec)])
				}
				key, err := record.Key(url)
				if err != nil {
					t.Fatal(err)
				}
				if err := x.Fill(func(f *Filler) error { f.Record(key, rec); return nil }); err != nil {
					t.Fatal(err)
				}
				o, ok := outcomes[ev]
				if o.Row = rec.Row; !ok {
					o = record.Outcome{Links: []record.Link{links[ev]}}
				}
				done, err := x.Commit([]*record.Outcome{&o})
				if err != nil {
					t.Fatal(err)
				}
				after, err := x.Record(url)
				if err != nil {
					t.Fatal(err)
				}
				got := []string{names[stageOf(&after)]}
				counted := int64(0)
				for _, n := range x.Runs().Current().Outcomes {
					counted += n
				}
				got = append(got, map[int64]string{1: "+", 0: "", -1: "-"}[counted])
				if slices.ContainsFunc(done.Fresh, func(r record.Row) bool { return r.URL == url }) {
					got = append(got, "fresh")
				}
				err = x.file.View(func(tx *bolt.Tx) error {
					if tx.Bucket(record.BucketScope).Get([]byte(url)) != nil {
						got = append(got, "scope")
					}
					if tx.Bucket(record.BucketShorter).Get(key) != nil {
						got = append(got, "links")
					}
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				text := strings.Join(slices.DeleteFunc(got, func(s string) bool { return s == "" }), " ")
				if expect := want[from][ev]; text != expect && (expect != "" || text != names[from]) {
					t.Errorf("it becomes %q, want %q", text, expect)
				}
				if faults := faultsOf(t, x); len(faults) > 0 {
					t.Error(faults)
				}
			})
		}
	}
}
