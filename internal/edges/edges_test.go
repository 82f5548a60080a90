package edges

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memory is a File that takes at most left bytes more.
type memory struct {
	b    []byte
	left int
}

func (m *memory) Write(b []byte) (int, error) {
	n := min(len(b), m.left)
	m.b, m.left = append(m.b, b[:n]...), m.left-n
	if n < len(b) {
		return n, io.ErrShortWrite
	}
	return n, nil
}

func (m *memory) Truncate(size int64) error {
	if size > int64(len(m.b)) {
		return errors.New("longer than it is")
	}
	m.b = m.b[:size]
	return nil
}

func (m *memory) Close() error { return nil }

// draw makes n pages, some without edges.
func draw(rng *rand.Rand, n int) []Page {
	word := func(most int) string { return strings.Repeat("ä b"[:1+rng.IntN(3)], rng.IntN(most+1)) }
	pages := make([]Page, n)
	for i := range pages {
		pages[i].URL = fmt.Sprintf("http://a.example/%d", i)
		for j := range rng.IntN(4) {
			pages[i].Edges = append(pages[i].Edges, Edge{fmt.Sprintf("http://b.example/%d", j), "a", word(2), word(12)})
		}
	}
	return pages
}

// write writes pages in frames of so many each, and gives where each frame ends.
func write(t testing.TB, w *Writer, pages []Page, each int) (ends []int64) {
	t.Helper()
	for frame := range slices.Chunk(pages, each) {
		for _, p := range frame {
			if err := w.Append(AppendPage(nil, p)); err != nil {
				t.Fatal(err)
			}
		}
		end, err := w.Flush()
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, end)
	}
	return ends
}

// read returns all pages that can be read.
func read(b []byte, end int64) (pages []Page, whole int64, err error) {
	whole, n, err := Read(bytes.NewReader(b), end, func(p Page) error {
		p.Edges = slices.Clone(p.Edges) // which is not ours
		pages = append(pages, p)
		return nil
	})
	if n != int64(len(pages)) {
		return nil, 0, fmt.Errorf("%d pages, said to be %d", len(pages), n)
	}
	return pages, whole, err
}

func equal(a, b []Page) bool {
	return slices.EqualFunc(a, b, func(a, b Page) bool { return a.URL == b.URL && slices.Equal(a.Edges, b.Edges) })
}

func newWriter(t testing.TB, f File, end int64) *Writer {
	t.Helper()
	w, err := NewWriter(f, end)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

func TestRoundTrip(t *testing.T) {
	pages := draw(rand.New(rand.NewPCG(1, 1)), 100)
	// One that is larger than a frame, and others behind it.
	large := Page{URL: "http://large.example/"}
	for i := range 60_000 {
		large.Edges = append(large.Edges, Edge{To: fmt.Sprintf("http://c.example/%d", i), Element: "a", Text: "text"})
	}
	pages = append(pages, large, pages[0])
	f := &memory{left: 1 << 30}
	ends := write(t, newWriter(t, f, 0), pages, len(pages))
	got, whole, err := read(f.b, ends[0])
	if err != nil || whole != ends[0] {
		t.Fatalf("%d of %d bytes: %v", whole, ends[0], err)
	}
	if !equal(pages, got) {
		t.Error("other pages are read than were written")
	}
	if got, _, err := read(nil, 0); len(got) > 0 || err != nil {
		t.Errorf("of a file of which nothing counts: %d pages, %v", len(got), err)
	}
}

// TestDamage cuts the file at every byte and turns a bit of every byte: the frames before are
// there, and nothing else.
func TestDamage(t *testing.T) {
	pages := draw(rand.New(rand.NewPCG(2, 2)), 12)
	f := &memory{left: 1 << 30}
	ends := write(t, newWriter(t, f, 0), pages, 4)
	end := ends[len(ends)-1]
	for at := range f.b {
		want, wantWhole := 0, int64(0)
		if at >= len(magic) {
			wantWhole = int64(len(magic))
		}
		for i, e := range ends {
			if int64(at) >= e {
				want, wantWhole = 4*(i+1), e
			}
		}
		turned := bytes.Clone(f.b)
		turned[at] ^= 1 << (at % 8)
		for name, b := range map[string][]byte{"cut": f.b[:at], "turned": turned} {
			got, whole, err := read(b, end)
			if !errors.Is(err, ErrDamaged) || errors.Is(err, ErrCut) != (name == "cut") || whole != wantWhole || !equal(got, pages[:want]) {
				t.Fatalf("%s at byte %d: %d pages, %d bytes whole, want %d and %d: %v", name, at, len(got), whole, want, wantWhole, err)
			}
		}
	}
}

// TestGoOn cuts off what was written behind the end that counts, torn or whole, and goes on.
func TestGoOn(t *testing.T) {
	pages := draw(rand.New(rand.NewPCG(3, 3)), 30)
	for left := 0; ; left++ {
		f := &memory{left: 1 << 30}
		end := write(t, newWriter(t, f, 0), pages[:10], 5)[1]
		f.left = left
		w := newWriter(t, f, end)
		for _, p := range pages[10:20] {
			if err := w.Append(AppendPage(nil, p)); err != nil {
				t.Fatal(err)
			}
		}
		_, err := w.Flush()
		f.left = 1 << 30
		end = write(t, newWriter(t, f, end), pages[20:], 10)[0]
		got, _, rerr := read(f.b, end)
		if want := slices.Concat(pages[:10], pages[20:]); rerr != nil || !equal(got, want) {
			t.Fatalf("%d bytes of the frame that does not count: %d pages are read, want %d: %v", left, len(got), len(want), rerr)
		}
		if err == nil {
			return
		}
	}
}

func TestReadPassesErrorsOn(t *testing.T) {
	f := &memory{left: 1 << 30}
	end := write(t, newWriter(t, f, 0), draw(rand.New(rand.NewPCG(4, 4)), 3), 3)[0]
	mine := errors.New("mine")
	if _, _, err := Read(bytes.NewReader(f.b), end, func(Page) error { return mine }); err != mine {
		t.Errorf("the error of fn became %v", err)
	}
	if _, _, err := Read(io.MultiReader(bytes.NewReader(f.b[:20]), failing{mine}), end, func(Page) error { return nil }); !errors.Is(err, mine) || errors.Is(err, ErrDamaged) {
		t.Errorf("the error of the disk became %v", err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// FuzzPage: what reads as a page of a frame is written the same way, but for longer spellings of
// numbers.
func FuzzPage(f *testing.F) {
	for _, p := range draw(rand.New(rand.NewPCG(5, 5)), 5) {
		f.Add(AppendPage(nil, p))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		d := decoder{rest: string(b)}
		url, list := d.page(nil)
		if d.bad || d.rest != "" {
			return
		}
		again := decoder{rest: string(AppendPage(nil, Page{url, list}))}
		url2, list2 := again.page(nil)
		if again.bad || url2 != url || !slices.Equal(list, list2) {
			t.Fatalf("%q: %q %q, read again %q %q", b, url, list, url2, list2)
		}
	})
}
