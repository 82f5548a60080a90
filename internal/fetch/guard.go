package fetch

import (
	"net/netip"
	"slices"
	"strings"
)

// A server is a host name or address, and a port.
type server struct{ host, port string }

// admits reports whether a host may be asked as far as its name tells. Most internal hosts are the
// one that was asked before, and Options.Guard may have to look into a file.
func (c *Client) admits(host, port string) bool {
	if s := c.last.Load(); s != nil && s.host == host && s.port == port {
		return true
	}
	if !literalInternal(host) {
		return true
	}
	exempt := c.opts.Guard(host, port, true)
	if exempt {
		c.last.Store(&server{host, port})
	}
	return exempt
}

// literalInternal reports whether a host name says by itself that it is internal, or may be read as
// one that is by the resolver of a proxy: IPv4 within IPv6 and numbers that are not in the one
// spelling of an address are no way to write a public host. Names without a dot and those below the
// private top-level names are internal by convention (RFC 6761, 6762 and 8375; .internal is
// reserved by ICANN).
func literalInternal(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	addr, err := netip.ParseAddr(host)
	if err != nil {
		for _, name := range []string{".localhost", ".local", ".internal", ".home.arpa"} {
			if strings.HasSuffix("."+host, name) {
				return true
			}
		}
		return !strings.Contains(host, ".") || endsInNumber(host)
	}
	return internal(addr) || addr.Is4In6() || nat64.Contains(addr)
}

// endsInNumber reports whether the URL standard would read a host as an IPv4 address, or refuse it.
func endsInNumber(host string) bool {
	last := host[strings.LastIndexByte(host, '.')+1:]
	digits := "0123456789"
	hex, isHex := strings.CutPrefix(last, "0x")
	if isHex {
		last, digits = hex, digits+"abcdef"
	}
	return strings.Trim(last, digits) == "" && (last != "" || isHex)
}

// reserved are the networks, besides those that netip knows, that are not hosts of the public
// Internet.
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

// internal reports whether an address is not one of the public Internet: loopback, private,
// link-local (where clouds keep their metadata), carrier NAT, multicast, unspecified, reserved, or
// one of these inside IPv6.
func internal(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if a.IsLoopback() || a.IsPrivate() || a.IsLinkLocalUnicast() || a.IsMulticast() || a.IsUnspecified() ||
		slices.ContainsFunc(reserved, func(p netip.Prefix) bool { return p.Contains(a) }) {
		return true
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
