package storage

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
