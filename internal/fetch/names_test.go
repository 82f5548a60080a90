package fetch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func addrs(list string) []netip.Addr {
	var all []netip.Addr
	for _, a := range strings.Fields(list) {
		all = append(all, netip.MustParseAddr(a))
	}
	return all
}

// hosts is a resolver that gives every known name its addresses and counts the calls.
type hosts struct {
	known map[string]string
	asked atomic.Int64
}

func (h *hosts) lookup(_ context.Context, host string) ([]netip.Addr, error) {
	h.asked.Add(1)
	list, ok := h.known[host]
	if !ok {
		return nil, &net.DNSError{Name: host, IsNotFound: true}
	}
	return addrs(list), nil
}

func TestNamesAreRememberedForAWhile(t *testing.T) {
	notFound, lame := &net.DNSError{IsNotFound: true}, errors.New("lame")
	for _, tt := range []struct {
		name    string
		addrs   string
		err     error
		life    time.Duration
		passing bool // of the failure, if it is one
	}{
		{"answer", "192.0.2.1 2001:db8::1", nil, nameLife, false},
		{"no such name", "", notFound, failLife, false},
		{"server fails", "", &net.DNSError{IsTemporary: true}, failLife, true},
		{"other error", "", lame, failLife, true},
		{"no address", "", nil, failLife, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked := 0
				n, stop := newNames(Options{Lookup: func(context.Context, string) ([]netip.Addr, error) {
					asked++
					return addrs(tt.addrs), tt.err
				}})
				defer stop()
				for round := 1; round <= 3; round++ {
					for range 3 {
						got, _, err := n.addresses(t.Context(), "a.test")
						if !reflect.DeepEqual(got, addrs(tt.addrs)) {
							t.Errorf("got %v", got)
						}
						var e *Error
						if failed := tt.addrs == ""; failed != errors.As(err, &e) || failed && (e.Reason != DNS || e.Passing != tt.passing) {
							t.Errorf("got %v", err)
						}
					}
					time.Sleep(tt.life - time.Nanosecond)
					if _, _, _ = n.addresses(t.Context(), "a.test"); asked != round {
						t.Errorf("asked %d times at the end of life %d", asked, round)
					}
					time.Sleep(time.Nanosecond)
				}
			})
		})
	}
}

// TestOneLookupForAll lets some of those who wait give up.
func TestOneLookupForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		n, stop := newNames(Options{Lookup: func(ctx context.Context, _ string) ([]netip.Addr, error) {
			asked.Add(1)
			time.Sleep(5 * time.Second)
			return addrs("192.0.2.1"), ctx.Err()
		}})
		defer stop()
		gone := errors.New("gone")
		var wg sync.WaitGroup
		for i := range 20 {
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Hour, gone)
			if i%2 == 0 {
				ctx, cancel = context.WithTimeoutCause(t.Context(), time.Second, gone)
			}
			wg.Go(func() {
				defer cancel()
				got, _, err := n.addresses(ctx, "a.test")
				if i%2 == 0 && err != gone || i%2 == 1 && (err != nil || len(got) != 1) {
					t.Errorf("caller %d got %v, %v", i, got, err)
				}
			})
		}
		wg.Wait()
		n.ask("a.test") // of one who saw no answer just before it came
		if asked.Load() != 1 {
			t.Errorf("asked %d times", asked.Load())
		}
	})
}

func TestLookupEnds(t *testing.T) {
	for _, tt := range []struct {
		name  string
		after time.Duration
		stop  bool
	}{
		{"by itself", lookupTimeout, false},
		{"with the client", 0, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, stop := newNames(Options{Lookup: func(ctx context.Context, _ string) ([]netip.Addr, error) {
					<-ctx.Done()
					return nil, ctx.Err()
				}})
				defer stop()
				start := time.Now()
				if tt.stop {
					stop()
				}
				_, _, err := n.addresses(t.Context(), "a.test")
				wantFailure(t, nil, err, DNS, true)
				if took := time.Since(start); took != tt.after {
					t.Errorf("took %v, want %v", took, tt.after)
				}
			})
		})
	}
}

func TestNamesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		n, stop := newNames(Options{Lookup: func(context.Context, string) ([]netip.Addr, error) {
			asked++
			return addrs("192.0.2.1"), nil
		}})
		defer stop()
		name := func(i int) string { return fmt.Sprintf("h%d.test", i) }
		for i := range maxNames + 100 {
			for range 2 {
				if _, _, err := n.addresses(t.Context(), name(i)); err != nil || asked != i+1 {
					t.Fatalf("name %d: asked %d times, %v", i, asked, err)
				}
			}
		}
		if len(n.known) != maxNames {
			t.Errorf("%d names, want %d", len(n.known), maxNames)
		}
		// One that is known already makes no other go.
		time.Sleep(nameLife)
		before := asked
		for known := range n.known {
			_, _, _ = n.addresses(t.Context(), known)
			break
		}
		if asked != before+1 || len(n.known) != maxNames {
			t.Errorf("%d names, %d lookups", len(n.known), asked-before)
		}
	})
}

func TestUsableAddresses(t *testing.T) {
	var many, some []string
	for i := range 2 * maxAddrs {
		many = append(many, fmt.Sprintf("192.0.2.%d", i))
	}
	some = many[:maxAddrs]
	v4, v6 := netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::1")
	mapped := netip.MustParseAddr("::ffff:127.0.0.1")
	for _, tt := range []struct {
		name     string
		opts     Options
		in, want string
	}{
		{"as they come", Options{}, "2001:db8::1 192.0.2.1", "2001:db8::1 192.0.2.1"},
		{"each once", Options{}, "192.0.2.1 ::ffff:192.0.2.1 192.0.2.1", "192.0.2.1"},
		{"many", Options{}, strings.Join(many, " "), strings.Join(some, " ")},
		{"only 4", Options{Network: "tcp4"}, "2001:db8::1 192.0.2.1", "192.0.2.1"},
		{"only 6", Options{Network: "tcp6"}, "::ffff:192.0.2.2 192.0.2.1 2001:db8::1", "2001:db8::1"},
		{"none of 6", Options{Network: "tcp6"}, "192.0.2.1", ""},
		{"local 4", Options{Bind: v4}, "2001:db8::1 192.0.2.1", "192.0.2.1"},
		{"local 4, mapped", Options{Bind: mapped}, "2001:db8::1 192.0.2.1", "192.0.2.1"},
		{"local 6", Options{Bind: v6}, "192.0.2.1 2001:db8::1", "2001:db8::1"},
		{"none", Options{}, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.opts.Lookup = (&hosts{known: map[string]string{"a.test": tt.in}}).lookup
			c := newClient(t, tt.opts)
			got, _, err := c.names.addresses(t.Context(), "a.test")
			if !reflect.DeepEqual(got, addrs(tt.want)) {
				t.Errorf("got %v, want %s", got, tt.want)
			}
			if tt.want == "" {
				wantFailure(t, nil, err, DNS, false)
			}
			for _, a := range got { // a literal is treated as the only address of a name
				if one, _, err := c.names.addresses(t.Context(), a.String()); err != nil || !reflect.DeepEqual(one, []netip.Addr{a}) {
					t.Errorf("%v as a literal: %v, %v", a, one, err)
				}
			}
		})
	}
}

// TestCrawlAsksOnce makes a connection for each request, and a guard that knows better than the
// memory.
func TestCrawlAsksOnce(t *testing.T) {
	var conns sync.Map
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		conns.Store(r.RemoteAddr, true)
		w.Header().Set("Connection", "close")
	})
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(addr, "http://"))
	h := &hosts{known: map[string]string{"a.test": "127.0.0.1"}}
	c := newClient(t, Options{Lookup: h.lookup, Guard: func(host, p string, _ bool) bool { return host == "a.test" && p == port }})
	for range 20 {
		if _, err := c.Get(t.Context(), "http://a.test:"+port+"/", Request{}); err != nil {
			t.Fatal(err)
		}
	}
	res, err := c.Get(t.Context(), "http://a.test:1/", Request{})
	wantFailure(t, res, err, Address, false)
	for range 5 {
		res, err := c.Get(t.Context(), "http://b.test/", Request{})
		wantFailure(t, res, err, DNS, false)
	}
	made := 0
	conns.Range(func(any, any) bool { made++; return true })
	if made != 20 || h.asked.Load() != 2 {
		t.Errorf("%d connections, %d lookups; want 20 and 2", made, h.asked.Load())
	}
}

// TestSilentResolver: a request ends in time, and the lookup with the client.
func TestSilentResolver(t *testing.T) {
	c := newClient(t, Options{Timeout: 50 * time.Millisecond, PerIP: 1, Lookup: func(ctx context.Context, _ string) ([]netip.Addr, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	for _, perIP := range []int64{0, 1} {
		c.turns.limit = perIP
		res, err := c.Get(t.Context(), "http://a.test/", Request{})
		wantFailure(t, res, err, Timeout, true)
	}
}
