package record

// Reasons of URLs that limits of the index hold back.
const (
	HeldDepth  = "depth"         // too many links from a seed
	HeldDomain = "budget-domain" // the registrable domain has too many hosts
	HeldHost   = "budget-host"   // the host has too many URLs
	HeldPrefix = "budget-prefix" // a folder has too many URLs
	HeldQuery  = "budget-query"  // a path has too many URLs with a query
)

// HeldByDomain returns 1 for a record that is held because its domain has too many hosts, else 0.
func HeldByDomain(r *Record) int64 {
	if r != nil && r.State == Pending && r.Range == Held && r.Reason == HeldDomain {
		return 1
	}
	return 0
}
