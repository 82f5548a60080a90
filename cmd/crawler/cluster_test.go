package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	crand "crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"urltree/internal/testseed"
)

// A branchedWeb is a web in which one page alone links to each other one, on several hosts: a link
// that is lost costs pages. It notes which address asks which host.
type branchedWeb struct {
	t     *testing.T
	pages int
	loose int      // of these, the last ones, to which no page links
	hosts []string // host:port

	mu      sync.Mutex
	changed *sync.Cond
	limit   int               // after so many different pages, answers wait; 0: none does
	resting map[string]int    // not nil: each host asks to be left alone for an hour; how often it was asked since
	served  map[int]int       // pages, how often
	asked   []request         // in turn
	asking  map[string]string // by host: the address of who asks it now
	clashes []string          // hosts that two asked at once
}

// A request is one that has come in: when, and from which address.
type request struct {
	from string
	at   time.Time
}

const webHosts = 12

func newBranchedWeb(t *testing.T, pages int) *branchedWeb {
	return branchedWebAt(t, pages, func(h int) (net.Listener, error) {
		return net.Listen("tcp", fmt.Sprintf("127.91.%d.1:0", h))
	})
}

// branchedWebAt has each of its hosts where listen puts it.
func branchedWebAt(t *testing.T, pages int, listen func(h int) (net.Listener, error)) *branchedWeb {
	w := &branchedWeb{t: t, pages: pages, served: map[int]int{}, asking: map[string]string{}}
	w.changed = sync.NewCond(&w.mu)
	serveHosts(t, w, &w.hosts, webHosts, listen)
	return w
}

// serveHosts serves a web of so many hosts, once the addresses of all are in hosts.
func serveHosts(t *testing.T, web http.Handler, hosts *[]string, n int, listen func(h int) (net.Listener, error)) {
	var listeners []net.Listener
	for h := range n {
		l, err := listen(h)
		if err != nil {
			t.Fatal(err)
		}
		listeners = append(listeners, l)
		*hosts = append(*hosts, l.Addr().String())
	}
	for _, l := range listeners {
		server := &http.Server{Handler: web}
		go server.Serve(l)
		t.Cleanup(func() { server.Close() })
	}
}

func (w *branchedWeb) url(n int) string {
	return fmt.Sprintf("http://%s/p%d", w.hosts[n%len(w.hosts)], n)
}

func (w *branchedWeb) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	from, _, _ := net.SplitHostPort(r.RemoteAddr)
	w.mu.Lock()
	if other := w.asking[r.Host]; other != "" && other != from {
		w.clashes = append(w.clashes, r.Host)
	}
	w.asking[r.Host] = from
	w.asked = append(w.asked, request{from, time.Now()})
	rests := w.resting != nil
	if rests {
		w.resting[r.Host]++
		w.changed.Broadcast()
	}
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.asking[r.Host] = ""
	}()
	if rests {
		out.Header().Set("Retry-After", "3600")
		out.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	n, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/p"))
	if err != nil || n >= w.pages {
		http.NotFound(out, r)
		return
	}
	out.Header().Set("Content-Type", "text/html")
	for k := 3*n + 1; k <= 3*n+3 && k < w.pages-w.loose; k++ {
		fmt.Fprintf(out, "<a href=%q>x</a>\n", w.url(k))
	}
	defer context.AfterFunc(r.Context(), w.wake)()
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.limit > 0 && len(w.served) >= w.limit && r.Context().Err() == nil {
		w.changed.Wait()
	}
	if r.Context().Err() != nil {
		return // who asked is gone
	}
	w.served[n]++
	w.changed.Broadcast()
}

func (w *branchedWeb) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changed.Broadcast()
}

// hold has answers wait after so many different pages; 0: no longer.
func (w *branchedWeb) hold(pages int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.limit = pages
	w.changed.Broadcast()
}

// answered returns how many different pages were.
func (w *branchedWeb) answered() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.served)
}

// requests returns those that came in so far.
func (w *branchedWeb) requests() []request {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.asked)
}

// forget forgets what was asked so far.
func (w *branchedWeb) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.served)
}

// until waits until so many different pages were asked for.
func (w *branchedWeb) until(pages int) {
	w.t.Helper()
	late := false
	defer time.AfterFunc(2*time.Minute, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		late = true
		w.changed.Broadcast()
	}).Stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.served) < pages && !late {
		w.changed.Wait()
	}
	if late {
		w.t.Fatalf("not %d pages after two minutes, but %d", pages, len(w.served))
	}
}

// A processNode is a node of a crawl, in a process of its own.
type processNode struct {
	t       *testing.T
	name    string
	dir     string
	address string // from which it asks
	args    []string
	in      func(start func() error) error // in which network; nil: that of the test
	program string                         // that is run; "": as child has it
	env     []string                       // besides that of the test
	cmd     *exec.Cmd
	errs    bytes.Buffer
	hears   io.Writer // what goes to errs as well; nil: nobody
	done    chan struct{}
}

func (n *processNode) start() {
	n.cmd, n.done = child(n.dir, n.args...), make(chan struct{})
	if n.cmd.Env = append(n.cmd.Env, n.env...); n.program != "" {
		n.cmd.Path = n.program
	}
	n.errs.Reset()
	n.cmd.Stderr = &n.errs
	if n.hears != nil {
		n.cmd.Stderr = io.MultiWriter(&n.errs, n.hears)
	}
	start := n.cmd.Start
	if n.in != nil {
		start = func() error { return n.in(n.cmd.Start) }
	}
	if err := start(); err != nil {
		n.t.Fatal(err)
	}
	go func() {
		defer close(n.done)
		_ = n.cmd.Wait()
	}()
}

func (n *processNode) kill() {
	_ = n.cmd.Process.Kill()
	<-n.done
}

// ends waits for the end of the node, which must be a good one.
func (n *processNode) ends() {
	n.t.Helper()
	select {
	case <-n.done:
	case <-time.After(3 * time.Minute):
		n.kill()
		n.t.Fatalf("node %s goes on:\n%s", n.name, n.errs.String())
	}
	if code := n.cmd.ProcessState.ExitCode(); code != 0 || !strings.Contains(n.errs.String(), "nothing left") {
		n.t.Errorf("node %s: exit %d\n%s", n.name, code, n.errs.String())
	}
}

// newProcessNodes returns two nodes, the first with the engine in it.
func newProcessNodes(t *testing.T, w *branchedWeb) []*processNode {
	nodes := nodesOf(t, w, freeEngine(), 2)
	nodes[0].args = append(nodes[0].args, "-engine", "embedded")
	return nodes
}

// freeEngine returns where an engine can listen.
func freeEngine() string { return fmt.Sprintf("127.92.%d.%d:4222", rand.N(250), rand.N(250)+1) }

const nodeLease = 3 * time.Second

// nodesOf returns nodes that use an engine, the first with the seed.
func nodesOf(t *testing.T, w *branchedWeb, engine string, count int) (nodes []*processNode) {
	for i := range count {
		n := &processNode{t: t, name: string(rune('a' + i)), dir: t.TempDir(), address: fmt.Sprintf("127.93.0.%d", i+1)}
		n.args = []string{
			"-cluster", engine, "-node-id", n.name, "-cluster-nodes", fmt.Sprint(count), "-cluster-name", "web1", "-lease-ttl", nodeLease.String(), "-bind", n.address,
			"-allow-private", "-delay", "5ms", "-timeout", "10m", "-sitemaps=false", "-quiet=false",
		}
		if i == 0 {
			n.args = append(n.args, w.url(0))
		}
		t.Cleanup(func() {
			if n.cmd != nil {
				n.kill()
			}
		})
		nodes = append(nodes, n)
	}
	return nodes
}

// TestClusterOfProcesses: two processes crawl a web whole, each page once, and never ask a host
// both at once: also if one of them or both are killed at any time, with the engine in one of them,
// and if all that the engine has is lost meanwhile.
func TestClusterOfProcesses(t *testing.T) {
	t.Parallel()
	pages := 1000
	if testing.Short() {
		pages = 300
	}
	for _, tt := range []struct {
		name   string
		killed []int // nodes
		lost   bool  // the engine has nothing any more
	}{
		{"none", nil, false},
		{"the one with the engine", []int{0}, false},
		{"both", []int{0, 1}, false},
		{"both, and the engine lost", []int{0, 1}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(testseed.Draw(t), 0))
			w := newBranchedWeb(t, pages)
			nodes := newProcessNodes(t, w)
			for _, n := range nodes {
				n.start()
			}
			if tt.killed != nil {
				for _, part := range []int{4, 2} { // before a quarter of the pages, and before a half
					w.until(1 + r.IntN(pages/part))
					for _, i := range tt.killed {
						nodes[i].kill()
					}
					if tt.lost {
						if err := os.RemoveAll(filepath.Join(nodes[0].dir, "iut.engine")); err != nil {
							t.Fatal(err)
						}
					}
					for _, i := range tt.killed {
						nodes[i].start()
					}
				}
			}
			for _, n := range nodes {
				n.ends()
			}
			w.check(nodes)
		})
	}
}

// check compares what the trees of the nodes have with the web: each by itself, and all together.
func (w *branchedWeb) check(nodes []*processNode) {
	w.t.Helper()
	owner := map[string]string{}
	var trees []string
	for _, n := range nodes {
		trees = append(trees, "-tree", filepath.Join(n.dir, "iut"))
		list := urlsOf(w.t, filepath.Join(n.dir, "res.txt"))
		if len(list) == 0 {
			w.t.Errorf("node %s has no pages", n.name)
		}
		for _, url := range list {
			if other := owner[url]; other != "" {
				w.t.Errorf("%s is in the trees of %s and %s", url, other, n.name)
			}
			owner[url] = n.name
		}
		must(w.t, n.dir, "check")
	}
	list := must(w.t, nodes[0].dir, append([]string{"export", "-what", "pages", "-columns", "url"}, trees...)...)
	if n := strings.Count(list, "\n"); n != len(owner) {
		w.t.Errorf("the trees are exported with %d pages, and have %d", n, len(owner))
	}
	if n := len(owner); !strings.HasPrefix(must(w.t, nodes[0].dir, append([]string{"stats"}, trees...)...), fmt.Sprintf("%-22s %12d\n", "pages", n)) {
		w.t.Errorf("stats of the trees do not add up to %d pages", n)
	}
	lost := 0
	for n := range w.pages {
		if owner[w.url(n)] == "" {
			lost++
		}
	}
	if lost > 0 || len(owner) != w.pages {
		w.t.Errorf("%d pages of %d are lost, %d were stored", lost, w.pages, len(owner))
	}
	if len(w.clashes) > 0 {
		w.t.Errorf("two nodes asked at once: %v", w.clashes)
	}
}

// TestClusterGuarded: an engine that asks for a password over TLS is for those who know it.
func TestClusterGuarded(t *testing.T) {
	t.Parallel()
	w := newBranchedWeb(t, 100)
	nodes := newProcessNodes(t, w)
	host, _, _ := net.SplitHostPort(nodes[0].args[1])
	dir := t.TempDir()
	cert, key, password := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), filepath.Join(dir, "password")
	writeCertificate(t, host, cert, key)
	if err := os.WriteFile(password, []byte("crawl:secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	nodes[0].args = append(nodes[0].args, "-cluster-creds", password, "-cluster-cert", cert, "-cluster-key", key)
	stranger := nodes[1]
	known := &processNode{t: t, name: "b", dir: t.TempDir()}
	known.args = append(slices.Clone(stranger.args), "-cluster-creds", password, "-cluster-ca", cert)
	stranger.args = append(stranger.args, "-cluster-ca", cert)
	for _, n := range []*processNode{nodes[0], stranger, known} {
		n.start()
	}
	defer known.kill()
	nodes[0].ends()
	known.ends()
	w.check([]*processNode{nodes[0], known})
	stranger.kill()
	if got := stranger.errs.String(); !strings.Contains(got, "no connection to the engine") {
		t.Errorf("without the password: %s", got)
	}
}

// writeCertificate writes a certificate of an address, signed by itself, and its key.
func writeCertificate(t *testing.T, ip, certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), crand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "engine"}, IPAddresses: []net.IP{net.ParseIP(ip)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	cert, err := x509.CreateCertificate(crand.Reader, about, about, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: cert}, keyFile: {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestClusterStoppedFirst: a node that is stopped before it has reached the engine has ended well.
func TestClusterStoppedFirst(t *testing.T) {
	t.Parallel()
	for _, program := range []struct {
		name, said, stopped string
		args                []string
	}{
		{"text", "no connection to the engine", "\ncrawler: stopped before anything was asked; the same command goes on\n", nil},
		{"a line is an object", "no connection to the engine", `"msg":"stopped before anything was asked; the same command goes on"`, []string{"-log-format", "json"}},
	} {
		t.Run(program.name, func(t *testing.T) {
			cmd := child(t.TempDir(), append(program.args, "-cluster", freeEngine(), "-node-id", "a", "http://127.0.0.1:9/")...)
			lines, err := cmd.StderrPipe()
			if err == nil {
				err = cmd.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			all := ""
			for in := bufio.NewScanner(lines); in.Scan(); {
				if all += in.Text() + "\n"; strings.Contains(in.Text(), program.said) {
					_ = cmd.Process.Signal(syscall.SIGTERM)
				}
			}
			if err := cmd.Wait(); err != nil || !strings.Contains(all, program.stopped) || strings.Count(all, "\n") != 2 {
				t.Errorf("%v:\n%s", err, all)
			}
		})
	}
}

// TestClusterOptions: what makes no node is refused, in a line that says what to do.
func TestClusterOptions(t *testing.T) {
	t.Parallel()
	w := newBranchedWeb(t, 30)
	nodes := newProcessNodes(t, w)
	for _, n := range nodes {
		n.start()
	}
	for _, n := range nodes {
		n.ends()
	}
	alone, b, at := t.TempDir(), nodes[1], nodes[0].args[1]
	must(t, alone, "-allow-private", "-sitemaps=false", "-max-pages", "1", w.url(0))
	for _, tt := range []struct {
		name, dir, want string
		args            []string
	}{
		{"no name", alone, "-cluster needs -node-id as well", []string{"-cluster", at, w.url(0)}},
		{"a bad name", alone, "-node-id \"A b\": up to 32 of", []string{"-cluster", at, "-node-id", "A b", w.url(0)}},
		{"no cluster", alone, "-node-id is for a node of several", []string{"-node-id", "b", w.url(0)}},
		{"half a certificate", alone, "-cluster-cert and -cluster-key belong together", []string{"-cluster", at, "-node-id", "b", "-cluster-cert", "x"}},
		{"no such file", alone, "-cluster-creds", []string{"-cluster", at, "-node-id", "b", "-cluster-creds", "missing"}},
		{"an engine that anybody could reach", t.TempDir(), "needs credentials", []string{"-cluster", "0.0.0.0:4222", "-node-id", "b", "-engine", "embedded", w.url(0)}},
		{"the tree of a node, alone", b.dir, "is the tree of a node of one crawl", []string{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, stderr, code := call(t, tt.dir, tt.args...)
			if code != 2 || !strings.Contains(stderr, tt.want) {
				t.Errorf("exit %d, want 2, with %q:\n%s", code, tt.want, stderr)
			}
		})
	}
}
