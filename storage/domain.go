package storage

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/net/publicsuffix"
)

// A DomainRow is a row of the table of domains: what counts towards Limits.Domain.
type DomainRow struct {
	Hosts int64 // that have, or had, a URL that is not held
	Held  int64 // URLs that are held because there are too many hosts
}

// Domain returns the registrable domain of a host of a canonical URL by the public suffix list, or
// the host where it has none: an IP address, a public suffix, a name such as localhost.
func Domain(host string) string {
	if d, ok := registrable(host); ok {
		return d
	}
	return host
}

func registrable(host string) (domain string, ok bool) {
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return "", false // the list of suffixes would take 1.1 of 127.0.1.1 for a domain
	}
	domain, err := publicsuffix.EffectiveTLDPlusOne(host)
	return domain, err == nil
}

func (d *DomainRow) append(b, key []byte) []byte {
	b = binary.AppendVarint(b, d.Hosts)
	return seal(binary.AppendVarint(b, d.Held), key)
}

func decodeDomain(key, v []byte) (d DomainRow, err error) {
	body, err := unseal(v, key)
	if err != nil {
		return d, fmt.Errorf("domain %s: %w", key, err)
	}
	dec := decoder{b: body}
	d.Hosts, d.Held = dec.varint(), dec.varint()
	return d, dec.end("domain " + string(key))
}

// Domain returns the row of a registrable domain, a zero one if there is none.
func (x *Index) Domain(name string) (d DomainRow, err error) {
	err = x.view(func(tx *bolt.Tx) error {
		if v := tx.Bucket(bucketDomain).Get([]byte(name)); v != nil {
			d, err = decodeDomain([]byte(name), v)
		}
		return err
	})
	return d, err
}

// A domainChange is what a transaction knows of a domain and is about to change.
type domainChange struct {
	row         DomainRow // as the transaction found it
	hosts, held int64     // to add
	// Hosts that will be among hosts, and records made that are held, by which the budget counts.
	coming, waiting int64
}

// domain returns the change of the domain of a host; nil if it has none.
func (c *change) domain(host string) (*domainChange, error) {
	name, ok := registrable(host)
	if !ok {
		return nil, nil
	}
	d := c.domains[name]
	if d == nil {
		d = &domainChange{}
		if v := c.values.get(bucketDomain, []byte(name)); v != nil {
			var err error
			if d.row, err = decodeDomain([]byte(name), v); err != nil {
				return nil, err
			}
		}
		c.domains[name] = d
	}
	return d, nil
}

// tooManyHosts reports whether the domain of a host, of which no URL counts so far, has as many
// hosts as it may have.
func (c *change) tooManyHosts(row *HostRow, h *hostChange) (bool, error) {
	most := c.x.opts.Limits.Domain
	if most <= 0 || row.Counted != 0 || h.counting {
		return false, nil
	}
	d, err := c.domain(row.Name)
	return d != nil && d.row.Hosts+d.coming >= most, err
}

// countHost counts a host towards its domain, the first time that one of its URLs counts.
func (c *change) countHost(row *HostRow, h *hostChange) error {
	if row.Counted != 0 || h.counting {
		return nil
	}
	h.counting = true
	d, err := c.domain(row.Name)
	if d != nil {
		d.coming++
	}
	return err
}

// heldByDomain returns 1 for a record that is held because its domain has too many hosts.
func heldByDomain(r *Record) int64 {
	if r != nil && r.State == Pending && r.Range == Held && r.Reason == heldDomain {
		return 1
	}
	return 0
}

func (c *change) flushDomains() error {
	var puts []put
	for name, d := range c.domains {
		if d.hosts == 0 && d.held == 0 {
			continue
		}
		row := DomainRow{Hosts: d.row.Hosts + d.hosts, Held: d.row.Held + d.held}
		puts = append(puts, put{[]byte(name), row.append(nil, []byte(name))})
	}
	return c.write(bucketDomain, puts)
}
