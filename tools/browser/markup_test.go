package browser

import (
	"mime"
	"net/http"
	"path"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/image/font/gofont/goregular"
)

// marked serves testdata/markup, each file in its encoding.
func marked(w http.ResponseWriter, r *http.Request) {
	name := path.Base(r.URL.Path)
	switch media, _, _ := strings.Cut(mime.TypeByExtension(path.Ext(name)), ";"); {
	case name == "font.ttf":
		w.Header().Set("Content-Type", "font/ttf")
		_, _ = w.Write(goregular.TTF)
		return
	case strings.HasPrefix(name, "latin") || name == "plain.txt":
		w.Header().Set("Content-Type", media+"; charset=iso-8859-1")
	case name == "utf16.html" || name == "sjis.html":
		w.Header().Set("Content-Type", media)
	}
	http.FileServer(http.Dir("testdata/markup")).ServeHTTP(w, r)
}

// TestMarkup: whatever a page refers to its parts by, and in whatever encoding, it looks as it did
// at its own server, shows the same text and loads the same parts. What the tree does not have is
// explained, and forms are not sent.
func TestMarkup(t *testing.T) {
	w := newWeb(t, http.HandlerFunc(marked))
	for _, store := range stores {
		// Of what only scripts and drawings refer to, a crawl does not know.
		w.crawl("-tree", store, "-store", store, "-scope", "host", w.origin+"/", w.origin+"/sub/other.js", w.origin+"/svg.css")
	}
	ctx, _ := browse(t)
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(800, 600)); err != nil {
		t.Fatal(err)
	}
	v := newVisitor(t, ctx)
	pages := []string{
		"images.html", "styles.html", "base.html", "refresh.html", "frames.html", "drawing.html", "scripts.html",
		"latin1.html", "utf16.html", "sjis.html", "page.xhtml", "alone.svg", "plain.txt",
	}
	was, pictures := map[string]visit{}, map[string][]byte{}
	for _, name := range pages {
		was[name] = v.visit(w.origin+"/", name)
		pictures[name] = v.picture()
	}
	// At its own server the page has a service worker.
	v.visit(w.origin+"/", "scripts.html")
	evaluate(t, ctx, "navigator.serviceWorker.ready.then(r => r.unregister()).then(String)")
	w.asked.Store(0)
	for _, store := range stores {
		w.serve("-tree", store)
		for _, name := range pages {
			is, was := v.visit(w.page("/"), name), was[name]
			if is.at != was.at || is.text != was.text {
				t.Errorf("%s, %s: at %s is %q; was at %s %q", store, name, is.at, is.text, was.at, was.text)
			}
			if diff := cmp.Diff(was.loaded, is.loaded); diff != "" {
				t.Errorf("%s, %s (-was loaded +is loaded):\n%s", store, name, diff)
			}
			v.looksAs(store+", "+name, pictures[name])
		}
		v.acts(w.page("/scripts.html"))
		for address, want := range map[string]string{
			w.page("/gone.html"):                     "failed: http-4xx",
			w.page("/unknown.html"):                  "not known",
			w.served + "page/http://elsewhere.test/": "Scope rejects it",
			w.served + "page/mailto:me":              "not an http(s) URL",
			w.served + "sub/made-by-a-script.png":    "a script may have made an address of its own",
		} {
			if text := v.visit(address, "").text; !strings.Contains(text, want) {
				t.Errorf("%s, %s: %q, want %q", store, address, text, want)
			}
		}
	}
	if n := w.asked.Load(); n > 0 {
		t.Errorf("the host itself was asked %d times", n)
	}
}

// acts clicks on what has a script to do, and on what would send a form, and looks for what belongs
// to an origin.
func (v *visitor) acts(address string) {
	v.t.Helper()
	v.visit(address, "")
	if err := chromedp.Do(v.ctx, chromedp.Click(chromedp.CSS("#send")), chromedp.Click(chromedp.CSS("#act"))); err != nil {
		v.t.Fatal(err)
	}
	if text := evaluate(v.t, v.ctx, settled); !strings.HasSuffix(text, "acted") {
		v.t.Errorf("after a click on a link with a script: %q", text)
	}
	if at := evaluate(v.t, v.ctx, "location.href"); at != address {
		v.t.Errorf("a form was sent: %s", at)
	}
	if got := evaluate(v.t, v.ctx, "(() => { try { return typeof navigator.serviceWorker } catch { return 'denied' } })()"); got != "denied" {
		v.t.Errorf("a page may register a service worker: %s", got)
	}
}
