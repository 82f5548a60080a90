package cleaner

import (
	"fmt"
	"reflect"
	"testing"

	"urltree/storage/record"
)

// TestFailures checks what is told of the URLs that a run could not get.
func TestFailures(t *testing.T) {
	const run = 2
	rec := func(url, source string, state record.State, in uint32, reason string) record.Record {
		return record.Record{Row: record.Row{URL: url, Source: source, Run: in, Reason: reason}, State: state}
	}
	unreached := func(r *record.Record) (string, bool) { return r.Reason, r.Reason == "dns" }
	t.Run("reasons", func(t *testing.T) {
		s := newFailureScan(run, unreached)
		for i := range 5 {
			r := rec(fmt.Sprint("http://a.org/", i), "http://a.org/", record.Failed, run, "http-4xx")
			s.add(&r)
		}
		for _, r := range []record.Record{
			rec("http://b.org/", "seed", record.Failed, run, "timeout"),
			rec("http://b.org/early", "seed", record.Failed, run-1, "timeout"),
			rec("http://b.org/from", "seed", record.Redirected, run, ""),
			rec("http://b.org/dns", "seed", record.Pending, 0, "dns"),
			rec("http://b.org/dns2", "http://a.org/", record.Pending, run, "dns"),
			rec("http://b.org/new", "http://a.org/", record.Pending, run, ""),
		} {
			s.add(&r)
		}
		want := Failures{
			Failed: 6, Unreached: 2, SeedsFailed: 2,
			Reasons: []Failure{
				{Reason: "http-4xx", Count: 5, URLs: []string{"http://a.org/0", "http://a.org/1", "http://a.org/2"}},
				{Reason: "timeout", Count: 1, URLs: []string{"http://b.org/"}},
			},
			Origins: []Failure{{Reason: "dns", Origin: "http://b.org", Count: 2, URLs: []string{"http://b.org/dns", "http://b.org/dns2"}}},
		}
		if got := s.end(); !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, want %+v", got, want)
		}
	})
	t.Run("seeds", func(t *testing.T) {
		for _, tt := range []struct {
			record record.Record
			other  int64
		}{
			{rec("http://a.org/", "seed", record.Stored, run, ""), 1},
			{rec("http://a.org/", "seed", record.Stored, run-1, ""), 0},
			{rec("http://a.org/", "seed", record.Refused, run, "robots"), 1},
			{rec("http://a.org/", "seed", record.Redirected, run, ""), 0},
			{rec("http://a.org/", "seed", record.Pending, run, ""), 1},
			{rec("http://a.org/", "http://b.org/", record.Pending, run, ""), 0},
		} {
			s := newFailureScan(run, unreached)
			s.add(&tt.record)
			if got := s.end(); got.SeedsOther != tt.other || got.SeedsFailed != 0 {
				t.Errorf("%+v: %+v", tt.record, got)
			}
		}
	})
	t.Run("origins", func(t *testing.T) {
		// Of many, those with most URLs are kept.
		s := newFailureScan(run, unreached)
		for i := range 30 {
			for range i%20 + 1 {
				r := rec(fmt.Sprintf("http://h%02d.org/", i), "seed", record.Pending, run, "dns")
				s.add(&r)
			}
		}
		got := s.end()
		if len(got.Origins) != mostOrigins || got.More != 30-mostOrigins || got.Origins[0].Origin != "http://h19.org" || got.Origins[9].Count != 11 {
			t.Errorf("%+v", got)
		}
	})
}
