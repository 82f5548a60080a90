package fetch

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

func TestGuard(t *testing.T) {
	asked := make(chan string, 10)
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) { asked <- r.Host })
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(addr, "http://"))
	resolver := nameServer(t, map[string]dnsmessage.RCode{"seed.test.": 0, "rebind.test.": 0})
	exempt := func(host, p string, _ bool) bool { return p == port && (host == "127.0.0.1" || host == "seed.test") }
	c := newClient(t, Options{Guard: exempt, Resolver: resolver})
	for _, tt := range []struct {
		name, host string
		allowed    bool
	}{
		{"seed by address", "127.0.0.1:" + port, true},
		{"seed by name", "seed.test:" + port, true},
		{"name with an internal address", "rebind.test:" + port, false},
		{"other loopback address", "127.0.0.2:" + port, false},
		{"other port of a seed", "127.0.0.1:1", false},
		{"mapped", "[::ffff:7f00:1]:" + port, false},
		{"loopback by name", "localhost:" + port, false},
		{"metadata", "169.254.169.254", false},
		{"unspecified", "0.0.0.0:" + port, false},
		{"this network", "0.0.0.1:" + port, false},
		{"unspecified, version 6", "[::]:" + port, false},
		{"translated", "[64:ff9b::7f00:1]:" + port, false},
		{"site-local", "[fec0::1]:" + port, false},
		{"carrier", "100.64.0.1", false},
		{"broadcast", "255.255.255.255", false},
		{"local", "[fe80::1%25lo]:" + port, false},
		{"unique local", "[fd00::1]", false},
		{"name without a dot", "intranet", false},
		{"private top-level name", "metadata.google.internal", false},
		{"parts missing", "127.1:" + port, false},
		{"octal", "0177.0.0.1:" + port, false},
		{"dot behind it", "127.0.0.1.:" + port, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			res, err := c.Get(t.Context(), "http://"+tt.host+"/", Request{})
			if tt.allowed {
				if err != nil || <-asked != tt.host {
					t.Errorf("got %v, %v", res, err)
				}
				return
			}
			wantFailure(t, res, err, Address, false)
			if len(asked) != 0 {
				t.Errorf("%s was asked", <-asked)
			}
		})
	}
	strict := newClient(t, Options{Guard: func(string, string, bool) bool { return false }})
	res, err := strict.Get(t.Context(), addr+"/", Request{})
	wantFailure(t, res, err, Address, false)
}

// TestGuardAsked: Options.Guard is not asked again of the internal host that was asked before. Of
// one that it refuses, and of another host or port, it is asked each time.
func TestGuardAsked(t *testing.T) {
	asked := map[string]int{}
	c := newClient(t, Options{Guard: func(host, port string, private bool) bool {
		asked[host+":"+port]++
		return port != "2"
	}})
	for _, tt := range []struct {
		server string
		admits bool
		asked  int
	}{
		{"localhost:1", true, 1},
		{"localhost:1", true, 1},
		{"localhost:2", false, 1},
		{"localhost:2", false, 2},
		{"localhost:1", true, 1},
		{"127.0.0.1:1", true, 1},
		{"localhost:1", true, 2},
		{"example.org:2", true, 0},
	} {
		host, port, _ := strings.Cut(tt.server, ":")
		if got := c.admits(host, port); got != tt.admits || asked[tt.server] != tt.asked {
			t.Errorf("%s: %v, asked %d times; want %v, %d", tt.server, got, asked[tt.server], tt.admits, tt.asked)
		}
	}
}

func TestInternalAddresses(t *testing.T) {
	for _, tt := range []struct {
		addrs string
		want  bool
	}{
		{"127.0.0.1 127.255.255.255 ::1 ::ffff:127.0.0.1 ::127.0.0.1", true},
		{"10.1.2.3 172.16.0.1 172.31.255.255 192.168.0.1 fc00::1 fd00:ec2::254", true},
		{"169.254.169.254 fe80::1 fe80::1%eth0 ::ffff:169.254.169.254", true},
		{"100.64.0.1 100.127.255.255 100.100.100.200 168.63.129.16", true},
		{"224.0.0.1 239.1.1.1 ff02::1 255.255.255.255 240.0.0.1", true},
		{"0.0.0.0 0.1.2.3 :: 198.18.0.1 192.0.0.1", true},
		{"64:ff9b::7f00:1 64:ff9b::a00:1 2002:7f00:1:: 2002:a00:1::1 2001:0:1::1", true},
		{"0.255.255.255 192.0.0.255 198.19.255.255 255.255.255.254 fec0::1 feff::1 febf::1 fdff::1 ::ffff:0:7f00:1", true},
		{"1.1.1.1 8.8.8.8 93.184.216.34 172.15.0.1 172.32.0.1 100.63.0.1 100.128.0.1 168.63.129.15", false},
		{"2606:4700::1 2a00:1450::1 64:ff9b::808:808 2002:808:808::1 ::ffff:8.8.8.8", false},
	} {
		for _, a := range strings.Fields(tt.addrs) {
			if got := internal(netip.MustParseAddr(a)); got != tt.want {
				t.Errorf("internal(%s) = %v", a, got)
			}
		}
	}
}

// TestLiterals covers what a proxy would be asked for: it dials, so only the name can be judged.
func TestLiterals(t *testing.T) {
	for _, tt := range []struct {
		hosts string
		want  bool
	}{
		{"localhost LOCALHOST localhost. a.localhost notlocalhost intranet ai. printer.local metadata.google.INTERNAL. nas.home.arpa home.arpa a.local. internal", true},
		{"127.0.0.1 127.0.0.1. 127.1 2130706433 0x7f.0.0.1 0x7F000001 0x 1.2.3.4.5 256.1.1.1 a.1 a.0x1f", true},
		{"::ffff:8.8.8.8 ::ffff:7f00:1 64:ff9b::808:808 64:ff9b::7f00:1", true},
		{"0.0.0.0 :: fec0::1 100.64.0.1 192.0.0.1 198.18.0.1 240.0.0.1 255.255.255.255 169.254.1.1 fe80::1%eth0 fd00::1", true},
		{"example.org localhost.org not-local.org a.notlocal a.b.localx xhome.arpa internal.org 8.8.8.8 2606:4700::1 1.a 0x7f.org a.b1 a.0xyz", false},
	} {
		for _, host := range strings.Fields(tt.hosts) {
			if got := literalInternal(host); got != tt.want {
				t.Errorf("literalInternal(%s) = %v", host, got)
			}
		}
	}
}
