// Package batch is the form of the messages that nodes of a crawl send each other: up to
// [MaxRecords] records of one partition, sorted by URL. It knows no engine and no index.
//
// A body, all numbers unsigned LEB128:
//
//	1       codec: 'n' as it is, 'z' one Zstandard frame, content size included; of
//	number  of records
//	then records, each greater than the one before by URL, then by kind:
//	  number  bytes of the URL that are those of the one before
//	  text    the rest of the URL
//	  1       kind in the low 4 bits, then bits: 0x10 cookie, 0x40 value
//	  number  depth
//	  number  priority
//	  number  bytes of the source that are those of the URL
//	  text    the rest of the source
//	  text    via
//	  number  hops
//	  text    if value: the value, not empty
//
// A text is its length in bytes, then these. Numbers have their shortest form and shared beginnings
// their longest, so what decodes encodes to the same bytes.
package batch

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// Schema is the number of the form of bodies that this package has.
const Schema = "1"

const (
	MaxRecords = 1000
	// MaxPlain is where Pack ends a body, in bytes before its codec; a single record may be longer.
	MaxPlain = 256 << 10
	// MaxBody is the most that one message can carry: the engine's usual limit is 1 MiB, headers
	// included.
	MaxBody = 960 << 10
	// maxPlain is the most that a body may have without its codec. The longest record, a robots.txt
	// of 500 KiB with its origin, has less.
	maxPlain = MaxPlain + MaxBody
)

// ErrDamaged is returned for a body that Pack has not made.
var ErrDamaged = errors.New("damaged batch")

// ErrUnknown is returned for a message of another schema or codec: one of a newer program. It must
// be left to others.
var ErrUnknown = errors.New("batch of an unknown form")

// A Kind says what a record is about.
type Kind uint8

const (
	Queued  Kind = 0 // a URL that was found
	Sitemap Kind = 1 // a sitemap that was named
	// Moved and what record.MovedKind has: what is known of a partition, of which only URL, in which
	// the name is, and Value are set.
	Moved Kind = 8
	Last  Kind = Moved + 5
)

const (
	kindMask = 0x0f
	cookie   = 0x10
	value    = 0x40
)

// A Record is one thing that a node tells another of what belongs to a partition.
type Record struct {
	Kind     Kind
	Cookie   bool   // one of the redirects that led to it set a cookie
	Hops     uint8  // redirects since the last page
	Depth    uint32 // of a sitemap its level
	URL      string
	Source   string // the URL whose page named it, or "seed"
	Via      string // the URL that redirected to it, or ""
	Priority uint64 // its rank: less is better
	Value    []byte // what the sender's index has of it, in a handover; else nil
}

func compare(a, b *Record) int {
	return cmp.Or(cmp.Compare(a.URL, b.URL), cmp.Compare(a.Kind, b.Kind))
}

// A Codec is the first byte of a body.
type Codec byte

const (
	Plain Codec = 'n'
	Zstd  Codec = 'z' // at its fastest level
)

// coders are shared: making one costs more than a body.
var coders = sync.OnceValues(func() (*zstd.Encoder, *zstd.Decoder) {
	w, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(1<<20))
	if err != nil {
		panic(err) // only for options that are none
	}
	r, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxPlain),
		zstd.WithDecoderMaxWindow(2<<20))
	if err != nil {
		panic(err)
	}
	return w, r
})

// Pack makes a body of the first records of list, and returns how many these are: as many as one
// body takes, at least one. The records may stand in any order, but no two of them may have both
// URL and kind in common. It is an error if the first one alone is too long.
func Pack(list []Record, codec Codec) (body []byte, n int, err error) {
	size := 0
	for n < len(list) && n < MaxRecords {
		if size += weight(&list[n]); size > MaxPlain && n > 0 {
			break
		}
		n++
	}
	sorted := make([]*Record, n)
	for i := range sorted {
		sorted[i] = &list[i]
	}
	slices.SortFunc(sorted, compare)
	plain := make([]byte, 0, size+3)
	plain = appendRecords(plain, sorted)
	switch codec {
	case Plain:
		body = append([]byte{byte(codec)}, plain...)
	case Zstd:
		w, _ := coders()
		body = w.EncodeAll(plain, append(make([]byte, 0, len(plain)/2+64), byte(codec)))
	default:
		return nil, 0, fmt.Errorf("%w: codec %q", ErrUnknown, byte(codec))
	}
	if len(body) > MaxBody || len(plain) > maxPlain {
		return nil, 0, fmt.Errorf("record of %.200q has %d bytes, more than a message takes", list[0].URL, len(plain))
	}
	return body, n, nil
}

// Unpack returns the records of a body, sorted. They keep none of its memory.
func Unpack(body []byte) ([]Record, error) {
	if len(body) == 0 {
		return nil, fmt.Errorf("%w: empty", ErrDamaged)
	}
	plain := body[1:]
	switch Codec(body[0]) {
	case Plain:
	case Zstd:
		_, r := coders()
		var err error
		if plain, err = r.DecodeAll(plain, nil); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
		}
	default:
		return nil, fmt.Errorf("%w: codec %q", ErrUnknown, body[0])
	}
	if len(plain) > maxPlain {
		return nil, fmt.Errorf("%w: %d bytes", ErrDamaged, len(plain))
	}
	return decodeRecords(plain)
}
