package crawler

import (
	"math/bits"
	"sync/atomic"
	"time"

	"urltree/cleaner"
)

// The stages of source D, whose times statistics.txt reports.
const (
	stagePick     = iota // take a URL from the frontier
	stageRequest         // until the first byte of the answer
	stageResponse        // from there to its end
	stageStore           // push to the raw-page store: the tree
	stageParse           // find links and metadata
	stageMetadata        // push metadata: sync and commit, per item
	stageCount
)

var stageNames = [stageCount]string{"pick URL", "request", "response", "push to store", "parse", "push metadata"}

// A histogram counts durations in buckets of 1/8 of a power of two: percentiles are within 13 %.
// The zero value is ready; all methods may be called from any goroutine.
type histogram struct {
	count, sum atomic.Int64
	buckets    [64 * 8]atomic.Int64
}

func (h *histogram) add(d time.Duration) { h.addMany(d, 1) }

func (h *histogram) addMany(d time.Duration, n int) {
	h.count.Add(int64(n))
	h.sum.Add(int64(d) * int64(n))
	h.buckets[bucket(d)].Add(int64(n))
}

func bucket(d time.Duration) int {
	v := uint64(max(d, 0))
	if v < 8 {
		return int(v)
	}
	exp := bits.Len64(v) - 1
	return (exp-2)*8 + int(v>>(exp-3)&7)
}

// floor is the least duration of a bucket.
func floor(i int) time.Duration {
	if i < 8 {
		return time.Duration(i)
	}
	return time.Duration(uint64(8+i%8) << (i/8 - 1))
}

func (h *histogram) percentile(p float64) time.Duration {
	left := int64(p * float64(h.count.Load()))
	for i := range h.buckets {
		if left -= h.buckets[i].Load(); left < 0 {
			return floor(i)
		}
	}
	return 0
}

func (h *histogram) stage(name string) cleaner.Stage {
	s := cleaner.Stage{Name: name, Count: h.count.Load(), P50: h.percentile(.50), P95: h.percentile(.95), P99: h.percentile(.99)}
	if s.Count > 0 {
		s.Mean = time.Duration(h.sum.Load() / s.Count)
	}
	return s
}

// A queue counts what went into and out of one of source A's queues.
type queue struct{ added, removed atomic.Int64 }
