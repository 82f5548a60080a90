package buffer

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

// A parcel weighs body and rest until it is written, then rest.
type parcel struct {
	n          int
	body, rest int64
}

func (p *parcel) weight() int64 { return p.body + p.rest }

// A clerk writes parcels and notes their numbers, those of one call together.
type clerk struct {
	wrote [][]int
	err   error // of the next call
}

func (c *clerk) write(items []*parcel) error {
	c.wrote = append(c.wrote, numbers(items))
	for _, p := range items {
		p.body = 0
	}
	err := c.err
	c.err = nil
	return err
}

func numbers(items []*parcel) (list []int) {
	for _, p := range items {
		list = append(list, p.n)
	}
	return list
}

// What is written when, what is taken, and how many bytes are free then. All buffers have 4 places
// and 100 bytes, of which 20 are a burst; a Take waits from the start.
func TestWrites(t *testing.T) {
	for _, tt := range []struct {
		name  string
		add   []parcel // one after the other
		flush bool
		wrote [][]int
		took  []int // nil: Take still waits
		free  int64
	}{
		{name: "less than a burst", add: []parcel{{body: 10}, {body: 9}}, free: 81},
		{name: "a burst", add: []parcel{{body: 10}, {body: 8, rest: 2}}, wrote: [][]int{{0, 1}}, free: 98},
		{name: "what comes after a burst waits for the next", add: []parcel{{body: 20}, {body: 19}}, wrote: [][]int{{0}}, free: 81},
		{name: "two bursts", add: []parcel{{body: 20}, {body: 5}, {body: 15, rest: 5}}, wrote: [][]int{{0}, {1, 2}}, free: 95},
		{name: "items without weight wait for the next", add: []parcel{{}, {}, {body: 20}}, wrote: [][]int{{0, 1, 2}}, free: 100},
		{name: "a full buffer", add: []parcel{{body: 20}, {body: 1}, {body: 1}, {body: 1, rest: 1}}, wrote: [][]int{{0}, {1, 2, 3}}, took: []int{0, 1, 2, 3}, free: 99},
		{name: "flush", add: []parcel{{body: 1}, {body: 1, rest: 3}}, flush: true, wrote: [][]int{{0, 1}}, took: []int{0, 1}, free: 97},
		{name: "flush of what is written", add: []parcel{{body: 10, rest: 10}}, flush: true, wrote: [][]int{{0}}, took: []int{0}, free: 90},
		{name: "an item heavier than the limit", add: []parcel{{body: 500}, {body: 1}}, wrote: [][]int{{0}}, free: 99},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				b := New(Options[*parcel]{Size: 4, Bytes: 100, Burst: 20, Weight: (*parcel).weight})
				var clerk clerk
				var batch *Batch[*parcel]
				took := call(func() (err error) { batch, err = b.Take(ctx, clerk.write); return err })
				for n := range tt.add {
					tt.add[n].n = n
					if err := b.Add(ctx, &tt.add[n]); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
				}
				if tt.flush {
					b.Flush()
				}
				synctest.Wait()
				if d := cmp.Diff(tt.wrote, clerk.wrote); d != "" {
					t.Errorf("written (-want +got):\n%s", d)
				}
				if got := free(b.byteSem); got != tt.free {
					t.Errorf("%d bytes are free, want %d", got, tt.free)
				}
				if tt.took == nil {
					requireWaiting(t, "Take", took)
					cancel()
				}
				<-took
				if batch != nil {
					if d := cmp.Diff(tt.took, numbers(batch.Items)); d != "" {
						t.Errorf("taken (-want +got):\n%s", d)
					}
					batch.Done()
				} else if tt.took != nil {
					t.Errorf("nothing was taken, want %d", tt.took)
				}
				synctest.Wait()
				drain(t, b)
				requireEmpty(t, b)
			})
		})
	}
}

// An Add that waits for bytes has what is there written, and taken only if that gives back too
// little.
func TestWriteMakesRoomForAdds(t *testing.T) {
	for _, tt := range []struct {
		name   string
		there  parcel // of 100 bytes; no burst
		adds   []int64
		taken  bool
		served bool // all Adds return before a Done
	}{
		{name: "enough for one", there: parcel{body: 60, rest: 30}, adds: []int64{70}, served: true},
		{name: "enough for all", there: parcel{body: 80, rest: 10}, adds: []int64{40, 50}, served: true},
		{name: "a rest heavier than the limit", there: parcel{rest: 500}, adds: []int64{1}, taken: true},
		{name: "too little", there: parcel{body: 50, rest: 40}, adds: []int64{70}, taken: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				b := New(Options[*parcel]{Size: 4, Bytes: 100, Burst: 1000, Weight: (*parcel).weight})
				if err := b.Add(ctx, &tt.there); err != nil {
					t.Fatal(err)
				}
				var added []<-chan error
				for _, n := range tt.adds {
					added = append(added, call(func() error { return b.Add(ctx, &parcel{body: n}) }))
					requireWaiting(t, "Add without bytes", added[len(added)-1])
				}
				var clerk clerk
				var batch *Batch[*parcel]
				took := call(func() (err error) { batch, err = b.Take(ctx, clerk.write); return err })
				synctest.Wait()
				if len(clerk.wrote) != 1 {
					t.Errorf("written: %d, want what was there", clerk.wrote)
				}
				if (batch != nil) != tt.taken {
					t.Errorf("taken: %v, want %v", batch != nil, tt.taken)
				}
				for _, a := range added {
					if tt.served {
						if err := <-a; err != nil {
							t.Error(err)
						}
					} else {
						requireWaiting(t, "Add before the Done", a)
					}
				}
				cancel()
				<-took
				if batch != nil {
					batch.Done()
				}
				synctest.Wait()
				drain(t, b)
				requireEmpty(t, b)
			})
		})
	}
}

// A write that fails ends its Take. Its items are not written again: whoever takes them is told of
// all.
func TestWriteFails(t *testing.T) {
	ctx := t.Context()
	b := New(Options[*parcel]{Size: 4, Bytes: 100, Burst: 20, Weight: (*parcel).weight})
	failure := errors.New("no disk")
	clerk := clerk{err: failure}
	add := func(n int, body int64) {
		if err := b.Add(ctx, &parcel{n: n, body: body}); err != nil {
			t.Fatal(err)
		}
	}
	add(0, 10)
	add(1, 10)
	if batch, err := b.Take(ctx, clerk.write); batch != nil || err != failure {
		t.Fatalf("Take = %v, %v, want the error of write", batch, err)
	}
	if got, want := b.Counts(), (Counts{Added: 2, Waiting: 2}); got != want {
		t.Errorf("counts %+v, want %+v", got, want)
	}
	add(2, 1)
	b.Close()
	batch, err := b.Take(ctx, clerk.write)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]int{0, 1, 2}, numbers(batch.Items)); d != "" {
		t.Errorf("taken (-want +got):\n%s", d)
	}
	if d := cmp.Diff([][]int{{0, 1}, {2}}, clerk.wrote); d != "" {
		t.Errorf("written (-want +got):\n%s", d)
	}
	batch.Done()
	if _, err := b.Take(ctx, clerk.write); err != io.EOF {
		t.Errorf("Take of an empty buffer: %v", err)
	}
	requireEmpty(t, b)
}

// While something is written items may be added, and what ends Take then takes nothing.
func TestAddWhileWriting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		b := New(Options[*parcel]{Size: 4, Bytes: 100, Burst: 20, Weight: (*parcel).weight})
		var clerk clerk
		goOn := make(chan bool)
		took := call(func() error {
			_, err := b.Take(ctx, func(items []*parcel) error { <-goOn; return clerk.write(items) })
			return err
		})
		for n := range 3 {
			if err := b.Add(ctx, &parcel{n: n, body: 30}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // the first is being written
		}
		fourth := call(func() error { return b.Add(ctx, &parcel{n: 3, body: 30}) })
		requireWaiting(t, "Add without bytes", fourth)
		goOn <- true
		synctest.Wait()
		if err := <-fourth; err != nil {
			t.Errorf("an Add whose bytes came back: %v", err)
		}
		cancel()
		requireWaiting(t, "Take that writes", took)
		goOn <- true
		if err := <-took; err != context.Canceled {
			t.Errorf("Take: %v", err)
		}
		// The fourth gets its bytes when the first is written: before or after the second write
		// begins.
		wrote := [][]int{{0}, {1, 2}}
		if len(clerk.wrote) == 2 && len(clerk.wrote[1]) == 3 {
			wrote[1] = append(wrote[1], 3)
		}
		if d := cmp.Diff(wrote, clerk.wrote); d != "" {
			t.Errorf("written (-want +got):\n%s", d)
		}
		b.Close()
		batch, err := b.Take(t.Context(), clerk.write)
		if err != nil {
			t.Fatal(err)
		}
		if len(wrote[1]) == 2 {
			wrote = append(wrote, []int{3})
		}
		if d := cmp.Diff(wrote, clerk.wrote); d != "" {
			t.Errorf("written (-want +got):\n%s", d)
		}
		if d := cmp.Diff([]int{0, 1, 2, 3}, numbers(batch.Items)); d != "" {
			t.Errorf("taken (-want +got):\n%s", d)
		}
		batch.Done()
		requireEmpty(t, b)
	})
}
