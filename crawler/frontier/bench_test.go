package frontier

import (
	"fmt"
	"testing"
	"time"

	"urltree/storage"
)

const (
	benchHosts = 10_000
	benchRows  = 1_000_000
)

// A sortedStore serves hosts whose rows are added and done in order.
type sortedStore map[string][]storage.Row

func (s sortedStore) Refill(host string, _ time.Time, n int, skip func(string) bool) ([]storage.Row, error) {
	rows := make([]storage.Row, 0, n)
	for _, r := range s[host] {
		if len(rows) == n {
			break
		}
		if !skip(r.URL) {
			rows = append(rows, r)
		}
	}
	return rows, nil
}

func (s sortedStore) Sitemaps(string, time.Time, int, func(string) bool) ([]storage.Sitemap, int64, error) {
	return nil, 0, nil
}

func (s sortedStore) NextDue(string, func(string) bool) (int64, error) { return 0, nil }

func (s sortedStore) NextHosts(string, int) ([]storage.HostRow, uint64, error) { return nil, 0, nil }

func benchBatch(from int) []storage.Row {
	rows := make([]storage.Row, 1000)
	for i := range rows {
		seq := uint64(from + i)
		rows[i] = row(fmt.Sprintf("host-%d.example", seq%benchHosts), seq/benchHosts/10, seq)
	}
	return rows
}

// BenchmarkAdd tells a frontier of a million URLs on ten thousand hosts; the time is per URL.
func BenchmarkAdd(b *testing.B) {
	for _, o := range allOrders() {
		b.Run(o.name, func(b *testing.B) { benchAdd(b, o) })
	}
}

func benchAdd(b *testing.B, o order) {
	var f *Frontier
	for i := 0; b.Loop(); i++ {
		if i%benchRows == 0 {
			b.StopTimer()
			var err error
			if f, err = New(o.options(Options{Store: sortedStore{}})); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
		if i%1000 == 0 {
			b.StopTimer()
			rows := benchBatch(i % benchRows)
			b.StartTimer()
			f.Add(rows, 1)
		}
	}
	b.ReportMetric(float64(f.Stats().Windows)/(1<<20), "MiB")
}

// BenchmarkTake takes, answers, returns and ends a million URLs of ten thousand hosts one by
// one; the time is per URL.
func BenchmarkTake(b *testing.B) {
	for _, o := range allOrders() {
		b.Run(o.name, func(b *testing.B) { benchTake(b, o) })
	}
}

func benchTake(b *testing.B, o order) {
	var f *Frontier
	var store sortedStore
	i := 0
	fill := func() {
		store = sortedStore{}
		var err error
		if f, err = New(o.options(Options{Store: store, Batch: 1})); err != nil {
			b.Fatal(err)
		}
		for from := 0; from < benchRows; from += 1000 {
			rows := benchBatch(from)
			for _, r := range rows {
				name := storage.Host(r.URL)
				store[name] = append(store[name], r)
			}
			f.Add(rows, 1)
		}
	}
	for b.Loop() {
		if i%benchRows == 0 {
			b.StopTimer()
			fill()
			b.StartTimer()
		}
		loans, err := f.Take(b.Context(), 1)
		if err != nil {
			b.Fatal(err)
		}
		for _, l := range loans {
			now := time.Now()
			f.Answered(l, Answer{Start: now, End: now, Took: time.Millisecond})
			f.Return(l, nil)
			store[l.Host] = store[l.Host][1:]
			f.Done([]Done{{Row: l.Rows[0]}}, nil)
			i++
		}
	}
	b.ReportMetric(float64(i)/float64(b.N), "URLs/op")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(i), "ns/URL")
}
