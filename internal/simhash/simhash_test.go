package simhash

import (
	"context"
	"errors"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// of returns the fingerprint of a text, its words separated by spaces.
func of(text string) (uint64, bool) {
	var h Hash
	for word := range strings.FieldsSeq(text) {
		h.Add([]byte(word))
	}
	return h.Sum()
}

// random returns n words out of a vocabulary of 5000.
func random(rnd *rand.Rand, n int) []string {
	words := make([]string, n)
	for i := range words {
		words[i] = "w" + strconv.Itoa(rnd.IntN(5000))
	}
	return words
}

func TestSum(t *testing.T) {
	for _, tt := range []struct {
		name, a, b  string
		ok          bool
		least, most int // distance
	}{
		{"nothing", "", "", false, 0, 0},
		{"one word", "a", "a", true, 0, 0},
		{"another word", "a", "b", true, 15, 49},
		{"two words in another order", "a b", "b a", true, 15, 49},
		{"a word and two", "a", "a b", true, 15, 49},
		{"one shingle", "a b c", "a b c", true, 0, 0},
		{"another shingle", "a b c", "a b d", true, 15, 49},
		{"a text twice", strings.Repeat("a b c ", 100), strings.Repeat("a b c ", 200), true, 0, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, okA := of(tt.a)
			b, okB := of(tt.b)
			if okA != tt.ok || okB != tt.ok {
				t.Fatalf("ok: %v and %v, want %v", okA, okB, tt.ok)
			}
			if d := Distance(a, b); d < tt.least || d > tt.most {
				t.Errorf("distance %d, want %d to %d", d, tt.least, tt.most)
			}
		})
	}
}

// TestByDefinition compares the counters with counting bit by bit, and asks for the sum in
// between, which must change nothing.
func TestByDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.SampledFrom([]int{0, 1, 2, 3, 50, 256, 257, 258, 700}).Draw(t, "words")
		words := random(rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1)), n)
		var h Hash
		var counts [64]int
		total := 0
		for i, w := range words {
			h.Add([]byte(w))
			if i+1 < shingle {
				continue
			}
			one, _ := of(strings.Join(words[i+1-shingle:i+1], " "))
			for bit := range counts {
				counts[bit] += int(one >> bit & 1)
			}
			total++
			if i%100 == 0 {
				h.Sum()
			}
		}
		var want uint64
		for bit, n := range counts {
			if 2*n > total {
				want |= 1 << bit
			}
		}
		if got, ok := h.Sum(); ok != (n > 0) || n >= shingle && got != want {
			t.Fatalf("%d words: %016x, %v; want %016x", n, got, ok, want)
		}
	})
}

// TestDistances: few bits for an edit, about half of them for texts that have nothing to do
// with each other.
func TestDistances(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	const texts = 200
	edited, unrelated := 0, 0
	for range texts {
		words := random(rnd, 1000)
		a, _ := of(strings.Join(words, " "))
		words[rnd.IntN(len(words))] = "another"
		b, _ := of(strings.Join(words, " "))
		c, _ := of(strings.Join(random(rnd, 1000), " "))
		if d := Distance(a, b); d > 8 {
			t.Errorf("one word of 1000 changes %d bits", d)
		}
		edited += Distance(a, b)
		unrelated += Distance(a, c)
	}
	if mean := float64(edited) / texts; mean > 2.5 {
		t.Errorf("one word of 1000 changes %.1f bits on average", mean)
	}
	if mean := float64(unrelated) / texts; mean < 31 || mean > 33 {
		t.Errorf("unrelated texts differ in %.1f bits on average", mean)
	}
}

// TestNear compares with looking at all pairs.
func TestNear(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rnd := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		fps := make([]uint64, rapid.IntRange(0, 300).Draw(t, "n"))
		for i := range fps {
			fps[i] = rnd.Uint64()
			if i > 0 && rnd.IntN(4) > 0 { // some bits away from another, 0 to 5
				fps[i] = fps[rnd.IntN(i)]
				for range rnd.IntN(6) {
					fps[i] ^= 1 << rnd.IntN(64)
				}
			}
		}
		given := slices.Clone(fps)
		got, err := Near(t.Context(), fps)
		if err != nil || len(got) != len(fps) || !slices.Equal(fps, given) {
			t.Fatalf("%d of %d, %v; unchanged: %v", len(got), len(fps), err, slices.Equal(fps, given))
		}
		for i := range fps {
			want := slices.IndexFunc(fps[:i], func(fp uint64) bool { return bits.OnesCount64(fp^fps[i]) <= MaxDistance })
			if int(got[i]) != want {
				t.Fatalf("near %d: %d, want %d", i, got[i], want)
			}
		}
	})
}

func TestNearStops(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	cancel(enough)
	if _, err := Near(ctx, make([]uint64, 2)); !errors.Is(err, enough) {
		t.Errorf("after the end of its context: %v", err)
	}
}

func BenchmarkAdd(b *testing.B) {
	words := random(rand.New(rand.NewPCG(1, 2)), 4000)
	size := len(strings.Join(words, " "))
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for b.Loop() {
		var h Hash
		for _, w := range words {
			h.Add([]byte(w))
		}
		h.Sum()
	}
}

func BenchmarkNear(b *testing.B) {
	rnd := rand.New(rand.NewPCG(1, 2))
	fps := make([]uint64, 200_000)
	for i := range fps {
		fps[i] = rnd.Uint64()
	}
	for b.Loop() {
		if _, err := Near(b.Context(), fps); err != nil {
			b.Fatal(err)
		}
	}
}
