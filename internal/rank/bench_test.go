package rank

import (
	"testing"
)

// BenchmarkIteration is one iteration over a million links.
func BenchmarkIteration(b *testing.B) {
	w := draw(1, 100_000, 100_000, 20)
	g, err := Read(b.Context(), w.source(len(w)))
	if err != nil {
		b.Fatal(err)
	}
	defer g.Close()
	b.ResetTimer()
	if _, err := g.iterate(b.Context(), b.N, 1e-300, nil); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(g.Links)*float64(b.N)/b.Elapsed().Seconds(), "links/s")
	b.ReportMetric(float64(g.Links), "links")
}
