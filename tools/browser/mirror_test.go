package browser

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"golang.org/x/image/font/gofont/goregular"
)

// A reader looks at the files of a mirror in a browser.
type reader struct {
	*web
	ctx    context.Context
	folder string // of the host's files

	mu        sync.Mutex
	elsewhere []string // guarded by mu; URLs asked for that are no files
	failed    []string // guarded by mu; requests that failed
}

// newReader has the tree written as a mirror.
func newReader(ctx context.Context, w *web) *reader {
	w.t.Helper()
	w.run("export", "-what", "mirror", "-output", "copy")
	host := strings.ReplaceAll(strings.TrimPrefix(w.origin, "http://"), ":", "_")
	r := &reader{web: w, ctx: ctx, folder: filepath.Join(w.dir, "copy", "http", host)}
	urls := map[network.RequestID]string{} // guarded by mu
	err := chromedp.Listen(ctx, func(event any) {
		r.mu.Lock()
		defer r.mu.Unlock()
		switch e := event.(type) {
		case *network.EventRequestWillBeSent:
			urls[e.RequestID] = e.Request.URL
			if u := e.Request.URL; !strings.HasPrefix(u, "file:") && !strings.HasPrefix(u, "data:") && u != "about:blank" && u != "about:srcdoc" {
				r.elsewhere = append(r.elsewhere, u)
			}
		case *network.EventLoadingFailed:
			r.failed = append(r.failed, urls[e.RequestID]+": "+e.ErrorText)
		}
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// open opens a file.
func (r *reader) open(name string) {
	r.t.Helper()
	if err := chromedp.Do(r.ctx, chromedp.Navigate("file://"+filepath.Join(r.folder, name))); err != nil {
		r.t.Fatalf("%s: %v", name, err)
	}
}

// shot returns the picture of the page.
func (r *reader) shot() []byte {
	r.t.Helper()
	picture, err := chromedp.Run(r.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		r.t.Fatal(err)
	}
	return picture
}

// list returns the strings that a script comes to.
func (r *reader) list(script string) (list []string) {
	r.t.Helper()
	if err := json.Unmarshal([]byte(evaluate(r.t, r.ctx, "Promise.resolve("+script+").then(l => JSON.stringify(l))")), &list); err != nil {
		r.t.Fatal(err)
	}
	return list
}

// check checks the page: its images and the files that it links to are there. It returns how many.
func (r *reader) check(name string) (images, links int) {
	r.t.Helper()
	for _, src := range r.list(`Promise.all([...document.images].map(i => i.decode().then(() => '', () => i.currentSrc || i.src)))`) {
		if images++; src != "" {
			r.t.Errorf("%s: broken image %s", name, src)
		}
	}
	for _, href := range r.list(`[...document.links].map(a => a.href).filter(h => h.startsWith('file:'))`) {
		u, err := url.Parse(href)
		if err == nil {
			_, err = os.Stat(u.Path)
		}
		if links++; err != nil {
			r.t.Errorf("%s: link to %s: %v", name, href, err)
		}
	}
	return images, links
}

// end checks that nothing was asked for but files.
func (r *reader) end() {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.elsewhere)+len(r.failed) > 0 {
		r.t.Errorf("asked elsewhere: %q; failed: %q", r.elsewhere, r.failed)
	}
}

// TestMirrorOfDocumentation: pages of the Python documentation look, as files, as they did, ask
// nobody, lack no image, and lead to each other.
func TestMirrorOfDocumentation(t *testing.T) {
	ctx, _ := browse(t)
	files := http.FileServer(http.Dir(corpus(t)))
	w := newWeb(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if name := r.URL.Path; name == "/_static/jquery.js" || name == "/_static/underscore.js" { // of another package
			w.Header().Set("Content-Type", "text/javascript")
			return
		}
		files.ServeHTTP(w, r)
	}))
	w.crawl("-scope", "host", w.origin+"/")
	r := newReader(ctx, w)
	pages := []string{"index.html", "howto/logging.html", "tutorial/datastructures.html", "library/turtle.html", "library/pathlib.html", "library/hashlib.html", "using/windows.html", "tutorial/index.html", "genindex-all.html"}
	var were [][]byte
	for _, p := range pages[:3] {
		if err := chromedp.Do(ctx, chromedp.Navigate(w.origin+"/"+strings.TrimSuffix(p, "index.html"))); err != nil {
			t.Fatal(err)
		}
		were = append(were, r.shot())
	}
	r.mu.Lock()
	r.elsewhere, r.failed = nil, nil
	r.mu.Unlock()
	before := w.asked.Load()
	images, links := 0, 0
	for n, p := range pages {
		r.open(p)
		if n < len(were) {
			if part := difference(t, were[n], r.shot()); part > 0.001 {
				t.Errorf("%s: %.2f%% of it look otherwise", p, 100*part)
			}
		}
		i, l := r.check(p)
		images, links = images+i, links+l
	}
	if images < 15 || links < 5000 {
		t.Errorf("only %d images and %d links", images, links)
	}
	r.open("../../index.html")
	for _, step := range []struct{ link, shows string }{
		{`li a[href$="index.html"]`, `a[href="tutorial/index.html"]`},
		{`a[href="tutorial/index.html"]`, "#the-python-tutorial"},
		{`a[href^="datastructures.html"]`, "#data-structures"},
		{`a[href^="../library/functions.html#"]`, "#built-in-functions"},
	} {
		if err := chromedp.Do(ctx, chromedp.Click(chromedp.CSS(step.link)), chromedp.WaitVisible(chromedp.CSS(step.shows))); err != nil {
			t.Fatalf("%s: %v", step.link, err)
		}
	}
	r.end()
	if n := w.asked.Load() - before; n > 0 {
		t.Errorf("the host was asked %d times", n)
	}
	t.Logf("%d images, %d links", images, links)
}

// kinds is a site with references of all kinds, and pages whose encoding only their header says.
var kinds = map[string]struct{ media, body string }{
	"/": {"text/html", `<!doctype html><html lang=ru><head><meta charset=utf-8><title>home</title><base href="/sub/" target=_top>
<link rel=stylesheet href="/style/main.css?v=2" integrity="sha256-wrong" crossorigin><script src=say.js></script></head>
<body><h1 class=a>home</h1><h2 class=b>two</h2><img id=plain src=dot.svg><img srcset="Dot.svg 1x, dot.svg?2 2x"><picture><source srcset="dot.svg?3 1x"><img src=none.svg></picture>
<object data=drawing.svg type=image/svg+xml></object><iframe src=frame></iframe><iframe srcdoc="<img src=dot.svg>"></iframe>
<a id=cyrillic href=cyrillic>1</a> <a id=japanese href="/moved?to=japanese#here">2</a> <a id=bare href="?x=1">3</a> <a id=xhtml href=x>4</a> <a id=wait href=wait>5</a> <a id=euro href=euro>6</a> <a id=note href=note>7</a></body></html>`},
	"/sub/say.js":         {"text/javascript", "window.said = 'script'"},
	"/sub/dot.svg":        {"image/svg+xml", dot},
	"/sub/Dot.svg":        {"image/svg+xml", dot},
	"/sub/dot.svg?2":      {"image/svg+xml", dot},
	"/sub/dot.svg?3":      {"image/svg+xml", dot},
	"/sub/drawing.svg":    {"image/svg+xml", `<svg xmlns="http://www.w3.org/2000/svg" width="20" height="20"><image href="dot.svg" width="20" height="20"/></svg>`},
	"/sub/none.svg":       {"image/svg+xml", dot},
	"/sub/frame":          {"text/html", `<p id=framed>framed <img src=/sub/dot.svg>`},
	"/sub/cyrillic":       {"text/html; charset=windows-1251", "<!doctype html><html><title>\xef</title><p>\xcf\xf0\xe8\xe2\xe5\xf2 <a href='/?\xef'>back</a>"},
	"/?%EF":               {"text/html; charset=utf-8", "<!doctype html><p>Привет"},
	"/sub/japanese":       {"text/html; charset=euc-jp", "<!doctype html><p id=here>\xc6\xfc\xcb\xdc\xb8\xec"},
	"/sub/?x=1":           {"text/html; charset=utf-8", "<!doctype html><p>naïve"},
	"/sub/x":              {"application/xhtml+xml", `<html xmlns="http://www.w3.org/1999/xhtml"><head><title>x</title></head><body><p>xhtml</p><img src="dot.svg" alt=""/></body></html>`},
	"/sub/euro":           {"text/html; charset=iso-8859-15", "<!doctype html><p>\xa4 5"}, // no browser guesses it
	"/sub/wait":           {"text/html", `<meta charset=utf-8><meta http-equiv=refresh content="0; url='x'"><p>wait`},
	"/sub/note":           {"text/plain; charset=iso-8859-15", "\xa4 7"},
	"/style/main.css?v=2": {"text/css; charset=iso-8859-15", `@import url("More.css"); h1.a { color: rgb(1, 2, 3); background: url(../sub/dot.svg) } h1::after { content: '` + "\xa4" + `' }`},
	"/style/More.css":     {"text/css", `@font-face { font-family: own; src: url(font?1) } h2.b { color: rgb(4, 5, 6); font-family: own }`},
	"/style/font?1":       {"application/octet-stream", string(goregular.TTF)},
}

const dot = `<svg xmlns="http://www.w3.org/2000/svg" width="20" height="20"><rect width="20" height="20" fill="green"/></svg>`

// TestMirrorOfAllKinds: all kinds of references lead to files, and texts are in the encoding that
// they came with.
func TestMirrorOfAllKinds(t *testing.T) {
	ctx, _ := browse(t)
	w := newWeb(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/moved" {
			http.Redirect(w, r, "/sub/"+r.URL.Query().Get("to"), http.StatusFound)
			return
		}
		page, ok := kinds[r.URL.RequestURI()]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", page.media)
		_, _ = io.WriteString(w, page.body)
	}))
	w.crawl("-scope", "host", w.origin+"/")
	r := newReader(ctx, w)
	before := w.asked.Load()
	home := func() {
		t.Helper()
		r.open("index.html")
		if images, links := r.check("home"); images != 3 || links != 7 {
			t.Errorf("%d images, %d links", images, links)
		}
	}
	home()
	for script, want := range map[string]string{
		`getComputedStyle(document.querySelector('h1')).color`:                        "rgb(1, 2, 3)",
		`getComputedStyle(document.querySelector('h2')).color`:                        "rgb(4, 5, 6)",
		`document.fonts.load('10px own').then(l => String(l.length))`:                 "1",
		`document.documentElement.lang + document.compatMode + document.characterSet`: "ruCSS1CompatUTF-8",
		`getComputedStyle(document.querySelector('h1'), '::after').content`:           `"€"`,
		`window.said`: "script",
		`String(document.querySelector('object').getBoundingClientRect().width)`: "20",
	} {
		if got := evaluate(t, ctx, script); got != want {
			t.Errorf("%s: %q, want %q", script, got, want)
		}
	}
	for _, link := range []struct{ id, text, charset string }{
		{"cyrillic", "Привет back", "windows-1251"},
		{"japanese", "日本語", "EUC-JP"},
		{"euro", "€ 5", "ISO-8859-15"},
		{"note", "€ 7", "UTF-8"},
		{"bare", "naïve", "UTF-8"},
		{"xhtml", "xhtml", "UTF-8"},
		{"wait", "xhtml", "UTF-8"}, // to which it goes on
	} {
		home()
		if err := chromedp.Do(ctx, chromedp.Click(chromedp.CSS("#"+link.id))); err != nil {
			t.Fatal(err)
		}
		text := ""
		for text != link.text {
			text, _ = chromedp.Run(ctx, chromedp.Evaluate[string]("document.readyState == 'complete' ? document.body.innerText.trim() : ''"))
			if ctx.Err() != nil {
				t.Fatalf("%s: %q, want %q", link.id, text, link.text)
			}
		}
		if got := evaluate(t, ctx, "document.characterSet + document.compatMode"); got != link.charset+"CSS1Compat" {
			t.Errorf("%s: %s", link.id, got)
		}
		r.check(link.id)
	}
	r.end()
	if n := w.asked.Load() - before; n > 0 {
		t.Errorf("the host was asked %d times", n)
	}
}
