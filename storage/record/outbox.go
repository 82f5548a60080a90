package record

import (
	"encoding/binary"
	"fmt"
)

// A Posted is a link that waits in the outbox for the process that asks its host, until that
// process has said that it has it; or, if Moved has a kind, what that process is to know of the
// partition.
type Posted struct {
	Part uint16 // the partition of the host
	Seq  uint64 // in the order of posting, unique in the index
	Link
	Moved Moved
}

// A Delivery names the rows of a partition, from one number to another, that the process which the
// partition belongs to has committed. They leave the outbox.
type Delivery struct {
	Part        uint16
	First, Last uint64
}

// movedBit marks the kind of a row that is no link.
const movedBit = 0x10

// PostedKey returns the key of a row of the outbox: partition(2) number(8).
func PostedKey(part uint16, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint16(nil, part), seq)
}

// PartOf returns partition and number of a key that PostedKey has made; zeros for another one.
func PartOf(key []byte) (part uint16, seq uint64) {
	if len(key) != 2+8 {
		return 0, 0
	}
	return binary.BigEndian.Uint16(key), binary.BigEndian.Uint64(key[2:])
}

// Append writes the value that stands under the row's key. Areas and the reason to hold it are left
// out: they follow from the URL.
func (p *Posted) Append(b []byte) []byte {
	if m := &p.Moved; m.Kind != 0 {
		b = append(b, movedBit|byte(m.Kind))
		return Seal(appendString(appendString(b, m.Name), string(m.Value)), PostedKey(p.Part, p.Seq))
	}
	hops := p.Hops
	if p.Cookie {
		hops |= cookieHop
	}
	b = append(b, byte(p.Kind), hops)
	b = binary.AppendUvarint(b, uint64(p.Depth))
	b = binary.AppendUvarint(b, p.Rank)
	for _, s := range []string{p.URL, p.Source, p.Via} {
		b = appendString(b, s)
	}
	return Seal(b, PostedKey(p.Part, p.Seq))
}

// DecodePosted reads a row of the outbox.
func DecodePosted(key, v []byte) (p Posted, err error) {
	if len(key) != 2+8 {
		return p, fmt.Errorf("outbox %q: %w: key", key, ErrCorrupt)
	}
	p.Part, p.Seq = PartOf(key)
	d := unseal(v, key)
	kind := d.byte()
	if kind&movedBit != 0 {
		m := &p.Moved
		m.Kind, m.Name = MovedKind(kind&^movedBit), d.string()
		if m.Value = []byte(d.string()); len(m.Value) == 0 {
			m.Value = nil
		}
		d.bad = d.bad || m.Kind == 0 || m.Kind > MovedMarker
		return p, d.end("outbox row of ", m.Name)
	}
	p.Kind, p.Hops = Kind(kind), d.byte()
	p.Hops, p.Cookie = p.Hops&^cookieHop, p.Hops&cookieHop != 0
	p.Depth, p.Rank = uint32(d.uint(32)), d.uvarint()
	p.URL, p.Source, p.Via = d.string(), d.string(), d.string()
	d.bad = d.bad || p.Kind > SitemapRow
	return p, d.end("outbox row of ", p.URL)
}

// An Outbox says how much is in the outbox.
type Outbox struct {
	Rows int64
	Last uint64 // number of the last row that was posted
}

// Append appends the value that stands under KeyPosted.
func (o *Outbox) Append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(o.Rows))
	return Seal(binary.AppendUvarint(b, o.Last), KeyPosted)
}

// DecodeOutbox reads a value that Append has made; no value is that of an outbox to which nothing
// was ever posted.
func DecodeOutbox(v []byte) (o Outbox, err error) {
	if v == nil {
		return o, nil
	}
	d := unseal(v, KeyPosted)
	o.Rows, o.Last = int64(d.uint(63)), d.uvarint()
	return o, d.end("outbox", "")
}
