package record

import (
	"encoding/binary"
	"net/netip"
	"strings"

	"golang.org/x/net/publicsuffix"
)

// Kinds of addresses. A name with addresses of both kinds is private.
const (
	KindPublic  = 1 // of the public Internet
	KindPrivate = 2 // any other
)

// HostTimes is the politeness of one host: what survives a restart besides its counts.
type HostTimes struct {
	Name    string
	Next    int64  // Unix nanoseconds before which it may not be asked
	Answer  int64  // smoothed answer time in nanoseconds; 0: unknown
	Backoff int64  // present back-off in nanoseconds; 0: none
	Fails   uint32 // failures in a row
	Delay   int64  // Crawl-delay of its robots.txt in nanoseconds; 0: none
	Pace    int64  // nanoseconds between requests that its refusals have led to; 0: none
	Kind    int64  // of the addresses that the name of a seed had when it was first looked up: KindPublic or KindPrivate; 0: not known
	// Seq numbers the answers of the host in this run. Two crawlers may bring them to the index in
	// either order, even in different transactions: the last answer counts.
	Seq uint64
}

// A HostRow is a row of the host table: a host name, any scheme and port.
type HostRow struct {
	HostTimes
	Run      uint32 // that the times are of
	Sitemaps int64  // that are to be read
	Counted  int64  // 1: the host counts towards the limit of a domain
	Outside  int64  // targets outside that are to be asked
	Revisits int64  // stored pages that are to be asked again now
	Counts          // of its records
}

// Append appends the value that stands under the name of the host.
func (h *HostRow) Append(b []byte) []byte {
	b = h.Counts.Append(b)
	b = binary.AppendVarint(b, h.Next)
	b = binary.AppendVarint(b, h.Answer)
	b = binary.AppendVarint(b, h.Backoff)
	b = binary.AppendVarint(b, h.Delay)
	b = binary.AppendUvarint(b, uint64(h.Fails))
	b = binary.AppendUvarint(b, h.Seq)
	b = binary.AppendVarint(b, h.Sitemaps)
	b = binary.AppendUvarint(b, uint64(h.Run))
	return Seal(appendTail(b, h.later()), []byte(h.Name))
}

// later returns the fields that schema 7 has added, in the order in which they are stored.
func (h *HostRow) later() []*int64 {
	return []*int64{&h.Pace, &h.Kind, &h.Counted, &h.Outside, &h.Revisits}
}

// DecodeHost reads the value of a host.
func DecodeHost(name string, v []byte) (HostRow, error) {
	h := HostRow{HostTimes: HostTimes{Name: name}}
	d := unseal(v, []byte(name))
	h.read(&d)
	h.Next, h.Answer, h.Backoff, h.Delay = d.varint(), d.varint(), d.varint(), d.varint()
	h.Fails, h.Seq, h.Sitemaps, h.Run = uint32(d.uint(32)), d.uvarint(), d.varint(), uint32(d.uint(32))
	d.tail(h.later())
	return h, d.end("host ", name)
}

// A DomainRow is a row of the table of domains: what counts towards its limit.
type DomainRow struct {
	Hosts int64 // that have, or had, a URL that is not held
	Held  int64 // URLs that are held because there are too many hosts
}

// Domain returns the registrable domain of a host of a canonical URL by the public suffix list, or
// the host where it has none: an IP address, a public suffix, a name such as localhost.
func Domain(host string) string {
	if d, ok := Registrable(host); ok {
		return d
	}
	return host
}

// Registrable returns the registrable domain of a host, if it has one: see [Domain].
func Registrable(host string) (domain string, ok bool) {
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return "", false // the list of suffixes would take 1.1 of 127.0.1.1 for a domain
	}
	domain, err := publicsuffix.EffectiveTLDPlusOne(host)
	return domain, err == nil
}

// Append appends the value that stands under key.
func (d *DomainRow) Append(b, key []byte) []byte {
	b = binary.AppendVarint(b, d.Hosts)
	return Seal(binary.AppendVarint(b, d.Held), key)
}

// DecodeDomain reads the value of a registrable domain.
func DecodeDomain(key, v []byte) (d DomainRow, err error) {
	dec := unseal(v, key)
	d.Hosts, d.Held = dec.varint(), dec.varint()
	return d, dec.end("domain ", string(key))
}
