package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
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
	in          func(start func() error) error // in which network; nil: that of the test
	cmd         *exec.Cmd
	log         chan string // lines
}

func newServerProcess(t *testing.T, address string) *serverProcess {
	dir := t.TempDir()
	s := &serverProcess{t: t, address: address, conf: filepath.Join(dir, "conf"), store: filepath.Join(dir, "store")}
	s.write("")
	t.Cleanup(func() {
		if s.cmd != nil {
			s.kill()
		}
	})
	return s
}

// write writes its configuration.
func (s *serverProcess) write(more string) {
	s.t.Helper()
	text := fmt.Sprintf("listen: %q\njetstream { store_dir: %q, sync_interval: always }\n", s.address, s.store)
	if err := os.WriteFile(s.conf, []byte(text+more), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// configure has the server that runs go on with more in its configuration.
func (s *serverProcess) configure(more string) {
	s.t.Helper()
	s.write(more)
	_ = s.cmd.Process.Signal(syscall.SIGHUP)
	s.says("Reloaded server configuration")
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
	start := s.cmd.Start
	if s.in != nil {
		start = func() error { return s.in(s.cmd.Start) }
	}
	if err := start(); err != nil {
		s.t.Fatal(err)
	}
	lines := make(chan string, 1000) // more are dropped
	s.log = lines
	go func() { // ends with the process
		defer close(lines)
		for all := bufio.NewScanner(log); all.Scan(); {
			select {
			case lines <- all.Text():
			default:
			}
		}
	}()
	s.says("Server is ready")
}

// says waits for a line of the server's log.
func (s *serverProcess) says(what string) {
	s.t.Helper()
	var all []string
	for line := range s.log {
		if all = append(all, line); strings.Contains(line, what) {
			return
		}
	}
	s.t.Fatalf("nats-server has ended before %q:\n%s", what, strings.Join(all, "\n"))
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
