package crawler

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"golang.org/x/sync/semaphore"
)

// TestAcquireParser: every parse worker has a page at a time. Large pages share what is meant for
// them, the largest has all of it, and smaller ones are parsed beside it.
func TestAcquireParser(t *testing.T) {
	const small, twoShares, all = parseShare - 1, 2*parseShare + 5, 100 * parseShare
	synctest.Test(t, func(t *testing.T) {
		const workers = 3
		p := &places{parsing: semaphore.NewWeighted(workers), shares: semaphore.NewWeighted(sharesMore)}
		ctx, cut := context.WithCancel(t.Context())
		var mu sync.Mutex
		parsing := map[string]func(){}
		start := func(name string, bytes int64) {
			go func() {
				if done, err := p.acquireParser(ctx, bytes); err == nil {
					mu.Lock()
					defer mu.Unlock()
					parsing[name] = done
				}
			}()
			synctest.Wait()
		}
		end := func(name string) {
			mu.Lock()
			done := parsing[name]
			delete(parsing, name)
			mu.Unlock()
			done()
			synctest.Wait()
		}
		require := func(want ...string) {
			t.Helper()
			mu.Lock()
			defer mu.Unlock()
			got := slices.Sorted(maps.Keys(parsing))
			if !slices.Equal(got, want) {
				t.Fatalf("parsed are %q, want %q", got, want)
			}
		}
		start("a: all", all)
		start("b: large", twoShares)
		start("c: small", small)
		start("d: small", small)
		start("e: small", small)
		require("a: all", "c: small", "d: small") // b waits for shares, e for a worker
		end("a: all")
		require("c: small", "d: small", "e: small") // b has its shares, and e came before it
		end("c: small")
		require("b: large", "d: small", "e: small")
		end("d: small")
		start("f: large", twoShares)
		require("b: large", "e: small", "f: large")
		start("g: all", all)
		end("e: small")
		require("b: large", "f: large") // g waits for both
		start("h: small", small)
		require("b: large", "f: large", "h: small")

		start("i: large", twoShares) // behind g
		end("b: large")
		require("f: large", "h: small")
		cut()
		synctest.Wait()
		end("f: large")
		end("h: small")
		require()
		if !p.parsing.TryAcquire(workers) || !p.shares.TryAcquire(sharesMore) {
			t.Error("places are missing after the end")
		}
	})
}
