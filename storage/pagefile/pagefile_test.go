package pagefile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	bolt "go.etcd.io/bbolt"
)

// newFile returns the pages of a file of bbolt with n entries in a large bucket, some of them of
// several pages, a small bucket, an empty one, and free pages.
func newFile(t *testing.T, n int) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file.db")
	db, err := bolt.Open(path, 0o644, &bolt.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	value := func(i int) []byte {
		if i%40 == 7 {
			return bytes.Repeat([]byte{byte(i)}, 3*os.Getpagesize())
		}
		return fmt.Appendf(nil, "value %d", i)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		for _, name := range []string{"empty", "large", "small"} {
			if _, err := tx.CreateBucket([]byte(name)); err != nil {
				return err
			}
		}
		var failed error
		for i := range n {
			failed = errors.Join(failed, tx.Bucket([]byte("large")).Put(fmt.Appendf(nil, "key %08d", i), value(i)))
		}
		return errors.Join(failed, tx.Bucket([]byte("small")).Put([]byte("a"), []byte("b")))
	})
	for i := 0; i < n && err == nil; i += n/10 + 1 {
		err = db.Update(func(tx *bolt.Tx) error { return tx.Bucket([]byte("large")).Delete(fmt.Appendf(nil, "key %08d", i)) })
	}
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	m, err := readMeta(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	return file[:m.pages*uint64(m.pageSize)] // without the room for growth
}

func check(file []byte, leaves bool) error {
	return Check(bytes.NewReader(file), int64(len(file)), leaves)
}

// TestCheckAgreesWithBolt: whatever bbolt's own check finds wrong in a file, Check does; after it
// bbolt can read all.
func TestCheckAgreesWithBolt(t *testing.T) {
	whole := newFile(t, 400)
	if err := check(whole, true); err != nil {
		t.Fatal(err)
	}
	used, size := len(whole), os.Getpagesize()
	path := filepath.Join(t.TempDir(), "file.db")
	rounds := 200
	if os.Getenv("TEST_URLTREE_FULL") != "" {
		rounds = 20_000
	}
	rnd := rand.New(rand.NewPCG(7, 0))
	passed, wrong := 0, 0
	for range rounds {
		bad := slices.Clone(whole)
		page := 2 + rnd.IntN(used/size-2) // a torn meta page is what a power cut leaves
		switch rnd.IntN(4) {
		case 0:
			copy(bad[page*size:(page+1)*size], whole[rnd.IntN(used/size)*size:])
		case 1:
			bad[page*size+rnd.IntN(size)] ^= 1 << rnd.IntN(8)
		default:
			for range rnd.IntN(3) + 1 {
				bad[page*size+rnd.IntN(128)] ^= 1 << rnd.IntN(8) // headers and elements
			}
		}
		if err := check(bad, true); err != nil {
			wrong++
			if !errors.Is(err, ErrDamaged) {
				t.Fatal(err)
			}
			continue
		}
		passed++
		if quick := check(bad, false); quick != nil {
			t.Fatalf("without leaves: %v", quick)
		}
		if err := os.WriteFile(path, bad, 0o644); err != nil {
			t.Fatal(err)
		}
		db, err := bolt.Open(path, 0o644, &bolt.Options{ReadOnly: true})
		if err != nil {
			t.Fatalf("passed, and bbolt says %v", err)
		}
		err = db.View(func(tx *bolt.Tx) error {
			for err := range tx.Check() {
				t.Errorf("passed, and bbolt's check says %v", err)
			}
			return nil
		})
		if err := errors.Join(err, db.Close()); err != nil || t.Failed() {
			t.Fatal(err)
		}
	}
	t.Logf("%d files passed, %d did not", passed, wrong)
	if passed < rounds/10 || wrong < rounds/10 {
		t.Errorf("%d passed, %d did not: the test says nothing", passed, wrong)
	}
}

// TestCheckReadsFewPages: without leaves, few pages but the branches are read.
func TestCheckReadsFewPages(t *testing.T) {
	whole := newFile(t, 20_000)
	size := uint64(os.Getpagesize())
	branches := 0
	for at := uint64(0); at < uint64(len(whole)); at += size {
		if binary.NativeEndian.Uint64(whole[at:]) == at/size && binary.NativeEndian.Uint16(whole[at+8:]) == kindBranch {
			branches++
		}
	}
	r := &countingReader{r: bytes.NewReader(whole), pages: map[int64]bool{}}
	if err := Check(r, int64(len(whole)), false); err != nil {
		t.Fatal(err)
	}
	if most := 2*branches + 40; branches < 2 || len(r.pages) > most || most > len(whole)/int(size)/2 {
		t.Errorf("%d of %d pages read, at most %d are allowed with %d branches", len(r.pages), len(whole)/int(size), most, branches)
	}
}

type countingReader struct {
	r     *bytes.Reader
	pages map[int64]bool
}

func (c *countingReader) ReadAt(b []byte, at int64) (int, error) {
	c.pages[at/int64(os.Getpagesize())] = true
	return c.r.ReadAt(b, at)
}

// failingAt fails in one of its reads.
type failingAt struct {
	io.ReaderAt
	left int
	err  error
}

func (f *failingAt) ReadAt(b []byte, at int64) (int, error) {
	if f.left--; f.left == 0 {
		return 0, f.err
	}
	return f.ReaderAt.ReadAt(b, at)
}

// TestFailedReadIsNoDamage: a read that fails says nothing about the file; a file that is too short
// is damaged.
func TestFailedReadIsNoDamage(t *testing.T) {
	whole := newFile(t, 300)
	size := int64(len(whole))
	for name, look := range map[string]func(io.ReaderAt) error{
		"without leaves": func(f io.ReaderAt) error { return Check(f, size, false) },
		"all":            func(f io.ReaderAt) error { return Check(f, size, true) },
		"collected": func(f io.ReaderAt) error {
			c, err := Collect(f, size)
			if err != nil {
				return err
			}
			return c.Bucket([]byte("large"), func(k, value []byte) error { return nil })
		},
	} {
		reads := 0
		for k := 1; ; k++ {
			f := &failingAt{bytes.NewReader(whole), k, fmt.Errorf("read: %w", syscall.EIO)}
			err := look(f)
			if f.left > 0 {
				if reads = k - 1; err != nil {
					t.Errorf("%s: no read fails: %v", name, err)
				}
				break
			}
			if !errors.Is(err, syscall.EIO) || errors.Is(err, ErrDamaged) {
				t.Errorf("%s: read %d fails: %v, want %v alone", name, k, err, syscall.EIO)
			}
			f = &failingAt{bytes.NewReader(whole), k, io.EOF}
			if err := look(f); name != "collected" && k > 2 && !errors.Is(err, ErrDamaged) { // of two meta pages one is enough
				t.Errorf("%s: the file ends at read %d: %v, want %v", name, k, err, ErrDamaged)
			}
		}
		if reads < 5 {
			t.Errorf("%s: %d reads: the test says nothing", name, reads)
		}
	}
}

// TestCollect: of a whole file a Collector returns every entry. Of one with a damaged page it
// returns those of the other leaves, and says that it has skipped something.
func TestCollect(t *testing.T) {
	whole := newFile(t, 2000)
	size := os.Getpagesize()
	collect := func(file []byte) (found map[string]bool, skipped int) {
		c, err := Collect(bytes.NewReader(file), int64(len(file)))
		if err != nil {
			t.Fatal(err)
		}
		found = map[string]bool{}
		if err := c.Bucket([]byte("large"), func(k, value []byte) error { found[string(k)] = true; return nil }); err != nil {
			t.Fatal(err)
		}
		var small string
		if err := c.Bucket([]byte("small"), func(k, value []byte) error { small = string(k) + string(value); return nil }); err != nil || small != "ab" {
			t.Errorf("a small bucket has %q, %v", small, err)
		}
		return found, c.Skipped()
	}
	all, skipped := collect(whole)
	if want := 2000 - 10; len(all) != want || skipped != 0 {
		t.Fatalf("of a whole file %d entries of %d, %d skipped", len(all), want, skipped)
	}
	m, err := readMeta(bytes.NewReader(whole), int64(len(whole)))
	if err != nil {
		t.Fatal(err)
	}
	free := &structure{meta: m, f: bytes.NewReader(whole), used: make([]uint64, m.pages/64+1)}
	if err := free.freelist(); err != nil {
		t.Fatal(err)
	}
	spoilt := 0
	for at := 2 * size; at < len(whole); at += size {
		id, e := uint64(at/size), binary.NativeEndian
		if e.Uint64(whole[at:]) != id || e.Uint16(whole[at+8:]) != kindLeaf || free.mark(id, 1) != nil {
			continue
		}
		inside := map[string]bool{}
		for k := range all {
			if bytes.Contains(whole[at:at+(1+int(e.Uint32(whole[at+12:])))*size], []byte(k)) {
				inside[k] = true
			}
		}
		if len(inside) == 0 || len(inside) == len(all) {
			continue
		}
		spoilt++
		file := slices.Clone(whole)
		clear(file[at : at+pageHeader])
		found, skipped := collect(file)
		if skipped == 0 {
			t.Errorf("page %d: nothing is said to be skipped", at/size)
		}
		for k := range all {
			if !found[k] && !inside[k] {
				t.Errorf("page %d: %q of another page is lost", at/size, k)
			}
		}
	}
	if spoilt < 10 {
		t.Errorf("%d pages were spoilt: the test says nothing", spoilt)
	}
}
