// Package rank looks at the link graph of a tree as a whole: PageRank of all URLs, which
// crawler.Options.ScoreBy "rank" goes by, and the distribution of degrees.
//
// The nodes are the stored pages, what has redirected, and every URL that these name. A link is a
// pair of nodes, however often one names the other; one to the page itself counts. All of a page's
// references count, whatever their element or rel.
//
// In memory a node takes at most 32 bytes, a link none: links are in temporary files of the
// system's folder for these, 8 bytes each at first and then about 2, and are read from there in
// each iteration.
package rank

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/dchest/siphash"

	"urltree/internal/edges"
	"urltree/internal/spool"
)

// A Source calls fn with each page of a link graph, as repair.Graph does.
type Source func(ctx context.Context, fn func(edges.Page) error) error

// Counted returns a source that calls tell before each page with the number of those before it.
func (s Source) Counted(tell func(done int64)) Source {
	return func(ctx context.Context, fn func(edges.Page) error) error {
		done := int64(0)
		return s(ctx, func(p edges.Page) error {
			tell(done)
			done++
			return fn(p)
		})
	}
}

// A Graph is a link graph whose nodes have numbers, in the order of their fingerprints.
type Graph struct {
	Pages int64 // that were read, redirects included
	Edges int64 // their references, repeats included
	Links int64 // pairs of nodes

	key    [16]byte
	nodes  []uint64 // fingerprints, ascending
	links  *numbers // of each page that has some: its number, how many, and the numbers of these
	linked int64    // pages that have links
}

// Read takes in a graph. Errors: those of the source, the cause of ctx, or iut.ErrDisk where a
// temporary file fails. The caller closes the graph.
func Read(ctx context.Context, source Source) (g *Graph, err error) {
	g = &Graph{}
	if _, err := rand.Read(g.key[:]); err != nil {
		return nil, err
	}
	named, err := newNumbers() // of each page its fingerprint, how many links, their fingerprints
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, named.Close()) }()
	if err := g.gather(ctx, source, named); err != nil {
		return nil, err
	}
	if g.links, err = newNumbers(); err != nil {
		return nil, err
	}
	if err := g.number(ctx, named); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	return g, nil
}

// Close removes the temporary file.
func (g *Graph) Close() error { return g.links.Close() }

// Nodes is the number of nodes.
func (g *Graph) Nodes() int { return len(g.nodes) }

// fingerprint stands for a URL. The key is drawn anew for each graph, so that nobody can make URLs
// that collide; by chance two of n do with a probability of n²/2^65.
func fingerprint(key *[16]byte, url string) uint64 {
	return siphash.Hash(binary.LittleEndian.Uint64(key[:]), binary.LittleEndian.Uint64(key[8:]), []byte(url))
}

func (g *Graph) gather(ctx context.Context, source Source, named *numbers) error {
	var list []uint64
	set := nodeSet{list: make([]uint64, 0, 1<<16)}
	err := source(ctx, func(p edges.Page) error {
		list = list[:0]
		for i := range p.Edges {
			list = append(list, fingerprint(&g.key, p.Edges[i].To))
		}
		slices.Sort(list)
		list = slices.Compact(list)
		g.Pages, g.Edges, g.Links = g.Pages+1, g.Edges+int64(len(p.Edges)), g.Links+int64(len(list))
		from := fingerprint(&g.key, p.URL)
		set.add(from)
		named.fixed(from)
		named.number(uint64(len(list)))
		for _, to := range list {
			set.add(to)
			named.fixed(to)
		}
		return context.Cause(ctx)
	})
	set.compact()
	if g.nodes = set.list; err == nil && len(g.nodes) > math.MaxUint32 {
		err = fmt.Errorf("%d URLs, at most %d", len(g.nodes), uint32(math.MaxUint32))
	}
	return err
}

// number writes the links as numbers, ascending, each as what it is more than the one before.
func (g *Graph) number(ctx context.Context, named *numbers) error {
	in, err := named.read()
	if err != nil {
		return err
	}
	for range g.Pages {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		from, rest := in.fixed(), g.nodes
		n := in.number()
		if n > 0 {
			at, _ := slices.BinarySearch(g.nodes, from)
			g.links.number(uint64(at))
			g.links.number(n)
			g.linked++
		}
		for last := 0; n > 0; n-- {
			step, _ := slices.BinarySearch(rest, in.fixed())
			g.links.number(uint64(step))
			rest, last = rest[step:], last+step
		}
		if in.err != nil {
			return in.err
		}
	}
	return nil
}

// each calls fn with each page that has links and the numbers of the nodes these lead to,
// ascending. The slice is fn's only until it returns.
func (g *Graph) each(ctx context.Context, fn func(from uint32, to []uint32)) error {
	in, err := g.links.read()
	if err != nil {
		return err
	}
	var to []uint32
	for page := range g.linked {
		if page%1024 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		from := uint32(in.number())
		n, at := in.number(), uint32(0)
		to = to[:0]
		for ; n > 0 && in.err == nil; n-- {
			at += uint32(in.number())
			to = append(to, at)
		}
		if in.err != nil {
			return in.err
		}
		fn(from, to)
	}
	return nil
}

func (g *Graph) names(ctx context.Context, source Source, nodes []uint32) (map[uint32]string, error) {
	wanted := make(map[uint64]uint32, len(nodes))
	for _, n := range nodes {
		wanted[g.nodes[n]] = n
	}
	urls := make(map[uint32]string, len(nodes))
	find := func(url string) {
		fp := fingerprint(&g.key, url)
		if n, ok := wanted[fp]; ok {
			urls[n] = strings.Clone(url) // it is a part of much more
			delete(wanted, fp)
		}
	}
	err := source(ctx, func(p edges.Page) error {
		find(p.URL)
		for i := 0; i < len(p.Edges) && len(wanted) > 0; i++ {
			find(p.Edges[i].To)
		}
		return context.Cause(ctx)
	})
	return urls, err
}

// A nodeSet collects fingerprints: a sorted list of some, and behind it what has been added since.
type nodeSet struct{ list []uint64 }

func (s *nodeSet) add(fp uint64) {
	if len(s.list) == cap(s.list) {
		s.compact()
		if len(s.list) > cap(s.list)/3*2 {
			s.list = append(make([]uint64, 0, cap(s.list)/2*3), s.list...)
		}
	}
	s.list = append(s.list, fp)
}

func (s *nodeSet) compact() {
	slices.Sort(s.list)
	s.list = slices.Compact(s.list)
}

// A numbers is a file of numbers: written to its end, then read, as often as need be.
type numbers struct {
	*spool.File
	b [binary.MaxVarintLen64]byte
}

func newNumbers() (*numbers, error) {
	file, err := spool.Create()
	return &numbers{File: file}, err
}

func (s *numbers) fixed(v uint64) {
	binary.LittleEndian.PutUint64(s.b[:], v)
	_, _ = s.Write(s.b[:8]) // read returns the error of any write
}

func (s *numbers) number(v uint64) {
	_, _ = s.Write(s.b[:binary.PutUvarint(s.b[:], v)])
}

func (s *numbers) read() (*reader, error) {
	return &reader{Reader: bufio.NewReaderSize(s.File, 256<<10)}, s.Rewind()
}

// A reader reads numbers. What it returns after an error is of no use.
type reader struct {
	*bufio.Reader
	err error
}

func (r *reader) fixed() uint64 {
	b, err := r.Peek(8)
	if err != nil {
		return r.end(err)
	}
	_, _ = r.Discard(8) // that Peek has seen
	return binary.LittleEndian.Uint64(b)
}

func (r *reader) number() uint64 {
	b, err := r.Peek(binary.MaxVarintLen64)
	v, n := binary.Uvarint(b)
	if n <= 0 {
		return r.end(err)
	}
	_, _ = r.Discard(n)
	return v
}

// end keeps the error of the file, or that it ends too early.
func (r *reader) end(err error) uint64 {
	if err == nil || err == io.EOF {
		err = spool.ErrShort
	}
	r.err = cmp.Or(r.err, err)
	return 0
}
