package storage

import (
	"urltree/storage/boltfile"
	"urltree/storage/record"
)

// A ledger is what a transaction reads and changes of hosts and of their domains, and of the counts
// that budgets need. A URL counts towards its budgets as soon as hold says that it does not wait,
// so that a set of many URLs holds to them as well as one of one.
//
// Each row is read once. After one that cannot be read what the ledger returns is of no use: the
// transaction fails.
type ledger struct {
	limits  *Limits
	w       *writer
	coming  int64 // the transaction makes no more records than so many
	hosts   map[string]*hostChange
	domains map[string]*domainChange
	used    map[place]*int64 // URLs that count towards a budget, where asked
	forgets bool             // a host that has nothing left loses its row
}

// A hostChange is what a transaction knows of a host and is about to change.
type hostChange struct {
	row    record.HostRow // as the transaction found it
	counts record.Counts  // to add
	maps   int64          // sitemaps to be read, to add
	asks   int64          // targets outside to be asked, to add
	// revisits are stored pages to be asked again, to add.
	revisits int64
	named    int64             // sitemaps made so far
	times    *record.HostTimes // to replace, or nil
	used     int64             // records made or released so far, by which budgets count
	held     int64             // records made that are held
	// counting says that the host will be counted towards its domain.
	counting bool
}

// counted reports whether the host counts towards its domain, or will.
func (h *hostChange) counted() bool { return h.row.Counted != 0 || h.counting }

// A domainChange is what a transaction knows of a domain and is about to change.
type domainChange struct {
	row         record.DomainRow // as the transaction found it
	hosts, held int64            // to add
	// Hosts that will be among hosts, and records made that are held, by which the budget counts.
	coming, waiting int64
}

// A place is where URLs count towards a budget: a path, by its queries, or a folder.
type place struct {
	counting *counting
	key      string
}

func (g *ledger) host(name string) *hostChange {
	h := g.hosts[name]
	if h == nil {
		row, err := hostRow(&g.w.Values, name)
		g.w.fail(err)
		h = &hostChange{row: row}
		g.hosts[name] = h
	}
	return h
}

// domain returns the change of the domain of a host; nil if it has none.
func (g *ledger) domain(host string) *domainChange {
	name, ok := record.Registrable(host)
	if !ok {
		return nil
	}
	d := g.domains[name]
	if d == nil {
		d = &domainChange{}
		if v := g.w.Get(record.BucketDomain, []byte(name)); v != nil {
			var err error
			d.row, err = record.DecodeDomain([]byte(name), v)
			g.w.fail(err)
		}
		g.domains[name] = d
	}
	return d
}

// hold decides whether a URL that is new, or held until now, waits: it returns the reason, or ""
// and counts the URL. With full, not even a place among the held is left for it.
func (g *ledger) hold(key []byte, l *record.Link) (reason string, full bool) {
	h := g.host(record.Host(l.URL))
	switch reason = l.Held; {
	case l.Source == record.Seed:
		reason = ""
	case reason != "":
	case g.limits.TooDeep(l.Depth):
		reason = record.HeldDepth
	default:
		reason = g.over(key, h)
	}
	if reason == "" {
		g.spend(key, h)
		return "", false
	}
	most := g.limits.MaxHeld
	if reason == record.HeldDomain && most > 0 {
		if d := g.domain(h.row.Name); d.row.Held+d.waiting >= most {
			return reason, true
		}
	}
	return reason, most > 0 && h.row.Held+h.held >= most
}

// over returns the budget that has no place for one more URL, or "".
func (g *ledger) over(key []byte, h *hostChange) (reason string) {
	if most := g.limits.Domain; most > 0 && !h.counted() {
		// It is the first URL of its host that would count.
		if d := g.domain(h.row.Name); d != nil && d.row.Hosts+d.coming >= most {
			return record.HeldDomain
		}
	}
	if most := g.limits.Host; most > 0 && h.row.Used()+h.used >= most {
		return record.HeldHost
	}
	g.places(key, h, func(used *int64, most int64, over string) {
		if *used >= most {
			reason = over
		}
	})
	return reason
}

// spend counts a URL that becomes eligible, or comes with its outcome; and its host towards its
// domain, the first time that one of its URLs counts.
func (g *ledger) spend(key []byte, h *hostChange) {
	if !h.counted() {
		h.counting = true
		if d := g.domain(h.row.Name); d != nil {
			d.coming++
		}
	}
	h.used++
	g.places(key, h, func(used *int64, _ int64, _ string) { *used++ })
}

// places visits the counts of a URL's path, if it has a query, and of the folders above it, where
// they may come to their budget in this transaction; the budget and its reason with them.
func (g *ledger) places(key []byte, h *hostChange, visit func(used *int64, most int64, reason string)) {
	// No path and no folder has more than its host may have when this transaction is done.
	ceiling := h.row.Used() + g.coming
	if most := g.limits.Query; most > 0 && ceiling > most {
		if path := record.PathOf(key); path != nil {
			visit(g.usedOf(&queryCounts, path), most, record.HeldQuery)
		}
	}
	if most := g.limits.Prefix; most > 0 && ceiling > most {
		record.Segments(key, func(folder []byte) { visit(g.usedOf(&folderCounts, folder), most, record.HeldPrefix) })
	}
}

// usedOf returns how many URLs count so far.
func (g *ledger) usedOf(c *counting, key []byte) *int64 {
	n := g.used[place{c, string(key)}]
	if n == nil {
		counts, _, err := c.of(&g.w.Values, key)
		g.w.fail(err)
		n = new(counts.Used())
		g.used[place{c, string(key)}] = n
	}
	return n
}

// write writes the rows of hosts, and those of domains, which follow from them.
func (g *ledger) write(run uint32) {
	hosts := make(boltfile.Puts, 0, len(g.hosts))
	for name, c := range g.hosts {
		h := c.row
		h.Counts = h.Counts.Plus(c.counts, 1)
		h.Sitemaps += c.maps
		h.Outside += c.asks
		h.Revisits += c.revisits
		if t := c.times; t != nil && (h.Run != run || h.Seq <= t.Seq) {
			h.HostTimes, h.Run = *t, run
		}
		if h.Counted == 0 && h.Used() > 0 {
			if d := g.domain(name); d != nil {
				h.Counted = 1
				d.hosts++
			}
		}
		if g.forgets && h.Counts == (record.Counts{}) && h.Sitemaps == 0 && h.Outside == 0 {
			if d := g.domain(name); d != nil {
				d.hosts -= h.Counted
			}
			hosts.Delete([]byte(name))
			continue
		}
		hosts.Put([]byte(name), h.Append(nil))
	}
	var domains boltfile.Puts
	for name, d := range g.domains {
		if d.hosts == 0 && d.held == 0 {
			continue
		}
		row := record.DomainRow{Hosts: d.row.Hosts + d.hosts, Held: d.row.Held + d.held}
		if row == (record.DomainRow{}) {
			domains.Delete([]byte(name))
			continue
		}
		domains.Put([]byte(name), row.Append(nil, []byte(name)))
	}
	g.w.write(record.BucketHost, hosts)
	g.w.write(record.BucketDomain, domains)
}
