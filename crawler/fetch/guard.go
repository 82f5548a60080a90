package fetch

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
)

// dialGuarded dials a host. The address is checked after the name was resolved and for every dial, so a
// name that changes its address gains nothing. A connection is used again only for the same host
// and port, which have the same exemption.
func (c *Client) dialGuarded(ctx context.Context, network, addr string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	return c.dialer(!c.opts.Guard(host, port)).DialContext(ctx, network, addr)
}

func (c *Client) dialer(guarded bool) *net.Dialer {
	d := &net.Dialer{Timeout: connectTimeout, Resolver: c.opts.Resolver}
	if guarded {
		d.Control = func(_, address string, _ syscall.RawConn) error {
			ap, err := netip.ParseAddrPort(address)
			if err != nil || internal(ap.Addr()) {
				return &Error{Address, false, fmt.Errorf("%s is an internal address", address)}
			}
			return nil
		}
	}
	return d
}

// literalInternal tells whether a host name says by itself that it is internal.
func literalInternal(host string) bool {
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && internal(addr)
}

// reserved are the networks, besides those that netip knows, that are not hosts of the public Internet.
var reserved = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),        // this network
	netip.MustParsePrefix("100.64.0.0/10"),    // behind a carrier's NAT
	netip.MustParsePrefix("168.63.129.16/32"), // metadata of a cloud, at a public address
	netip.MustParsePrefix("192.0.0.0/24"),     // protocol assignments
	netip.MustParsePrefix("198.18.0.0/15"),    // benchmarks
	netip.MustParsePrefix("240.0.0.0/4"),      // never assigned, and broadcast
	netip.MustParsePrefix("::/96"),            // IPv4 in an old spelling
	netip.MustParsePrefix("64:ff9b:1::/48"),   // local NAT64
	netip.MustParsePrefix("2001::/32"),        // Teredo, which hides an address of its own
	netip.MustParsePrefix("fec0::/10"),        // site-local
	netip.MustParsePrefix("::ffff:0:0:0/96"),  // translated IPv4
}

var (
	nat64  = netip.MustParsePrefix("64:ff9b::/96")
	sixTo4 = netip.MustParsePrefix("2002::/16")
)

// internal tells whether an address is not one of the public Internet: loopback, private, link-local (where
// clouds keep their metadata), carrier NAT, multicast, unspecified, reserved, or one of these inside IPv6.
func internal(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if a.IsLoopback() || a.IsPrivate() || a.IsLinkLocalUnicast() || a.IsMulticast() || a.IsUnspecified() {
		return true
	}
	for _, p := range reserved {
		if p.Contains(a) {
			return true
		}
	}
	b := a.As16()
	switch {
	case nat64.Contains(a):
		return internal(netip.AddrFrom4([4]byte(b[12:16])))
	case sixTo4.Contains(a):
		return internal(netip.AddrFrom4([4]byte(b[2:6])))
	}
	return false
}
