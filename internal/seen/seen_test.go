package seen

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
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

// requireSound checks the invariants of every part.
func requireSound(t testing.TB, f *Filter) {
	t.Helper()
	bytes := int64(len(f.initial))
	for i := range f.parts {
		p := &f.parts[i]
		bytes += int64(len(p.mapped))
		if p.lines > 0 {
			requireSoundTurned(t, p, i)
			continue
		}
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
		if p.n*100 > homes(len(p.slots))*85 {
			t.Fatalf("part %d: %d fingerprints in %d slots", i, p.n, len(p.slots))
		}
	}
	if bytes != f.Bytes() || f.Peak() < bytes || f.Peak() > f.memory {
		t.Fatalf("%d bytes mapped of %d, Bytes %d, Peak %d", bytes, f.memory, f.Bytes(), f.Peak())
	}
}

func requireSoundTurned(t testing.TB, p *part, i int) {
	t.Helper()
	if p.lines*2*line != len(p.slots) {
		t.Fatalf("part %d: %d slots in %d lines", i, len(p.slots), p.lines)
	}
	known := map[uint64]bool{}
	for at, fp := range p.slots[p.lines*line:] {
		if fp == 0 {
			continue
		}
		if int(fp>>56) != i || place(fp, p.lines) != at/line || !marked(p.block(fp), fp) || known[fp] {
			t.Fatalf("part %d: %x in set %d of %d; twice: %v", i, fp, at/line, p.lines, known[fp])
		}
		known[fp] = true
	}
}

// A world is a filter and what it was told. The filter may say of a fingerprint that was added
// anything but Unknown, of another anything but Known.
type world struct {
	*Filter
	added map[uint64]bool
	exact bool  // the filter may turn nothing
	told  Stats // what the filter should have counted: Asked and Confirmed
	hits  int64 // how often the filter said Maybe while it was complete: each is a Bloom hit
}

func (w *world) check(t *rapid.T, fp uint64) {
	got, added := w.Lookup(fp), w.added[fp]
	switch {
	case added && (got == Unknown && w.Complete() || w.exact && got != Known), !added && got == Known:
		t.Fatalf("Lookup(%x) = %v, added %v", fp, got, added)
	case got == Unknown && !w.Complete(), got == Maybe && w.exact && w.Complete():
		t.Fatalf("Lookup(%x) = %v, complete %v", fp, got, w.Complete())
	case got == Maybe: // what the index says is what was added
		w.Confirm(fp, added)
		w.told.Asked++
		if added {
			w.told.Confirmed++
			if w.Lookup(fp) != Known {
				t.Fatalf("%x is not known right after the index confirmed it", fp)
			}
		}
		if w.Complete() {
			w.hits++
		}
	}
}

func TestModel(t *testing.T) {
	for name, memory := range map[string]int64{"roomy": 0, "tiny": 1, "small": 100 << 10} {
		t.Run(name, func(t *testing.T) {
			turned, crowded := false, memory > 0
			rapid.Check(t, func(rt *rapid.T) {
				turned = testModel(t, rt, memory, crowded) || turned
				crowded = false // one run is sure to turn a part
			})
			if turned != (memory > 0) {
				t.Errorf("turned parts: %v", turned)
			}
		})
	}
}

// testModel compares a filter with a set. A crowded one begins with one part full.
func testModel(t *testing.T, rt *rapid.T, memory int64, crowded bool) (turned bool) {
	w := &world{Filter: newFilter(t, Options{Memory: memory}), added: map[uint64]bool{}, exact: memory == 0}
	defer func() { w.Close() }()
	// Neighbours share a home; the rest spreads over the tables.
	fingerprint := rapid.OneOf(
		rapid.Uint64Range(1, 40),
		rapid.Uint64Range(0xff<<56-20, 0xff<<56+20),
		rapid.Uint64Range(1<<64-40, 1<<64-1),
		rapid.Map(rapid.IntRange(0, 1000), func(n int) uint64 { return w.Fingerprint(fmt.Sprint("http://example.org/", n)) }),
	)
	many := func(rt *rapid.T, n int, narrow bool) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		for range n {
			fp := max(1, r.Uint64())
			if narrow {
				fp = 7<<56 | fp>>8
			}
			w.Add(fp)
			w.added[fp] = true
		}
	}
	if crowded {
		many(rt, 2000, true)
	}
	rt.Repeat(map[string]func(*rapid.T){
		"add": func(rt *rapid.T) {
			fp := fingerprint.Draw(rt, "fp")
			w.Add(fp)
			w.added[fp] = true
			w.check(rt, fp)
		},
		"add a thousand": func(rt *rapid.T) { many(rt, 1000, rapid.Bool().Draw(rt, "in one part")) },
		"look up":        func(rt *rapid.T) { w.check(rt, fingerprint.Draw(rt, "fp")) },
		"look up all": func(rt *rapid.T) {
			for fp := range w.added {
				w.check(rt, fp)
				w.check(rt, fp^1<<40)
			}
		},
		"complete": func(*rapid.T) { w.SetComplete() },
		"": func(rt *rapid.T) {
			if n := w.Len(); n > len(w.added) || w.exact && n < len(w.added) {
				rt.Fatalf("Len %d, want %d", n, len(w.added))
			}
		},
	})
	for fp := range w.added {
		w.check(rt, fp)
	}
	requireSound(t, w.Filter)
	got := w.Stats()
	if got.Asked != w.told.Asked || got.Confirmed != w.told.Confirmed || got.BloomHits < w.hits || got.BloomHits > got.Asked ||
		got.BloomHits != got.Confirmed+got.FalsePositives && w.hits == got.Asked {
		rt.Fatalf("%+v, told %+v, %d hits", got, w.told, w.hits)
	}
	return w.Stats().Turned > 0
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

// A filter that has reached its limit knows all that it was told, one way or the other, and says
// Maybe of little else. Its parts turn one at a time, and it never takes more than the limit.
func TestTurn(t *testing.T) {
	for _, tt := range []struct {
		name          string
		memory, limit int64
		urls          int
	}{
		{"least", 1, 32 << 10, 6000},
		{"no growing", 256 << 10, 256 << 10, 40_000},
		{"some growing", 1 << 20, 1 << 20, 150_000},
		{"odd", 3<<20 + 12345, 3<<20 + 12345, 450_000},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if testing.Short() && tt.urls > 200_000 {
				t.Skip("adds hundreds of thousands of URLs")
			}
			f := newFilter(t, Options{Memory: tt.memory})
			f.SetComplete()
			r := rand.New(rand.NewPCG(3, 4))
			var added []uint64
			turned := 0
			for len(added) < tt.urls {
				fp := r.Uint64()
				p := &f.parts[fp>>56]
				was := p.lines
				f.Add(fp)
				added = append(added, fp)
				if f.Peak() > tt.limit {
					t.Fatalf("%d bytes after %d fingerprints", f.Peak(), len(added))
				}
				if was == 0 && p.lines > 0 {
					if turned++; turned == 1 || turned == parts {
						requireSound(t, f)
						t.Logf("%d parts turned after %d fingerprints", turned, len(added))
					}
				}
			}
			if turned != parts || f.Stats().Turned != turned {
				t.Fatalf("%d parts turned one by one, %d in all", turned, f.Stats().Turned)
			}
			requireSound(t, f)
			if n := f.Len(); n > len(added) || n < len(added)*9/10 {
				t.Errorf("Len %d of %d", n, len(added))
			}
			counts := [3]int{}
			for _, fp := range added {
				counts[f.Lookup(fp)]++
			}
			if counts[Unknown] > 0 || counts[Known] == 0 || counts[Maybe] == 0 {
				t.Errorf("of those added: unknown %d, known %d, maybe %d", counts[Unknown], counts[Known], counts[Maybe])
			}
			counts = [3]int{}
			for range 20_000 {
				counts[f.Lookup(r.Uint64())]++
			}
			if counts[Known] > 0 || counts[Maybe] > 20_000/10 {
				t.Errorf("of others: unknown %d, known %d, maybe %d", counts[Unknown], counts[Known], counts[Maybe])
			}
		})
	}
}

// A Bloom filter that is just made has few false positives, and of each fingerprint of the table it
// came from it has the marks.
func TestFalsePositives(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	for _, tt := range []struct{ times, most int }{ // of a million; the figures of marks, and a fifth more
		{1, 200},
		{4, 20_000},
		{10, 220_000},
	} {
		p := &part{slots: make([]uint64, 1<<13)}
		var added []uint64
		for {
			fp := r.Uint64() >> 8
			i, ok := p.find(fp)
			if ok {
				continue
			}
			if !p.insert(i, fp) {
				break
			}
			added = append(added, fp)
		}
		p.turn()
		for range (tt.times - 1) * len(added) {
			fp := r.Uint64() >> 8
			p.keep(fp)
			added = append(added, fp)
		}
		for _, fp := range added {
			if !marked(p.block(fp), fp) {
				t.Fatalf("%d times full: %x is lost", tt.times, fp)
			}
		}
		wrong := 0
		const others = 1_000_000
		for range others {
			fp := r.Uint64() >> 8
			if marked(p.block(fp), fp) {
				wrong++
			}
		}
		if wrong > tt.most*others/1_000_000 {
			t.Errorf("%d times full: %d of %d wrong, want at most %d", tt.times, wrong, others, tt.most)
		}
		t.Logf("%d times full: %d of %d", tt.times, wrong, others)
	}
}

// The oldest of a set goes first, and what is there already does not come again.
func TestOldestReplaced(t *testing.T) {
	p := &part{slots: make([]uint64, 2*line), lines: 1}
	for fp := range uint64(20) {
		p.keep(1 + fp)
		p.keep(1 + fp)
		for old := range fp + 1 {
			if has, want := slices.Contains(p.set(1), 1+old), old+line > fp; has != want {
				t.Fatalf("after %d: %d is there: %v", 1+fp, 1+old, has)
			}
		}
	}
}

// What SipHash never gives: all in one run. The table grows until Memory is reached, and turns.
func TestOneRun(t *testing.T) {
	f := newFilter(t, Options{Memory: 2 << 20})
	for i := range uint64(10_000) {
		f.Add(1<<64 - 1 - i)
		if i == spare-2 && f.Stats().Turned > 0 {
			t.Errorf("turned after %d", i+1)
		}
	}
	f.SetComplete()
	for i := range uint64(10_000) {
		if f.Lookup(1<<64-1-i) == Unknown {
			t.Errorf("%d is lost", i)
		}
	}
	if f.Stats().Turned != 1 {
		t.Errorf("%+v", f.Stats())
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
		f.Add(6)
		f.Confirm(7, true)
		if f.Lookup(5) != Maybe || f.Lookup(6) != Maybe || f.Lookup(7) != Maybe || f.Complete() || f.Len() != 0 {
			t.Error("a closed filter takes or knows something")
		}
	}
}

// TestNotUnmapped: memory that the system does not take back stays counted, and nothing is lost
// with it.
func TestNotUnmapped(t *testing.T) {
	f, err := New(testKey, Options{})
	if err != nil {
		t.Fatal(err)
	}
	before := f.initial
	f.initial = make([]byte, len(before)) // it was not mapped
	t.Cleanup(func() { _ = unix.Munmap(before) })
	var added []uint64
	p := &f.parts[0]
	grow := func() {
		for slots, n := len(p.slots), len(p.slots); len(p.slots) == slots; n++ {
			added = append(added, uint64(n)<<40) // in part 0
			f.Add(uint64(n) << 40)
		}
	}
	grow()
	table := p.mapped
	t.Cleanup(func() { _ = unix.Munmap(table) })
	p.mapped = make([]byte, len(table))
	grow()
	if want := int64(len(before) + len(table) + len(p.mapped)); f.Bytes() != want {
		t.Errorf("grown: %d bytes, want %d", f.Bytes(), want)
	}
	for _, fp := range added {
		if got := f.Lookup(fp); got != Known {
			t.Fatalf("%x is %v", fp, got)
		}
	}
	if err := f.Close(); !errors.Is(err, unix.EINVAL) || f.Bytes() != int64(len(before)+len(table)) {
		t.Errorf("closed: %v, %d bytes", err, f.Bytes())
	}
}

// Those who add, ask and confirm at the same time never hear that what is there is not, while
// parts grow and turn, and of each fingerprint the filter is told once.
func TestConcurrent(t *testing.T) {
	for _, memory := range []int64{0, 1 << 20, 1} {
		t.Run(fmt.Sprint(memory), func(t *testing.T) {
			f := newFilter(t, Options{Memory: memory})
			f.SetComplete()
			const workers, urls = 8, 10_000
			var over atomic.Int64
			var wg sync.WaitGroup
			for w := range workers {
				wg.Go(func() {
					for i := range urls {
						// Half of them are known to all workers.
						fp := f.Fingerprint(fmt.Sprint(i, i%2*w))
						if f.Lookup(fp) == Maybe && i%2 == 1 {
							f.Confirm(fp, false) // nobody else has it
						}
						f.Add(fp)
						switch f.Lookup(fp) {
						case Unknown:
							t.Errorf("%x is lost", fp)
						case Maybe:
							f.Confirm(fp, true)
						}
						if f.Bytes() > f.memory {
							over.Add(1)
						}
						if i%1000 == 0 {
							f.Len()
							f.Stats()
						}
					}
				})
			}
			wg.Wait()
			want := urls/2 + urls/2*workers
			if n := f.Len(); n > want || memory == 0 && n < want {
				t.Errorf("%d fingerprints, want %d", n, want)
			}
			if over.Load() > 0 {
				t.Errorf("%d times more than %d bytes", over.Load(), f.memory)
			}
			if stats := f.Stats(); (stats.Turned == 0) != (memory == 0) || stats.Confirmed+stats.FalsePositives != stats.Asked {
				t.Errorf("%+v", stats)
			}
			requireSound(t, f)
		})
	}
}

// filled returns a filter of n fingerprints, and these.
func filled(b *testing.B, n int, memory int64) (*Filter, []uint64) {
	f := newFilter(b, Options{Memory: memory})
	r := rand.New(rand.NewPCG(5, 6))
	fps := make([]uint64, n)
	for i := range fps {
		fps[i] = r.Uint64()
		f.Add(fps[i])
	}
	return f, fps
}

func BenchmarkLookup(b *testing.B) {
	for _, size := range []struct {
		name   string
		n      int
		memory int64
	}{
		{"10000", 10_000, 1 << 30},
		{"1000000", 1_000_000, 1 << 30},
		{"10000000", 10_000_000, 1 << 30},
		{"10000 turned", 10_000, 1},
		{"1000000 turned", 1_000_000, 4 << 20},
		{"10000000 turned", 10_000_000, 40 << 20},
	} {
		if size.n > 1_000_000 && os.Getenv("TEST_URLTREE_FULL") == "" {
			continue
		}
		f, fps := filled(b, size.n, size.memory)
		b.Run("hit of "+size.name, func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				f.Lookup(fps[i%size.n])
			}
		})
		b.Run("miss of "+size.name, func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				f.Lookup(fps[i%size.n] * 31)
			}
		})
	}
}

// A turn happens once for a part; others wait meanwhile who ask for the same one.
func BenchmarkTurn(b *testing.B) {
	full := &part{slots: make([]uint64, 1<<17)} // 1 MiB, a part of 256 MiB
	r := rand.New(rand.NewPCG(15, 16))
	for ok := true; ok; {
		fp := r.Uint64() >> 8
		i, _ := full.find(fp)
		ok = full.insert(i, fp)
	}
	p := &part{slots: make([]uint64, len(full.slots))}
	for b.Loop() {
		copy(p.slots, full.slots)
		p.turn()
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
	for b.Loop() {
		f.Fingerprint("https://en.example.org/wiki/Concurrency_(computer_science)?x=1")
	}
}

func BenchmarkLookupContended(b *testing.B) {
	f, fps := filled(b, 1_000_000, 1<<30)
	b.RunParallel(func(pb *testing.PB) {
		for i := rand.IntN(len(fps)); pb.Next(); i++ {
			f.Lookup(fps[i%len(fps)])
		}
	})
}
