package buffer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"golang.org/x/sync/semaphore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// itself is the weight of an item that is a number of bytes.
func itself(n int) int64 { return int64(n) }

// nothing writes items that weigh as much as before.
func nothing[T any]([]T) error { return nil }

// free counts the permits that can be had now: none while someone waits for more.
func free(sem *semaphore.Weighted) (n int64) {
	for step := int64(1) << 40; step > 0; step /= 2 {
		if sem.TryAcquire(step) {
			n += step
		}
	}
	sem.Release(n)
	return n
}

// requireEmpty checks that every place and every byte can be taken again, and that nothing waits.
func requireEmpty[T any](t *testing.T, b *Buffer[T]) {
	t.Helper()
	got := [3]int64{free(b.crawlerSem), free(b.builderSem), free(b.byteSem)}
	if want := [3]int64{int64(b.opts.Size), 0, b.opts.Bytes}; got != want {
		t.Errorf("free places, waiting items, free bytes: %d, want %d", got, want)
	}
	b.mu.Lock()
	if b.here.bytes != 0 || b.here.fresh != 0 || b.out.bytes != 0 || b.wanted != 0 || b.here.written != 0 {
		t.Errorf("an empty buffer counts %d bytes, %d of them not written, %d out, %d wanted, and %d items written", b.here.bytes, b.here.fresh, b.out.bytes, b.wanted, b.here.written)
	}
	b.mu.Unlock()
	if c := b.Counts(); c.Waiting != 0 || c.Out != 0 || c.Added != c.Removed {
		t.Errorf("counts of an empty buffer: %+v", c)
	}
}

// drain closes b and commits the rest, which it returns.
func drain[T any](t *testing.T, b *Buffer[T]) (rest []T) {
	t.Helper()
	b.Close()
	for {
		batch, err := b.Take(t.Context(), nothing)
		if err == io.EOF {
			return rest
		}
		if err != nil {
			t.Fatal(err)
		}
		rest = append(rest, batch.Items...)
		batch.Done()
	}
}

// call runs f in a goroutine and delivers its error.
func call(f func() error) <-chan error {
	c := make(chan error, 1)
	go func() { c <- f() }()
	return c
}

// requireWaiting checks that a call has not returned although all goroutines stand still.
func requireWaiting(t *testing.T, what string, c <-chan error) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-c:
		t.Fatalf("%s returned (%v), want it to wait", what, err)
	default:
	}
}

// Each reason makes a waiting Take return, and one that comes later as well.
func TestTakeReasons(t *testing.T) {
	for _, tt := range []struct {
		name   string
		opts   Options[int]
		add    []int // before the reason
		reason func(ctx context.Context, b *Buffer[int])
		want   []int
	}{
		{
			"full",
			Options[int]{Size: 3},
			[]int{1, 2},
			func(ctx context.Context, b *Buffer[int]) { b.Add(ctx, 3) },
			[]int{1, 2, 3},
		},
		{
			"a batch of fewer items than places",
			Options[int]{Size: 3, Batch: 2},
			[]int{1},
			func(ctx context.Context, b *Buffer[int]) { b.Add(ctx, 2) },
			[]int{1, 2},
		},
		{
			"one place",
			Options[int]{Size: 1},
			nil,
			func(ctx context.Context, b *Buffer[int]) { b.Add(ctx, 1) },
			[]int{1},
		},
		{
			"flush",
			Options[int]{Size: 3},
			[]int{1, 2},
			func(_ context.Context, b *Buffer[int]) { b.Flush() },
			[]int{1, 2},
		},
		{
			"an Add waits for bytes",
			Options[int]{Size: 3, Bytes: 10, Weight: itself},
			[]int{4, 5},
			func(ctx context.Context, b *Buffer[int]) { go b.Add(ctx, 2) },
			[]int{4, 5},
		},
		{
			"heavier than the limit",
			Options[int]{Size: 3, Bytes: 10, Weight: itself},
			[]int{1},
			func(ctx context.Context, b *Buffer[int]) { go b.Add(ctx, 1000) },
			[]int{1},
		},
		{
			"flush interval",
			Options[int]{Size: 3, Wait: time.Second},
			[]int{1},
			func(context.Context, *Buffer[int]) { <-time.After(time.Second) },
			[]int{1},
		},
		{
			"close",
			Options[int]{Size: 3},
			[]int{1, 2},
			func(_ context.Context, b *Buffer[int]) { b.Close() },
			[]int{1, 2},
		},
		{
			"close of an empty buffer",
			Options[int]{},
			nil,
			func(_ context.Context, b *Buffer[int]) { b.Close() },
			nil,
		},
	} {
		for _, order := range []string{"take first", "reason first"} {
			t.Run(tt.name+"/"+order, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ctx := t.Context()
					b := New(tt.opts)
					for _, n := range tt.add {
						if err := b.Add(ctx, n); err != nil {
							t.Fatal(err)
						}
					}
					var batch *Batch[int]
					take := func() (err error) { batch, err = b.Take(ctx, nothing); return err }
					var took <-chan error
					if order == "take first" {
						took = call(take)
						requireWaiting(t, "Take", took)
					}
					tt.reason(ctx, b)
					synctest.Wait()
					if order == "reason first" {
						took = call(take)
						synctest.Wait()
					}
					err := <-took
					if tt.want == nil {
						if batch != nil || err != io.EOF {
							t.Fatalf("Take = %v, %v; want io.EOF", batch, err)
						}
					} else {
						if err != nil {
							t.Fatal(err)
						}
						if d := cmp.Diff(tt.want, batch.Items); d != "" {
							t.Fatalf("items (-want +got):\n%s", d)
						}
						batch.Done()
						batch.Done()
					}
					synctest.Wait()
					drain(t, b)
					requireEmpty(t, b)
				})
			})
		}
	}
}

// An Add or Take that ends with an error leaves nothing behind.
func TestErrorPaths(t *testing.T) {
	adding := func(n int) func(context.Context, *Buffer[int]) error {
		return func(ctx context.Context, b *Buffer[int]) error { return b.Add(ctx, n) }
	}
	taking := func(ctx context.Context, b *Buffer[int]) error { _, err := b.Take(ctx, nothing); return err }
	// All buffers have 2 places and 10 bytes.
	for _, tt := range []struct {
		name  string
		fill  []int // added first
		taken bool  // and taken, not done
		call  func(context.Context, *Buffer[int]) error
		close bool // end the call by Close, not by its context
		want  error
	}{
		{"no place", []int{1, 1}, true, adding(1), false, context.Canceled},
		{"no bytes", []int{6}, true, adding(5), false, context.Canceled},
		{"no bytes, too heavy", []int{6}, true, adding(50), false, context.Canceled},
		{"nothing to take", nil, false, taking, false, context.Canceled},
		{"too few to take", []int{1}, false, taking, false, context.Canceled},
		{"closed without a place", []int{1, 1}, true, adding(1), true, ErrClosed},
		{"closed without bytes", []int{6}, true, adding(5), true, ErrClosed},
		{"closed and empty", nil, false, taking, true, io.EOF},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := New(Options[int]{Size: 2, Bytes: 10, Weight: itself})
				for _, n := range tt.fill {
					if err := b.Add(t.Context(), n); err != nil {
						t.Fatal(err)
					}
				}
				var batch *Batch[int]
				if tt.taken {
					b.Flush()
					batch, _ = b.Take(t.Context(), nothing)
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				result := call(func() error { return tt.call(ctx, b) })
				requireWaiting(t, "the call", result)
				if tt.close {
					b.Close()
				} else {
					cancel()
				}
				synctest.Wait()
				if err := <-result; err != tt.want {
					t.Errorf("error %v, want %v", err, tt.want)
				}
				// What ended leaves the buffer as good as before.
				if !tt.close {
					if err := tt.call(ctx, b); err != context.Canceled {
						t.Errorf("again with an ended context: %v", err)
					}
				}
				if batch != nil {
					batch.Done()
				}
				rest := drain(t, b)
				if !tt.taken && len(rest) != len(tt.fill) {
					t.Errorf("%d items left, want the %d added", len(rest), len(tt.fill))
				}
				requireEmpty(t, b)
				if err := b.Add(t.Context(), 1); err != ErrClosed {
					t.Errorf("Add to a closed buffer: %v", err)
				}
				requireEmpty(t, b)
			})
		})
	}
}

// A context that has ended takes nothing, even if there is no need to wait.
func TestEndedContext(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	b := New(Options[int]{Bytes: 10, Weight: itself})
	if err := b.Add(ended, 1); err != context.Canceled {
		t.Errorf("Add: %v", err)
	}
	requireEmpty(t, b)
	if err := b.Add(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	b.Flush()
	if batch, err := b.Take(ended, nothing); batch != nil || err != context.Canceled {
		t.Errorf("Take: %v, %v", batch, err)
	}
	if d := cmp.Diff([]int{2}, drain(t, b)); d != "" {
		t.Errorf("rest (-want +got):\n%s", d)
	}
	requireEmpty(t, b)
}

// Batches may be out side by side; a place is free again when its own batch is done.
func TestSeveralBatchesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		b := New(Options[int]{Size: 3})
		var batches []*Batch[int]
		for i := range 3 {
			if err := b.Add(ctx, i); err != nil {
				t.Fatal(err)
			}
			b.Flush()
			batch, err := b.Take(ctx, nothing)
			if err != nil {
				t.Fatal(err)
			}
			batches = append(batches, batch)
		}
		if got, want := b.Counts(), (Counts{Added: 3, Out: 3}); got != want {
			t.Errorf("counts %+v, want %+v", got, want)
		}
		added := call(func() error { return b.Add(ctx, 3) })
		requireWaiting(t, "Add with all places out", added)
		batches[1].Done() // not the oldest
		if err := <-added; err != nil {
			t.Fatal(err)
		}
		again := call(func() error { return b.Add(ctx, 4) })
		batches[1].Done()
		requireWaiting(t, "Add after a second Done", again)
		batches[0].Done()
		batches[2].Done()
		if err := <-again; err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff([]int{3, 4}, drain(t, b)); d != "" {
			t.Errorf("rest (-want +got):\n%s", d)
		}
		requireEmpty(t, b)
	})
}

// A Flush of an empty buffer is forgotten; one with items is kept until they are taken, and
// no longer.
func TestFlushIsForTheItemsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		b := New(Options[int]{Size: 5})
		b.Flush()
		b.Add(ctx, 1)
		requireWaiting(t, "Take after an early Flush", takeEnds(ctx, b))
		cancel()
		synctest.Wait()

		ctx, cancel = context.WithCancel(t.Context())
		defer cancel()
		b.Flush()
		b.Add(ctx, 2)
		batch, err := b.Take(ctx, nothing)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff([]int{1, 2}, batch.Items); d != "" {
			t.Errorf("items (-want +got):\n%s", d)
		}
		batch.Done()
		b.Add(ctx, 3)
		requireWaiting(t, "Take after its Flush was used", takeEnds(ctx, b))
		cancel()
	})
}

func takeEnds(ctx context.Context, b *Buffer[int]) <-chan error {
	return call(func() error { _, err := b.Take(ctx, nothing); return err })
}

// The interval counts from the oldest item: a later one does not put it off.
func TestWaitCountsFromTheOldest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		b := New(Options[int]{Size: 5, Wait: time.Minute})
		for range 2 {
			start := time.Now()
			b.Add(ctx, 1)
			add := time.AfterFunc(40*time.Second, func() { b.Add(ctx, 2) })
			batch, err := b.Take(ctx, nothing)
			if err != nil {
				t.Fatal(err)
			}
			if got := time.Since(start); got != time.Minute || len(batch.Items) != 2 {
				t.Errorf("%d items after %v, want 2 after a minute", len(batch.Items), got)
			}
			batch.Done()
			add.Stop()
		}
		drain(t, b)
		requireEmpty(t, b)
	})
}

// With batches of half the places, crawlers go on while a batch is out, and wait once two are.
func TestAddsWhileABatchIsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		b := New(Options[int]{Size: 4, Batch: 2})
		var out []*Batch[int]
		for i := 0; i < 4; i += 2 {
			for n := i; n < i+2; n++ {
				if err := b.Add(ctx, n); err != nil {
					t.Fatal(err)
				}
			}
			batch, err := b.Take(ctx, nothing)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff([]int{i, i + 1}, batch.Items); d != "" {
				t.Errorf("taken (-want +got):\n%s", d)
			}
			out = append(out, batch)
		}
		added := call(func() error { return b.Add(ctx, 4) })
		requireWaiting(t, "Add with two batches out", added)
		out[0].Done()
		if err := <-added; err != nil {
			t.Fatal(err)
		}
		out[1].Done()
		drain(t, b)
		requireEmpty(t, b)
	})
}

// Items that were taken because the buffer was full do not hasten those that come after.
func TestWaitEndsWithTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		b := New(Options[int]{Size: 2, Wait: time.Minute})
		b.Add(ctx, 1)
		b.Add(ctx, 2)
		full, err := b.Take(ctx, nothing)
		if err != nil {
			t.Fatal(err)
		}
		full.Done()
		<-time.After(30 * time.Second)
		start := time.Now()
		b.Add(ctx, 3)
		batch, err := b.Take(ctx, nothing)
		if err != nil {
			t.Fatal(err)
		}
		batch.Done()
		if got := time.Since(start); got != time.Minute {
			t.Errorf("taken after %v, want a minute", got)
		}
		requireEmpty(t, b)
	})
}

// Many crawlers, one or more builders that commit late, and tiny limits: everything arrives
// once, in the order of its crawler, and nothing waits forever.
func TestManyGoroutines(t *testing.T) {
	type item struct{ crawler, n, weight int }
	weight := func(i item) int64 { return int64(i.weight) }
	for _, size := range []int{1, 2, 7, 100} {
		for _, bytes := range []int64{1, 1 << 10, 1 << 20} {
			t.Run(fmt.Sprintf("%d places, %d bytes", size, bytes), func(t *testing.T) {
				const crawlers, each = 8, 200
				b := New(Options[item]{Size: size, Bytes: bytes, Weight: weight})
				ctx := t.Context()
				var adders, builders sync.WaitGroup
				for c := range crawlers {
					adders.Go(func() {
						for n := range each {
							// Some end early and are tried again: the item is still ours then.
							tryCtx, cancel := context.WithCancel(ctx)
							if n%5 == 0 {
								go cancel()
							}
							i := item{c, n, (n * 700) % 3000}
							err := b.Add(tryCtx, i)
							cancel()
							if errors.Is(err, context.Canceled) {
								err = b.Add(ctx, i)
							}
							if err != nil {
								t.Error(err)
								return
							}
						}
						b.Flush()
					})
				}
				commits := make(chan *Batch[item], crawlers*each)
				for range 2 {
					builders.Go(func() {
						for {
							batch, err := b.Take(ctx, nothing)
							if err != nil {
								if err != io.EOF {
									t.Error(err)
								}
								return
							}
							commits <- batch
						}
					})
				}
				seen := map[item]int{}
				committed := make(chan struct{})
				go func() {
					defer close(committed)
					for batch := range commits {
						last := map[int]int{}
						for _, i := range batch.Items {
							if n, ok := last[i.crawler]; ok && i.n <= n {
								t.Errorf("crawler %d: %d after %d", i.crawler, i.n, n)
							}
							last[i.crawler] = i.n
							seen[i]++
						}
						batch.Done()
					}
				}()
				adders.Wait()
				b.Close()
				builders.Wait()
				close(commits)
				<-committed
				for i, n := range seen {
					if n != 1 {
						t.Errorf("%+v arrived %d times", i, n)
					}
				}
				if len(seen) != crawlers*each {
					t.Errorf("%d items arrived, want %d", len(seen), crawlers*each)
				}
				requireEmpty(t, b)
			})
		}
	}
}

// BenchmarkAdd is an Add of one of many crawlers, with a builder that commits at once.
func BenchmarkAdd(b *testing.B) {
	buf := New(Options[int]{Weight: func(int) int64 { return 1 << 10 }})
	ctx := b.Context()
	built := make(chan struct{})
	go func() {
		defer close(built)
		for {
			batch, err := buf.Take(ctx, nothing)
			if err != nil {
				return
			}
			batch.Done()
		}
	}()
	b.SetParallelism(12)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := buf.Add(ctx, 1); err != nil {
				b.Error(err)
			}
		}
	})
	buf.Close()
	<-built
}
