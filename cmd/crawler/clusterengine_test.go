package main

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"urltree/internal/testseed"
)

// builtEngine builds nats-server of the module whose package the embedded engine is, once.
var builtEngine = sync.OnceValues(func() (string, error) {
	name := filepath.Join(builtDir, "nats-server")
	cmd := exec.Command("go", "build", "-o", name, "github.com/nats-io/nats-server/v2")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return name, nil
})

// A serverProcess is nats-server, in a process of its own.
type serverProcess struct {
	t           *testing.T
	address     string
	conf, store string
	cmd         *exec.Cmd
}

func newServerProcess(t *testing.T, address string) *serverProcess {
	dir := t.TempDir()
	s := &serverProcess{t: t, address: address, conf: filepath.Join(dir, "conf"), store: filepath.Join(dir, "store")}
	text := fmt.Sprintf("listen: %q\njetstream { store_dir: %q, sync_interval: always }\n", address, s.store)
	if err := os.WriteFile(s.conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if s.cmd != nil {
			s.kill()
		}
	})
	return s
}

// start returns when the server can be used.
func (s *serverProcess) start() {
	s.t.Helper()
	program, err := builtEngine()
	if err != nil {
		s.t.Skipf("nats-server cannot be built here: %v", err)
	}
	s.cmd = exec.Command(program, "-c", s.conf)
	log, err := s.cmd.StderrPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	for lines := bufio.NewScanner(log); lines.Scan(); {
		if strings.Contains(lines.Text(), "Server is ready") {
			go func() { _, _ = io.Copy(io.Discard, log) }() // ends with the process
			return
		}
	}
	s.t.Fatal("nats-server did not start")
}

func (s *serverProcess) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

// rollBack puts a copy in place of the store.
func (s *serverProcess) rollBack(from string) {
	s.t.Helper()
	if err := os.RemoveAll(s.store); err != nil {
		s.t.Fatal(err)
	}
	if err := os.CopyFS(s.store, os.DirFS(from)); err != nil {
		s.t.Fatal(err)
	}
}

// TestClusterEngine: two processes crawl a web whole with a server beside them, which is killed at
// any time and started again: with what it had stored, with a copy of that from before, which was
// made while it ran, or with nothing.
func TestClusterEngine(t *testing.T) {
	t.Parallel()
	pages := 1000
	if testing.Short() {
		pages = 300
	}
	for _, tt := range []string{"kept", "rolled back", "wiped"} {
		t.Run(tt, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(testseed.Draw(t), 0))
			w := newBranchedWeb(t, pages)
			nodes := newProcessNodes(t, w)
			nodes[0].args = withoutEngine(nodes[0].args)
			server := newServerProcess(t, nodes[0].args[1])
			server.start()
			for _, n := range nodes {
				n.start()
			}
			for _, part := range []int{4, 2} { // before a quarter of the pages, and before a half
				old := filepath.Join(t.TempDir(), "copy")
				if err := os.CopyFS(old, os.DirFS(server.store)); err != nil {
					t.Fatal(err)
				}
				w.until(1 + r.IntN(pages/part))
				server.kill()
				switch tt {
				case "rolled back":
					server.rollBack(old)
				case "wiped":
					if err := os.RemoveAll(server.store); err != nil {
						t.Fatal(err)
					}
				}
				server.start()
			}
			for _, n := range nodes {
				n.ends()
			}
			w.check(nodes)
		})
	}
}

// withoutEngine returns arguments without -engine embedded.
func withoutEngine(args []string) (rest []string) {
	for i := 0; i < len(args); i++ {
		if args[i] == "-engine" {
			i++
			continue
		}
		rest = append(rest, args[i])
	}
	return rest
}
