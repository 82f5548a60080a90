package frontier

import (
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"urltree/storage/record"
)

// TestHops: ways of robots.txt that lead over other hosts, known ones, new ones and ones that have
// no place in memory, come to their end by the turn of each host, and no row is lost.
func TestHops(t *testing.T) {
	for _, maxHosts := range []int{0, 2} {
		synctest.Test(t, func(t *testing.T) {
			const hosts = 20
			s := newStore()
			var rows []record.Row
			for i := range hosts {
				for k := range 3 {
					rows = append(rows, row(fmt.Sprintf("h%d.example", i), 0, uint64(10*i+k)))
				}
			}
			for _, r := range rows {
				s.rows[r.URL] = r
			}
			known, last, hops := map[string]bool{}, map[string]time.Time{}, 0
			f := start(t, s, Options{
				Delay: time.Second, MaxHosts: maxHosts, Run: 1, Live: int64(len(rows)),
				NeedRobots: func(origin string) bool { return !known[origin] },
			})
			for {
				loans, err := f.Take(t.Context(), 1)
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				for _, l := range loans {
					if !f.Begin(l) {
						t.Fatalf("%s may not begin", l.Host)
					}
					if at, asked := last[l.Host]; asked && time.Since(at) < time.Second {
						t.Errorf("%s is asked %v after the last time", l.Host, time.Since(at))
					}
					last[l.Host] = time.Now()
					times := f.Answered(l, Answer{Took: 1})
					origin, hop := robotsOf(l), int(l.Rows[0].Hops)
					switch {
					case origin != "" && hop < 3:
						// Over the next host, then one that nobody knows, then its own.
						to := fmt.Sprintf("http://h%d.example/x", (len(origin)+hop+hops)%hosts)
						if hop == 1 {
							to = "http://new.example/x"
						}
						if hops++; hop == 2 {
							to = origin + "/y"
						}
						if ok, err := f.Redirected(l, to); !ok || err != nil {
							t.Fatalf("%v, %v", ok, err)
						}
					case origin != "":
						known[origin] = true
					}
					f.Return(l, nil)
					var done []Done
					for _, r := range l.Rows {
						done = append(done, Done{Row: r})
					}
					s.commit(done, nil, []record.HostTimes{times})
					f.Done(done, []record.HostTimes{times})
				}
			}
			if st := f.figures(); st.Removed != int64(len(rows)) || st.Eligible != 0 || hops != 3*hosts {
				t.Errorf("%d rows done, %d left, of %d; %d hops", st.Removed, st.Eligible, len(rows), hops)
			}
			if f.hosts.redirects != 0 {
				t.Errorf("%d bytes of hops are left", f.hosts.redirects)
			}
		})
	}
}
