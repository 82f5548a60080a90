package rank

import (
	"cmp"
	"context"
	"math"

	"urltree/internal/top"
)

const (
	damping  = 0.85  // the chance to follow a link instead of going anywhere
	residual = 1e-10 // it ends once an iteration changes the ranks by less, summed over all
	most     = 1000  // iterations
)

// Ranks are the ranks of all nodes of a graph.
type Ranks struct {
	Iterations int
	Residual   float64 // of the last iteration; the ranks are off by at most damping/(1-damping) times that, summed
	graph      *Graph
	ranks      []float64 // by node; their sum is 1
}

// A Best is a URL among those of the greatest ranks.
type Best struct {
	URL  string
	Rank float64
}

// Best returns the n URLs of the greatest ranks, the greatest first. It reads the source again.
func (r *Ranks) Best(ctx context.Context, source Source, n int) ([]Best, error) {
	best := top.List[uint32]{N: n, Compare: func(a, b uint32) int { return cmp.Compare(r.ranks[b], r.ranks[a]) }}
	for i := range r.ranks {
		best.Add(uint32(i))
	}
	urls, err := r.graph.names(ctx, source, best.Items())
	if err != nil {
		return nil, err
	}
	list := make([]Best, len(best.Items()))
	for i, node := range best.Items() {
		list[i] = Best{urls[node], r.ranks[node]}
	}
	return list, nil
}

// Rank computes PageRank by iteration: who is on a page follows one of its links, each as likely,
// or with 1-damping goes to any node; and from a node without links always to any. So says "The
// PageRank Citation Ranking" of Page, Brin, Motwani and Winograd (1998), with the rank that ends in
// nodes without links spread evenly. It begins with the same rank for all.
//
// step, if not nil, is called with each iteration, from 1, and by how much it has changed the
// ranks.
func (g *Graph) Rank(ctx context.Context, step func(iteration int, residual float64)) (*Ranks, error) {
	return g.iterate(ctx, most, residual, step)
}

func (g *Graph) iterate(ctx context.Context, most int, residual float64, step func(iteration int, residual float64)) (*Ranks, error) {
	n := float64(len(g.nodes))
	now, next := make([]float64, len(g.nodes)), make([]float64, len(g.nodes))
	for i := range now {
		now[i] = 1 / n
	}
	r := &Ranks{graph: g}
	for r.Residual = math.Inf(1); len(now) > 0 && r.Iterations < most && r.Residual >= residual; {
		clear(next)
		linked := 0.0 // rank of the nodes that have links
		err := g.each(ctx, func(from uint32, to []uint32) {
			linked += now[from]
			share := now[from] / float64(len(to))
			for _, i := range to {
				next[i] += share
			}
		})
		if err != nil {
			return nil, err
		}
		anywhere := (1 - damping*linked) / n
		r.Residual = 0
		for i := range next {
			next[i] = anywhere + damping*next[i]
			r.Residual += math.Abs(next[i] - now[i])
		}
		now, next = next, now
		if r.Iterations++; step != nil {
			step(r.Iterations, r.Residual)
		}
	}
	r.ranks = now
	return r, nil
}
