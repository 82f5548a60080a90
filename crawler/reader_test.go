package crawler

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unsafe"
)

// TestReader: a reader lets each URL of a page through once that is not known, whatever it
// remembers of pages before, and asks no more often than it must.
func TestReader(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var urls []string
	for i := range 2000 {
		urls = append(urls, fmt.Sprintf("http://a.org/%s%d", strings.Repeat("x", rng.IntN(150)), i))
	}
	r := newReader()
	durable := map[string]bool{}
	asked := 0
	known := func(url string) bool { asked++; return durable[url] }
	for page := range 400 {
		r.begin()
		ask := known
		if page%5 == 0 {
			ask = nil // as for a page of the tree that is looked at again
		}
		met, asks := map[string]bool{}, asked
		var let []string
		for range 100 {
			url := urls[min(rng.IntN(len(urls)), rng.IntN(len(urls)), rng.IntN(len(urls)))]
			want := !met[url] && (ask == nil || !durable[url])
			if got := r.isNew(url, ask); got != want {
				t.Fatalf("page %d: %s is new: %v, want %v", page, url, got, want)
			}
			if met[url] = true; want {
				let = append(let, url)
			}
		}
		if len(met) < 50 || ask == nil && asked > asks {
			t.Fatalf("page %d: %d URLs, asked %d times", page, len(met), asked-asks)
		}
		for _, url := range let { // some are committed before the next page
			durable[url] = durable[url] || rng.IntN(2) == 0
		}
	}

	// Pages that name the same, of places of their own: it asks for each that is known once, and for
	// one that is not once a page.
	var same []string
	taken := map[*metURL]bool{}
	for i := 0; len(same) < 10; i++ {
		if url := fmt.Sprint("http://b.org/", i); !taken[r.place(url)] {
			taken[r.place(url)] = true
			durable[url] = len(same) > 0
			same = append(same, url)
		}
	}
	asked = 0
	for range 100 {
		r.begin()
		for range 3 {
			for _, url := range same {
				r.isNew(url, known)
			}
		}
	}
	if want := len(same) - 1 + 100; asked != want {
		t.Errorf("asked %d times, want %d", asked, want)
	}
	if size := unsafe.Sizeof(*r) - unsafe.Sizeof(r.Parser); size > 40<<10 {
		t.Errorf("what a reader remembers takes %d bytes", size)
	}
}

// TestReaderForgets: what a reader keeps of a page is gone or small with the next.
func TestReaderForgets(t *testing.T) {
	r := newReader()
	for page := range 3 {
		r.begin()
		for i := range 10 * maxFresh {
			if url := fmt.Sprint("http://a.org/", i); !r.isNew(url, nil) || r.isNew(url, nil) {
				t.Fatalf("page %d: %s", page, url)
			}
		}
	}
	if r.begin(); r.fresh != nil {
		t.Errorf("a map that had %d URLs is kept", 10*maxFresh)
	}
}
