package fetch

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// serveAt runs a handler at an address with a port and gives the port.
func serveAt(t *testing.T, addr string, h http.HandlerFunc) string {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Skipf("no such address here: %v", err)
	}
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: h}}
	s.Start()
	t.Cleanup(s.Close)
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// local answers with the address that was dialled and the one that dialled it.
func local(w http.ResponseWriter, r *http.Request) {
	to, _, _ := net.SplitHostPort(r.Context().Value(http.LocalAddrContextKey).(net.Addr).String())
	from, _, _ := net.SplitHostPort(r.RemoteAddr)
	w.Header().Set("Content-Type", "text/html")
	_, _ = io.WriteString(w, to+" "+from)
}

// hang makes a port of an address where connecting takes for ever: its queue of connections is
// full.
func hang(t *testing.T, ip [4]byte, port string) {
	t.Helper()
	n, err := net.LookupPort("tcp", port)
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if err := errors.Join(unix.Bind(fd, &unix.SockaddrInet4{Port: n, Addr: ip}), unix.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		c, err := net.DialTimeout("tcp", netip.AddrPortFrom(netip.AddrFrom4(ip), uint16(n)).String(), 50*time.Millisecond)
		if err != nil {
			return
		}
		t.Cleanup(func() { c.Close() })
	}
	t.Skip("a full queue does not make connecting hang here")
}

func TestAddressesAreTriedInTurn(t *testing.T) {
	port := serveAt(t, "127.0.0.1:0", local)
	hang(t, [4]byte{127, 0, 0, 3}, port)
	serveAt(t, "127.0.0.4:"+port, local)
	for _, tt := range []struct {
		name, addrs string
		want        string // the address that answers, or
		reason      string // of the failure
		passing     bool
	}{
		{"one", "127.0.0.1", "127.0.0.1", "", false},
		{"the first", "127.0.0.4 127.0.0.1", "127.0.0.4", "", false},
		{"nobody at the first", "127.0.0.2 127.0.0.1", "127.0.0.1", "", false},
		{"first hangs", "127.0.0.3 127.0.0.1", "127.0.0.1", "", false},
		{"first two hang or refuse", "127.0.0.3 127.0.0.2 127.0.0.1", "127.0.0.1", "", false},
		{"nobody at many, which takes no time", "127.1.0.1 127.1.0.2 127.1.0.3 127.1.0.4 127.1.0.5 127.1.0.6 127.1.0.7 127.1.0.8 " +
			"127.1.0.9 127.1.0.10 127.1.0.11 127.1.0.12 127.1.0.13 127.1.0.14 127.1.0.15 127.0.0.1", "127.0.0.1", "", false},
		{"nobody", "127.0.0.2 127.0.0.6", "", Connect, true},
		{"all hang", "127.0.0.3", "", Timeout, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := &hosts{known: map[string]string{"a.test": tt.addrs}}
			c := newClient(t, Options{Lookup: h.lookup, FirstByte: 3 * time.Second})
			if tt.reason == Timeout {
				c.limits.first = 100 * time.Millisecond
			}
			res, err := c.Get(t.Context(), "http://a.test:"+port+"/", Request{})
			if tt.want == "" {
				wantFailure(t, res, err, tt.reason, tt.passing)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if to, _, _ := strings.Cut(string(res.Body.Bytes()), " "); to != tt.want {
				t.Errorf("%s answered", to)
			}
			res.Body.Release()
		})
	}
}

func TestFamilyAndLocalAddress(t *testing.T) {
	port := serveAt(t, "127.0.0.1:0", local)
	serveAt(t, "[::1]:"+port, local)
	h := &hosts{known: map[string]string{"six.test": "::1 127.0.0.1", "four.test": "127.0.0.1 ::1", "only6.test": "::1"}}
	for _, tt := range []struct {
		name   string
		opts   Options
		host   string
		want   string // addresses dialled and dialling, or
		reason string // of the failure
	}{
		{"any, 6 first", Options{}, "six.test", "::1 ::1", ""},
		{"any, 4 first", Options{}, "four.test", "127.0.0.1 127.0.0.1", ""},
		{"4", Options{Network: "tcp4"}, "six.test", "127.0.0.1 127.0.0.1", ""},
		{"6", Options{Network: "tcp6"}, "four.test", "::1 ::1", ""},
		{"4, and there is none", Options{Network: "tcp4"}, "only6.test", "", DNS},
		{"4, literal of 6", Options{Network: "tcp4"}, "[::1]", "", DNS},
		{"from an address", Options{Bind: netip.MustParseAddr("127.0.0.9")}, "four.test", "127.0.0.1 127.0.0.9", ""},
		{"from an address, other family first", Options{Bind: netip.MustParseAddr("127.0.0.9")}, "six.test", "127.0.0.1 127.0.0.9", ""},
		{"from one that is not ours", Options{Bind: netip.MustParseAddr("192.0.2.1")}, "four.test", "", Connect},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.opts.Lookup = h.lookup
			c := newClient(t, tt.opts)
			res, err := c.Get(t.Context(), "http://"+tt.host+":"+port+"/", Request{})
			if tt.want == "" {
				wantFailure(t, res, err, tt.reason, tt.reason == Connect)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := string(res.Body.Bytes()); got != tt.want {
				t.Errorf("connected %q, want %q", got, tt.want)
			}
			res.Body.Release()
		})
	}
	proxy := &url.URL{Scheme: "http", Host: "six.test:" + port}
	c := newClient(t, Options{Lookup: h.lookup, Proxy: proxy, Bind: netip.MustParseAddr("127.0.0.9")})
	res, err := c.Get(t.Context(), "http://elsewhere.test/", Request{})
	if err != nil || string(res.Body.Bytes()) != "127.0.0.1 127.0.0.9" {
		t.Fatalf("by proxy: got %+v, %v", res, err)
	}
	res.Body.Release()
}

// crowd counts the requests that are in a handler at one time, each until the test lets it go.
type crowd struct {
	now, most, all atomic.Int64
	arrived        chan struct{}
	leave          chan struct{}
}

func newCrowd() *crowd {
	return &crowd{arrived: make(chan struct{}, 100), leave: make(chan struct{}, 100)}
}

func (k *crowd) handle(w http.ResponseWriter, _ *http.Request) {
	k.all.Add(1)
	n := k.now.Add(1)
	for m := k.most.Load(); n > m && !k.most.CompareAndSwap(m, n); m = k.most.Load() {
	}
	k.arrived <- struct{}{}
	<-k.leave
	k.now.Add(-1)
	_, _ = w.Write(page(1000))
}

func TestTurnsAtOneAddress(t *testing.T) {
	one, two := newCrowd(), newCrowd()
	port := serveAt(t, "127.0.0.1:0", one.handle)
	serveAt(t, "127.0.0.2:"+port, two.handle)
	h := &hosts{known: map[string]string{"a.test": "127.0.0.1", "b.test": "127.0.0.1 127.0.0.2", "c.test": "127.0.0.2"}}
	c := newClient(t, Options{Lookup: h.lookup, PerIP: 3})
	var wg sync.WaitGroup
	names := []string{"a.test", "b.test", "127.0.0.1"}
	get := func(host string) {
		wg.Go(func() {
			res, err := c.Get(t.Context(), "http://"+host+":"+port+"/", Request{})
			if err != nil {
				t.Error(err)
				return
			}
			res.Body.Release()
		})
	}
	for round := range 2 { // the second time connections are there already
		for i := range 12 {
			get(names[i%len(names)])
		}
		for range 3 {
			receive(t, one.arrived)
		}
		get("c.test") // does not wait for the others
		receive(t, two.arrived)
		two.leave <- struct{}{}
		for range 12 {
			one.leave <- struct{}{}
		}
		wg.Wait()
		for range 9 {
			receive(t, one.arrived)
		}
		if one.most.Load() != 3 || one.all.Load() != int64(12*(round+1)) {
			t.Errorf("round %d: %d requests, %d at one time; want 3", round, one.all.Load(), one.most.Load())
		}
	}
	if len(c.turns.addrs) != 0 {
		t.Errorf("%d addresses are left", len(c.turns.addrs))
	}
}

// TestTurnsComeBack ends requests in every way there is and then wants the only turn.
func TestTurnsComeBack(t *testing.T) {
	k := newCrowd()
	port := serveAt(t, "127.0.0.1:0", func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/wait":
			k.handle(w, r)
		case "/abort":
			panic(http.ErrAbortHandler)
		case "/hold":
			<-r.Context().Done()
		case "/large":
			_, _ = w.Write(page(2 << 20))
		case "/404":
			http.NotFound(w, r)
		}
	})
	h := &hosts{known: map[string]string{"a.test": "127.0.0.1", "nobody.test": "127.0.0.3", "internal.test": "169.254.1.1"}}
	c := newClient(t, Options{Lookup: h.lookup, PerIP: 1, MaxSize: 1 << 20, Guard: func(host, _ string, _ bool) bool { return host != "internal.test" }})
	get := func(ctx context.Context, host, path string) error {
		res, err := c.Get(ctx, "http://"+host+":"+port+path, Request{})
		if err == nil {
			res.Body.Release()
		}
		return err
	}
	for _, path := range []string{"/", "/abort", "/404", "/large", "/hold"} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if path == "/hold" {
			ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
		}
		_ = get(ctx, "a.test", path)
		cancel()
	}
	wantFailure(t, nil, get(t.Context(), "nobody.test", "/"), Connect, true)
	wantFailure(t, nil, get(t.Context(), "internal.test", "/"), Address, false)

	// One has the turn, one gives up waiting.
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := get(t.Context(), "a.test", "/wait"); err != nil {
			t.Error(err)
		}
	})
	receive(t, k.arrived)
	gone := errors.New("gone")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, gone)
	defer cancel()
	if err := get(ctx, "a.test", "/"); err != gone {
		t.Errorf("got %v; want to wait till the end of the context", err)
	}
	k.leave <- struct{}{}
	wg.Wait()
	if len(c.turns.addrs) != 0 {
		t.Errorf("%d addresses are left", len(c.turns.addrs))
	}
}

func TestWaitingForATurnIsNotTheHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := turns{limit: 1, addrs: map[netip.Addr]*turn{}}
		addr := netip.MustParseAddr("192.0.2.1")
		limit := limits{whole: time.Minute, first: time.Second}
		before, w := newWatch(t.Context(), limit), newWatch(t.Context(), limit)
		defer before.stop()
		defer w.stop()
		if err := all.enter(before, addr); err != nil {
			t.Fatal(err)
		}
		go func() {
			time.Sleep(time.Hour)
			all.leave(addr)
		}()
		if err := all.enter(w, addr); err != nil || w.ctx.Err() != nil || w.spent() != 0 {
			t.Errorf("got %v, %v, %v on the clock", err, w.ctx.Err(), w.spent())
		}
		all.leave(addr)
		if before.ctx.Err() == nil || len(all.addrs) != 0 {
			t.Errorf("%d addresses are left", len(all.addrs))
		}
	})
}

func TestProxyHasNoTurns(t *testing.T) {
	k := newCrowd()
	port := serveAt(t, "127.0.0.1:0", k.handle)
	c := newClient(t, Options{PerIP: 1, Proxy: &url.URL{Scheme: "http", Host: "127.0.0.1:" + port}})
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			res, err := c.Get(t.Context(), "http://a.test/", Request{})
			if err != nil {
				t.Error(err)
				return
			}
			res.Body.Release()
		})
	}
	for range 3 { // all at one time
		receive(t, k.arrived)
	}
	for range 3 {
		k.leave <- struct{}{}
	}
	wg.Wait()
}

// Who can run does so before a request is written, so that requests go out together; not where many
// are under way.
func TestWriteLetsOthersRunFirst(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const rounds = 100
	for asking, want := range map[int64]bool{1: true, fewRequests: true, fewRequests + 1: false} {
		before := 0 // rounds in which the other goroutine has run before the write
		for range rounds {
			var ran, first atomic.Bool
			to := writer{write: func(b []byte) (int, error) {
				first.Store(ran.Load())
				return len(b), nil
			}}
			done := make(chan struct{})
			go func() {
				ran.Store(true)
				close(done)
			}()
			var under atomic.Int64
			under.Store(asking)
			if n, err := (conn{to, &under}).Write([]byte("GET")); n != 3 || err != nil {
				t.Fatal(n, err)
			}
			<-done
			if first.Load() {
				before++
			}
		}
		// The scheduler may at any time let the other run, and now and then takes its turns in another
		// order.
		if before > rounds/2 != want {
			t.Errorf("%d requests under way: in %d of %d rounds the other goroutine has run before the write", asking, before, rounds)
		}
	}
}

// A writer is a connection that can only be written to.
type writer struct {
	net.Conn
	write func([]byte) (int, error)
}

func (w writer) Write(b []byte) (int, error) { return w.write(b) }
