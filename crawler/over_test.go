package crawler

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/semaphore"

	"urltree/buffer"
	"urltree/internal/frontier"
	"urltree/iut"
	"urltree/storage"
	"urltree/storage/record"
)

// TestOver: a buffer counts no item for more than it may hold. What items take beyond that is
// bounded for all buffers together, from before they are in one until they are committed.
func TestOver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "index.db")
	if err := storage.Create(path); err != nil {
		t.Fatal(err)
	}
	index, err := storage.Open(path, storage.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer index.Close()
	synctest.Test(t, func(t *testing.T) {
		const items, fit = 30, overBytes / (1 << 20)
		e := &engine{
			opts: Options{Resources: Resources{BufferBytes: 1 << 20}}, store: stores{index: index}, rules: rules{linker: &Linker{}},
			places: places{over: semaphore.NewWeighted(overBytes)},
		}
		e.ends.alive = t.Context()
		if e.frontier, err = frontier.New(frontier.Options{
			Store: index.Queues(), Memory: 1 << 20, Crawlers: 1, PerHost: 1, MaxWait: time.Minute, NeedRobots: func(string) bool { return false },
		}); err != nil {
			t.Fatal(err)
		}
		var there atomic.Int64
		waiting := make([]*buffer.Buffer[*iut.Item], items)
		for i := range waiting {
			waiting[i] = buffer.New(buffer.Options[*iut.Item]{Bytes: 1 << 20, Weight: weigh})
			w := e.newCrawler(0, waiting[i])
			go func() {
				if w.put(&iut.Item{Body: make([]byte, 2<<20)}) {
					there.Add(1)
				}
			}()
		}
		// commit does so with what is in the buffers.
		commit := func() (n int) {
			for _, b := range waiting {
				if b.Counts().Waiting == 0 {
					continue
				}
				batch, err := b.Take(context.Background(), func([]*iut.Item) error { return nil }) // put has called Flush
				if err != nil {
					t.Fatal(err)
				}
				e.committed(batch.Items, storage.Committed{Next: make([]record.Row, len(batch.Items))})
				batch.Done()
				n++
			}
			return n
		}
		for done := 0; done < items; {
			synctest.Wait()
			if n, want := there.Load(), int64(min(done+fit, items)); n != want {
				t.Fatalf("%d of %d items, each with 1 MiB that its buffer does not count, are in the buffers after %d were committed, want %d", n, items, done, want)
			}
			done += commit()
		}
	})
}
