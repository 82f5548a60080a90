package browser

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// patience is how long a test waits for what must happen, on a busy machine.
const patience = 3 * time.Minute

// stores are the two that keep pages.
var stores = []string{"folders", "warc"}

// A web is a folder that is served, crawled, and served by the crawler.
type web struct {
	t       *testing.T
	command string
	dir     string
	origin  string // of the folder
	served  string // address of the crawler's server, with a slash
	asked   atomic.Int64
}

// newWeb serves a folder.
func newWeb(t *testing.T, handler http.Handler) *web {
	t.Helper()
	w := &web{t: t, dir: t.TempDir(), command: filepath.Join(t.TempDir(), "crawler")}
	if text, err := exec.Command("go", "build", "-C", "../..", "-o", w.command, "./cmd/crawler").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v: %s", err, text)
	}
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.asked.Add(1)
		handler.ServeHTTP(rw, r)
	}))
	t.Cleanup(server.Close)
	w.origin = server.URL
	return w
}

// run runs the crawler.
func (w *web) run(args ...string) {
	w.t.Helper()
	cmd := exec.Command(w.command, args...)
	cmd.Dir = w.dir
	if text, err := cmd.CombinedOutput(); err != nil {
		w.t.Fatalf("%q: %v: %s", args, err, text)
	}
}

// crawl crawls.
func (w *web) crawl(args ...string) {
	w.t.Helper()
	w.run(append([]string{"-quiet", "-delay", "0", "-sync", "none", "-assets"}, args...)...)
}

// serve starts the crawler's server.
func (w *web) serve(args ...string) {
	w.t.Helper()
	server := exec.Command(w.command, append([]string{"serve", "-listen", "127.0.0.1:0"}, args...)...)
	server.Dir = w.dir
	out, err := server.StdoutPipe()
	if err == nil {
		err = server.Start()
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := server.Process.Signal(os.Interrupt); err != nil {
			w.t.Error(err)
		}
		if err := server.Wait(); err != nil {
			w.t.Errorf("crawler serve: %v", err)
		}
	})
	line := make([]byte, 1000)
	n, err := out.Read(line)
	if w.served = regexp.MustCompile(`http://\S+/`).FindString(string(line[:n])); w.served == "" {
		w.t.Fatalf("%v: %q", err, line[:n])
	}
}

// page returns the address of a stored page.
func (w *web) page(path string) string { return w.served + "page/" + w.origin + path }

// browse starts a browser that resolves no name but *.test, to an address where nobody answers. It
// returns a function that ends it and returns its log of the network.
func browse(t *testing.T) (ctx context.Context, log func() string) {
	t.Helper()
	found := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil && found == "" {
			found = path
		}
	}
	if found == "" {
		t.Skip("there is no chromium")
	}
	file := filepath.Join(t.TempDir(), "net.json")
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(found), chromedp.NoSandbox, chromedp.Flag("log-net-log", file), chromedp.WSURLReadTimeout(patience),
		chromedp.Flag("host-resolver-rules", "MAP *.test 127.0.0.9, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"))
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience) // all that a test does
	t.Cleanup(cancel)
	ctx, endAll := chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(endAll)
	ctx, end := chromedp.NewContext(ctx)
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(1000, 1400)); err != nil {
		t.Fatal(err)
	}
	return ctx, func() string {
		if err := chromedp.Cancel(ctx); err != nil { // waits for the end
			t.Fatal(err)
		}
		end()
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
}

// evaluate returns the string that a script in the page of ctx comes to.
func evaluate(t *testing.T, ctx context.Context, script string) string {
	t.Helper()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string](script, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatalf("%s: %v", script, err)
	}
	return text
}
