package seen

import (
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"
)

var testKey = [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9}

func newFilter(t testing.TB, opts Options) *Filter {
	t.Helper()
	f, err := New(testKey, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if f.Bytes() != 0 || f.Len() != 0 {
			t.Errorf("closed: %d bytes, %d fingerprints", f.Bytes(), f.Len())
		}
	})
	return f
}

// requireSound checks the invariants of every table.
func requireSound(t testing.TB, f *Filter) {
	t.Helper()
	bytes := int64(len(f.initial))
	for i := range f.parts {
		p := &f.parts[i]
		n, last, lastEmpty := 0, uint64(0), -1
		for at, fp := range p.slots {
			if fp == 0 {
				lastEmpty = at
				continue
			}
			n++
			if fp <= last || int(fp>>56) != i {
				t.Fatalf("part %d slot %d: %x after %x", i, at, fp, last)
			}
			last = fp
			if got, ok := p.find(fp); !ok || got != at {
				t.Fatalf("part %d: %x stands at %d and is looked for at %d", i, fp, at, got)
			}
		}
		if n != p.n || lastEmpty != len(p.slots)-1 {
			t.Fatalf("part %d: %d fingerprints, counted %d; last empty slot %d of %d", i, n, p.n, lastEmpty, len(p.slots))
		}
		if p.n*100 > (len(p.slots)-spare)*85 {
			t.Fatalf("part %d: %d fingerprints in %d slots", i, p.n, len(p.slots))
		}
		bytes += int64(len(p.mapped))
	}
	if bytes != f.Bytes() || f.Peak() < bytes {
		t.Fatalf("%d bytes mapped, Bytes %d, Peak %d", bytes, f.Bytes(), f.Peak())
	}
}

func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := newFilter(t, Options{})
		defer f.Close()
		model := map[uint64]bool{}
		// Neighbours share a home; the rest spreads over the tables.
		fingerprint := rapid.OneOf(
			rapid.Uint64Range(1, 40),
			rapid.Uint64Range(0xff<<56-20, 0xff<<56+20),
			rapid.Uint64Range(1<<64-40, 1<<64-1),
			rapid.Custom(func(t *rapid.T) uint64 {
				return f.Fingerprint(fmt.Sprint("http://example.org/", rapid.IntRange(0, 1000).Draw(t, "page")))
			}),
		)
		rt.Repeat(map[string]func(*rapid.T){
			"add": func(rt *rapid.T) {
				fp := fingerprint.Draw(rt, "fp")
				if got := f.Add(fp); got != !model[fp] {
					rt.Fatalf("Add(%x) = %v, known %v", fp, got, model[fp])
				}
				model[fp] = true
			},
			"add many": func(rt *rapid.T) {
				fps := rapid.SliceOf(fingerprint).Draw(rt, "fps")
				want := 0
				for _, fp := range fps {
					if !model[fp] {
						want++
					}
					model[fp] = true
				}
				if got := f.AddMany(fps); got != want {
					rt.Fatalf("AddMany = %d, want %d", got, want)
				}
			},
			"add a thousand of one part": func(*rapid.T) {
				for i := range uint64(1000) {
					fp := 7<<56 | i<<46
					f.Add(fp)
					model[fp] = true
				}
			},
			"has": func(rt *rapid.T) {
				fp := fingerprint.Draw(rt, "fp")
				if got := f.Has(fp); got != model[fp] {
					rt.Fatalf("Has(%x) = %v, want %v", fp, got, model[fp])
				}
			},
			"": func(rt *rapid.T) {
				if f.Len() != len(model) || f.Full() {
					rt.Fatalf("Len %d, want %d; full %v", f.Len(), len(model), f.Full())
				}
			},
		})
		requireSound(t, f)
		for fp := range model {
			if !f.Has(fp) {
				rt.Fatalf("%x is lost", fp)
			}
		}
	})
}

func TestFingerprint(t *testing.T) {
	f := newFilter(t, Options{})
	var others []*Filter
	for _, at := range []int{0, 7, 8, 15} {
		key := testKey
		key[at] ^= 0x80
		other, err := New(key, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		others = append(others, other)
	}
	known := map[uint64]string{}
	for i := range 1000 {
		url := fmt.Sprintf("https://example.org/%d", i)
		fp := f.Fingerprint(url)
		if was, ok := known[fp]; ok {
			t.Errorf("%s and %s have one fingerprint", was, url)
		}
		known[fp] = url
		if fp != f.Fingerprint(string([]byte(url))) {
			t.Errorf("%s has two fingerprints", url)
		}
		for i, other := range others {
			if fp == other.Fingerprint(url) {
				t.Errorf("%s: the same fingerprint under other key %d", url, i)
			}
		}
	}
	if f.Fingerprint("") == 0 {
		t.Error("an empty string has no fingerprint")
	}
	url := "https://example.org/a/rather/long/path?with=a&query=too"
	if n := testing.AllocsPerRun(100, func() { f.Fingerprint(url) }); n != 0 {
		t.Errorf("Fingerprint allocates %v times", n)
	}
}

// A filter is small at first, and at scale takes at most 16 bytes for a fingerprint, at its
// worst instant too. Before that the first tables and the rounding to pages count.
func TestMemory(t *testing.T) {
	f := newFilter(t, Options{})
	if f.Bytes() > 1<<20 {
		t.Errorf("%d bytes at the start, want at most 1 MiB", f.Bytes())
	}
	urls := 1_000_000
	if testing.Short() {
		urls = 200_000
	}
	base := f.Bytes() + parts*int64(os.Getpagesize())
	r := rand.New(rand.NewPCG(1, 2))
	grown := 0
	for n := int64(1); n <= int64(urls); n++ {
		before := f.Peak()
		f.Add(r.Uint64())
		if peak := f.Peak(); peak != before {
			grown++
			if peak > base+16*n {
				t.Fatalf("%d bytes for %d fingerprints", peak, n)
			}
		}
	}
	requireSound(t, f)
	perURL := float64(f.Peak()) / float64(f.Len())
	if f.Len() != urls || grown < parts || !testing.Short() && perURL > 16 {
		t.Errorf("%d fingerprints, grown %d times, %.2f bytes for each", f.Len(), grown, perURL)
	}
	if got, want := f.ExpectedLosses(), float64(urls)*float64(urls)/2/(1<<32)/(1<<32); got != want {
		t.Errorf("%g losses expected, want %g", got, want)
	}
}

// A full filter keeps what it has, refuses the rest, and says that its misses prove nothing.
func TestFull(t *testing.T) {
	for _, memory := range []int64{1, 1 << 20, 3 << 20} {
		t.Run(fmt.Sprint(memory), func(t *testing.T) {
			f := newFilter(t, Options{Memory: memory})
			f.SetComplete()
			r := rand.New(rand.NewPCG(3, 4))
			var added []uint64
			for !f.Full() {
				if !f.Complete() {
					t.Fatal("not complete before it is full")
				}
				if fp := r.Uint64(); f.Add(fp) {
					added = append(added, fp)
				}
			}
			if f.Complete() {
				t.Error("full and complete")
			}
			if want := max(memory, parts*initialSlots*slotBytes); f.Peak() > want {
				t.Errorf("%d bytes at most, want %d", f.Peak(), want)
			}
			if f.Len() < 10_000 {
				t.Errorf("full with %d fingerprints", f.Len())
			}
			n := f.Len()
			for range 1000 {
				if fp := r.Uint64(); f.Add(fp) || f.Has(fp) {
					t.Fatalf("%x was added to a full filter", fp)
				}
			}
			for _, fp := range added {
				if !f.Has(fp) || f.Add(fp) {
					t.Fatalf("%x is lost", fp)
				}
			}
			if f.Len() != n || n != len(added) {
				t.Errorf("%d fingerprints, want %d", f.Len(), len(added))
			}
			requireSound(t, f)
		})
	}
}

// What SipHash never gives: all in one run. The table grows until Memory is reached, and ends.
func TestOneRun(t *testing.T) {
	f := newFilter(t, Options{Memory: 2 << 20})
	n := 0
	for i := range uint64(10_000) {
		if f.Add(1<<64 - 1 - i) {
			n++
		}
	}
	if !f.Full() || n != f.Len() || n < spare-1 {
		t.Errorf("full %v, %d added, Len %d", f.Full(), n, f.Len())
	}
	requireSound(t, f)
}

func TestClosed(t *testing.T) {
	f := newFilter(t, Options{})
	f.SetComplete()
	f.Add(5)
	for range 2 {
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if f.Has(5) || f.Add(6) || f.Complete() {
			t.Error("a closed filter has, takes or knows something")
		}
	}
}

// Each fingerprint is fresh for exactly one of those who add it at the same time.
func TestConcurrent(t *testing.T) {
	f := newFilter(t, Options{})
	const workers, urls = 8, 20_000
	var fresh atomic.Int64
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 0))
			for i := range urls {
				// Half of them are known to a second worker.
				fp := f.Fingerprint(fmt.Sprint(i, i%2*w))
				if f.Add(fp) {
					fresh.Add(1)
				}
				if !f.Has(fp) {
					t.Errorf("%x is lost", fp)
				}
				if r.IntN(10_000) == 0 {
					f.Len()
				}
			}
		})
	}
	wg.Wait()
	want := urls/2 + urls/2*workers
	if f.Len() != want || fresh.Load() != int64(want) {
		t.Errorf("%d fingerprints, fresh %d times, want %d", f.Len(), fresh.Load(), want)
	}
	requireSound(t, f)
}

// filled gives a filter of n fingerprints, and these.
func filled(b *testing.B, n int) (*Filter, []uint64) {
	f := newFilter(b, Options{Memory: 1 << 30})
	r := rand.New(rand.NewPCG(5, 6))
	fps := make([]uint64, n)
	for i := range fps {
		fps[i] = r.Uint64()
	}
	f.AddMany(fps)
	return f, fps
}

func BenchmarkHas(b *testing.B) {
	for _, n := range []int{10_000, 1_000_000, 10_000_000} {
		if n > 1_000_000 && os.Getenv("URLTREE_FULL") == "" {
			continue
		}
		f, fps := filled(b, n)
		b.Run(fmt.Sprintf("hit of %d", n), func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				f.Has(fps[i%n])
			}
		})
		b.Run(fmt.Sprintf("miss of %d", n), func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				f.Has(fps[i%n] * 31)
			}
		})
	}
}

func BenchmarkAdd(b *testing.B) {
	f := newFilter(b, Options{Memory: 4 << 30})
	r := rand.New(rand.NewPCG(7, 8))
	for b.Loop() {
		f.Add(r.Uint64())
	}
	b.ReportMetric(float64(f.Peak())/float64(f.Len()), "peak-B/url")
}

func BenchmarkFingerprint(b *testing.B) {
	f := newFilter(b, Options{})
	url := "https://en.example.org/wiki/Concurrency_(computer_science)?x=1"
	for b.Loop() {
		f.Fingerprint(url)
	}
}

func BenchmarkHasContended(b *testing.B) {
	f, fps := filled(b, 1_000_000)
	b.RunParallel(func(pb *testing.PB) {
		for i := rand.IntN(len(fps)); pb.Next(); i++ {
			f.Has(fps[i%len(fps)])
		}
	})
}
