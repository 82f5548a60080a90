package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// clockFile names in the environment the file by whose number of seconds the clock of a process
// that jumpingCommand built is wrong.
const clockFile = "CRAWLER_TEST_CLOCK"

// jumpingClock goes into package time: what the wall clock shows is moved by what clockFile holds
// at that moment. What Go measures times by is not.
const jumpingClock = `package time

import (
	"sync/atomic"
	"syscall"
	"unsafe"
)

var jump atomic.Pointer[int64]

func jumped() int64 {
	p := jump.Load()
	if p == nil {
		p = new(int64)
		if name, ok := syscall.Getenv("` + clockFile + `"); ok {
			fd, err := syscall.Open(name, syscall.O_RDONLY, 0)
			if err != nil {
				panic(err)
			}
			b, err := syscall.Mmap(fd, 0, 8, syscall.PROT_READ, syscall.MAP_SHARED)
			if err != nil {
				panic(err)
			}
			p = (*int64)(unsafe.Pointer(&b[0]))
		}
		jump.Store(p)
	}
	return atomic.LoadInt64(p)
}
`

// jumpingCommand builds the command with a package time whose wall clock can be moved, once.
var jumpingCommand = sync.OnceValues(func() (string, error) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", err
	}
	folder := filepath.Join(strings.TrimSpace(string(root)), "src", "time")
	source, err := os.ReadFile(filepath.Join(folder, "time.go"))
	if err != nil {
		return "", err
	}
	const reads = "\tsec, nsec, mono := runtimeNow()\n"
	if n := strings.Count(string(source), reads); n != 1 {
		return "", fmt.Errorf("time.go reads the clock in %d places", n)
	}
	moved := strings.Replace(string(source), reads, reads+"\tsec += jumped()\n", 1)
	replace := map[string]string{}
	for name, text := range map[string]string{"time.go": moved, "jumped.go": jumpingClock} {
		replace[filepath.Join(folder, name)] = filepath.Join(builtDir, name)
		if err := os.WriteFile(filepath.Join(builtDir, name), []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	list, name := filepath.Join(builtDir, "overlay.json"), filepath.Join(builtDir, "jumping")
	if err := os.WriteFile(list, overlay, 0o600); err != nil {
		return "", err
	}
	cmd := exec.Command("go", "build", "-trimpath", "-overlay", list, "-o", name, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return name, nil
})

// TestClusterClock: the clock of a node is set an hour forward while it crawls, two hours back, and
// right again. It goes on to ask all the while, the web is crawled whole, no page is asked twice,
// and no host by two nodes at once.
func TestClusterClock(t *testing.T) {
	if testing.Short() {
		t.Skip("with -short the standard library is not compiled anew")
	}
	t.Parallel()
	program, err := jumpingCommand()
	if err != nil {
		t.Fatal(err)
	}
	c := newFaultyCluster(t, 600, 3, 3)
	n := c.nodes[1]
	clock, err := os.Create(filepath.Join(n.dir, "clock"))
	if err != nil {
		t.Fatal(err)
	}
	defer clock.Close()
	set := func(jump time.Duration) {
		if _, err := clock.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(jump/time.Second)), 0); err != nil {
			t.Fatal(err)
		}
	}
	set(0)
	n.program, n.env = program, []string{clockFile + "=" + clock.Name()}
	c.web.hold(60)
	for _, n := range c.nodes {
		n.start()
	}
	c.web.until(60)
	t.Cleanup(c.web.trickle(60))
	for _, jump := range []time.Duration{time.Hour, -time.Hour, 0} {
		set(jump)
		before := len(c.from(n))
		c.becomes(fmt.Sprint("the node asks with its clock moved by ", jump), func() bool { return len(c.from(n)) > before+webHosts })
	}
	c.web.hold(0)
	for _, n := range c.nodes {
		n.ends()
	}
	c.web.check(c.nodes)
	for page, times := range c.web.served {
		if times > 1 {
			t.Errorf("page %d was asked %d times", page, times)
		}
	}
	c.movedClock(n)
}

// movedClock fails the test if the clock of a node was never moved: its tree says when pages came.
func (c *faultyCluster) movedClock(n *processNode) {
	c.t.Helper()
	early, late := 0, 0
	for line := range strings.Lines(must(c.t, n.dir, "export")) {
		fields := strings.Fields(line)
		at, err := time.Parse(time.RFC3339, fields[len(fields)-1])
		switch since := time.Since(at); {
		case err != nil:
		case since > 30*time.Minute:
			early++
		case since < -30*time.Minute:
			late++
		}
	}
	if early == 0 || late == 0 {
		c.t.Errorf("%d pages came an hour early, and %d an hour late", early, late)
	}
}
