package seen

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"testing"
	"testing/iotest"
)

// saved gives a filter with n fingerprints and its file for transaction tx.
func saved(t testing.TB, n int, tx uint64) (*Filter, []byte) {
	t.Helper()
	f := newFilter(t, Options{})
	r := rand.New(rand.NewPCG(9, 10))
	for range n {
		f.Add(r.Uint64())
	}
	f.SetComplete()
	var file bytes.Buffer
	if err := f.Save(&file, tx); err != nil {
		t.Fatal(err)
	}
	return f, file.Bytes()
}

func TestSaveLoad(t *testing.T) {
	for _, n := range []int{0, 1, 511, 512, 513, 60_000} {
		f, file := saved(t, n, 42)
		if len(file) != headerBytes+8*n+4 {
			t.Errorf("%d bytes for %d fingerprints", len(file), n)
		}
		g := newFilter(t, Options{})
		g.Add(99) // goes
		if err := g.Load(iotest.HalfReader(bytes.NewReader(file)), 42); err != nil {
			t.Fatalf("%d fingerprints: %v", n, err)
		}
		if !g.Complete() || g.Full() || g.Len() != n || g.Has(99) {
			t.Errorf("%d fingerprints: complete %v, full %v, Len %d, has an old one %v", n, g.Complete(), g.Full(), g.Len(), g.Has(99))
		}
		requireSound(t, g)
		for i := range f.parts {
			for _, fp := range f.parts[i].slots {
				if fp != 0 && !g.Has(fp) {
					t.Fatalf("%x is lost", fp)
				}
			}
		}
		var again bytes.Buffer
		if err := g.Save(&again, 42); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(again.Bytes(), file) {
			t.Errorf("%d fingerprints: saved again the file is another", n)
		}
	}
}

// requireRefused loads file into a filter that is in use; it must be empty after that, and as
// good as new.
func requireRefused(t *testing.T, f *Filter, what string, file io.Reader, tx uint64, want ...error) {
	t.Helper()
	f.Add(99)
	f.SetComplete()
	err := f.Load(file, tx)
	ok := false
	for _, w := range want {
		ok = ok || errors.Is(err, w)
	}
	if !ok {
		t.Errorf("%s: %v, want one of %v", what, err, want)
	}
	if f.Len() != 0 || f.Complete() || f.Full() || f.Has(99) {
		t.Errorf("%s: the filter holds %d fingerprints; complete %v", what, f.Len(), f.Complete())
	}
}

func TestLoadRefuses(t *testing.T) {
	_, file := saved(t, 7, 42)
	f := newFilter(t, Options{})
	for n := range file {
		requireRefused(t, f, "cut off", bytes.NewReader(file[:n]), 42, ErrCorrupt)
	}
	for bit := range 8 * len(file) {
		bad := bytes.Clone(file)
		bad[bit/8] ^= 1 << (bit % 8)
		requireRefused(t, f, "flipped bit", bytes.NewReader(bad), 42, ErrCorrupt, ErrStale)
	}
	requireRefused(t, f, "longer", bytes.NewReader(append(bytes.Clone(file), 0)), 42, ErrCorrupt)
	requireRefused(t, f, "twice", bytes.NewReader(append(bytes.Clone(file), file...)), 42, ErrCorrupt)
	requireRefused(t, f, "older", bytes.NewReader(file), 43, ErrStale)
	broken := errors.New("disk")
	requireRefused(t, f, "unreadable", io.MultiReader(bytes.NewReader(file[:60]), iotest.ErrReader(broken)), 42, broken)
	requireRefused(t, f, "unreadable end", io.MultiReader(bytes.NewReader(file), iotest.ErrReader(broken)), 42, broken)

	other, err := New([16]byte{1}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	requireRefused(t, other, "another tree", bytes.NewReader(file), 42, ErrStale)

	// Right checksum, wrong order: a table would find nothing after it.
	twisted := bytes.Clone(file[:len(file)-4])
	copy(twisted[headerBytes:], file[headerBytes+8:headerBytes+16])
	twisted = binary.LittleEndian.AppendUint32(twisted, crc32.Checksum(twisted, castagnoli))
	requireRefused(t, f, "not ascending", bytes.NewReader(twisted), 42, ErrCorrupt)

	if err := f.Load(bytes.NewReader(file), 42); err != nil || f.Len() != 7 {
		t.Errorf("the whole file after all this: %v, %d fingerprints", err, f.Len())
	}
}

// A file that Memory has no room for is no error: its hits count, its misses do not.
func TestLoadFull(t *testing.T) {
	_, file := saved(t, 100_000, 1)
	f := newFilter(t, Options{Memory: 1 << 20})
	if err := f.Load(bytes.NewReader(file), 1); err != nil {
		t.Fatal(err)
	}
	if !f.Full() || f.Complete() || f.Len() == 0 || f.Peak() > 1<<20 {
		t.Errorf("full %v, complete %v, %d fingerprints, %d bytes", f.Full(), f.Complete(), f.Len(), f.Peak())
	}
	requireSound(t, f)
	if err := f.Save(io.Discard, 1); err != ErrIncomplete {
		t.Errorf("Save of a full filter: %v, want %v", err, ErrIncomplete)
	}
	_, small := saved(t, 10, 2)
	if err := f.Load(bytes.NewReader(small), 2); err != nil || f.Full() || !f.Complete() || f.Len() != 10 {
		t.Errorf("a smaller file: %v, full %v, %d fingerprints", err, f.Full(), f.Len())
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
	f, file := saved(t, 20, 1)
	for n := range file {
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
	_, file := saved(f, 20, 1)
	f.Add(file)
	f.Add(file[:headerBytes])
	f.Fuzz(func(t *testing.T, b []byte) {
		filter := newFilter(t, Options{})
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
