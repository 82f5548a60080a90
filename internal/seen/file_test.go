package seen

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"os"
	"testing"
	"testing/iotest"

	"golang.org/x/sys/unix"
)

// saved returns a filter with n fingerprints, these, and its file for transaction tx.
func saved(t testing.TB, n int, tx uint64, opts Options) (*Filter, []uint64, []byte) {
	t.Helper()
	f := newFilter(t, opts)
	r := rand.New(rand.NewPCG(9, 10))
	var fps []uint64
	for range n {
		fps = append(fps, r.Uint64())
		f.Add(fps[len(fps)-1])
	}
	f.SetComplete()
	var file bytes.Buffer
	if err := f.Save(&file, tx); err != nil {
		t.Fatal(err)
	}
	return f, fps, file.Bytes()
}

func TestSaveLoad(t *testing.T) {
	for _, tt := range []struct {
		n      int
		memory int64
		turned bool
	}{
		{0, 0, false},
		{1, 0, false},
		{511, 0, false},
		{130_000, 0, false},
		{0, 1, false},
		{1500, 1, true},
		{6000, 1, true},
		{45_000, 1 << 20, true},
		{130_000, 1 << 20, true},
	} {
		f, fps, file := saved(t, tt.n, 42, Options{Memory: tt.memory})
		stats := f.Stats()
		if (stats.Turned > 0) != tt.turned {
			t.Errorf("%+v: %d parts turned", tt, stats.Turned)
		}
		if want := headerBytes + parts*partBytes + 8*tt.n + 4; !tt.turned && len(file) != want {
			t.Errorf("%+v: %d bytes, want %d", tt, len(file), want)
		}
		g := newFilter(t, Options{Memory: tt.memory})
		if err := g.Load(iotest.HalfReader(bytes.NewReader(file)), 42); err != nil {
			t.Fatalf("%+v: %v", tt, err)
		}
		if !g.Complete() || g.Stats() != stats || g.Len() != f.Len() || g.Bytes() != f.Bytes() {
			t.Errorf("%+v: complete %v, %+v, Len %d", tt, g.Complete(), g.Stats(), g.Len())
		}
		requireSound(t, g)
		for _, fp := range fps {
			if got := g.Lookup(fp); got != f.Lookup(fp) || got == Unknown || !tt.turned && got != Known {
				t.Fatalf("%+v: %x is %v", tt, fp, got)
			}
		}
		var again bytes.Buffer
		if err := g.Save(&again, 42); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(again.Bytes(), file) {
			t.Errorf("%+v: saved again the file is another", tt)
		}
	}
}

// TestLoadWhileInUse: what is added before and while a file is read stays, and a filter that has
// not loaded it yet asks the index.
func TestLoadWhileInUse(t *testing.T) {
	for _, opts := range []Options{{}, {Memory: 1 << 20}} {
		_, old, file := saved(t, 60_000, 7, opts)
		f := newFilter(t, opts)
		var fresh []uint64
		r := rand.New(rand.NewPCG(11, 12))
		add := func(n int) {
			for range n {
				fresh = append(fresh, r.Uint64())
				f.Add(fresh[len(fresh)-1])
			}
		}
		add(1000)
		in := &slow{r: bytes.NewReader(file), between: func() {
			add(10)
			if got := f.Lookup(old[0]); got != Maybe {
				t.Errorf("%v before the file is loaded, want Maybe", got)
			}
		}}
		if err := f.Load(in, 7); err != nil || !f.Complete() || len(fresh) < 1020 {
			t.Fatalf("%v, complete %v, %d added", err, f.Complete(), len(fresh))
		}
		requireSound(t, f)
		for _, fp := range append(old, fresh...) {
			if got := f.Lookup(fp); got == Unknown || opts.Memory == 0 && got != Known {
				t.Fatalf("%+v: %x is %v", opts, fp, got)
			}
		}
	}

	// Parts that are turned by what came meanwhile cannot be taken over.
	_, _, file := saved(t, 100, 7, Options{Memory: 1})
	f := newFilter(t, Options{Memory: 1})
	in := &slow{r: bytes.NewReader(file), between: func() {
		for range 3000 {
			f.Add(rand.Uint64())
		}
	}}
	if err := f.Load(in, 7); !errors.Is(err, ErrStale) || f.Complete() || f.Stats().Turned == 0 {
		t.Errorf("%v, complete %v, %d parts turned", err, f.Complete(), f.Stats().Turned)
	}
}

// TestNotUnmapped: memory that the system does not take back stays counted, and nothing is lost
// with it: neither what is loaded, nor what a table that has grown holds.
func TestNotUnmapped(t *testing.T) {
	_, old, file := saved(t, 60_000, 7, Options{})
	f, err := New(testKey, Options{})
	if err != nil {
		t.Fatal(err)
	}
	before := f.initial
	f.initial = make([]byte, len(before)) // it was not mapped
	t.Cleanup(func() { _ = unix.Munmap(before) })
	if err := f.Load(bytes.NewReader(file), 7); err != nil || !f.Complete() {
		t.Fatalf("%v, complete %v", err, f.Complete())
	}
	if want := mapped(f) + int64(len(before)); f.Bytes() != want {
		t.Errorf("loaded: %d bytes, want %d", f.Bytes(), want)
	}
	p := &f.parts[0]
	table := p.mapped
	t.Cleanup(func() { _ = unix.Munmap(table) })
	p.mapped = make([]byte, len(table))
	for slots, n := len(p.slots), uint64(1); len(p.slots) == slots; n++ {
		old = append(old, n<<40) // in part 0
		f.Add(n << 40)
	}
	if want := mapped(f) + int64(len(before)+len(table)); f.Bytes() != want {
		t.Errorf("grown: %d bytes, want %d", f.Bytes(), want)
	}
	for _, fp := range old {
		if got := f.Lookup(fp); got != Known {
			t.Fatalf("%x is %v", fp, got)
		}
	}
	if err := f.Close(); err != nil || f.Bytes() != int64(len(before)+len(table)) {
		t.Errorf("closed: %v, %d bytes", err, f.Bytes())
	}
}

// mapped returns the bytes of the tables that are in use.
func mapped(f *Filter) int64 {
	n := len(f.initial)
	for i := range f.parts {
		n += len(f.parts[i].mapped)
	}
	return int64(n)
}

// slow has something happen before each read.
type slow struct {
	r       io.Reader
	between func()
}

func (s *slow) Read(b []byte) (int, error) {
	s.between()
	return s.r.Read(b)
}

// requireRefused loads file into a filter that is in use, and must be as before.
func requireRefused(t *testing.T, f *Filter, what string, file io.Reader, tx uint64, want ...error) {
	t.Helper()
	f.Add(99)
	err := f.Load(file, tx)
	ok := false
	for _, w := range want {
		ok = ok || errors.Is(err, w)
	}
	if !ok {
		t.Errorf("%s: %v, want one of %v", what, err, want)
	}
	if f.Len() != 1 || f.Complete() || f.Lookup(99) != Known || f.Bytes() != int64(len(f.initial)) || f.Stats() != (Stats{}) {
		t.Errorf("%s: the filter holds %d fingerprints in %d bytes; complete %v; %+v", what, f.Len(), f.Bytes(), f.Complete(), f.Stats())
	}
}

func TestLoadRefuses(t *testing.T) {
	for _, tt := range []struct {
		name string
		n    int
	}{{"tables", 7}, {"turned", 1500}} {
		t.Run(tt.name, func(t *testing.T) {
			_, _, file := saved(t, tt.n, 42, Options{Memory: 1})
			testRefuses(t, file)
		})
	}
}

func testRefuses(t *testing.T, file []byte) {
	f := newFilter(t, Options{Memory: 1})
	sparse := 1 + len(file)/300
	if os.Getenv("TEST_URLTREE_FULL") != "" {
		sparse = 1
	}
	for n := 0; n < len(file); n++ {
		// All of what stands before the first fingerprint, and the end; of the rest some.
		if n > headerBytes+partBytes && n < len(file)-12 && n%sparse > 0 {
			continue
		}
		requireRefused(t, f, "cut off", bytes.NewReader(file[:n]), 42, ErrCorrupt)
		bad := bytes.Clone(file)
		bad[n] ^= 1 << rand.IntN(8)
		requireRefused(t, f, "flipped bit", bytes.NewReader(bad), 42, ErrCorrupt, ErrStale)
	}
	requireRefused(t, f, "longer", bytes.NewReader(append(bytes.Clone(file), 0)), 42, ErrCorrupt)
	requireRefused(t, f, "twice", bytes.NewReader(append(bytes.Clone(file), file...)), 42, ErrCorrupt)
	requireRefused(t, f, "older", bytes.NewReader(file), 43, ErrStale)
	broken := errors.New("disk")
	requireRefused(t, f, "unreadable", io.MultiReader(bytes.NewReader(file[:60]), iotest.ErrReader(broken)), 42, broken)
	requireRefused(t, f, "unreadable end", io.MultiReader(bytes.NewReader(file), iotest.ErrReader(broken)), 42, broken)

	other, err := New([16]byte{1}, Options{Memory: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	requireRefused(t, other, "another tree", bytes.NewReader(file), 42, ErrStale)

	if err := f.Load(bytes.NewReader(file), 42); err != nil || f.Len() == 0 {
		t.Errorf("the whole file after all this: %v, %d fingerprints", err, f.Len())
	}
}

// What has the right checksum is looked at all the same: a table would find nothing in disorder.
func TestLoadChecks(t *testing.T) {
	_, _, tables := saved(t, 700, 42, Options{})
	_, _, turned := saved(t, 1500, 42, Options{Memory: 1})
	f := newFilter(t, Options{})
	tiny := newFilter(t, Options{Memory: 1})
	const first = headerBytes + partBytes // fingerprints or slots of part 0
	put := func(at int, v uint64) func([]byte) {
		return func(b []byte) { binary.LittleEndian.PutUint64(b[at:], v) }
	}
	for _, tt := range []struct {
		name   string
		to     *Filter
		file   []byte
		change func([]byte)
		want   error
	}{
		{"not ascending", f, tables, func(b []byte) { copy(b[first:first+8], b[first+8:]) }, ErrCorrupt},
		{"of another part", f, tables, put(first, 1<<56), ErrCorrupt},
		{"more than slots", f, tables, put(headerBytes+8, 300), ErrCorrupt},
		{"turned twice", f, tables, put(headerBytes+16, 2), ErrCorrupt},
		{"no slots", f, tables, put(headerBytes, 0), ErrCorrupt},
		{"part of a page", f, tables, put(headerBytes, 400), ErrStale},
		{"more than memory", f, tables, put(headerBytes, 1<<40), ErrStale},
		{"more than all", f, tables, put(headerBytes, 1<<61), ErrStale},
		{"memory without need", f, tables, put(headerBytes-8, 256<<20), ErrCorrupt},
		{"of a larger filter", tiny, tables, func([]byte) {}, ErrStale},
		{"of a smaller filter", f, turned, func([]byte) {}, ErrStale},
		{"turned without saying", tiny, turned, put(headerBytes-8, 0), ErrCorrupt},
		{"many", tiny, turned, put(headerBytes+8, 1<<60), ErrCorrupt},
	} {
		b := bytes.Clone(tt.file[:len(tt.file)-4])
		tt.change(b)
		b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
		requireRefused(t, tt.to, tt.name, bytes.NewReader(b), 42, tt.want)
	}
	// Not ascending is not enough for a full table: 218 of 192 homes.
	b := bytes.Clone(tables[:headerBytes+8])
	b = binary.LittleEndian.AppendUint64(b[:headerBytes+8], 250)
	b = binary.LittleEndian.AppendUint64(b, 0)
	for fp := range uint64(250) {
		b = binary.LittleEndian.AppendUint64(b, (fp+1)<<48)
	}
	requireRefused(t, f, "too full", bytes.NewReader(b), 42, ErrCorrupt)
}

// A file of tables that fit is good for whatever limit; one that does not fit is for none.
func TestLoadOtherMemory(t *testing.T) {
	g, fps, file := saved(t, 100_000, 1, Options{})
	for _, tt := range []struct {
		memory int64
		want   error
	}{{0, nil}, {g.Bytes(), nil}, {g.Bytes() - 1, ErrStale}, {1 << 20, ErrStale}, {1 << 30, nil}} {
		f := newFilter(t, Options{Memory: tt.memory})
		if err := f.Load(bytes.NewReader(file), 1); !errors.Is(err, tt.want) || f.Complete() != (tt.want == nil) {
			t.Errorf("%d bytes: %v, want %v", tt.memory, err, tt.want)
		}
		for _, fp := range fps { // it goes on, either way
			f.Add(fp)
		}
		f.SetComplete()
		requireSound(t, f)
		if full := tt.memory > 0 && tt.memory < g.Bytes()-1; (f.Stats().Turned > 0) != full && tt.want == nil {
			t.Errorf("%d bytes: %+v", tt.memory, f.Stats())
		}
	}
}

// limited takes n bytes and fails.
type limited int

var errNoSpace = errors.New("no space")

func (l *limited) Write(b []byte) (int, error) {
	if len(b) > int(*l) {
		n := int(*l)
		*l = 0
		return n, errNoSpace
	}
	*l -= limited(len(b))
	return len(b), nil
}

func TestSaveErrors(t *testing.T) {
	f, _, file := saved(t, 1500, 1, Options{Memory: 1})
	for n := 0; n < len(file); n += 1 + len(file)/200 {
		l := limited(n)
		if err := f.Save(&l, 1); !errors.Is(err, errNoSpace) {
			t.Errorf("room for %d of %d bytes: %v", n, len(file), err)
		}
	}
	l := limited(len(file))
	if err := f.Save(&l, 1); err != nil {
		t.Errorf("room for all: %v", err)
	}
	if err := newFilter(t, Options{}).Save(io.Discard, 1); err != ErrIncomplete {
		t.Errorf("Save before the scan is over: %v, want %v", err, ErrIncomplete)
	}
}

func FuzzLoad(f *testing.F) {
	for _, n := range []int{20, 1500} {
		_, _, file := saved(f, n, 1, Options{Memory: 1})
		f.Add(file[:len(file)-4])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		filter := newFilter(t, Options{Memory: 1})
		// A right checksum, so that the fuzzer gets behind it.
		b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
		if err := filter.Load(bytes.NewReader(b), 1); err != nil {
			if filter.Len() != 0 {
				t.Errorf("%d fingerprints after %v", filter.Len(), err)
			}
			return
		}
		var again bytes.Buffer
		if err := filter.Save(&again, 1); err != nil || !bytes.Equal(again.Bytes(), b) {
			t.Errorf("saved again: %v, %x, was %x", err, again.Bytes(), b)
		}
	})
}
