package browser

import (
	"bytes"
	"context"
	"image"
	"image/color"
	"image/png"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

// A visit is what a browser does with a page.
type visit struct {
	at     string   // where it ends
	loaded []string // URLs, sorted
	text   string
}

// A visitor visits pages.
type visitor struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	answers  []string // of status 200 since the last visit began, guarded by mu
	requests []string // all, guarded by mu
}

func newVisitor(t *testing.T, ctx context.Context) *visitor {
	v := &visitor{t: t, ctx: ctx}
	err := chromedp.Listen(ctx, func(event any) {
		v.mu.Lock()
		defer v.mu.Unlock()
		switch e := event.(type) {
		case *network.EventRequestWillBeSent:
			v.requests = append(v.requests, e.Request.URL)
		case *network.EventResponseReceived:
			if e.Response.Status == 200 {
				v.answers = append(v.answers, e.Response.URL)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// asked returns the URLs of all requests since forget was called.
func (v *visitor) asked() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.requests)
}

// forget forgets the requests so far.
func (v *visitor) forget() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.requests = nil
}

// settled is a script that comes to an end once the page shows all that it shows.
const settled = `(async () => {
	await document.fonts?.ready;
	await Promise.all([...document.images ?? []].map(i => { i.loading = 'eager'; return i.decode().catch(() => {}) }));
	for (let i = 0; i < 3; i++) await new Promise(done => requestAnimationFrame(done));
	return document.body ? document.body.innerText : document.querySelector('text').textContent;
})()`

// visit goes to what is at prefix under a name, and leaves prefix out of what it returns.
func (v *visitor) visit(prefix, name string) (r visit) {
	v.t.Helper()
	v.mu.Lock()
	v.answers = nil
	v.mu.Unlock()
	if err := chromedp.Do(v.ctx, chromedp.Navigate(prefix+name)); err != nil {
		v.t.Fatalf("%s: %v", name, err)
	}
	for name == "refresh.html" && !strings.HasSuffix(r.at, "#z") && v.ctx.Err() == nil {
		r.at, _ = chromedp.Run(v.ctx, chromedp.Evaluate[string]("location.href")) // fails on the way
	}
	r.text = evaluate(v.t, v.ctx, settled)
	r.at = strings.TrimPrefix(evaluate(v.t, v.ctx, "location.href"), prefix)
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, a := range v.answers {
		r.loaded = append(r.loaded, strings.TrimPrefix(a, prefix))
	}
	slices.Sort(r.loaded)
	r.loaded = slices.Compact(r.loaded)
	return r
}

// picture returns the picture of the page, once it stays as it is.
func (v *visitor) picture() (picture []byte) {
	v.t.Helper()
	for same := 0; same < 3; {
		next := v.now()
		if same++; !bytes.Equal(next, picture) {
			picture, same = next, 0
		}
	}
	return picture
}

// now returns the picture of the page as it is, some frames after the last one. What is drawn by
// another process, such as an object, may come later.
func (v *visitor) now() []byte {
	v.t.Helper()
	evaluate(v.t, v.ctx, settled)
	picture, err := chromedp.Run(v.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		v.t.Fatal(err)
	}
	return picture
}

// looksAs checks that the page comes to look as in a picture, but for a small part: what is in a
// frame of another origin is smoothed otherwise.
func (v *visitor) looksAs(name string, was []byte) {
	v.t.Helper()
	const most, tries = 0.0001, 100
	var part float64
	for range tries {
		if part = difference(v.t, was, v.now()); part <= most {
			return
		}
	}
	v.t.Errorf("%s: %.3f%% of it look otherwise", name, 100*part)
}

// difference returns which part of two pictures of one size differs.
func difference(t *testing.T, a, b []byte) float64 {
	t.Helper()
	var pictures [2]image.Image
	for k, text := range [][]byte{a, b} {
		var err error
		if pictures[k], err = png.Decode(bytes.NewReader(text)); err != nil {
			t.Fatal(err)
		}
	}
	bounds := pictures[0].Bounds()
	if bounds != pictures[1].Bounds() || bounds.Empty() {
		t.Fatalf("pictures of %v and %v", bounds, pictures[1].Bounds())
	}
	colours, different := map[color.Color]bool{}, 0
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			p, q := pictures[0].At(x, y), pictures[1].At(x, y)
			if len(colours) < 20 {
				colours[p] = true
			}
			if p != q {
				different++
			}
		}
	}
	if len(colours) < 20 {
		t.Errorf("a picture of %d colours is no page", len(colours))
	}
	return float64(different) / float64(bounds.Dx()*bounds.Dy())
}
