package browser

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

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

// TestDocumentation: from either store pages of the Python documentation look as they did, ask
// nobody but the server, lack no image, and lead to each other.
func TestDocumentation(t *testing.T) {
	folder := corpus(t)
	w := newWeb(t, packed(folder))
	pages := []string{"index.html", "howto/logging.html", "tutorial/datastructures.html", "library/turtle.html", "library/pathlib.html", "library/hashlib.html", "using/windows.html", "tutorial/index.html"}
	var seeds []string
	for _, p := range pages {
		seeds = append(seeds, w.origin+"/"+p)
	}
	for _, store := range stores {
		w.crawl(append(seeds, "-tree", store, "-store", store, "-include", `/_(static|images)/`)...)
	}
	ctx, _ := browse(t)
	v := newVisitor(t, ctx)
	pictures := map[string][]byte{}
	for _, p := range pages[:3] {
		v.visit(w.origin+"/", p)
		pictures[p] = v.picture()
	}
	w.asked.Store(0)
	for _, store := range stores {
		w.serve("-tree", store)
		v.forget()
		images := 0
		for _, p := range pages {
			v.visit(w.page("/"), p)
			if was := pictures[p]; was != nil {
				v.looksAs(store+", "+p, was)
			}
			images += v.images()
		}
		if images < 15 {
			t.Errorf("only %d images", images)
		}
		v.follow(w)
		for _, u := range v.asked() {
			if !strings.HasPrefix(u, w.served) && !strings.HasPrefix(u, "data:") && !strings.HasPrefix(u, "about:") {
				t.Errorf("%s: asked elsewhere: %s", store, u)
			}
		}
	}
	if n := w.asked.Load(); n > 0 {
		t.Errorf("the host itself was asked %d times", n)
	}
}

// images returns how many images the page has, none of which may be broken.
func (v *visitor) images() int {
	v.t.Helper()
	const script = `Promise.all([...document.images].map(i => i.decode().then(() => '', () => i.src))).then(l => JSON.stringify(l))`
	var broken []string
	if err := json.Unmarshal([]byte(evaluate(v.t, v.ctx, script)), &broken); err != nil {
		v.t.Fatal(err)
	}
	for _, source := range broken {
		if source != "" {
			v.t.Errorf("%s: broken image %s", evaluate(v.t, v.ctx, "location.href"), source)
		}
	}
	return len(broken)
}

// follow clicks on links of the start page: to a page that redirects, and to one that is not there.
func (v *visitor) follow(w *web) {
	v.t.Helper()
	v.visit(w.page("/"), "index.html")
	if err := chromedp.Do(v.ctx, chromedp.Click(chromedp.CSS(`a[href$="/tutorial/index.html"]`)), chromedp.WaitVisible(chromedp.CSS("#the-python-tutorial"))); err != nil {
		v.t.Error(err)
	}
	if at := evaluate(v.t, v.ctx, "location.href"); at != w.page("/tutorial/") {
		v.t.Errorf("a click leads to %s", at)
	}
	v.visit(w.page("/"), "index.html")
	if err := chromedp.Do(v.ctx, chromedp.Click(chromedp.CSS(`a[href$="/glossary.html"]`)), chromedp.WaitVisible(chromedp.CSS("h1"))); err != nil {
		v.t.Error(err)
	}
	if text := evaluate(v.t, v.ctx, "document.body.innerText"); !strings.Contains(text, "Scope rejects it: no -include matches.") {
		v.t.Errorf("a page that is not there: %s", text)
	}
}

// evil matches the hosts that the hostile page tries to reach.
var evil = regexp.MustCompile(`evil-[a-z0-9-]+\.test`)

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
	w := newWeb(t, handler)
	for _, store := range stores {
		w.crawl("-tree", store, "-store", store, "-scope", "host", w.origin+"/", w.origin+"/module.js")
	}

	// The page itself, at its host, does all that.
	ctx, log := browse(t)
	if err := chromedp.Do(ctx, chromedp.Navigate(w.origin+"/")); err != nil {
		t.Fatal(err)
	}
	_, _ = chromedp.Run(ctx, chromedp.Evaluate[string]("attempts", chromedp.EvalAwaitPromise)) // it leaves by its form
	if names := evil.FindAllString(log(), -1); len(slices.Compact(slices.Sorted(slices.Values(names)))) < 10 {
		t.Errorf("the page looks up only %q where it may", names)
	}

	for _, store := range stores {
		t.Run(store, func(t *testing.T) {
			w.serve("-tree", store)
			w.denies(t)
		})
	}
}

// denies checks that the hostile page gets nowhere.
func (w *web) denies(t *testing.T) {
	ctx, log := browse(t)
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
