package record

import "fmt"

// Elsewhere is the reason of a URL that has its outcome in the index of another process, which had
// its host before: nothing is known of it here but that it is not to be asked again. Its state is
// Refused.
const Elsewhere = "elsewhere"

// IsElsewhere reports whether the outcome of a URL is known to another process alone.
func (r *Record) IsElsewhere() bool { return r.State == Refused && r.Reason == Elsewhere }

// A MovedKind says what a Moved is about.
type MovedKind uint8

const (
	MovedURL     MovedKind = 1 + iota // a URL; Value is its record
	MovedSitemap                      // a sitemap; Value is its record
	MovedRobots                       // an origin; Value is the answer to the request for its robots.txt
	MovedHost                         // a host; Value is its row, without what it counts
	MovedMarker                       // all of a partition has gone before; Name is the epoch, in decimal digits
)

// A Moved is one thing that is known of a partition, on its way to the process that the partition
// belongs to now.
type Moved struct {
	Kind  MovedKind
	Name  string
	Value []byte // as it would stand in the index, sealed
}

// Host returns the host that it is about; "" for a marker.
func (m *Moved) Host() string {
	switch m.Kind {
	case MovedHost:
		return m.Name
	case MovedRobots:
		return Host(m.Name + "/")
	case MovedMarker:
		return ""
	}
	return Host(m.Name)
}

// Check returns what is wrong with one that has come from another process.
func (m *Moved) Check() (err error) {
	switch m.Kind {
	case MovedURL:
		var key []byte
		if key, err = Key(m.Name); err == nil {
			_, err = DecodeOf(m.Name, key, m.Value)
		}
	case MovedSitemap:
		if _, err = Key(m.Name); err == nil {
			_, err = DecodeSitemap(SitemapKey(m.Name), m.Value)
		}
	case MovedRobots:
		_, err = DecodeRobots(m.Name, m.Value)
	case MovedHost:
		_, err = DecodeHost(m.Name, m.Value)
	case MovedMarker:
		if len(m.Value) > 0 {
			err = ErrCorrupt
		}
	default:
		err = fmt.Errorf("%w: kind %d", ErrCorrupt, m.Kind)
	}
	return err
}

// A Leg is one of the scans by which what is known of a partition leaves an index.
type Leg uint8

const (
	LegWaiting  Leg = iota // URLs that wait, which leave the index
	LegSitemaps            // sitemaps, which leave it as well
	LegDone                // URLs with an outcome, which stay: they are to be known elsewhere
	LegRobots              // answers to requests for robots.txt, which stay
	LegHosts               // rows of hosts, which stay
	Legs
)

// A Departure is one transaction of a Leg.
type Departure struct {
	Leg  Leg
	From []byte // where the scan goes on; nil: it begins
	// Leaves returns the partition of a host, and whether what is known of it goes.
	Leaves func(host string) (part uint16, leaves bool)
	// Stays, of LegWaiting, reports whether a row does not go yet. nil: all go.
	Stays func(row *Row) (bool, error)
	// Kept returns what the process keeps of the crawl of several from this transaction on; next is
	// From of the Departure that follows, nil: there is none.
	Kept func(next []byte) []byte
}

// MovedWaiting returns a record that waits as it goes to another process.
func MovedWaiting(r *Record, key []byte) Moved { return Moved{MovedURL, r.URL, r.Append(nil, key)} }

// MovedDone returns what another process is to know of a URL with an outcome: that it has one, when
// that came, and with a Status that it is a page, of which further looks may be due.
func MovedDone(r *Record, key []byte) Moved {
	slim := Record{
		Row:   Row{URL: r.URL, Source: r.Source, Depth: r.Depth, Rank: r.Rank, Seq: r.Seq, Reason: Elsewhere},
		State: Refused, Found: r.Found, Page: Page{Time: r.Time}, Generation: r.Generation,
	}
	if r.State == Stored {
		slim.Status = r.Status
	}
	return Moved{MovedURL, r.URL, slim.Append(nil, key)}
}

// MovedTimes returns the times of a host as they go to another process.
func MovedTimes(h *HostRow) Moved {
	times := HostRow{HostTimes: h.HostTimes}
	return Moved{MovedHost, h.Name, times.Append(nil)}
}
