package record

import "encoding/binary"

// AppendOutside appends the value of a target outside, which stands under its record key.
func (r *Record) AppendOutside(b, key []byte) []byte {
	b = append(b, byte(r.State), byte(r.Range), r.Hops)
	for _, v := range []uint64{
		r.packTries(), uint64(r.Run), r.Seq, uint64(r.Due), uint64(r.Time), uint64(r.Status),
	} {
		b = binary.AppendUvarint(b, v)
	}
	for _, s := range []string{r.Source, r.Via, r.Reason, r.HeaderLinks} {
		b = appendString(b, s)
	}
	return Seal(b, key)
}

// DecodeOutside reads a value that AppendOutside has made. The strings of the result are copies.
func DecodeOutside(key, value []byte) (Record, error) {
	url, err := URL(key)
	if err != nil {
		return Record{}, err
	}
	r := Record{Row: Row{URL: url, Kind: OutsideRow}}
	d := unseal(value, key)
	r.State, r.Range, r.Hops = State(d.byte()), Range(d.byte()), d.byte()
	r.Tries, r.Spared, r.Generation = d.tries()
	r.Run, r.Seq, r.Due = uint32(d.uint(32)), d.uvarint(), int64(d.uint(63))
	r.Time, r.Status = int64(d.uint(63)), uint16(d.uint(16))
	r.Source, r.Via, r.Reason, r.HeaderLinks = d.string(), d.string(), d.string(), d.string()
	switch r.State {
	case Pending:
		d.bad = d.bad || r.Range != Now && r.Range != Later && r.Range != Held
	case Works, Redirected, Failed, Refused:
		d.bad = d.bad || r.Range != 0
	default:
		d.bad = true
	}
	return r, d.end("target outside ", url)
}

// Open reports whether a record waits and is not held: 1, or 0 if not. That of nil does not.
func (r *Record) Open() int64 {
	if r != nil && r.State == Pending && r.Range != Held {
		return 1
	}
	return 0
}
