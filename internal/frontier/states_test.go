package frontier

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"urltree/storage/record"
)

// TestStates: a host is ready, is asked, rests and is given up, and all that are in memory are
// counted, also where they are looked at in several groups.
func TestStates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const hosts = 2*hostsAtATime + 1
		var rows []record.Row
		for i := range hosts {
			rows = append(rows, row(fmt.Sprintf("h%d.example", i), 0, uint64(2*i)), row(fmt.Sprintf("h%d.example", i), 0, uint64(2*i+1)))
		}
		f := start(t, newStore(rows...), Options{Delay: time.Minute, MaxHosts: hosts})
		count := func() map[string]int {
			states, names := map[string]int{}, map[string]bool{}
			f.EachHost(func(h HostState) {
				states[h.State]++
				names[h.Name] = true
				if one, ok := f.Host(h.Name); !ok || one != h || h.Pending != 2 || h.Delay < time.Minute {
					t.Errorf("%+v, alone %+v, %v", h, one, ok)
				}
			})
			if len(names) != hosts {
				t.Errorf("%d hosts, want %d", len(names), hosts)
			}
			return states
		}
		check := func(when string, want map[string]int) {
			t.Helper()
			if got := count(); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s: %v, want %v", when, got, want)
			}
		}
		check("at first", map[string]int{HostReady: hosts})
		loans, err := f.Take(t.Context(), 1)
		if err != nil || len(loans) == 0 {
			t.Fatal("nothing is lent", err)
		}
		l := loans[0]
		check("lent", map[string]int{HostAsked: len(loans), HostReady: hosts - len(loans)})
		for _, other := range loans[1:] {
			f.Return(other, other.Rows)
		}
		f.Answered(l, Answer{Fault: Refused, Cause: "http-429"})
		f.Return(l, l.Rows)
		check("answered", map[string]int{HostResting: 1, HostReady: hosts - 1})
		if h, _ := f.Host(l.Host); h.Rest < 50*time.Second || h.Fails != 1 || h.Cause != "http-429" {
			t.Errorf("it rests for %v after %d failures: %q", h.Rest, h.Fails, h.Cause)
		}
		if _, ok := f.Host("unknown.example"); ok {
			t.Error("a host that is not there")
		}
	})
}
