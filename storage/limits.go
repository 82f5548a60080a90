package storage

import "urltree/storage/record"

// Limits say which new URLs wait for a later run. What is held does not count towards a budget,
// and a seed never waits. The zero value holds nothing back.
//
// The budgets are counted in the transaction that makes the records, so they hold to the URL,
// over all runs and crashes.
type Limits struct {
	MaxDepth int   // links from a seed; 0: no limit, negative: none, the seeds alone
	Domain   int64 // hosts of a registrable domain, see [record.Domain]; 0: no limit
	Host     int64 // URLs of a host; 0: no limit
	Prefix   int64 // URLs below any one folder of a host; 0: no limit
	Query    int64 // URLs of one path that differ by their query; 0: no limit
	// MaxHeld bounds the URLs of a host that are held, whatever the reason, and those that are held
	// because of Domain of all its hosts together; 0: no limit. A link that would be held beyond it
	// gets no record: it is cut.
	MaxHeld int64
}

// TooDeep reports whether a URL so many links from a seed waits.
func (l *Limits) TooDeep(depth uint32) bool {
	return l.MaxDepth < 0 && depth > 0 || l.MaxDepth > 0 && int64(depth) > int64(l.MaxDepth)
}

// A hostChange is what a transaction knows of a host and is about to change.
type hostChange struct {
	row    *record.HostRow   // as the transaction found it; nil: not read yet
	counts record.Counts     // to add
	maps   int64             // sitemaps to be read, to add
	named  int64             // sitemaps made so far
	times  *record.HostTimes // to replace, or nil
	used   int64             // records made or released so far, by which budgets count
	held   int64             // records made that are held
	// counting says that the host will be counted towards its domain.
	counting bool
}

func (c *change) host(name string) *hostChange {
	h := c.hosts[name]
	if h == nil {
		h = &hostChange{}
		c.hosts[name] = h
	}
	return h
}

// stored returns a host's row of the index.
func (c *change) stored(name string, h *hostChange) (*record.HostRow, error) {
	if h.row == nil {
		h.row = &record.HostRow{HostTimes: record.HostTimes{Name: name}}
		if v := c.tx.Bucket(record.BucketHost).Get([]byte(name)); v != nil {
			row, err := record.DecodeHost(name, v)
			if err != nil {
				return nil, err
			}
			h.row = &row
		}
	}
	return h.row, nil
}

// hold decides whether a URL that is new, or held until now, waits: it gives the reason, or ""
// and counts the URL. With full, not even a place among the held is left for it.
func (c *change) hold(key []byte, l *record.Link) (reason string, full bool, err error) {
	name := record.Host(l.URL)
	h := c.host(name)
	row, err := c.stored(name, h)
	if err != nil {
		return "", false, err
	}
	switch reason = l.Held; {
	case l.Source == record.Seed:
		reason = ""
	case reason != "":
	case c.x.opts.Limits.TooDeep(l.Depth):
		reason = record.HeldDepth
	default:
		if reason, err = c.budget(key, row, h); err != nil {
			return "", false, err
		}
	}
	if reason == "" {
		return "", false, c.spend(key, row, h)
	}
	most := c.x.opts.Limits.MaxHeld
	if reason == record.HeldDomain && most > 0 {
		d, err := c.domain(name)
		if err != nil || d.row.Held+d.waiting >= most {
			return reason, true, err
		}
	}
	return reason, most > 0 && row.Held+h.held >= most, nil
}

// budget returns the budget that has no place for one more URL, or "".
func (c *change) budget(key []byte, row *record.HostRow, h *hostChange) (reason string, err error) {
	if over, err := c.tooManyHosts(row, h); over || err != nil {
		return record.HeldDomain, err
	}
	if most := c.x.opts.Limits.Host; most > 0 && row.Used()+h.used >= most {
		return record.HeldHost, nil
	}
	err = c.counted(key, row, func(known map[string]int64, at string, most int64, over string) {
		if known[at] >= most {
			reason = over
		}
	})
	return reason, err
}

// spend counts a URL that becomes eligible, or comes with its outcome.
func (c *change) spend(key []byte, row *record.HostRow, h *hostChange) error {
	if err := c.countHost(row, h); err != nil {
		return err
	}
	h.used++
	return c.counted(key, row, func(known map[string]int64, at string, _ int64, _ string) { known[at]++ })
}

// counted visits the counts of a URL's path, if it has a query, and of the folders above it,
// where they may come to their budget in this transaction; the budget and its reason with them.
func (c *change) counted(key []byte, row *record.HostRow, visit func(known map[string]int64, at string, most int64, reason string)) (err error) {
	l := &c.x.opts.Limits
	one := func(known map[string]int64, at []byte, g *counting, most int64, reason string) {
		if err == nil {
			if err = c.recall(known, at, g); err == nil {
				visit(known, string(at), most, reason)
			}
		}
	}
	// No path and no folder has more than its host may have when this transaction is done.
	ceiling := row.Used() + c.coming
	if l.Query > 0 && ceiling > l.Query {
		if path := record.PathOf(key); path != nil {
			one(c.queries, path, &queryCounts, l.Query, record.HeldQuery)
		}
	}
	if l.Prefix > 0 && ceiling > l.Prefix {
		record.Segments(key, func(folder []byte) { one(c.prefixes, folder, &folderCounts, l.Prefix, record.HeldPrefix) })
	}
	return err
}

// recall reads how many URLs count so far, unless that is known.
func (c *change) recall(known map[string]int64, key []byte, g *counting) error {
	if _, ok := known[string(key)]; ok {
		return nil
	}
	counts, _, err := g.of(&c.values, key)
	known[string(key)] = counts.Used()
	return err
}

// A Place is what a URL counts towards besides its host: a folder above it, or its path if it has
// a query.
type Place struct {
	Name  string // of the folder or the path, as a URL
	Query bool
	key   string
}

// Places returns the places of a canonical URL, the path with queries first.
func Places(url string) (list []Place) {
	key, err := record.Key(url)
	if err != nil {
		return nil
	}
	add := func(k []byte, query bool) {
		if name, err := record.URL(k); err == nil {
			list = append(list, Place{name, query, string(k)})
		}
	}
	if path := record.PathOf(key); path != nil {
		add(path, true)
	}
	record.Segments(key, func(folder []byte) { add(folder, false) })
	return list
}

// Used returns how many URLs of a place count towards its budget.
func (g Folders) Used(p Place) (int64, error) {
	of := g.x.Folders().Counts
	if p.Query {
		of = g.x.pathQueries
	}
	c, err := of([]byte(p.key))
	return c.Used(), err
}
