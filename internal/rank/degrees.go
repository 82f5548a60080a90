package rank

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"math/bits"
	"slices"

	"urltree/internal/top"
)

const largest = 10

type degree struct{ node, links uint32 }

// mostLinks returns an empty list of the largest degrees.
func mostLinks() top.List[degree] {
	return top.List[degree]{N: largest, Compare: func(a, b degree) int { return cmp.Compare(b.links, a.links) }}
}

// Degrees writes how many pages link to how many URLs, and to how many URLs how many pages link,
// and the largest of both. It reads the source twice. Errors are those of Read and w.
func Degrees(ctx context.Context, source Source, w io.Writer) error {
	g, err := Read(ctx, source)
	if err != nil {
		return err
	}
	defer g.Close()
	var (
		in      = make([]uint32, g.Nodes())
		out     [33]int64 // pages, by the number of bits of their degree
		mostOut = mostLinks()
	)
	err = g.each(ctx, func(from uint32, to []uint32) {
		out[bits.Len(uint(len(to)))]++
		mostOut.Add(degree{node: from, links: uint32(len(to))})
		for _, i := range to {
			in[i]++
		}
	})
	if err != nil {
		return err
	}
	out[0] = g.Pages - g.linked
	var ins [33]int64
	mostIn := mostLinks()
	for i, n := range in {
		ins[bits.Len32(n)]++
		mostIn.Add(degree{node: uint32(i), links: n})
	}
	var listed []uint32
	for _, d := range slices.Concat(mostOut.Items(), mostIn.Items()) {
		listed = append(listed, d.node)
	}
	urls, err := g.names(ctx, source, listed)
	if err != nil {
		return err
	}
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "pages %d, redirects included; URLs %d; references %d; links %d (a pair of URLs counts once)\n\n",
		g.Pages, g.Nodes(), g.Edges, g.Links)
	fmt.Fprintf(b, "%-20s %12s %12s\n", "links", "pages (out)", "URLs (in)")
	for i := range out {
		if out[i]+ins[i] > 0 {
			fmt.Fprintf(b, "%-20s %12d %12d\n", span(i), out[i], ins[i])
		}
	}
	for _, list := range []struct {
		title string
		of    []degree
	}{{"the most URLs that a page links to", mostOut.Items()}, {"the most pages that link to a URL", mostIn.Items()}} {
		fmt.Fprintf(b, "\n%s\n", list.title)
		slices.SortFunc(list.of, func(a, b degree) int {
			return cmp.Or(cmp.Compare(b.links, a.links), cmp.Compare(urls[a.node], urls[b.node]))
		})
		for _, d := range list.of {
			if d.links > 0 {
				fmt.Fprintf(b, "%12d  %s\n", d.links, urls[d.node])
			}
		}
	}
	return b.Flush()
}

// span names the numbers that have so many bits.
func span(bits int) string {
	if bits <= 1 {
		return fmt.Sprint(bits)
	}
	return fmt.Sprintf("%d-%d", uint64(1)<<(bits-1), uint64(1)<<bits-1)
}
