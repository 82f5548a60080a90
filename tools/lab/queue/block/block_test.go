package block

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

var number = Codec[uint32]{
	Size: 4,
	Put:  func(b []byte, v *uint32) { binary.LittleEndian.PutUint32(b, *v) },
	Get:  func(b []byte, v *uint32) { *v = binary.LittleEndian.Uint32(b) },
}

// disk holds the blocks that were written and refuses to read others.
type disk struct {
	blocks        map[int64][]byte
	reads, writes int64
	err           error
}

func (d *disk) ReadAt(b []byte, off int64) (int, error) {
	d.reads++
	stored, ok := d.blocks[off]
	if !ok {
		return 0, errors.New("never written")
	}
	return copy(b, stored), d.err
}

func (d *disk) WriteAt(b []byte, off int64) (int, error) {
	d.writes++
	d.blocks[off] = slices.Clone(b)
	return len(b), d.err
}

// check asserts the invariant of an Array.
func (a *Array[T]) check(t *rapid.T) {
	in, seen := 0, 0
	for b, i := range a.place {
		if i >= 0 {
			in++
			if a.frames[i].block != b {
				t.Fatalf("block %d is said to be in the frame of %d", b, a.frames[i].block)
			}
		}
	}
	empty, last := false, int32(-1)
	for i := a.newest; i >= 0; i = a.frames[i].older {
		f := &a.frames[i]
		seen++
		if f.newer != last || empty && f.block >= 0 {
			t.Fatalf("frame %d is in a wrong place of the order", i)
		}
		empty, last = f.block < 0, i
		if f.block >= 0 {
			in--
		}
	}
	if in != 0 || seen != len(a.frames) || a.oldest != last || len(a.frames) > a.limit {
		t.Fatalf("%d of %d frames in order, limit %d", seen, len(a.frames), a.limit)
	}
}

func TestAgainstSlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const n = 100
		file := &disk{blocks: map[int64][]byte{}}
		size := rapid.IntRange(1, 30).Draw(t, "size")
		a := New(file, number, size, int64(rapid.IntRange(0, 200).Draw(t, "memory")))
		a.Grow(n / 2)
		a.Grow(n)
		model := make([]uint32, n)
		known := make([]bool, n) // false: dropped
		for i := range known {
			known[i] = true
		}
		pos := rapid.IntRange(0, n-1)
		number := rapid.Uint32Range(1, 1<<31)
		t.Repeat(map[string]func(*rapid.T){
			"at": func(t *rapid.T) {
				p := pos.Draw(t, "pos")
				if got := *a.At(p); known[p] && got != model[p] {
					t.Fatalf("At(%d) is %d, want %d", p, got, model[p])
				}
			},
			"set": func(t *rapid.T) {
				p := pos.Draw(t, "pos")
				model[p], known[p] = number.Draw(t, "record"), true
				a.Set(p, model[p])
			},
			"read": func(t *rapid.T) {
				p := pos.Draw(t, "pos")
				got := make([]uint32, rapid.IntRange(0, n-p).Draw(t, "n"))
				a.Read(p, got)
				for i, v := range got {
					if known[p+i] && v != model[p+i] {
						t.Fatalf("Read gave %d at %d, want %d", v, p+i, model[p+i])
					}
				}
			},
			"write": func(t *rapid.T) {
				p := pos.Draw(t, "pos")
				src := rapid.SliceOfN(number, 0, n-p).Draw(t, "records")
				a.Write(p, src)
				copy(model[p:], src)
				for i := range src {
					known[p+i] = true
				}
			},
			"drop": func(t *rapid.T) {
				first := pos.Draw(t, "first")
				behind := rapid.IntRange(first, n).Draw(t, "behind")
				a.Drop(first, behind)
				for i := first; i < behind; i++ {
					known[i] = false
				}
			},
			"": func(t *rapid.T) {
				a.check(t)
				if r, w := a.IO(); r != file.reads || w != file.writes || a.Err() != nil {
					t.Fatalf("IO says %d, %d of %d, %d; error %v", r, w, file.reads, file.writes, a.Err())
				}
			},
		})
	})
}

func TestTransfers(t *testing.T) {
	const per, blocks = 4, 10 // four blocks are in memory
	list := make([]uint32, per*blocks)
	for _, tt := range []struct {
		name          string
		do            func(a *Array[uint32])
		reads, writes int64
	}{
		{"fresh blocks are not read", func(a *Array[uint32]) { a.Read(0, list) }, 0, 0},
		{"each block is written once", func(a *Array[uint32]) { a.Write(0, list) }, 0, 6},
		{"looking changes nothing", func(a *Array[uint32]) { a.Write(0, list); a.Read(0, list); a.Read(0, list) }, 20, 10},
		{"whole blocks are replaced unread", func(a *Array[uint32]) { a.Write(0, list); a.Write(0, list) }, 0, 12},
		{"a part is read first", func(a *Array[uint32]) { a.Write(0, list); a.Write(1, list[:2]) }, 1, 7},
		{"dropped blocks cost nothing", func(a *Array[uint32]) { a.Write(0, list); a.Drop(0, len(list)); a.Read(0, list) }, 0, 6},
		{"half a block is kept", func(a *Array[uint32]) { a.Write(0, list); a.Drop(1, per); a.At(0) }, 1, 7},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := New(&disk{blocks: map[int64][]byte{}}, number, 4*per, 0)
			a.Grow(len(list))
			tt.do(a)
			if r, w := a.IO(); r != tt.reads || w != tt.writes || a.Err() != nil {
				t.Errorf("%d reads and %d writes, want %d and %d; error %v", r, w, tt.reads, tt.writes, a.Err())
			}
		})
	}
}

func TestFirstErrorStays(t *testing.T) {
	file := &disk{blocks: map[int64][]byte{}, err: errors.New("broken")}
	a := New(file, number, 4, 0)
	a.Grow(20)
	for i := range 20 {
		a.Set(i, uint32(i))
	}
	if !errors.Is(a.Err(), file.err) {
		t.Fatalf("Err is %v, want %v", a.Err(), file.err)
	}
	first, writes := a.Err(), file.writes
	file.err = nil
	for i := range 20 {
		a.Set(i, *a.At(i))
	}
	if a.Err() != first || file.reads != 0 || file.writes != writes {
		t.Errorf("after %v: %v, %d reads and %d writes", first, a.Err(), file.reads, file.writes-writes)
	}
}
