package frontier

import (
	"fmt"
	"strings"
	"testing"
	"unsafe"

	"urltree/storage/record"
)

// TestAddMixesHosts: one Add may make hosts, fill them to the limit, and come back to them.
func TestAddMixesHosts(t *testing.T) {
	var rows []record.Row
	for i, host := range []string{"a.example", "b.example", "a.example", "c.example", "b.example", "a.example"} {
		rows = append(rows, row(host, 0, uint64(10-i)))
	}
	s := newStore()
	f := start(t, s, Options{MaxHosts: 2})
	f.Add(rows, s.commit(nil, rows, nil))
	for host, want := range map[string]int{"a.example": 3, "b.example": 2} {
		if h := f.hosts.byName[host]; h == nil || h.stock.count != int64(want) || h.win.len() != want {
			t.Errorf("%s: %+v, want %d rows", host, h, want)
		}
	}
	if len(f.hosts.byName) != 2 || f.counts.live != 6 || f.outsideLocked() != 1 {
		t.Errorf("%d hosts, %d rows, %d of them outside; want 2, 6, 1", len(f.hosts.byName), f.counts.live, f.outsideLocked())
	}
	if first := f.hosts.byName["a.example"].win.first(); first.Seq != 5 {
		t.Errorf("row %d is first, want the one that was told of last", first.Seq)
	}
}

// TestHostNameIsItsOwn: a host must not keep the URL alive by which it was met.
func TestHostNameIsItsOwn(t *testing.T) {
	r := row("a.example", 0, 1)
	f := start(t, newStore(), Options{})
	name := record.Host(r.URL)
	f.Add([]record.Row{r}, 1)
	if h := f.hosts.byName[name]; unsafe.StringData(h.name) == unsafe.StringData(name) {
		t.Error("the name of a host is a part of a URL")
	}
}

// TestAllocations: on its way through the frontier a URL takes a loan, a note that it is out, and
// its share of what grows. With more hosts that does not become more.
func TestAllocations(t *testing.T) {
	const urls = 20_000
	for _, hosts := range []int{100, 10_000} {
		t.Run(fmt.Sprintf("%d hosts", hosts), func(t *testing.T) {
			f, err := New(Options{Store: sortedStore{}, Memory: inMemory, PerLoan: 1, Crawlers: 12, MaxHosts: hosts})
			if err != nil {
				t.Fatal(err)
			}
			for from := 0; from < urls; from += benchSet {
				f.Add(benchRows(from, benchSet, hosts), 1)
			}
			var done []Done
			taken := 0
			allocs := testing.AllocsPerRun(1, func() {
				for end := taken + urls/3; taken < end; {
					loans, err := f.Take(t.Context(), 4)
					if err != nil {
						t.Fatal(err)
					}
					for _, l := range loans {
						f.Return(l, nil)
						done = append(done, Done{Row: l.Rows[0]})
					}
					taken += len(loans)
					f.Done(done, nil)
					done = done[:0]
				}
			}) / (urls / 3)
			t.Logf("%.2f allocations of a URL", allocs)
			if allocs > 3 { // 2.29 and 2.61 are measured: one more shows
				t.Errorf("%.2f allocations of a URL that is taken, returned and done; want at most 3", allocs)
			}
		})
	}
}

// TestNamesOfHosts: the names of hosts count towards Memory, however long they are, until their
// hosts leave.
func TestNamesOfHosts(t *testing.T) {
	const hosts, memory = 1000, 512 << 10
	var rows []record.Row
	for i := range hosts {
		rows = append(rows, row(fmt.Sprintf("h%04d.%s", i, strings.Repeat("a.", 122)+"test"), 0, uint64(i+1)))
	}
	s := newStore()
	f := start(t, s, Options{MaxHosts: hosts, Memory: memory})
	f.Add(rows, s.commit(nil, rows, nil))
	windows, names := int64(0), int64(0)
	for name, h := range f.hosts.byName {
		windows += h.win.bytes()
		names += int64(len(name))
	}
	if len(f.hosts.byName) != hosts || names < 250*hosts || windows == 0 || windows+names > memory {
		t.Errorf("names of %d hosts take %d bytes and windows %d, together at most %d", len(f.hosts.byName), names, windows, memory)
	}
}
