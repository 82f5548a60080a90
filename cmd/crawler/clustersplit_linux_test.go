package main

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"urltree/internal/testseed"
)

// Spaces are network namespaces that bear this process's number: that of the web, with two bridges,
// and one for each machine, with a cable to both. The web is behind the one bridge, and engines and
// nodes reach each other over the other one.
type spaces struct {
	t      *testing.T
	prefix string
}

const webSpace = "web"

// newSpaces returns those of some machines. They are removed at the end of the test.
func newSpaces(t *testing.T, machines []string) *spaces {
	s := &spaces{t, fmt.Sprintf("urltree-%d-%d-", os.Getpid(), rand.N(1000))}
	if out, err := exec.Command("ip", "netns", "add", s.prefix+webSpace).CombinedOutput(); err != nil {
		t.Skipf("there are no network namespaces here: %v: %s", err, out)
	}
	s.removed(webSpace)
	s.ip("link set lo up")
	for _, bridge := range []struct{ name, address string }{{"web", "10.91.0.1/16"}, {"engine", "10.92.0.1/16"}} {
		s.ip("link add " + bridge.name + " type bridge")
		s.ip("address add " + bridge.address + " dev " + bridge.name)
		s.ip("link set " + bridge.name + " up")
	}
	for h := range webHosts {
		s.ip(fmt.Sprintf("address add 10.91.1.%d/16 dev web", h))
	}
	for i, m := range machines {
		if out, err := exec.Command("ip", "netns", "add", s.prefix+m).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		s.removed(m)
		s.ipIn(m, "link set lo up")
		for bridge, address := range map[string]string{"web": webAddress(i), "engine": engineAddress(i)} {
			s.ip(fmt.Sprintf("link add %s%s type veth peer name %s netns %s", bridge, m, bridge, s.prefix+m))
			s.ip(fmt.Sprintf("link set %s%s master %s up", bridge, m, bridge))
			s.ipIn(m, "address add "+address+"/16 dev "+bridge)
			s.ipIn(m, "link set "+bridge+" up")
		}
	}
	return s
}

func (s *spaces) removed(name string) {
	s.t.Cleanup(func() { _ = exec.Command("ip", "netns", "delete", s.prefix+name).Run() })
}

// Addresses of the i-th machine, in each of the two networks.
func webAddress(i int) string    { return fmt.Sprintf("10.91.2.%d", i+1) }
func engineAddress(i int) string { return fmt.Sprintf("10.92.2.%d", i+1) }

func (s *spaces) ip(line string) { s.t.Helper(); s.ipIn(webSpace, line) }

func (s *spaces) ipIn(space, line string) {
	s.t.Helper()
	args := append([]string{"-n", s.prefix + space}, strings.Fields(line)...)
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		s.t.Fatalf("ip %s: %v: %s", line, err, out)
	}
}

// split cuts the cable of a machine to all engines and nodes, or mends it.
func (s *spaces) split(machine string, cut bool) {
	s.t.Helper()
	s.ip("link set engine" + machine + " " + map[bool]string{true: "down", false: "up"}[cut])
}

// in calls fn on a thread that is in a namespace, as are processes and sockets that it makes.
func (s *spaces) in(space string, fn func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // for ever: the thread ends with the goroutine
		f, err := os.Open(filepath.Join("/run/netns", s.prefix+space))
		if err == nil {
			err = unix.Setns(int(f.Fd()), unix.CLONE_NEWNET)
			f.Close()
		}
		if err == nil {
			err = fn()
		}
		done <- err
	}()
	return <-done
}

// TestClusterSplit: nodes in networks of their own are split from each other and the engine, but
// not from the web. A node that is alone asks nothing once its lease is over, the others go on,
// none takes the crawl for finished, and when the split is mended nothing is lost.
func TestClusterSplit(t *testing.T) {
	t.Parallel()
	pages, splits, long, servers := 1000, 2, 2*nodeLease, []int{1, 3}
	switch {
	case os.Getenv("TEST_URLTREE_FULL") != "":
		pages, splits, long = 4000, 20, time.Minute
	case testing.Short():
		pages, splits, servers = 300, 1, servers[:1]
	}
	for _, count := range servers {
		t.Run(fmt.Sprint(count, " servers"), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(testseed.Draw(t), 0))
			s := newSpaces(t, []string{"a", "b", "c", "s"})
			w := branchedWebAt(t, pages, func(h int) (l net.Listener, err error) {
				err = s.in(webSpace, func() error {
					l, err = net.Listen("tcp", fmt.Sprintf("10.91.1.%d:8080", h))
					return err
				})
				return l, err
			})
			nodes := nodesOf(t, w, startServers(t, s, count), 3)
			c := &faultyCluster{t: t, r: r, web: w, nodes: nodes}
			for i, n := range nodes {
				n.args[slices.Index(n.args, n.address)] = webAddress(i)
				n.address = webAddress(i)
				n.in = func(start func() error) error { return s.in(n.name, start) }
			}
			w.hold(pages / 4)
			for _, n := range nodes {
				n.start()
			}
			w.until(pages / 4)
			for i := range splits {
				at := w.answered() + 1 + r.IntN(pages/8/splits)
				w.hold(at)
				w.until(at)
				alone := c.any()
				s.split(alone.name, true)
				c.rests(alone)
				asked := c.settled(func() []request { return c.from(alone) })
				others := len(w.requests()) - asked
				stop := w.trickle(at) // there is enough to do for each until the last split
				t.Cleanup(stop)
				c.becomes("others go on", func() bool { return len(w.requests())-len(c.from(alone)) > others })
				if i == 0 {
					time.Sleep(long)
				} else {
					time.Sleep(time.Duration(r.Int64N(int64(2 * nodeLease))))
				}
				if n := len(c.from(alone)) - asked; n > 0 {
					t.Errorf("%d requests of node %s, which is alone", n, alone.name)
				}
				c.here()
				s.split(alone.name, false)
				stop()
			}
			w.hold(0)
			for _, n := range nodes {
				n.ends()
			}
			w.check(nodes)
		})
	}
}

// startServers starts one server on a machine of its own, or three of one cluster, each beside a
// node. It returns what nodes name as -cluster.
func startServers(t *testing.T, s *spaces, count int) string {
	if count == 1 {
		server := newServerProcess(t, engineAddress(3)+":4222")
		server.in = func(start func() error) error { return s.in("s", start) }
		server.start()
		return server.address
	}
	var routes, addresses []string
	for i := range count {
		routes = append(routes, "nats://"+engineAddress(i)+":6222")
	}
	for i := range count {
		server := newServerProcess(t, engineAddress(i)+":4222")
		server.in = func(start func() error) error { return s.in(string(rune('a'+i)), start) }
		server.write(fmt.Sprintf("server_name: s%d\ncluster { name: crawl, listen: \"%s:6222\", routes: [%s] }\n", i, engineAddress(i), strings.Join(routes, ", ")))
		server.start()
		addresses = append(addresses, "nats://"+server.address)
	}
	return strings.Join(addresses, ",")
}
