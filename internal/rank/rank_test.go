package rank

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"urltree/internal/edges"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A web is a graph by numbers: the edges of each page, repeats included.
type web [][]int

func urlOf(n int) string { return fmt.Sprintf("http://h%d.example/%d", n%50, n) }

// source returns the first pages; the other numbers are URLs that were only named.
func (w web) source(pages int) Source {
	return func(_ context.Context, fn func(edges.Page) error) error {
		var list []edges.Edge
		for i := range pages {
			list = list[:0]
			for _, to := range w[i] {
				list = append(list, edges.Edge{To: urlOf(to), Element: "a"})
			}
			if err := fn(edges.Page{URL: urlOf(i), Edges: list}); err != nil {
				return err
			}
		}
		return nil
	}
}

// draw makes a graph of n nodes of which the first pages have links, that favour low numbers; some
// have none, some name a node twice or themselves. Each node is a page or named by one.
func draw(seed uint64, n, pages, most int) web {
	rng := rand.New(rand.NewPCG(seed, 1))
	w := make(web, n)
	for i := range pages {
		if rng.IntN(20) == 0 && i > 0 {
			continue
		}
		for range 1 + rng.IntN(most) {
			w[i] = append(w[i], int(float64(n)*math.Pow(rng.Float64(), 3)))
		}
		if rng.IntN(10) == 0 {
			w[i] = append(w[i], w[i][0], i)
		}
	}
	for i := pages; i < n; i++ {
		w[0] = append(w[0], i)
	}
	return w
}

// independent computes PageRank in another way: it solves r = (1-d)/n + d(dangling/n + the sum of
// r/degree over incoming links) with Gauss-Seidel sweeps, over incoming links, for a constant in
// place of the dangling rank, and scales the solution, which is linear in that constant, to the sum
// 1.
func (w web) independent(d float64) []float64 {
	n := len(w)
	incoming := make([][]int, n)
	degree := make([]float64, n)
	for from, list := range w {
		list = slices.Clone(list)
		slices.Sort(list)
		for _, to := range slices.Compact(list) {
			incoming[to] = append(incoming[to], from)
			degree[from]++
		}
	}
	r := make([]float64, n)
	for change := 1.0; change > 1e-12*float64(n); {
		change = 0
		for i := range r {
			v := 1.0
			for _, from := range incoming[i] {
				v += d * r[from] / degree[from]
			}
			change += math.Abs(v - r[i])
			r[i] = v
		}
	}
	sum := 0.0
	for _, v := range r {
		sum += v
	}
	for i := range r {
		r[i] /= sum
	}
	return r
}

func compute(t *testing.T, source Source, most int, step func(int, float64)) (*Graph, *Ranks) {
	t.Helper()
	g, err := Read(t.Context(), source)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close() })
	r, err := g.iterate(t.Context(), most, residual, step)
	if err != nil {
		t.Fatal(err)
	}
	return g, r
}

// of returns the rank of a URL that is a node.
func of(r *Ranks, url string) float64 {
	i, _ := slices.BinarySearch(r.graph.nodes, fingerprint(&r.graph.key, url))
	return r.ranks[i]
}

// TestIndependent compares ranks with those of an independent computation, to 1e-9 of the sum over
// all.
func TestIndependent(t *testing.T) {
	for _, tt := range []struct{ nodes, pages, most int }{
		{1, 1, 1}, {2, 1, 1}, {100, 100, 5}, {100, 10, 3}, {5000, 4000, 30}, {100_000, 90_000, 6},
	} {
		if testing.Short() && tt.nodes > 5000 {
			continue
		}
		t.Run(fmt.Sprintf("%d nodes, %d pages", tt.nodes, tt.pages), func(t *testing.T) {
			w := draw(uint64(tt.nodes), tt.nodes, tt.pages, tt.most)
			steps := 0
			g, r := compute(t, w.source(tt.pages), most, func(i int, residual float64) {
				if steps++; i != steps {
					t.Errorf("iteration %d is told as %d", steps, i)
				}
			})
			if g.Nodes() != tt.nodes || g.Pages != int64(tt.pages) || steps != r.Iterations || r.Residual >= residual {
				t.Errorf("%d nodes, %d pages, %d iterations of %d, residual %g", g.Nodes(), g.Pages, steps, r.Iterations, r.Residual)
			}
			off, sum := 0.0, 0.0
			for i, want := range w.independent(damping) {
				off += math.Abs(of(r, urlOf(i)) - want)
				sum += of(r, urlOf(i))
			}
			if off > 1e-9 || math.Abs(sum-1) > 1e-9 {
				t.Errorf("ranks are off by %g in all, their sum is %g", off, sum)
			}
			t.Logf("%d iterations, off by %.2g in all", r.Iterations, off)
		})
	}
}

func TestNoGraph(t *testing.T) {
	g, r := compute(t, web{}.source(0), most, nil)
	if g.Nodes() != 0 || r.Iterations != 0 {
		t.Errorf("%d nodes, %d iterations", g.Nodes(), r.Iterations)
	}
	if _, err := Read(t.Context(), func(context.Context, func(edges.Page) error) error { return fs.ErrInvalid }); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("a source that fails: %v", err)
	}
}

func TestMost(t *testing.T) {
	w := draw(7, 100, 100, 5)
	if _, r := compute(t, w.source(100), 3, nil); r.Iterations != 3 || r.Residual < residual {
		t.Errorf("%d iterations, residual %g", r.Iterations, r.Residual)
	}
}

// TestNodeSet adds far more than fits, with many repeats.
func TestNodeSet(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	set, want := nodeSet{list: make([]uint64, 0, 12)}, map[uint64]bool{}
	for range 100_000 {
		fp := uint64(rng.IntN(3000))
		set.add(fp)
		want[fp] = true
	}
	set.compact()
	if len(set.list) != len(want) || cap(set.list) > 3*len(want) {
		t.Errorf("%d in a place for %d, want %d", len(set.list), cap(set.list), len(want))
	}
	for _, fp := range set.list {
		if !want[fp] {
			t.Errorf("%d was not added", fp)
		}
	}
}

func TestFile(t *testing.T) {
	w := draw(11, 300, 200, 8)
	source := w.source(200)
	_, r := compute(t, source, most, nil)
	root := t.TempDir()
	if _, err := Open(root); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("no file: %v", err)
	}
	for range 2 { // the second takes the place of the first
		if err := r.Save(root); err != nil {
			t.Fatal(err)
		}
	}
	f, err := Open(root)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	best := 0
	for i := range w {
		if got, ok := f.Rank(urlOf(i)); !ok || got != of(r, urlOf(i)) {
			t.Fatalf("%s: %g, %v; want %g", urlOf(i), got, ok, of(r, urlOf(i)))
		}
		if of(r, urlOf(i)) > of(r, urlOf(best)) {
			best = i
		}
	}
	if _, ok := f.Rank("http://other.example/"); ok || f.Nodes != 300 {
		t.Errorf("a URL that is no node has a rank, or %d nodes are not 300", f.Nodes)
	}
	list, err := r.Best(t.Context(), source, 20)
	if err != nil || len(list) != 20 || list[0].URL != urlOf(best) {
		t.Fatalf("the best are %v, %v; want %s first", list, err, urlOf(best))
	}
	for i, b := range list {
		if b.Rank != of(r, b.URL) || i > 0 && b.Rank > list[i-1].Rank {
			t.Errorf("%v is out of order, or not the rank %g", b, of(r, b.URL))
		}
	}

	path := filepath.Join(root, fileName)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []int{0, 9, 20, 33, headerBytes + 5, len(whole) - 20, len(whole) - 1} {
		turned := strings.Clone(string(whole[:at])) + string(whole[at]^1) + string(whole[at+1:])
		for name, text := range map[string]string{"cut": turned[:at], "turned": turned} {
			if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
			if f, err := Open(root); !errors.Is(err, ErrDamaged) {
				t.Errorf("%s at byte %d: %v, want ErrDamaged", name, at, err)
				if err == nil {
					f.Close()
				}
			}
		}
	}
}

// TestCounted: a source tells of each page before it is read, anew each time.
func TestCounted(t *testing.T) {
	pages := Source(func(_ context.Context, fn func(edges.Page) error) error {
		for range 3 {
			if err := fn(edges.Page{}); err != nil {
				return err
			}
		}
		return nil
	})
	var told []int64
	source := pages.Counted(func(done int64) { told = append(told, done) })
	for range 2 {
		if err := source(t.Context(), func(edges.Page) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if want := []int64{0, 1, 2, 0, 1, 2}; !slices.Equal(told, want) {
		t.Errorf("told %v, want %v", told, want)
	}
}

func TestDegrees(t *testing.T) {
	// 0 names 1 three times and 2; 1 names 0, 1, 2, 3; 2 and 3 name nothing; 3 is no page.
	w := web{{1, 1, 2, 1}, {3, 2, 1, 0}, {}, {}}
	var out strings.Builder
	if err := Degrees(t.Context(), w.source(3), &out); err != nil {
		t.Fatal(err)
	}
	want := `pages 3, redirects included; URLs 4; references 8; links 6 (a pair of URLs counts once)

links                 pages (out)    URLs (in)
0                               1            0
1                               0            2
2-3                             1            2
4-7                             1            0

the most URLs that a page links to
           4  http://h1.example/1
           2  http://h0.example/0

the most pages that link to a URL
           2  http://h1.example/1
           2  http://h2.example/2
           1  http://h0.example/0
           1  http://h3.example/3
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

func TestMostLinks(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	most := mostLinks()
	all := map[uint32]int{}
	for i := range uint32(1000) {
		n := uint32(rng.IntN(200))
		all[n]++
		most.Add(degree{i, n})
	}
	i, list := 0, most.Items()
	for n := uint32(200); n > 0 && i < largest; n-- {
		for range min(all[n-1], largest-i) {
			if list[i].links != n-1 {
				t.Fatalf("place %d has %d, want %d", i, list[i].links, n-1)
			}
			i++
		}
	}
}

// TestMemory: while ranks are computed a node takes at most 32 bytes, however many links there are.
func TestMemory(t *testing.T) {
	const nodes, degree = 40_000, 4
	source := func(_ context.Context, fn func(edges.Page) error) error {
		list := make([]edges.Edge, degree)
		for i := range nodes {
			for j := range list {
				list[j].To = urlOf((i*7 + j*j*1009) % nodes)
			}
			if err := fn(edges.Page{URL: urlOf(i), Edges: list}); err != nil {
				return err
			}
		}
		return nil
	}
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before, used := heap(), int64(0)
	g, _ := compute(t, source, 2, func(int, float64) { used = heap() - before })
	if most := int64(32*nodes + 768<<10); g.Nodes() != nodes || used > most {
		t.Errorf("%d nodes take %d bytes, %.1f each are allowed, buffers included", g.Nodes(), used, float64(most)/nodes)
	}
	t.Logf("%.1f bytes a node", float64(used)/nodes)
}
