package record

import "encoding/binary"

// Robots is the answer of one origin to the request for its robots.txt.
type Robots struct {
	Origin string // scheme, host name, port
	Time   int64  // Unix seconds of the answer
	Status uint16 // HTTP status after redirects; 0: no answer
	Tries  uint32 // failed tries in a row
	Reason string // what the last of them came to, such as "dns" or "http-5xx"
	Text   string // the file, for 2xx
}

// Append appends the value that stands under the origin.
func (r *Robots) Append(b []byte) []byte {
	b = binary.AppendVarint(b, r.Time)
	b = binary.AppendUvarint(b, uint64(r.Status))
	b = binary.AppendUvarint(b, uint64(r.Tries))
	b = appendString(b, r.Reason)
	return Seal(appendString(b, r.Text), []byte(r.Origin))
}

// DecodeRobots reads the value of an origin.
func DecodeRobots(origin string, v []byte) (Robots, error) {
	r := Robots{Origin: origin}
	d := unseal(v, []byte(origin))
	r.Time, r.Status, r.Tries = d.varint(), uint16(d.uint(16)), uint32(d.uint(32))
	r.Reason, r.Text = d.string(), d.string()
	return r, d.end("robots of ", origin)
}
