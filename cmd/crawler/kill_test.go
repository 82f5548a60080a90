package main

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	"urltree/internal/testseed"
	"urltree/internal/testweb"
	"urltree/internal/warc"
	"urltree/iut"
)

// childMark in the environment makes the test binary the command itself.
const childMark = "CRAWLER_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childMark) != "" {
		main()
	}
	os.Setenv("GORACE", noPause)
	// A signal that is ignored, as below nohup, is ignored by children too; not one that is taken.
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
	testscript.Main(leakFree{m}, map[string]func(){"crawler": main})
}

// leakFree runs all tests and then looks for goroutines that they left.
type leakFree struct{ *testing.M }

func (l leakFree) Run() int {
	var err error
	if builtDir, err = os.MkdirTemp("", "crawler"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(builtDir)
	code := l.M.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, "goroutines are left:", err)
		return 1
	}
	return code
}

// builtDir is where builtCommand puts the command.
var builtDir string

// builtCommand builds the command as users build it, once, and returns the name of its file.
var builtCommand = sync.OnceValue(func() string {
	name := filepath.Join(builtDir, "crawler")
	cmd := exec.Command("go", "build", "-trimpath", "-o", name, ".") // make build finds it in the cache
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		panic(fmt.Sprintf("%v\n%s", err, out))
	}
	return name
})

// child prepares the command as a process of its own. With -short that is the command as users
// build it, since the race detector makes each process several times as dear, unless
// TEST_URLTREE_RACE is set; else it is the test binary.
func child(dir string, args ...string) *exec.Cmd {
	program := os.Args[0]
	if testing.Short() && os.Getenv("TEST_URLTREE_RACE") == "" {
		program = builtCommand()
	}
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), childMark+"=1")
	cmd.Dir = dir
	return cmd
}

// call runs the command to its end and gives what it printed and its exit code.
func call(t testing.TB, dir string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := child(dir, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if _, ok := err.(*exec.ExitError); err != nil && !ok {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// must runs the command and fails the test unless it exits with 0.
func must(t testing.TB, dir string, args ...string) string {
	t.Helper()
	stdout, stderr, code := call(t, dir, args...)
	if code != 0 {
		t.Fatalf("crawler %s: exit %d\n%s\n%s", strings.Join(args, " "), code, stdout, stderr)
	}
	return stdout
}

func urlsOf(t testing.TB, file string) []string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return firstFields(string(b))
}

func firstFields(text string) []string {
	var urls []string
	for line := range strings.Lines(text) {
		url, _, _ := strings.Cut(strings.TrimRight(line, "\n"), "\t")
		urls = append(urls, url)
	}
	slices.Sort(urls)
	return urls
}

func requireSame(t testing.TB, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%d URLs, want %d: %s", len(got), len(want), cmp.Diff(want, got))
	}
}

// killSeeds make the moments of the kills. A seed that has failed once stays here.
var killSeeds = []uint64{1, 2}

// The crawl of the kill tests: small buffers, so that the bound on repeats says something.
const (
	killBuffers, killSize       = 6, 20
	killCrawlers, killDownloads = 12, 4
	killBound                   = killCrawlers*killDownloads + killBuffers*killSize
	killHosts                   = 12
	killRetries                 = 2
	killFlush                   = "100ms"
)

// killOrders are tested in turn, with TEST_URLTREE_FULL all.
var killOrders = [][]string{
	{"-order", "breadth"},
	{"-order", "priority"},
	{"-order", "priority", "-score", "inlinks", "-queue", "quickheap", "-queues", "2", "-pick", "batch", "-frontier-memory", "64k"},
	{"-order", "priority", "-score", "depth", "-queue", "quickheap", "-pick", "single"},
	{"-order", "tree"},
}

func killArgs(seeds string, order []string) []string {
	return append([]string{
		"-quiet", "-delay", "0", "-allow-private", "-input", seeds,
		"-buffers", strconv.Itoa(killBuffers), "-buffer-size", strconv.Itoa(killSize),
		"-crawlers", strconv.Itoa(killCrawlers), "-downloads", strconv.Itoa(killDownloads),
		"-flush-interval", killFlush,
	}, order...)
}

// untilKept returns the arguments without the options that the tree keeps, as soon as it keeps any.
func untilKept(dir string, args []string) (rest []string) {
	if format, err := iut.ReadFormat(filepath.Join(dir, "iut")); err != nil || len(format.Kept.Options) == 0 {
		return args
	}
	for i := 0; i < len(args); i++ {
		switch name := strings.TrimPrefix(args[i], "-"); {
		case name == "allow-private":
		case newFlags().kindOf(name) == ofCrawl:
			i++ // its value
		default:
			rest = append(rest, args[i])
		}
	}
	return rest
}

// killSizes returns how many pages a web has whose crawl is killed, and how often that is.
func killSizes() (pages, rounds int) {
	if testing.Short() {
		return 500, 4
	}
	return 3000, 10
}

// TestKill kills a crawl ten times at random moments and lets it finish: nothing is lost, nothing
// is doubled, check finds no fault after any kill, and hardly anything is asked again.
func TestKill(t *testing.T) {
	t.Parallel()
	random := testseed.Draw(t)
	for i, kind := range []struct {
		name string
		kind testweb.Kind
	}{{"linked", testweb.Linked}, {"tree", testweb.Tree}, {"changing", testweb.Changing}} {
		for _, seed := range append(slices.Clone(killSeeds), random) {
			if testing.Short() && seed != random {
				continue
			}
			orders := killOrders[(uint64(i)+seed)%uint64(len(killOrders)):][:1]
			if os.Getenv("TEST_URLTREE_FULL") != "" {
				orders = killOrders
			}
			stores := []string{"folders", "warc"}
			if testing.Short() {
				stores = stores[(uint64(i)+seed)%2:][:1]
			}
			for _, store := range stores {
				for _, order := range orders {
					t.Run(strings.Join(append([]string{kind.name, strconv.FormatUint(seed, 10), store}, order...), "/"), func(t *testing.T) {
						t.Parallel()
						testKill(t, kind.kind, seed, append([]string{"-store", store}, order...))
					})
				}
			}
		}
	}
}

func testKill(t *testing.T, kind testweb.Kind, seed uint64, order []string) {
	pages, rounds := killSizes()
	web := testweb.New(testweb.Options{
		Kind: kind, Hosts: killHosts, Pages: pages, Seed: seed, MinSize: 300, MaxSize: 3000,
		Latency: 2 * time.Millisecond, Redirects: .05, Errors: .003, Texts: .02, Images: .02, NoIndex: .03, Private: .02, Hidden: .1,
	})
	if err := web.Start(0); err != nil {
		t.Fatal(err)
	}
	defer web.Stop()
	dir := t.TempDir()
	writeSeeds(t, dir, web.Seeds())
	rng := rand.New(rand.NewPCG(seed, 1))
	kills := 0
	for range rounds {
		if runKilled(t, rng, web, pages/rounds, dir, untilKept(dir, killArgs("seed.txt", order))...) {
			kills++
		}
		if _, err := os.Stat(filepath.Join(dir, "iut", "index.db")); err == nil {
			must(t, dir, "check", "-links")
		}
	}
	must(t, dir, untilKept(dir, killArgs("seed.txt", order))...)
	must(t, dir, "check", "-links")

	requireWholeSegments(t, filepath.Join(dir, "iut"))
	answer := web.Answer()
	if kind != testweb.Changing {
		requireSame(t, urlsOf(t, filepath.Join(dir, "res.txt")), answer.Stored)
	}
	repeats := 0
	for url, n := range web.Requests() {
		most := 1 + kills
		if _, fails := answer.Failed[url]; fails {
			most *= 1 + killRetries // a kill may lose the tries as well
		} else {
			repeats += n - 1
		}
		if n > most && kind != testweb.Changing {
			t.Errorf("%s: %d requests, at most %d are allowed", url, n, most)
		}
	}
	if repeats > kills*killBound {
		t.Errorf("%d requests too many after %d kills, at most %d are allowed", repeats, kills, kills*killBound)
	}
	t.Logf("%d kills, %d of %d URLs asked again", kills, repeats, len(web.Requests()))
}

// requireWholeSegments checks that each group of records in the segments of a tree, if it has any,
// is whole: it begins with an answer and ends with what is known of it. No page is there twice.
func requireWholeSegments(t *testing.T, root string) {
	t.Helper()
	requireGroups(t, root, func(facts []string) string { return facts[0] })
}

// requireGroups requires that segments have whole groups alone, and of pages one for each key,
// which is made of the fields of source.txt.
func requireGroups(t *testing.T, root string, keyOf func(facts []string) string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "warc", "*"))
	if err != nil {
		t.Fatal(err)
	}
	pages := map[string]bool{}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		in := warc.NewReader(f, 0)
		answer := ""
		for {
			rec, err := in.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			switch rec.Get(warc.FieldType) {
			case warc.Response, warc.Revisit, warc.Resource:
				if answer != "" {
					t.Errorf("%s: a group that does not end before %d", name, rec.Offset)
				}
				answer = rec.Get(warc.FieldID)
			case warc.Metadata:
				if rec.Get(warc.FieldConcurrentTo) != answer || answer == "" {
					t.Errorf("%s: at %d the end of no group", name, rec.Offset)
				}
				answer = ""
				block, err := io.ReadAll(rec)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				_, facts, ok := strings.Cut(string(block), "facts: ")
				if key := keyOf(strings.Split(facts, "\t")); ok && pages[key] {
					t.Errorf("%s: at %d once more %s", name, rec.Offset, key)
				} else {
					pages[key] = true
				}
			}
		}
		if answer != "" {
			t.Errorf("%s: the last group does not end", name)
		}
		f.Close()
	}
}

// runKilled runs the command, kills it at a random moment, and reports whether that came before its
// own end, which must be a good one. The moment is that of a request, the most-th at the latest; at
// times it comes before the first.
func runKilled(t *testing.T, rng *rand.Rand, web *testweb.Web, most int, dir string, args ...string) bool {
	t.Helper()
	enough, early := web.Asked()+1+rng.IntN(most), time.Hour
	if rng.IntN(6) == 0 {
		early = time.Duration(rng.IntN(300)) * time.Millisecond
	}
	cmd := child(dir, args...)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	begin := time.Now()
	look := time.NewTicker(time.Millisecond) // of a process, so real time
	defer look.Stop()
	for {
		select {
		case <-look.C:
			if web.Asked() < enough && time.Since(begin) < early {
				continue
			}
			_ = cmd.Process.Kill()
			<-ended
			return true
		case err := <-ended:
			if err != nil {
				t.Fatal(err)
			}
			return false
		}
	}
}

func writeSeeds(t testing.TB, dir string, urls []string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "seed.txt"), []byte(strings.Join(urls, "\n")+"\n"), 0o666); err != nil {
		t.Fatal(err)
	}
}

func startWeb(t *testing.T, opts testweb.Options) *testweb.Web {
	t.Helper()
	web := testweb.New(opts)
	if err := web.Start(0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(web.Stop)
	return web
}
