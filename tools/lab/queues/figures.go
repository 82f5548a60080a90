package queues

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"urltree/tools/lab/queue"
	"urltree/tools/lab/queue/block"
	"urltree/tools/plot"
)

// The names of the source.
const (
	bheap = "BHeap"
	qheap = "QHeap"
	cbt   = "CBT"
)

// columns are those of the costs: all of it, and the part that filled the queue.
var columns = [...]string{bheap, qheap, cbt, bheap + " fill", qheap + " fill", cbt + " fill"}

func cells(format string, b, q, c per) []string {
	var row []string
	for _, v := range []float64{b.sum(), q.sum(), c.sum(), b.fill, q.fill, c.fill} {
		row = append(row, fmt.Sprintf(format, v))
	}
	return row
}

// Figure8 counts key comparisons in memory.
func Figure8(ctx context.Context, o Options) (Result, error) {
	res := Result{
		Name:  "figure 8",
		Title: "Key comparisons",
		Setup: "A queue is filled with N items, R at once. Then R are taken out and R put in until N have gone through. All is in " +
			"memory. Numbers are comparisons for each of the N: to put one in at first, to take one out and put one in later; and " +
			"the part of the first. A leaf of CBT holds R items. BHeap is container/heap and works item by item, so R does not " +
			"matter to it.",
		Table: Table{Columns: append([]string{"N", "R"}, columns[:]...)},
	}
	fewer, last := 0, true
	var ratios []float64
	for _, n := range o.sizes() {
		b, err := cycle(ctx, newBinaryHeap(new(ram), n), o.rng(), n, o.bulks()[0], n)
		if err != nil {
			return res, err
		}
		lines := map[string][]plot.Point{}
		for i, r := range o.bulks() {
			measure := func(kind string) (cost, error) {
				q, err := queue.New(kind, queue.Options[struct{}]{Leaf: r, Seed: o.Seed})
				if err != nil {
					return cost{}, err
				}
				return cycle(ctx, q, o.rng(), n, r, n)
			}
			q, errQ := measure(queue.QuickHeap)
			c, errC := measure(queue.CBT)
			if err := errors.Join(errQ, errC); err != nil {
				return res, err
			}
			row := cells("%.1f", b.comparisons, q.comparisons, c.comparisons)
			res.Table.Rows = append(res.Table.Rows, append([]string{strconv.Itoa(n), strconv.Itoa(r)}, row...))
			for name, m := range map[string]cost{bheap: b, qheap: q, cbt: c} {
				lines[name] = append(lines[name], plot.Point{X: float64(r), Y: m.comparisons.sum()})
			}
			ratio := q.comparisons.sum() / b.comparisons.sum()
			ratios = append(ratios, ratio)
			if ratio < 1 {
				fewer++
			} else if i == len(o.bulks())-1 {
				last = false
			}
		}
		res.Charts = append(res.Charts, chart(fmt.Sprintf("Key comparisons for each item, N = %d", n), "comparisons", false, lines, bheap, qheap, cbt))
	}
	res.Claims = []Claim{{
		Says:   "QHeap outperforms BHeap for wide range as R scales up",
		Agrees: last && 2*fewer > len(ratios),
		Ours: fmt.Sprintf("QHeap makes %s times the comparisons of BHeap, fewer at %d of %d points. "+
			"Agreement: fewer at the greatest R of each N and at most points.", span("%.2f", ratios), fewer, len(ratios)),
	}}
	return res, nil
}

// chart draws named lines over R.
func chart(title, y string, log bool, lines map[string][]plot.Point, names ...string) plot.Chart {
	c := plot.Chart{Title: title, X: plot.Axis{Label: "R", Log: true}, Y: plot.Axis{Label: y, Log: log}}
	for _, name := range names {
		c.Series = append(c.Series, plot.Series{Name: name, Points: lines[name]})
	}
	return c
}

// Figure9 counts blocks read and written with 10 % and 30 % of the queue in memory.
func Figure9(ctx context.Context, o Options) (Result, error) {
	res := Result{
		Name:  "figure 9",
		Title: "Block transfers on disk",
		Setup: fmt.Sprintf("As for figure 8, with the items in a file of blocks of %d items of %d bytes. As many blocks as hold "+
			"10 %% or 30 %% of N items are in memory, and the one used least recently makes room. A leaf of CBT holds R items, "+
			"but at least a block of them; its ends are in memory and count as such. Numbers are blocks read and written for "+
			"each 1000 items. After it is filled, BHeap is measured over N/100 items only, but over 100 at least.", o.perBlock(), itemSize),
		Table: Table{Columns: append([]string{"N", "in memory", "R"}, columns[:]...)},
	}
	var heapRatios, bulkRatios, cbtRatios, partRatios []float64
	for _, n := range o.sizes() {
		lines := map[string][]plot.Point{}
		var names []string
		for _, percent := range []int64{10, 30} {
			b, err := o.transfers(ctx, bheap, n, o.bulks()[0], max(n/100, 100), percent)
			if err != nil {
				return res, err
			}
			at := func(name string) string { return fmt.Sprintf("%s, %d %%", name, percent) }
			names = append(names, at(bheap), at(qheap), at(cbt))
			var first, last float64
			for i, r := range o.bulks() {
				q, errQ := o.transfers(ctx, queue.QuickHeap, n, r, n, percent)
				c, errC := o.transfers(ctx, queue.CBT, n, r, n, percent)
				if err := errors.Join(errQ, errC); err != nil {
					return res, err
				}
				if r < o.perBlock() {
					part, err := o.transfersOf(ctx, queue.CBT, n, r, n, percent, r)
					if err != nil {
						return res, err
					}
					partRatios = append(partRatios, q.sum()/part.sum())
				}
				row := []string{strconv.Itoa(n), fmt.Sprintf("%d %%", percent), strconv.Itoa(r)}
				res.Table.Rows = append(res.Table.Rows, append(row, cells("%.1f", b, q, c)...))
				for name, p := range map[string]per{bheap: b, qheap: q, cbt: c} {
					lines[at(name)] = append(lines[at(name)], plot.Point{X: float64(r), Y: p.sum()})
				}
				heapRatios = append(heapRatios, b.sum()/q.sum())
				cbtRatios = append(cbtRatios, q.sum()/c.sum())
				if last = q.sum(); i == 0 {
					first = last
				}
			}
			bulkRatios = append(bulkRatios, last/first)
		}
		res.Charts = append(res.Charts, chart(fmt.Sprintf("Block transfers for each 1000 items, N = %d", n), "blocks read and written", true, lines, names...))
	}
	res.Claims = []Claim{
		{
			Says:   "BHeap has too many random disk accesses (so cannot compare)",
			Agrees: slices.Min(heapRatios) >= 10,
			Ours:   fmt.Sprintf("BHeap makes %s times the transfers of QHeap. Agreement: at least 10 times at each point.", span("%.1f", heapRatios)),
		},
		{
			Says:   "QHeap performs well as R scales up",
			Agrees: slices.Max(bulkRatios) <= 1.1,
			Ours: fmt.Sprintf("With the greatest R, QHeap makes %s times the transfers that it makes with the least. "+
				"Agreement: at most 1.1 times for each N and memory.", span("%.2f", bulkRatios)),
		},
		{
			Says:   "CBT has similar performance, but QHeap performs better than CBT for disk access operations (20% better)",
			Agrees: slices.Max(cbtRatios) < 1 && slices.Min(cbtRatios) > 0.5,
			Ours: fmt.Sprintf("QHeap makes %s times the transfers of CBT; fewer by 20 %% would be 0.80. "+
				"Agreement: fewer, and more than half, at each point. Each of the two reads and writes an item about "+
				"log2(N / memory) times on its way, so that what is around it decides: that leaves are whole blocks is the "+
				"best for CBT.", span("%.2f", cbtRatios)) + part(partRatios),
		},
	}
	return res, nil
}

// part returns a sentence about a CBT whose leaves have less than a block.
func part(ratios []float64) string {
	if len(ratios) == 0 {
		return ""
	}
	return fmt.Sprintf(" Where R is less than a block and a leaf holds R all the same, QHeap makes %s times its transfers.", span("%.2f", ratios))
}

// transfers returns the blocks read and written for each 1000 items by a queue on disk: bheap or a
// kind of package queue.
func (o Options) transfers(ctx context.Context, kind string, n, r, pass int, percent int64) (per, error) {
	return o.transfersOf(ctx, kind, n, r, pass, percent, max(r, o.perBlock()))
}

// transfersOf is transfers with a leaf of so many items.
func (o Options) transfersOf(ctx context.Context, kind string, n, r, pass int, percent int64, leaf int) (per, error) {
	size, memory := o.perBlock()*itemSize, int64(n)*itemSize*percent/100
	if kind == queue.CBT {
		memory = max(memory-int64(n/leaf)*leafSize, 1)
	}
	var c cost
	err := o.onDisk(func(f block.File) (err error) {
		var q aQueue
		if kind == bheap {
			q = newBinaryHeap(block.New(f, queue.ItemCodec(block.Codec[struct{}]{}), size, memory), n)
		} else if q, err = queue.New(kind, queue.Options[struct{}]{Leaf: leaf, Seed: o.Seed, File: f, Block: size, Memory: memory}); err != nil {
			return err
		}
		c, err = cycle(ctx, q, o.rng(), n, r, pass)
		return err
	})
	return per{1000 * c.transfers.fill, 1000 * c.transfers.flow}, err
}
