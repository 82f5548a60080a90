package nats_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"urltree/internal/cluster"
	"urltree/internal/cluster/embedded"
	"urltree/internal/cluster/memory"
	"urltree/internal/cluster/nats"
)

// An engine is one that the tests of this package run against, with its faults.
type engine interface {
	connect(t *testing.T, node string) cluster.Bus
	stop(t *testing.T)       // at once, as by a kill where it is a process
	start(t *testing.T)      // with the store as it is
	copy(t *testing.T) any   // of the store, while it runs
	restore(*testing.T, any) // in place of the store, while stopped; nil: an empty one
	ackWait() time.Duration
}

// config is that of all crawls here: two shards, so that each call has to look after both.
var config = cluster.Config{Crawl: "c", Partitions: 8, Shards: 2, TTL: time.Second}

// each runs a test against each engine.
func each(t *testing.T, test func(t *testing.T, e engine)) { eachWith(t, config, test) }

func eachWith(t *testing.T, cfg cluster.Config, test func(t *testing.T, e engine)) {
	t.Parallel()
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) { test(t, &inMemory{Engine: memory.New(cfg)}) })
	})
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		e := &inProcess{store: store{filepath.Join(t.TempDir(), "engine")}, cfg: cfg, listen: freeAddress()}
		e.start(t)
		t.Cleanup(func() { e.stop(t) })
		test(t, e)
	})
	t.Run("nats-server", func(t *testing.T) {
		t.Parallel()
		e := &process{store: store{filepath.Join(t.TempDir(), "store")}, cfg: cfg, program: program(t), listen: freeAddress()}
		e.start(t)
		t.Cleanup(func() { e.stop(t) })
		test(t, e)
	})
}

// freeAddress returns an address that stays free while its server is stopped: one of the ports that
// others get for connections of theirs would not.
func freeAddress() string { return fmt.Sprintf("127.93.%d.%d:4222", rand.N(250), rand.N(250)+1) }

func connect(t *testing.T, o nats.Options, cfg cluster.Config) cluster.Bus {
	t.Helper()
	b, err := nats.Connect(t.Context(), o.WithAckWait(time.Second), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

type inMemory struct{ *memory.Engine }

func (e *inMemory) connect(_ *testing.T, node string) cluster.Bus { return e.Connect(node) }
func (e *inMemory) stop(*testing.T)                               { e.SetDown(true) }
func (e *inMemory) start(*testing.T)                              { e.SetDown(false) }
func (e *inMemory) copy(*testing.T) any                           { return e.Copy() }
func (e *inMemory) ackWait() time.Duration                        { return time.Minute }
func (e *inMemory) restore(_ *testing.T, c any) {
	s, _ := c.(*memory.Store)
	e.Restart(s)
}

// A store is the folder of a server.
type store struct{ dir string }

func (s store) ackWait() time.Duration { return time.Second }

// copy copies files while they are written: what comes back is as after a crash at about that time.
func (s store) copy(t *testing.T) any {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(to, os.DirFS(s.dir)); err != nil {
		t.Fatal(err)
	}
	return to
}

func (s store) restore(t *testing.T, c any) {
	t.Helper()
	if err := os.RemoveAll(s.dir); err != nil {
		t.Fatal(err)
	}
	if from, ok := c.(string); ok {
		if err := os.CopyFS(s.dir, os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
	}
}

type inProcess struct {
	store
	cfg    cluster.Config
	listen string
	s      *embedded.Server
}

func (e *inProcess) connect(t *testing.T, _ string) cluster.Bus {
	return connect(t, nats.Options{Servers: e.listen}, e.cfg)
}

func (e *inProcess) start(t *testing.T) {
	t.Helper()
	s, err := embedded.Start(embedded.Options{Dir: e.dir, Listen: e.listen})
	if err != nil {
		t.Fatal(err)
	}
	e.s = s
}

func (e *inProcess) stop(*testing.T) { _ = e.s.Close() }

// program builds the server from the module that the embedded one is of.
func program(t *testing.T) string {
	t.Helper()
	path, err := build()
	if err != nil {
		t.Skipf("nats-server cannot be built here: %v", err)
	}
	return path
}

var build = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "nats-server")
	if err != nil {
		return "", err
	}
	built = dir
	path := filepath.Join(dir, "nats-server")
	cmd := exec.Command("go", "build", "-o", path, "github.com/nats-io/nats-server/v2")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

var built string // the folder that build has made

func TestMain(m *testing.M) {
	code := m.Run()
	if built != "" {
		_ = os.RemoveAll(built)
	}
	os.Exit(code)
}

type process struct {
	store
	cfg             cluster.Config
	program, listen string
	more            string // of its configuration
	cmd             *exec.Cmd
}

func (e *process) connect(t *testing.T, _ string) cluster.Bus {
	return connect(t, nats.Options{Servers: "nats://" + e.listen}, e.cfg)
}

func (e *process) start(t *testing.T) {
	t.Helper()
	conf := e.dir + ".conf"
	text := fmt.Sprintf("listen: %q\njetstream { store_dir: %q, sync_interval: always }\n", e.listen, e.dir) + e.more
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	e.cmd = exec.Command(e.program, "-c", conf)
	log, err := e.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := e.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(log); lines.Scan(); {
		if strings.Contains(lines.Text(), "Server is ready") {
			go func() { _, _ = io.Copy(io.Discard, log) }() // ends with the process
			return
		}
	}
	t.Fatal("nats-server did not start")
}

func (e *process) stop(*testing.T) {
	_ = e.cmd.Process.Kill()
	_ = e.cmd.Wait()
}

// within returns a context for what must happen.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}
