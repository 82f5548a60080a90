package crawler

import (
	"runtime/metrics"
	"strings"
	"time"

	"urltree/internal/frontier"
	"urltree/internal/inspect"
)

// status adds to s what the engine knows.
func (e *engine) status(s *inspect.Status) {
	p := e.progress()
	s.Phase, s.Waiting, s.Paused, s.Run = p.Phase, p.Waiting, e.network.pause.held.Load(), e.store.index.Runs().Current()
	c := &inspect.Crawl{
		Elapsed: p.Elapsed.Seconds(), Left: p.Left.Seconds(), PerSecond: p.PerSecond, Mean: p.Mean,
		Hosts: map[string]int64{}, Stages: map[string]inspect.Spent{},
		Downloads: inspect.Filled{Most: int64(e.opts.Crawlers) * int64(e.opts.Downloads)},
		Buffers:   inspect.Filled{Most: int64(e.opts.Buffers) * int64(e.opts.BufferSize)},
		Memory:    inspect.Filled{Used: heapBytes(), Most: e.opts.Memory()},
		Sync:      e.measured.syncs.spent(), Commit: e.measured.commits.spent(),
	}
	s.Crawl = c
	for _, state := range frontier.HostStates {
		c.Hosts[state] = 0
	}
	e.frontier.EachHost(func(h frontier.HostState) { c.Hosts[h.State]++ })
	for _, crawler := range e.crawlers {
		c.Downloads.Used += crawler.flying.Load()
	}
	for _, b := range e.buffers {
		n := b.Counts()
		c.Buffers.Used += int64(n.Waiting + n.Out)
	}
	filter := e.store.index.Filter()
	answers := filter.Stats()
	c.Seen = inspect.Seen{
		Filled: inspect.Filled{Used: filter.Bytes(), Most: e.opts.SeenBytes}, URLs: int64(filter.Len()), Complete: filter.Complete(),
		Asked: answers.Asked, FalsePositives: answers.FalsePositives,
	}
	c.Memory.Used += c.Seen.Used // which lies outside the heap
	c.Disk.Free, c.Disk.Least = e.ends.watch.Room()
	c.Disk.Pauses, c.Stuck = e.ends.watch.Figures()
	for i := range e.measured.stages {
		c.Stages[strings.ReplaceAll(stageNames[i], " ", "_")] = e.measured.stages[i].spent()
	}
	if e.opts.Cluster != nil {
		c.Cluster = &inspect.Cluster{Asks: e.opts.Cluster.MayAsk()}
	}
}

func (h *histogram) spent() inspect.Spent {
	return inspect.Spent{
		Count: h.count.Load(), Sum: time.Duration(h.sum.Load()).Seconds(),
		P50: h.percentile(.50).Seconds(), P95: h.percentile(.95).Seconds(), P99: h.percentile(.99).Seconds(),
	}
}

// heapBytes returns the memory that Go's runtime has of the system: what its limit bounds.
func heapBytes() int64 {
	of := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(of)
	return int64(of[0].Value.Uint64() - of[1].Value.Uint64())
}
