package record

// Reasons of URLs that limits of the index hold back.
const (
	HeldDepth  = "depth"         // too many links from a seed
	HeldDomain = "budget-domain" // the registrable domain has too many hosts
	HeldHost   = "budget-host"   // the host has too many URLs
	HeldPrefix = "budget-prefix" // a folder has too many URLs
	HeldQuery  = "budget-query"  // a path has too many URLs with a query
)

// A Place is where a URL counts besides its host: a folder above it, or its path if it has a query.
type Place struct {
	Name  string // of the folder or the path, as a URL
	Query bool   // it is a path: its URLs with a query count
	Key   []byte // record key of the folder or the path
}

// Places returns the places of a canonical URL, the path with queries first.
func Places(url string) (list []Place) {
	key, err := Key(url)
	if err != nil {
		return nil
	}
	add := func(k []byte, query bool) {
		if name, err := URL(k); err == nil {
			list = append(list, Place{name, query, k})
		}
	}
	if path := PathOf(key); path != nil {
		add(path, true)
	}
	Segments(key, func(folder []byte) { add(folder, false) })
	return list
}

// HeldByDomain returns 1 for a record that is held because its domain has too many hosts, else 0.
func HeldByDomain(r *Record) int64 {
	if r != nil && r.State == Pending && r.Range == Held && r.Reason == HeldDomain {
		return 1
	}
	return 0
}
