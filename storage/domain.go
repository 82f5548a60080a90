package storage

import (
	"urltree/storage/boltfile"
	"urltree/storage/record"
)

// Domain returns the row of a registrable domain, a zero one if there is none.
func (g Hosts) Domain(name string) (d record.DomainRow, err error) {
	d, _, err = read(g.x, record.BucketDomain, []byte(name), record.DecodeDomain)
	return d, err
}

// A domainChange is what a transaction knows of a domain and is about to change.
type domainChange struct {
	row         record.DomainRow // as the transaction found it
	hosts, held int64            // to add
	// Hosts that will be among hosts, and records made that are held, by which the budget counts.
	coming, waiting int64
}

// domain returns the change of the domain of a host; nil if it has none.
func (c *change) domain(host string) (*domainChange, error) {
	name, ok := record.Registrable(host)
	if !ok {
		return nil, nil
	}
	d := c.domains[name]
	if d == nil {
		d = &domainChange{}
		if v := c.values.Get(record.BucketDomain, []byte(name)); v != nil {
			var err error
			if d.row, err = record.DecodeDomain([]byte(name), v); err != nil {
				return nil, err
			}
		}
		c.domains[name] = d
	}
	return d, nil
}

// tooManyHosts reports whether the domain of a host, of which no URL counts so far, has as many
// hosts as it may have.
func (c *change) tooManyHosts(row *record.HostRow, h *hostChange) (bool, error) {
	most := c.x.opts.Limits.Domain
	if most <= 0 || row.Counted != 0 || h.counting {
		return false, nil
	}
	d, err := c.domain(row.Name)
	return d != nil && d.row.Hosts+d.coming >= most, err
}

// countHost counts a host towards its domain, the first time that one of its URLs counts.
func (c *change) countHost(row *record.HostRow, h *hostChange) error {
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

func (c *change) flushDomains() error {
	var puts boltfile.Puts
	for name, d := range c.domains {
		if d.hosts == 0 && d.held == 0 {
			continue
		}
		row := record.DomainRow{Hosts: d.row.Hosts + d.hosts, Held: d.row.Held + d.held}
		puts.Put([]byte(name), row.Append(nil, []byte(name)))
	}
	return c.values.Write(record.BucketDomain, puts)
}
