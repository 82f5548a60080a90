package browser

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"golang.org/x/image/font/gofont/goregular"

	"urltree/tools/command"
)

// corpus returns the folder of the Python documentation.
func corpus(t *testing.T) string {
	const name = "python3.11-doc"
	target, err := filepath.Abs("../../bin/_corpus-browser")
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(target, "www", name, "html")
	if _, err := os.Stat(filepath.Join(folder, "index.html")); err == nil {
		return folder
	}

	script := command.Shared("corpus", "fetch-corpus.sh")
	if !filepath.IsAbs(script) {
		script = filepath.Join("../..", script)
	}
	if text, err := exec.Command(script, target, name).CombinedOutput(); err != nil {
		t.Skipf("cannot fetch %s: %v: %s", name, err, text)
	}
	return folder
}

// TestDocumentation: pages of the Python documentation look as they did, ask nobody but the server,
// lack no image, and lead to each other.
func TestDocumentation(t *testing.T) {
	ctx, _ := browse(t)
	folder := corpus(t)
	w := newWeb(t, http.FileServer(http.Dir(folder)))
	pages := []string{"/index.html", "/howto/logging.html", "/tutorial/datastructures.html", "/library/turtle.html", "/library/pathlib.html", "/library/hashlib.html", "/using/windows.html", "/tutorial/index.html"}
	var args []string
	for _, p := range pages {
		args = append(args, w.origin+p)
	}
	w.crawl(append(args, "-include", `/_(static|images)/`)...)
	w.serve()

	var mu sync.Mutex
	var elsewhere, failed []string // guarded by mu
	err := chromedp.Listen(ctx, func(event any) {
		mu.Lock()
		defer mu.Unlock()
		switch e := event.(type) {
		case *network.EventRequestWillBeSent:
			if u := e.Request.URL; !strings.HasPrefix(u, w.served) && !strings.HasPrefix(u, "data:") {
				elsewhere = append(elsewhere, u)
			}
		case *network.EventResponseReceived:
			if e.Response.Status != 200 {
				failed = append(failed, fmt.Sprint(e.Response.URL, e.Response.Status))
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	shot := func(address string) (picture []byte) {
		t.Helper()
		err := chromedp.Do(ctx, chromedp.Navigate(address))
		if err == nil {
			picture, err = chromedp.Run(ctx, chromedp.CaptureScreenshot())
		}
		if err != nil {
			t.Fatalf("%s: %v", address, err)
		}
		return picture
	}
	for _, p := range pages[:3] {
		was := shot(w.origin + p)
		mu.Lock()
		elsewhere, failed = nil, nil
		mu.Unlock()
		before := w.asked.Load()
		is := shot(w.page(p))
		if part := difference(t, was, is); part > 0.001 {
			t.Errorf("%s: %.2f%% of it look otherwise", p, 100*part)
		}
		if n := w.asked.Load() - before; n > 0 {
			t.Errorf("%s: the host itself was asked %d times", p, n)
		}
	}
	images := 0
	before := w.asked.Load()
	for _, p := range pages {
		shot(w.page(p))
		const script = `Promise.all([...document.images].map(i => i.decode().then(() => '', () => i.src))).then(l => JSON.stringify(l))`
		var broken []string
		if err := json.Unmarshal([]byte(evaluate(t, ctx, script)), &broken); err != nil {
			t.Fatal(err)
		}
		for images += len(broken); len(broken) > 0; broken = broken[1:] {
			if broken[0] != "" {
				t.Errorf("%s: broken image %s", p, broken[0])
			}
		}
	}
	if images < 15 {
		t.Errorf("only %d images", images)
	}
	shot(w.page("/index.html"))
	if err := chromedp.Do(ctx, chromedp.Click(chromedp.CSS(`a[href$="/tutorial/index.html"]`)), chromedp.WaitVisible(chromedp.CSS("#the-python-tutorial"))); err != nil {
		t.Error(err)
	}
	if at := evaluate(t, ctx, "location.href"); at != w.page("/tutorial/") { // to which the page redirects
		t.Errorf("a click leads to %s", at)
	}
	if err := chromedp.Do(ctx, chromedp.Navigate(w.page("/index.html")), chromedp.Click(chromedp.CSS(`a[href$="/glossary.html"]`)), chromedp.WaitVisible(chromedp.CSS("h1"))); err != nil {
		t.Error(err)
	}
	if text := evaluate(t, ctx, "document.body.innerText"); !strings.Contains(text, "Scope rejects it: no -include matches.") {
		t.Errorf("a page that is not there: %s", text)
	}
	if n := w.asked.Load() - before; n > 0 {
		t.Errorf("the host itself was asked %d times", n)
	}
	mu.Lock()
	defer mu.Unlock()
	elsewhere = slices.DeleteFunc(elsewhere, func(u string) bool { return strings.HasPrefix(u, "about:") })
	if len(elsewhere) > 0 {
		t.Errorf("asked elsewhere: %q", elsewhere)
	}
	t.Logf("%d images; %d answers but 200: %q", images, len(failed), failed)
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
	colours, different := map[string]bool{}, 0
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			p, q := pictures[0].At(x, y), pictures[1].At(x, y)
			if colours[fmt.Sprint(p)] = true; p != q {
				different++
			}
		}
	}
	if len(colours) < 20 {
		t.Errorf("a picture of %d colours is no page", len(colours))
	}
	return float64(different) / float64(bounds.Dx()*bounds.Dy())
}

// TestHostilePage: a script of a stored page reads no other page of the server, and the browser
// looks up no name and asks no host for it; it loads what belongs to the page.
func TestHostilePage(t *testing.T) {
	files := http.FileServer(http.Dir("testdata/hostile"))
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/font.ttf" {
			w.Header().Set("Content-Type", "font/ttf")
			_, _ = w.Write(goregular.TTF)
			return
		}
		files.ServeHTTP(w, r)
	})
	evil := regexp.MustCompile(`evil-[a-z0-9-]+\.test`)
	w := newWeb(t, handler)
	w.crawl("-scope", "host", w.origin+"/", w.origin+"/module.js")
	w.serve()

	// The page itself, at its host, does all that.
	ctx, log := browse(t)
	if err := chromedp.Do(ctx, chromedp.Navigate(w.origin+"/")); err != nil {
		t.Fatal(err)
	}
	_, _ = chromedp.Run(ctx, chromedp.Evaluate[string]("attempts", chromedp.EvalAwaitPromise)) // it leaves by its form
	if names := evil.FindAllString(log(), -1); len(slices.Compact(slices.Sorted(slices.Values(names)))) < 10 {
		t.Errorf("the page looks up only %q where it may", names)
	}

	ctx, log = browse(t)
	if err := chromedp.Do(ctx, chromedp.Navigate(w.page("/"))); err != nil {
		t.Fatal(err)
	}
	var seen map[string]string
	if err := json.Unmarshal([]byte(evaluate(t, ctx, "attempts")), &seen); err != nil {
		t.Fatal(err)
	}
	may := map[string]string{"lib": "number", "origin": "null", "module": "7", "font": "1", "own image": "loaded"}
	for name, got := range seen {
		want := may[name]
		if delete(may, name); want == "" {
			want = "denied"
		}
		if got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if len(may) > 0 || len(seen) < 15 {
		t.Errorf("of %d attempts these are not there: %v", len(seen), may)
	}
	if err := chromedp.Do(ctx, chromedp.Click(chromedp.CSS("#next")), chromedp.WaitVisible(chromedp.CSS("#leave"))); err != nil {
		t.Error(err)
	}
	if at := evaluate(t, ctx, "location.href"); at != w.page("/other.html") {
		t.Errorf("a link to another window leads to %s", at)
	}
	if err := chromedp.Do(ctx, chromedp.Click(chromedp.CSS("#leave"))); err != nil {
		t.Error(err)
	}
	for at := ""; !strings.HasPrefix(at, "chrome-error:"); { // where a page ends that has tried to leave
		at, _ = chromedp.Run(ctx, chromedp.Evaluate[string]("location.href"))
		if ctx.Err() != nil {
			t.Fatalf("a page that leaves is at %q", at)
		}
	}
	if names := evil.FindAllString(log(), -1); len(names) > 0 {
		t.Errorf("a page has the browser ask %q", names)
	}
}

// TestOtherSite: a page of another site that is open in the same browser reads nothing of the
// server.
func TestOtherSite(t *testing.T) {
	w := newWeb(t, http.FileServer(http.Dir("testdata/hostile")))
	w.crawl("-scope", "host", w.origin+"/other.html", w.origin+"/lib.js")
	w.serve()
	ctx, _ := browse(t)
	if err := chromedp.Do(ctx, chromedp.Navigate(w.origin+"/other.html")); err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{w.served, w.page("/other.html"), w.page("/lib.js"), w.page("/missing")} {
		if got := evaluate(t, ctx, fmt.Sprintf("fetch(%q).then(r => r.text()).catch(e => 'denied')", address)); got != "denied" {
			t.Errorf("%s: %q", address, got)
		}
	}
}
