// Package record is the vocabulary of a crawl: what is known of a URL, a host, a robots.txt, a
// sitemap and a run, the outcomes that change it, and how each of them is written as a key and a
// value of the index. It knows no database: the values are those of this package alone.
//
// A URL waits in a Range of its host, as a Row, until it has its turn; what is known of it is its
// Record. All types are plain values: one that is shared must not be changed.
//
// Every value that stands alone under a key is sealed: it ends in a CRC-32C of what stands before
// it and of that key. What decodes encodes to the same bytes; all else is [ErrCorrupt], the one
// error of what reads values. The error for a key that is none is [ErrKey].
package record

import (
	"encoding/binary"
	"fmt"
)

// A State says what is known of a URL. Only Pending may change by itself; the other states change
// by being reopened: by retry, a redirect back, other options, a shorter way, or merge.
//
// No record has the zero State. An [Outcome] has it while it is being made, and if only what comes
// with it counts.
type State uint8

const (
	Pending    State = 1 + iota // no outcome yet
	Stored                      // its page is in the tree
	Redirected                  // answered with the address of another URL
	Failed                      // gave no usable answer
	Refused                     // we decided not to fetch or not to keep it
	Read                        // of a sitemap: what counts of what it names is in the index
	Works                       // of a target outside: it answered, and sends nobody elsewhere
)

// States lists all states of URLs in the order in which they are shown.
var States = []State{Stored, Pending, Redirected, Failed, Refused}

func (s State) String() string {
	names := [...]string{
		Pending: "pending", Stored: "stored", Redirected: "redirected", Failed: "failed", Refused: "refused", Read: "read",
		Works: "works",
	}
	if s == 0 || int(s) >= len(names) {
		return fmt.Sprintf("state(%d)", uint8(s))
	}
	return names[s]
}

// A Range is one of the three queues in which the pending rows of a host stand.
type Range uint8

const (
	Now   Range = 'n' // may be asked; by Rank, then Seq
	Later Range = 'w' // not before Due; by Due, then Seq
	Held  Range = 'x' // not in this run; by Reason, then Seq
)

// Seed is the source of a URL that a person named.
const Seed = "seed"

// Forgotten is the source of a URL in place of one that has been forgotten, and the reason of a
// redirect that led to one.
const Forgotten = "forgotten"

// Duplicate is the reason of a page that was refused because one with the same SHA-256 is stored.
// Its record keeps the SHA-256.
const Duplicate = "duplicate"

// A Kind says what a row is for.
type Kind uint8

const (
	PageRow    Kind = iota // a URL of the crawl: the only kind that counts as a URL
	SitemapRow             // a sitemap: its record lies in a bucket of its own
	RobotsRow              // the robots.txt of an origin; its URL may be elsewhere after redirects, and has no record
	OutsideRow             // a target outside: its record lies in a bucket of its own
	RevisitRow             // a stored page of which another look is due: its record stays stored
)

// A Row is what the frontier knows of something to be asked for: a pending URL, or another kind.
type Row struct {
	URL    string
	Source string // the URL whose page named it first, or Seed; of a robots.txt its origin
	Via    string // the URL that redirected to it, or ""
	Depth  uint32 // links from a seed, where a redirect is none; of a sitemap its level: 1, or 1 more than the one that names it
	Hops   uint8  // redirects since the last page, or sitemap, at most 127
	Cookie bool   // one of these redirects set a cookie
	Tries  uint16 // requests made so far
	Spared uint8  // of these, the ones whose failure counted on the host, not on the URL
	Run    uint32 // the run that wrote the pending row, else that of the outcome; 0: none, or one that may be lost
	Range  Range
	Kind   Kind
	Rank   uint64 // place within Now: the depth, or a score of which less is better
	Seq    uint64 // number of discovery, unique in the index
	Due    int64  // for Later, and of a stored page that waits for another look: Unix time in nanoseconds
	Reason string // why it is held, or what the last try or the outcome came to
}

// ID returns the name of a row among all rows: its URL, if it is that of a page.
func (r *Row) ID() string {
	if r.Kind == PageRow {
		return r.URL
	}
	return string(byte(r.Kind)) + r.URL
}

// Less reports whether r stands before o in the Now range of one host.
func (r *Row) Less(o *Row) bool {
	if r.Rank != o.Rank {
		return r.Rank < o.Rank
	}
	return r.Seq < o.Seq
}

// A Record is all that the index keeps of one URL, of one sitemap, or of one target outside: that a
// page refers to, and that is asked whether it works. The last two are no URLs of the crawl, and
// lie in buckets of their own.
type Record struct {
	Row
	State    State
	Reopened uint8  // how often a redirect back opened it again
	Found    int64  // Unix seconds of discovery
	Page            // of the answer, for states other than Pending
	Cut      uint32 // links of the answer that got no record, over MaxHeld of the limits; of a sitemap also for scope
	// Generation is how often a record with an outcome was opened again, whatever did so. Of two
	// records of a URL the one of the higher generation counts, see Join.
	Generation uint32
}

// A Page holds the facts of an answer, as source.txt keeps them.
type Page struct {
	Time        int64 // Unix seconds of the outcome
	Status      uint16
	Bytes       int64    // of a sitemap the number of URLs that it names
	Digest      [32]byte // SHA-256 of content.html
	Media       string   // media type, such as text/html
	Charset     string   // the one that links were decoded by, else that of the header
	Flags       string   // "-", or letters: n nofollow, t truncated, c links cut
	HeaderLinks string   // canonical URLs from Link headers, space-separated; of a redirect its target; or ""
	PageDepth   uint32   // the depth written to source.txt, which never changes
	Extent      Extent   // of a stored page and of a redirect, in a tree of segments
}

// An Extent says where an answer is in the segments of a tree. The zero value is nowhere.
type Extent struct {
	Segment uint32 // number of the segment, from 1 on
	Offset  int64  // of the record with the answer, in bytes
	Length  int64  // of that record, as it is in the file
	About   int64  // from Offset to the record with the facts of the page; 0: there is none
}

// IsZero reports whether the answer is in no segment.
func (e Extent) IsZero() bool { return e.Segment == 0 }

// append appends an extent that is not zero.
func (e Extent) append(b []byte) []byte {
	for _, v := range []uint64{uint64(e.Segment), uint64(e.Offset), uint64(e.Length), uint64(e.About)} {
		b = binary.AppendUvarint(b, v)
	}
	return b
}

// extent reads what append has appended.
func (d *decoder) extent() Extent {
	e := Extent{uint32(d.uint(32)), int64(d.uint(63)), int64(d.uint(63)), int64(d.uint(63))}
	d.bad = d.bad || e.Segment == 0
	return e
}

// GaveLinks reports whether the links of an answer without a folder counted: only the same answer,
// given again, has them once more. Of what is refused for its type only a feed is read.
func (r *Record) GaveLinks() bool {
	return r.State == Refused && (r.Reason == "noindex" || r.Reason == Duplicate || r.Reason == "type" && r.Bytes > 0)
}

// Reopen makes the record pending again, as if nobody had asked yet.
func (r *Record) Reopen(run uint32) {
	r.State, r.Page, r.Cut = Pending, Page{}, 0
	r.Range, r.Tries, r.Spared, r.Due, r.Reason, r.Run = Now, 0, 0, 0, "", run
	r.Generation++
}

// RefusedAsLink reports whether the record's outcome may be another one for a seed: an address or a
// type that was refused, and a redirect whose target did not belong to the crawl.
func (r *Record) RefusedAsLink() bool {
	switch r.State {
	case Refused:
		return r.Reason == "address" || r.Reason == "type"
	case Redirected:
		return r.Reason != ""
	}
	return false
}

// hasDigest reports whether the value of a record ends in the SHA-256.
func (r *Record) hasDigest() bool {
	return r.State == Stored || r.State == Refused && r.Reason == Duplicate
}

// hasExtent reports whether the value of a record may have an extent, before the SHA-256.
func (r *Record) hasExtent() bool { return r.State == Stored || r.State == Redirected }

// cookieHop marks the number of redirects of a record with Cookie.
const cookieHop = 1 << 7

// Append writes the value that stands under the record's key.
func (r *Record) Append(b, key []byte) []byte {
	hops := r.Hops
	if r.Cookie {
		hops |= cookieHop
	}
	b = append(b, byte(r.State), byte(r.Range), r.Reopened, hops)
	for _, v := range []uint64{
		uint64(r.Depth), r.packTries(), uint64(r.Run), r.Rank, r.Seq, uint64(r.Due), uint64(r.Found),
	} {
		b = binary.AppendUvarint(b, v)
	}
	for _, s := range []string{r.Source, r.Via, r.Reason} {
		b = appendString(b, s)
	}
	if r.State != Pending {
		for _, v := range []uint64{uint64(r.Time), uint64(r.Status), uint64(r.Bytes), uint64(r.PageDepth), uint64(r.Cut)} {
			b = binary.AppendUvarint(b, v)
		}
		for _, s := range []string{r.Media, r.Charset, r.Flags, r.HeaderLinks} {
			b = appendString(b, s)
		}
		if !r.Extent.IsZero() && r.hasExtent() {
			b = r.Extent.append(b)
		}
		if r.hasDigest() {
			b = append(b, r.Digest[:]...)
		}
	}
	return Seal(b, key)
}

// Peek returns the state and the range of a value of the URL bucket.
func Peek(key, value []byte) (State, Range, error) {
	body, err := Unseal(value, key)
	if err != nil || len(body) < 2 {
		return 0, 0, ErrCorrupt
	}
	return State(body[0]), Range(body[1]), nil
}

// PeekDigest returns the SHA-256 in a value of the URL bucket that says that it is of a stored
// page; nil: it does not. The checksum is not looked at.
func PeekDigest(value []byte) []byte {
	const sum = 4 // bytes of the checksum
	if len(value) < 32+sum || State(value[0]) != Stored {
		return nil
	}
	return value[len(value)-32-sum : len(value)-sum]
}

// Decode reads a value of the URL bucket. The strings of the result are copies.
func Decode(key, value []byte) (Record, error) {
	url, err := URL(key)
	if err != nil {
		return Record{}, fmt.Errorf("record under the key %q: %w", key, ErrCorrupt)
	}
	return DecodeOf(url, key, value)
}

// DecodeOf is Decode where the URL of the key is known.
func DecodeOf(url string, key, value []byte) (Record, error) {
	var r Record
	d := unseal(value, key)
	r.URL = url
	r.State, r.Range, r.Reopened, r.Hops = State(d.byte()), Range(d.byte()), d.byte(), d.byte()
	r.Hops, r.Cookie = r.Hops&^cookieHop, r.Hops&cookieHop != 0
	r.Depth = uint32(d.uint(32))
	r.Tries, r.Spared, r.Generation = d.tries()
	r.Run = uint32(d.uint(32))
	r.Rank, r.Seq, r.Due, r.Found = d.uvarint(), d.uvarint(), int64(d.uvarint()), int64(d.uvarint())
	r.Source, r.Via, r.Reason = d.string(), d.string(), d.string()
	if r.State != Pending {
		r.Time, r.Status, r.Bytes, r.PageDepth = int64(d.uvarint()), uint16(d.uint(16)), int64(d.uvarint()), uint32(d.uint(32))
		r.Cut = uint32(d.uint(32))
		r.Media, r.Charset, r.Flags, r.HeaderLinks = d.word(), d.word(), d.string(), d.string()
		rest := 0
		if r.hasDigest() {
			rest = len(r.Digest)
		}
		if r.hasExtent() && len(d.b) > rest {
			r.Extent = d.extent()
		}
		copy(r.Digest[:], d.take(uint64(rest)))
	}
	d.bad = d.bad || r.State < Pending || r.State > Refused
	return r, d.end("record of ", url)
}

// packTries makes one number of the requests made, of those among them that are spared, and of the
// generation.
func (r *Record) packTries() uint64 {
	return uint64(r.Generation)<<24 | uint64(r.Spared)<<16 | uint64(r.Tries)
}
