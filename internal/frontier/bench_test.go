package frontier

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"urltree/storage"
	"urltree/storage/record"
)

// A sortedStore serves hosts whose rows are added and done in order.
type sortedStore map[string][]record.Row

func (s sortedStore) Refill(host string, _ time.Time, n, _ int, skip func(string) bool) ([]record.Row, int64, error) {
	rows := make([]record.Row, 0, n)
	for _, r := range s[host] {
		if len(rows) == n {
			break
		}
		if !skip(r.URL) {
			rows = append(rows, r)
		}
	}
	return rows, 0, nil
}

func (s sortedStore) NextHosts(string, int) ([]record.HostRow, uint64, error) { return nil, 0, nil }

func (s sortedStore) HostAt(string) (h record.HostRow, tx uint64, err error) { return h, 0, nil }

// What a benchmark tells the frontier at a time: about as many links as a commit finds new.
const benchSet = 10_000

// benchRows makes rows from..from+n, round robin over the hosts, ten at a depth.
func benchRows(from, n, hosts int) []record.Row {
	rows := make([]record.Row, n)
	for i := range rows {
		seq := uint64(from + i)
		rows[i] = row(fmt.Sprintf("host-%d.example", seq%uint64(hosts)), seq/uint64(hosts)/10, seq)
	}
	return rows
}

// inMemory is more than any window of a benchmark takes.
const inMemory = 1 << 40

// BenchmarkMemory adds many URLs to a frontier, round robin over many hosts, and takes, answers,
// returns and ends them one by one, all in memory. The figures are per second of CPU time.
func BenchmarkMemory(b *testing.B) {
	for _, o := range allOrders() {
		for _, hosts := range []int{10_000, 100_000, 1_000_000} {
			urls := 500_000
			if os.Getenv("TEST_URLTREE_FULL") != "" {
				urls = 10_000_000
			} else if hosts > urls {
				continue
			}
			b.Run(fmt.Sprintf("%s/hosts=%d/URLs=%d", o.name, hosts, urls), func(b *testing.B) {
				var adding, taking time.Duration
				for b.Loop() {
					f, err := New(o.options(Options{Store: sortedStore{}, Memory: inMemory, PerLoan: 1, Crawlers: 12}))
					if err != nil {
						b.Fatal(err)
					}
					adding += benchAdd(f, urls, hosts)
					taking += benchTake(b, f, urls, nil)
					if s := f.figures(); s.Refills > 0 {
						b.Fatalf("%d refills", s.Refills)
					}
				}
				all := float64(urls * b.N)
				b.ReportMetric(all/adding.Seconds(), "added/s")
				b.ReportMetric(all/taking.Seconds(), "taken/s")
			})
		}
	}
}

// BenchmarkSeam takes URLs of which only the few that the usual memory holds are there: the rest
// comes from the index. To write outcomes is not its matter, and not in its time.
func BenchmarkSeam(b *testing.B) {
	const urls, hosts = 200_000, 10_000
	for _, memory := range []int64{inMemory, 4 << 20} {
		b.Run(fmt.Sprintf("MiB=%d", memory>>20), func(b *testing.B) {
			var taking time.Duration
			var refills int64
			for b.Loop() {
				index := benchIndex(b, urls, hosts)
				f, err := New(Options{Store: index.Queues(), Memory: memory, MaxHosts: hosts, PerLoan: 1, Crawlers: 12, Live: urls})
				if err != nil {
					b.Fatal(err)
				}
				taking += benchTake(b, f, urls, index)
				refills += f.figures().Refills
				if err := index.Close(); err != nil {
					b.Fatal(err)
				}
			}
			all := float64(urls * b.N)
			b.ReportMetric(all/taking.Seconds(), "taken/s")
			b.ReportMetric(float64(refills)/all, "refills/URL")
		})
	}
}

func benchIndex(b *testing.B, urls, hosts int) *storage.Index {
	path := filepath.Join(b.TempDir(), "index.db")
	if err := storage.Create(path); err != nil {
		b.Fatal(err)
	}
	index, err := storage.Open(path, storage.Options{NoSync: true})
	if err != nil {
		b.Fatal(err)
	}
	index.Filter().SetComplete()
	for from := 0; from < urls; from += benchSet {
		o := &record.Outcome{}
		for _, r := range benchRows(from, benchSet, hosts) {
			o.Links = append(o.Links, record.Link{URL: r.URL, Source: "http://source.example/", Depth: r.Depth})
		}
		if _, err := index.Commit([]*record.Outcome{o}); err != nil {
			b.Fatal(err)
		}
	}
	return index
}

// cpuTime is that of this process so far, collector and all: others may use the machine.
func cpuTime() time.Duration {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r) // never fails
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// benchAdd adds so many URLs, and returns the time that it took.
func benchAdd(f *Frontier, urls, hosts int) (took time.Duration) {
	for from := 0; from < urls; from += benchSet {
		rows := benchRows(from, benchSet, hosts)
		begin := cpuTime()
		f.Add(rows, 1)
		took += cpuTime() - begin
	}
	return took
}

// benchTake takes all URLs, and gives the time that it took. With an index their outcomes are
// committed.
func benchTake(b *testing.B, f *Frontier, urls int, index *storage.Index) (took time.Duration) {
	var done []Done
	taken := 0
	begin := cpuTime()
	end := func() {
		if index != nil {
			took += cpuTime() - begin
			set := make([]*record.Outcome, len(done))
			for i := range done {
				set[i] = &record.Outcome{Row: done[i].Row, State: record.Failed}
			}
			if _, err := index.Commit(set); err != nil {
				b.Fatal(err)
			}
			begin = cpuTime()
		}
		f.Done(done, nil)
		done = done[:0]
	}
	for taken < urls {
		loans, err := f.Take(b.Context(), 4)
		if err != nil {
			b.Fatal(err)
		}
		now := time.Now()
		for _, l := range loans {
			f.Answered(l, Answer{Start: now, End: now, Took: time.Millisecond})
			f.Return(l, nil)
			done = append(done, Done{Row: l.Rows[0]})
		}
		taken += len(loans)
		if len(done) >= benchSet || f.Starved() {
			end()
		}
	}
	return took + cpuTime() - begin
}
