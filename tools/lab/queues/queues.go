// Package queues measures the priority queues of package queue the way source E does, and
// compares what it finds with what the source says. Of its figures no value is read off: they
// are pictures without numbers, so only their sentences are compared.
//
// Only the order of keys matters to these queues, so keys are drawn uniformly. A new key does
// not depend on the keys that were taken out, as the rank of a page that was just found does
// not depend on that of the page that names it.
package queues

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"

	"urltree/tools/lab/queue"
	"urltree/tools/lab/queue/block"
	"urltree/tools/plot"
)

// Options bound an experiment.
type Options struct {
	Scale float64 // multiplies all numbers of items, its root those in a block; 0: 1, which takes minutes
	Dir   string  // where files on disk are made, and removed at once; "": the system's temporary folder
	Seed  uint64
}

// A Result is what an experiment found.
type Result struct {
	Name   string // in the source, such as "figure 8"
	Title  string
	Setup  string // what was done; the words of the columns
	Claims []Claim
	Table  Table
	Charts []plot.Chart
}

// A Claim is a sentence of the source beside our finding.
type Claim struct {
	Says   string
	Agrees bool
	Ours   string // the finding, and what counted as agreement
}

// A Table has a cell for each column in each row.
type Table struct {
	Columns []string
	Rows    [][]string
}

type (
	item   = queue.Item[struct{}]
	aQueue = queue.Queue[struct{}]
)

const (
	itemSize = 16 // bytes of an item on disk
	leafSize = 48 // bytes that a CBT keeps of a leaf in memory, beside the tree
)

// scaled is a number of items at the scale, but at least least.
func (o Options) scaled(n, least int) int {
	if o.Scale == 0 {
		return n
	}
	return max(int(float64(n)*o.Scale+0.5), least)
}

func (o Options) rng() *rand.Rand { return rand.New(rand.NewPCG(o.Seed, 1)) }

// sizes of queues and numbers of items taken at once, as in figures 8 and 9.
func (o Options) sizes() []int {
	return []int{o.scaled(100_000, 10), o.scaled(1_000_000, 100), o.scaled(10_000_000, 1000)}
}

func (o Options) bulks() []int {
	return []int{o.scaled(100, 1), o.scaled(1000, 1), o.scaled(10_000, 1)}
}

// perBlock is the number of items in a block on disk, 4096 bytes. It shrinks less than queues do,
// or nothing would be left of it.
func (o Options) perBlock() int { return Options{Scale: math.Sqrt(o.Scale)}.scaled(256, 2) }

// draw fills list with new items.
func draw(list []item, rng *rand.Rand) []item {
	for i := range list {
		list[i] = item{Key: rng.Uint64(), Seq: rng.Uint64()}
	}
	return list
}

// cycle fills a queue with n items, r at once, and then takes r out and puts r in, until pass
// items have gone through.
func cycle(ctx context.Context, q aQueue, rng *rand.Rand, n, r, pass int) (cost, error) {
	list := make([]item, r)
	for q.Len() < n {
		q.Insert(draw(list[:min(r, n-q.Len())], rng)...)
		if err := errors.Join(ctx.Err(), q.Err()); err != nil {
			return cost{}, err
		}
	}
	fill, done := q.Count(), 0
	for ; done < pass; done += r {
		q.Insert(draw(q.Extract(list[:0], r), rng)...)
		if err := errors.Join(ctx.Err(), q.Err()); err != nil {
			return cost{}, err
		}
	}
	flow := q.Count().Sub(fill)
	return cost{
		comparisons: per{float64(fill.Comparisons) / float64(n), float64(flow.Comparisons) / float64(done)},
		transfers:   per{float64(fill.Reads+fill.Writes) / float64(n), float64(flow.Reads+flow.Writes) / float64(done)},
	}, nil
}

// A cost is what one item costs.
type cost struct {
	comparisons per
	transfers   per // blocks read and written
}

// per is the cost of an item to fill the queue, and of one that then goes out and of one that
// comes in. A queue that does its work early has more of the first, a lazy one of the second.
type per struct{ fill, flow float64 }

func (p per) sum() float64 { return p.fill + p.flow }

// onDisk calls f with a new file, which is gone afterwards.
func (o Options) onDisk(f func(block.File) error) error {
	file, err := os.CreateTemp(o.Dir, "urltree-queue-*")
	if err != nil {
		return fmt.Errorf("queues: %w", err)
	}
	defer file.Close()
	if err := os.Remove(file.Name()); err != nil {
		return fmt.Errorf("queues: %w", err)
	}
	return f(file)
}

// All runs every experiment, in the order of the source.
func All(ctx context.Context, o Options) ([]Result, error) {
	var all []Result
	for _, run := range []func(context.Context, Options) (Result, error){Figure8, Figure9, Table1, Figure10} {
		r, err := run(ctx, o)
		if err != nil {
			return all, err
		}
		all = append(all, r)
	}
	return all, nil
}

// span writes the least and the greatest of some values.
func span(format string, values []float64) string {
	return fmt.Sprintf(format+" to "+format, slices.Min(values), slices.Max(values))
}
