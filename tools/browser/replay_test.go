package browser

import (
	"archive/zip"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"html"
	"mime"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

// player is the program of the Webrecorder project that plays archives in a browser.
const player = "replaywebpage@2.4.6"

// fetched returns the folder of a package of npm that has a file, which is fetched once.
func fetched(t *testing.T, name, file string) string {
	t.Helper()
	folder, err := filepath.Abs("../../bin/_" + strings.ReplaceAll(name, "/", "-"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(folder, "package", file)); err == nil {
		return folder + "/package"
	}
	if err := os.MkdirAll(folder, 0o777); err != nil {
		t.Fatal(err)
	}
	script := "npm pack --loglevel=error --fetch-retries=0 --fetch-timeout=30000 --pack-destination . " + name + " && tar -xzf *.tgz"
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir = folder
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("npm has no %s: %v: %s", name, err, text)
	}
	return folder + "/package"
}

// packed serves a folder, texts in gzip where the client takes that, a page of Latin-1 as such.
func packed(folder string) http.Handler {
	files := http.FileServer(http.Dir(folder))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.URL.Path
		if name == "/moved" {
			http.Redirect(w, r, "two.html", http.StatusFound)
			return
		}
		if strings.HasSuffix(name, "/") {
			name += "index.html"
		}
		text, err := os.ReadFile(filepath.Join(folder, filepath.FromSlash(path.Clean(name))))
		if err != nil || path.Ext(name) == ".png" || strings.HasSuffix(r.URL.Path, "/index.html") {
			files.ServeHTTP(w, r)
			return
		}
		media := mime.TypeByExtension(path.Ext(name))
		if strings.Contains(string(text), "charset=iso-8859-1") {
			media = "text/html; charset=iso-8859-1"
		}
		w.Header().Set("Content-Type", media)
		if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			_, _ = w.Write(text)
			return
		}
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = z.Write(text)
		_ = z.Close()
	})
}

// A replay is an archive that the player shows.
type replay struct {
	*web
	t       *testing.T
	archive string // its file
	player  string // the folder of the player
	server  *httptest.Server
	ctx     context.Context

	mu       sync.Mutex
	served   map[string]int  // requests by path, guarded by mu
	answered map[string]bool // by URL, whether by the player's service worker; guarded by mu
}

// newReplay has a browser play an archive. log ends it and returns its log of the network.
func newReplay(t *testing.T, w *web, archive string) (p *replay, log func() string) {
	t.Helper()
	w.asked.Store(0)
	p = &replay{web: w, t: t, archive: archive, player: fetched(t, player, "sw.js"), served: map[string]int{}, answered: map[string]bool{}}
	p.server = httptest.NewServer(p)
	t.Cleanup(p.server.Close)
	p.ctx, log = browse(t)
	err := chromedp.Listen(p.ctx, func(event any) {
		if e, ok := event.(*network.EventResponseReceived); ok {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.answered[e.Response.URL] = e.Response.FromServiceWorker
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return p, log
}

// embedding is the page with the player, which begins with a URL. It waits for the service worker
// of the player, which itself gives up on a slow machine.
const embedding = `<!doctype html><link rel=icon href=data:,><script src=/replay/ui.js></script><body>
<template><replay-web-page embed=replayonly replayBase=/replay/ source="/%s" url="%s"></replay-web-page></template>
<script type=module>
const registered = await navigator.serviceWorker.register('/replay/sw.js?serveIndex=1', {scope: '/replay/'});
const worker = registered.installing ?? registered.waiting ?? registered.active;
while (worker.state !== 'activated') await new Promise(done => worker.addEventListener('statechange', done, {once: true}));
document.body.append(document.querySelector('template').content);
</script>`

func (p *replay) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.served[r.URL.Path]++
	p.mu.Unlock()
	switch name := path.Base(r.URL.Path); r.URL.Path {
	case "/":
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, embedding, p.archive, html.EscapeString(r.FormValue("url")))
	case "/" + p.archive:
		http.ServeFile(w, r, filepath.Join(p.dir, name))
	case "/replay/ui.js", "/replay/sw.js":
		http.ServeFile(w, r, filepath.Join(p.player, name))
	default:
		http.NotFound(w, r)
	}
}

// open has the player begin with a URL of the archive.
func (p *replay) open(name string) {
	p.t.Helper()
	if err := chromedp.Do(p.ctx, chromedp.Navigate(p.server.URL+"/?url="+url.QueryEscape(p.origin+name))); err != nil {
		p.t.Fatal(err)
	}
}

// dive is a function of JavaScript: it calls fn with the document that the player shows, once that
// is there as a whole and is that of a URL, and with the place of its frame. It returns what fn
// does, as JSON, or "".
const dive = `(url, fn) => {
	const into = (root, x, y) => {
		for (const e of root.querySelectorAll('*')) {
			let found = '';
			if (e.shadowRoot) found = into(e.shadowRoot, x, y);
			if (e.tagName === 'IFRAME' && e.contentDocument) {
				const at = e.getBoundingClientRect(), d = e.contentDocument, here = e.contentWindow.location.href;
				if (!here.includes('mp_/')) found = into(d, x + at.x, y + at.y);
				else if (here.endsWith('mp_/' + url) && d.readyState === 'complete') found = JSON.stringify(fn(d, x + at.x, y + at.y));
			}
			if (found) return found;
		}
		return '';
	};
	return into(document, 0, 0);
}`

// inside calls a function of JavaScript with the document of a page, and the place of its frame,
// once the player shows it.
func (p *replay) inside(name, fn string, result any) {
	p.t.Helper()
	script := fmt.Sprintf("(%s)(%q, %s)", dive, p.origin+name, fn)
	text, err := chromedp.Run(p.ctx, chromedp.Poll[string](script, chromedp.WithPollingTimeout(patience), chromedp.WithPollingInterval(50*time.Millisecond)))
	if err == nil {
		err = json.Unmarshal([]byte(text), result)
	}
	if err != nil {
		p.t.Fatalf("%s: %v", name, err)
	}
}

// click clicks on an element of a page with the mouse.
func (p *replay) click(name, selector string) {
	p.t.Helper()
	var at struct{ X, Y float64 }
	p.inside(name, fmt.Sprintf("(d, x, y) => { const at = d.querySelector(%q).getBoundingClientRect(); return {x: x + at.x + at.width/2, y: y + at.y + at.height/2} }", selector), &at)
	if err := chromedp.Do(p.ctx, chromedp.MouseClickXY(at.X, at.Y)); err != nil {
		p.t.Fatal(err)
	}
}

// A look is what a page shows.
type look struct {
	Title, Heading, Colour, Imported, Script, Framed string
	Images, Broken                                   int
}

const looker = `d => {
	const colour = e => e ? d.defaultView.getComputedStyle(e).color : '', frame = d.querySelector('iframe'), images = [...d.images];
	return {
		title: d.title, heading: d.querySelector('h1').textContent, colour: colour(d.querySelector('h1')), imported: colour(d.querySelector('p')),
		script: d.documentElement.dataset.script || '', framed: frame ? frame.contentDocument.body.innerText.trim() : '',
		images: images.length, broken: images.filter(i => i.naturalWidth === 0).length,
	};
}`

// shows checks what the player shows of a page.
func (p *replay) shows(name string, want look) {
	p.t.Helper()
	var got look
	if p.inside(name, looker, &got); got != want {
		p.t.Errorf("%s: %+v, want %+v", name, got, want)
	}
}

// TestReplay: the player shows what was crawled from an archive alone: styles and what they import,
// images, scripts, frames, links, text in another encoding, pages whose body another one has too.
func TestReplay(t *testing.T) {
	fetched(t, player, "sw.js")
	w := newWeb(t, packed("testdata/replay"))
	for _, store := range stores {
		w.crawl("-tree", store, "-store", store, "-scope", "host", w.origin+"/")
		w.run("export", "-tree", store, "-what", "wacz", "-output", store+".wacz")
	}
	segments(t, filepath.Join(w.dir, "warc", "warc"), filepath.Join(w.dir, "segments.warc.gz"))
	for _, archive := range []string{"folders.wacz", "warc.wacz", "segments.warc.gz"} {
		t.Run(archive, func(t *testing.T) {
			p, log := newReplay(t, w, archive)
			p.play()
			p.alone(log(), 10)
		})
	}
}

// segments makes one file of the WARC files in a folder, which is what that form is made for.
func segments(t *testing.T, folder, file string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(folder, "*.warc.gz"))
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	var all []byte
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, text...)
	}
	if err := os.WriteFile(file, all, 0o600); err != nil {
		t.Fatal(err)
	}
}

// play goes through the pages of testdata/replay.
func (p *replay) play() {
	p.t.Helper()
	const own, imported = "rgb(1, 2, 3)", "rgb(4, 5, 6)"
	two := look{Title: "two", Heading: "two", Colour: own, Imported: imported, Images: 1}
	p.open("/")
	p.shows("/", look{Title: "start", Heading: "start", Colour: own, Imported: imported, Script: "ran", Images: 3, Broken: 1})
	p.click("/", "#next")
	p.shows("/two.html?a=1&b=2#part", two)
	p.click("/two.html?a=1&b=2#part", "#next")
	p.shows("/sub/", look{Title: "three", Heading: "Grüße", Colour: own, Framed: "framed"})
	p.open("/")
	p.click("/", "#twin")
	p.shows("/twin.html", two)
	if p.archive == "folders.wacz" {
		return // which has no redirects
	}
	p.open("/")
	p.click("/", "#moved")
	p.shows("/two.html", two)
}

var (
	absent = regexp.MustCompile(`"(https?://)?absent[a-z-]*\.test`)
	hosts  = regexp.MustCompile(`"url":"(https?://[^/"]+)/`)
	// ours of the browser itself, whose names lead nowhere.
	service = regexp.MustCompile(`^https?://[a-z0-9-]+\.(google|googleapis|gvt1)\.com$`)
)

// alone checks that the browser asked for the player and the archive, and for nothing else, and
// that so many answers at least came from the archive.
func (p *replay) alone(log string, least int) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := p.asked.Load(); n > 0 {
		p.t.Errorf("the host itself was asked %d times", n)
	}
	byWorker := 0
	for address, worker := range p.answered {
		u, err := url.Parse(address)
		switch {
		case err != nil:
			p.t.Error(err)
		case worker:
			byWorker++
		case u.Scheme != "data" && (!strings.HasPrefix(address, p.server.URL+"/") || p.served[u.Path] == 0):
			p.t.Errorf("%s was answered by neither the archive nor its server", address)
		}
	}
	if byWorker < least {
		p.t.Errorf("only %d answers from the archive", byWorker)
	}
	for path := range p.served {
		if !slices.Contains([]string{"/", "/replay/", "/replay/ui.js", "/replay/sw.js", "/" + p.archive}, path) {
			p.t.Errorf("the server was asked for %s", path)
		}
	}
	if found := absent.FindString(log); found != "" {
		p.t.Errorf("the browser asked %s", found)
	}
	for _, m := range hosts.FindAllStringSubmatch(log, -1) {
		if host := m[1]; host != p.server.URL && !service.MatchString(host) {
			p.t.Errorf("the browser asked %s", host)
		}
	}
}

// TestLargeReplay: the player finds pages in an archive with so many that its index is compressed.
func TestLargeReplay(t *testing.T) {
	fetched(t, player, "sw.js")
	const pages = 10_050
	w := newWeb(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch number, err := strconv.Atoi(r.URL.Path[1:]); {
		case r.URL.Path == "/list":
			for n := range pages {
				fmt.Fprintf(w, "<a href=/%d></a>\n", n)
			}
		case err == nil && number%1000 > 0: // is not listed as a page, which the player would read first
			_, _ = w.Write([]byte("text"))
		default:
			fmt.Fprintf(w, "<!doctype html><title>%s</title><h1>%[1]s</h1><p>a page <a id=next href=7000>on</a><a href=list></a>", r.URL.Path)
		}
	}))
	w.crawl("-tree", "warc", "-store", "warc", w.origin+"/")
	w.run("export", "-tree", "warc", "-what", "wacz", "-output", "large.wacz")
	z, err := zip.OpenReader(filepath.Join(w.dir, "large.wacz"))
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	if _, err := z.Open("indexes/index.idx"); err != nil {
		t.Fatal(err)
	}
	p, log := newReplay(t, w, "large.wacz")
	want := func(name string) look {
		return look{Title: name, Heading: name, Colour: "rgb(0, 0, 0)", Imported: "rgb(0, 0, 0)"}
	}
	p.open("/")
	p.shows("/", want("/"))
	p.click("/", "#next")
	p.shows("/7000", want("/7000"))
	p.alone(log(), 2)
}
