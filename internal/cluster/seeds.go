package cluster

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"urltree/internal/cluster/batch"
	"urltree/storage/record"
)

const (
	seedsFlying = 200              // batches of seeds that are not confirmed, at a time
	seedsAgain  = 5 * time.Second  // until such a batch is sent again
	seedsWait   = 30 * time.Second // for the next confirmation
)

var (
	// ErrEnded says that the crawl is finished: its nodes are gone.
	ErrEnded = errors.New("the crawl is finished")
	// ErrUndivided says that its nodes have not come.
	ErrUndivided = errors.New("the hosts of the crawl are not divided yet")
)

// Given says what became of seeds.
type Given struct {
	Taken int64            // seeds that are on the disks of the nodes whose hosts they are of
	Away  map[string]int64 // seeds for hosts of nodes that are away, by node: these were not sent
}

// OptionsOf returns the options of the crawl, which all its nodes have.
func OptionsOf(ctx context.Context, bus Bus) (string, error) {
	e, err := bus.Get(ctx, Control, "conf")
	if errors.Is(err, ErrNoKey) {
		return "", ErrUndivided
	}
	var c conf
	if err == nil {
		err = json.Unmarshal(e.Value, &c)
	}
	return c.Options, err
}

// Give sends seeds, canonical URLs, to the nodes of a crawl that goes on, as a node sends links:
// each batch until the node that owns the partition has confirmed that it is on its disk.
//
// Then it writes once more that the crawl is running. A leader that was about to find out that
// nothing is left, and had asked before the seeds came, is refused; one that asks from now on hears
// of them. If the crawl ended before that, the seeds are with its nodes for their next start, and
// the error is ErrEnded.
func Give(ctx context.Context, bus Bus, seeds iter.Seq2[string, error]) (Given, error) {
	if err := running(ctx, bus); err != nil {
		return Given{}, err
	}
	a, err := dividedBy(ctx, bus)
	if err == nil && a.Epoch == 0 {
		err = ErrUndivided
	}
	if err != nil {
		return Given{}, err
	}
	here, err := leased(ctx, bus)
	if err != nil {
		return Given{}, err
	}
	g := &giving{
		bus: bus, name: "SEEDS-" + rand.Text()[:16], // no node has capitals in its name
		given: Given{Away: map[string]int64{}}, flying: map[uint64]*seedBatch{},
		confirmed: make(chan []uint64, seedsFlying),
	}
	listening, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		g.listen(listening)
	}()
	defer func() { stop(); <-ended }()
	if err := g.all(ctx, seeds, &a, here); err != nil {
		return g.given, err
	}
	return g.given, running(ctx, bus)
}

// running writes that the crawl is running, unless it is finished.
func running(ctx context.Context, bus Bus) error {
	for {
		e, err := bus.Get(ctx, Control, "state")
		switch {
		case err != nil && !errors.Is(err, ErrNoKey):
			return err
		case strings.HasPrefix(string(e.Value), finishedState):
			return ErrEnded
		}
		e.Key, e.Value = "state", []byte(runningState)
		if _, err = bus.Put(ctx, Control, e); !errors.Is(err, ErrRevision) {
			return err
		}
		if !pause(ctx, askAgain) {
			return context.Cause(ctx)
		}
	}
}

// A giving is one call of Give.
type giving struct {
	bus       Bus
	name      string // under which seeds are sent
	given     Given
	last      uint64 // number of a batch
	flying    map[uint64]*seedBatch
	confirmed chan []uint64
}

// A seedBatch is sent and not confirmed.
type seedBatch struct {
	Batch
	seeds int64
	at    time.Time // of the last try
}

func (g *giving) listen(ctx context.Context) {
	for ctx.Err() == nil {
		_ = g.bus.Confirmed(ctx, g.name, func(list []uint64) {
			select {
			case g.confirmed <- list:
			case <-ctx.Done():
			}
		})
		pause(ctx, askAgain)
	}
}

// all sends all seeds, a batch of a partition whenever it is full and at the end.
func (g *giving) all(ctx context.Context, seeds iter.Seq2[string, error], a *Assign, here []string) error {
	waiting := map[int][]batch.Record{}
	for url, err := range seeds {
		if err != nil {
			return err
		}
		part := int(Partition(record.Host(url), Partitions))
		if owner := a.Owner[part]; !slices.Contains(here, owner) {
			g.given.Away[owner]++
			continue
		}
		list := append(waiting[part], batch.Record{Kind: batch.Queued, URL: url, Source: record.Seed})
		if len(list) >= batch.MaxRecords {
			if list, err = nil, g.send(ctx, part, list); err != nil {
				return err
			}
		}
		waiting[part] = list
	}
	for _, part := range slices.Sorted(maps.Keys(waiting)) {
		if err := g.send(ctx, part, waiting[part]); err != nil {
			return err
		}
	}
	return g.await(ctx, 0)
}

// send sends seeds of one partition, once there are not too many on their way.
func (g *giving) send(ctx context.Context, part int, list []batch.Record) error {
	slices.SortFunc(list, func(a, b batch.Record) int { return cmp.Compare(a.URL, b.URL) })
	list = slices.CompactFunc(list, func(a, b batch.Record) bool { return a.URL == b.URL })
	for len(list) > 0 {
		if err := g.await(ctx, seedsFlying-1); err != nil {
			return err
		}
		body, n, err := batch.Pack(list, batch.Zstd)
		if err != nil {
			return err
		}
		g.last++
		b := &seedBatch{Batch: Batch{Sender: g.name, Number: g.last, Boot: "1", Partition: part, Body: body}, seeds: int64(n)}
		g.flying[g.last] = b
		g.publish(ctx, b)
		list = list[n:]
	}
	return nil
}

// publish tries to send a batch. What fails is sent again.
func (g *giving) publish(ctx context.Context, b *seedBatch) {
	b.at = time.Now()
	_ = g.bus.Publish(ctx, b.Batch)
	b.Try++
}

// await waits until at most so many batches are not confirmed.
func (g *giving) await(ctx context.Context, most int) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for heard := time.Now(); len(g.flying) > most; {
		select {
		case list := <-g.confirmed:
			heard = time.Now()
			g.take(list)
			continue
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if len(g.confirmed) > 0 {
			continue
		}
		if time.Since(heard) > seedsWait {
			return fmt.Errorf("no node has taken seeds for %v", seedsWait)
		}
		if err := g.again(ctx); err != nil {
			return err
		}
	}
	return nil
}

// take notes what a node has on its disk.
func (g *giving) take(numbers []uint64) {
	for _, number := range numbers {
		if b := g.flying[number]; b != nil {
			g.given.Taken += b.seeds
			delete(g.flying, number)
		}
	}
}

// again sends what has waited too long, unless the crawl has ended meanwhile.
func (g *giving) again(ctx context.Context) error {
	for _, b := range g.flying {
		if time.Since(b.at) < seedsAgain {
			continue
		}
		if err := running(ctx, g.bus); err != nil {
			return err
		}
		g.publish(ctx, b)
	}
	return nil
}
