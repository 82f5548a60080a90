package storage

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"urltree/internal/testseed"

	"urltree/storage/record"
)

// sectorSize is what a disk writes as a whole, or not at all.
const sectorSize = 512

// stateOf is a digest of all that an index says.
func stateOf(t *testing.T, x *Index) (sum [32]byte) {
	t.Helper()
	h := sha256.New()
	for _, bucket := range buckets {
		err := x.file.Scan(context.Background(), bucket, nil, func(k, v []byte) error {
			fmt.Fprintf(h, "%s %d %d %s%s", bucket, len(k), len(v), k, v)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	h.Sum(sum[:0])
	return sum
}

// TestPowerCut cuts the power at any time of a transaction: of the pages that were not synced any
// sectors are written, of a meta page any part. What is there then is the state before the
// transaction or the one after it, whole, and after it once the meta page is written.
func TestPowerCut(t *testing.T) {
	commits, subsets := 2, 8
	if testing.Short() {
		commits, subsets = 1, 4
	}
	if os.Getenv("TEST_URLTREE_FULL") != "" {
		commits, subsets = 30, 60
	}
	x, path := newIndex(t, 60)
	rnd := rand.New(rand.NewPCG(testseed.Draw(t), 0))
	type moment struct {
		file  []byte
		state [32]byte
	}
	now := func() moment {
		file, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return moment{bytes.TrimRight(file, "\x00"), stateOf(t, x)} // without the room for growth
	}
	try := filepath.Join(t.TempDir(), "index.db")
	probes := 0
	require := func(what string, file []byte, may ...[32]byte) {
		t.Helper()
		probes++
		if err := os.WriteFile(try, file, 0o644); err != nil {
			t.Fatal(err)
		}
		y, err := Open(try, Options{NoSync: true})
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		defer y.Close()
		if faults := faultsOf(t, y); len(faults) > 0 {
			t.Fatalf("%s: %q", what, faults)
		}
		if !slices.Contains(may, stateOf(t, y)) {
			t.Fatalf("%s: a state that never was", what)
		}
	}
	before := now()
	for n := range commits {
		var set []*record.Outcome
		for i := range 1 + rnd.IntN(40) {
			url := fmt.Sprintf("http://host%d.org/%d", rnd.IntN(7), rnd.IntN(60))
			o := &record.Outcome{Row: record.Row{URL: url + "/", Source: url, Depth: 1}, State: record.States[1+(i+n)%4], Page: record.Page{Status: 200}, Reason: "x"}
			if o.State == record.Pending {
				o.Next = record.Row{Range: record.Held, Reason: "y"}
			}
			for j := range rnd.IntN(5) {
				o.Links = append(o.Links, record.Link{URL: fmt.Sprintf("%s/%d/%d/%d", url, n, i, j), Source: url, Depth: 2})
			}
			set = append(set, o)
		}
		if _, err := x.Commit(set); err != nil {
			t.Fatal(err)
		}
		after := now()
		// The file grows before it is written to.
		page, size := os.Getpagesize(), max(sizeOf(t, after.file), len(before.file))
		grown := func(file []byte) []byte { return append(slices.Clone(file), make([]byte, size-len(file))...) }
		base := grown(before.file)
		after.file = grown(after.file)
		var pages, sectors []int // that the transaction has written, without the meta page
		for at := 2 * page; at < len(after.file); at += sectorSize {
			if !bytes.Equal(base[at:at+sectorSize], after.file[at:at+sectorSize]) {
				sectors = append(sectors, at)
				if len(pages) == 0 || pages[len(pages)-1] != at/page*page {
					pages = append(pages, at/page*page)
				}
			}
		}
		write := func(file []byte, size int, from []int) []byte {
			for _, at := range from {
				copy(file[at:at+size], after.file[at:])
			}
			return file
		}
		for k := range pages {
			require(fmt.Sprintf("commit %d: %d of %d pages written", n, k, len(pages)), write(slices.Clone(base), page, pages[:k]), before.state)
			require(fmt.Sprintf("commit %d: page %d alone written", n, k), write(slices.Clone(base), page, pages[k:k+1]), before.state)
			but := slices.Delete(slices.Clone(pages), k, k+1)
			require(fmt.Sprintf("commit %d: all but page %d written", n, k), write(slices.Clone(base), page, but), before.state)
		}
		for range subsets {
			some := slices.DeleteFunc(slices.Clone(sectors), func(int) bool { return rnd.IntN(2) == 0 })
			require(fmt.Sprintf("commit %d: sectors %d written", n, some), write(slices.Clone(base), sectorSize, some), before.state)
		}
		// Now the pages are synced, and the meta page is on its way.
		synced := write(slices.Clone(base), page, pages)
		meta := 0
		if bytes.Equal(base[:page], after.file[:page]) {
			meta = page
		}
		for cut := 0; cut <= pageHeader+64; cut += 4 {
			file := slices.Clone(synced)
			copy(file[meta:meta+cut], after.file[meta:])
			require(fmt.Sprintf("commit %d: %d bytes of the meta page written", n, cut), file, before.state, after.state)
		}
		require(fmt.Sprintf("commit %d: all written", n), write(synced, page, []int{0, page}), after.state)
		before = after
	}
	t.Logf("%d cuts", probes)
}
