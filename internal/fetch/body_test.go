package fetch

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime/metrics"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// page makes n bytes of text that compress well but not to nothing.
func page(n int) []byte {
	b := make([]byte, 0, n+64)
	b = append(b, "<!DOCTYPE html><title>page</title>\n"...)
	for i := 0; len(b) < min(n, 20000); i++ {
		b = fmt.Appendf(b, "<p>paragraph %x\n", i*i*2654435761)
	}
	for len(b) < n {
		b = append(b, b[:min(len(b), n-len(b))]...)
	}
	return b[:n]
}

func TestBodySizes(t *testing.T) {
	for _, framing := range []string{"length", "chunked"} {
		for _, size := range []int{0, 1, minBuffer - 1, minBuffer, minBuffer + 1, 30000, firstBuffer, firstBuffer + 1, maxBuffer - 1, maxBuffer, maxBuffer + 1, 3 << 20} {
			t.Run(fmt.Sprintf("%s %d", framing, size), func(t *testing.T) {
				text := page(size)
				url := serve(t, func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Content-Type", "text/html; charset=UTF-8")
					if framing == "length" {
						w.Header().Set("Content-Length", strconv.Itoa(size))
					} else {
						w.(http.Flusher).Flush()
					}
					_, _ = w.Write(text)
				})
				c := newClient(t, Options{})
				res, err := c.Get(t.Context(), url+"/", Request{})
				if err != nil {
					t.Fatal(err)
				}
				b := res.Body
				if !bytes.Equal(b.Bytes(), text) || b.Len() != int64(size) || b.Digest() != sha256.Sum256(text) {
					t.Errorf("got %d bytes (Len %d, digest %x)", len(b.Bytes()), b.Len(), b.Digest())
				}
				if res.Status != 200 || res.Media != "text/html" || res.Charset != "utf-8" || res.Truncated {
					t.Errorf("got %d, %q, %q, truncated %v", res.Status, res.Media, res.Charset, res.Truncated)
				}
				if res.First <= 0 || res.Total < res.First {
					t.Errorf("times %v, %v", res.First, res.Total)
				}
				if used := c.opts.Bodies.used.Load(); used != weight(b) {
					t.Errorf("the budget lent %d, the body weighs %d", used, weight(b))
				}
				if b.Temp() == "" && weight(b) > max(minBuffer, 2*int64(size)) {
					t.Errorf("%d bytes weigh %d", size, weight(b))
				}
				if _, err := os.Stat(b.Temp()); (err == nil) != (size >= maxBuffer) {
					t.Errorf("file of %d bytes: %q, %v", size, b.Temp(), err)
				}
				b.HandOver()
				if used := c.opts.Bodies.used.Load(); used != 0 {
					t.Errorf("the budget lends %d after the body was handed over", used)
				}
				if !bytes.Equal(b.Bytes(), text) {
					t.Error("the bytes went with the budget")
				}
				b.Release()
				b.Release()
				if b.Len() != 0 || b.Bytes() != nil || weight(b) != 0 {
					t.Error("not empty after Release")
				}
			})
		}
	}
}

// weight returns the bytes that a body holds in memory.
func weight(b *Body) int64 {
	if b.mem == nil {
		return 0
	}
	return int64(len(*b.mem))
}

// TestHandOverDuringRelease is what happens when a builder is done before the crawler that gave it
// the body.
func TestHandOverDuringRelease(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write(page(3000)) })
	c := newClient(t, Options{})
	for range 50 {
		res, err := c.Get(t.Context(), url+"/", Request{})
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(res.Body.HandOver)
		wg.Go(res.Body.Release)
		wg.Wait()
		if used := c.opts.Bodies.used.Load(); used != 0 {
			t.Fatalf("%d bytes of the budget are out", used)
		}
	}
}

func TestNobodyWaitsWithBudgetInHand(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.URL.Path[1:])
		_, _ = w.Write(page(n))
	})
	files := &tempFiles{dir: t.TempDir()}
	c := newClient(t, Options{Bodies: NewBudget(firstBuffer), Temp: files.create, Timeout: time.Minute})

	// One that fills the budget and wants more goes to a file by itself.
	large, err := c.Get(t.Context(), url+"/200000", Request{})
	if err != nil || large.Body.Temp() == "" || large.Body.Len() != 200000 {
		t.Fatalf("got %+v, %v", large, err)
	}
	large.Body.Release()

	// One that holds it all makes the next one wait, until it is released or the context ends.
	full, err := c.Get(t.Context(), url+"/40000", Request{})
	if err != nil || weight(full.Body) != firstBuffer {
		t.Fatalf("got %+v, %v", full, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.Get(ctx, url+"/40000", Request{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v; want to wait till the end of the context", err)
	}
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			res, err := c.Get(t.Context(), url+"/40000", Request{})
			if err != nil || res.Body.Len() != 40000 {
				t.Errorf("got %+v, %v", res, err)
				return
			}
			res.Body.Release()
		})
	}
	full.Body.Release()
	wg.Wait()
	if n := files.open.Load(); n != 0 {
		t.Errorf("%d files left", n)
	}
}

// TestBudgetHolds lets 60 large bodies arrive at once, some of them coded: of 2 MiB, or 16 MiB with
// TEST_URLTREE_FULL=1.
func TestBudgetHolds(t *testing.T) {
	const clients = 60
	size := 2 << 20
	if os.Getenv("TEST_URLTREE_FULL") != "" {
		size = 16 << 20
	}
	const limit = 8 << 20
	block := page(64 << 10)
	zipped := encode(t, "gzip", bytes.Repeat(block, size/len(block)))
	all := make(chan struct{})
	var arrived atomic.Int64
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if arrived.Add(1) == clients {
			close(all)
		}
		<-all
		w.Header().Set("Content-Type", "text/html")
		if r.URL.Path == "/coded" {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(zipped)
			return
		}
		for n := 0; n < size; n += len(block) {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	})
	budget := NewBudget(limit)
	c := newClient(t, Options{Bodies: budget, Timeout: 5 * time.Minute})

	stop := make(chan struct{})
	var watcher sync.WaitGroup
	var peak, peakHeap atomic.Int64
	base := heap()
	watcher.Go(func() {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			peak.Store(max(peak.Load(), budget.used.Load()))
			peakHeap.Store(max(peakHeap.Load(), heap()-base))
			select {
			case <-stop:
				return
			case <-tick.C:
			}
		}
	})
	want := sha256.New()
	for n := 0; n < size; n += len(block) {
		want.Write(block)
	}
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			path := "/plain"
			if i%4 == 0 {
				path = "/coded"
			}
			res, err := c.Get(t.Context(), url+path, Request{})
			if err != nil {
				t.Error(err)
				return
			}
			digest := res.Body.Digest()
			if res.Body.Len() != int64(size) || !bytes.Equal(digest[:], want.Sum(nil)) {
				t.Errorf("%s: %d bytes, other content", path, res.Body.Len())
			}
			res.Body.Release()
		})
	}
	wg.Wait()
	close(stop)
	watcher.Wait()
	if peak.Load() > limit {
		t.Errorf("%d bytes lent, limit %d", peak.Load(), limit)
	}
	// Beyond the budget: connections of both sides, decoders, garbage.
	if most := int64(limit + 48<<20); peakHeap.Load() > most {
		t.Errorf("heap grew by %d bytes, want at most %d", peakHeap.Load(), most)
	}
}

func heap() int64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64())
}

func BenchmarkGet(b *testing.B) {
	text := page(30000)
	for _, coding := range []string{"", "gzip", "br"} {
		body := encode(b, coding, text)
		name := coding
		if name == "" {
			name = "plain"
		}
		b.Run(name, func(b *testing.B) {
			url := serve(b, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/html")
				if coding != "" {
					w.Header().Set("Content-Encoding", coding)
				}
				w.Header().Set("Content-Length", strconv.Itoa(len(body)))
				_, _ = io.Copy(w, bytes.NewReader(body))
			})
			c := newClient(b, Options{})
			b.ReportAllocs()
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				res, err := c.Get(b.Context(), url+"/", Request{})
				if err != nil {
					b.Fatal(err)
				}
				res.Body.Release()
			}
		})
	}
}

// countedFile counts the bytes that files take.
type countedFile struct {
	Temp
	took func(n int)
}

func (f countedFile) Write(b []byte) (int, error) {
	n, err := f.Temp.Write(b)
	f.took(n)
	return n, err
}

// TestStandstill: servers that stop in the middle of large bodies hold what memory has for bodies
// for as long as they may. Others get what they need to begin.
func TestStandstill(t *testing.T) {
	const still, sent = 8, 3 << 19
	held := make(chan struct{})
	var written atomic.Int64
	files := &tempFiles{dir: t.TempDir()}
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		if r.URL.Path == "/good" {
			_, _ = w.Write(page(40 << 10))
			return
		}
		_, _ = w.Write(page(sent))
		w.(http.Flusher).Flush()
		<-held
	})
	all := make(chan struct{})
	c := newClient(t, Options{
		Bodies: NewBudget(1 << 20),
		Temp: func() (Temp, error) {
			f, err := files.create()
			return countedFile{f, func(n int) {
				if written.Add(int64(n)) == still*sent && n > 0 {
					close(all)
				}
			}}, err
		},
	})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(held)
	for range still {
		wg.Go(func() {
			res, err := c.Get(t.Context(), url+"/still", Request{})
			if err != nil {
				t.Error(err)
				return
			}
			res.Body.Release()
		})
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	select {
	case <-all:
	case <-ctx.Done():
		t.Fatalf("%d bytes of %d were read: one cannot begin", written.Load(), still*sent)
	}
	res, err := c.Get(ctx, url+"/good", Request{})
	if err != nil {
		t.Fatalf("beside those that stand still: %v", err)
	}
	res.Body.Release()
}
