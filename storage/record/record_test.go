package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"pgregory.net/rapid"
)

func drawRecord(t *rapid.T) Record {
	word := rapid.SampledFrom([]string{"", "-", "seed", "timeout", Duplicate, "http://a.b/?\xff"})
	n64 := rapid.Uint64()
	r := Record{
		State: rapid.SampledFrom(States).Draw(t, "state"), Reopened: rapid.Byte().Draw(t, "reopened"),
		Found: rapid.Int64().Draw(t, "found"), Generation: rapid.Uint32().Draw(t, "generation"),
		Row: Row{
			URL: drawURL(t), Source: word.Draw(t, "source"), Via: word.Draw(t, "via"),
			Depth: rapid.Uint32().Draw(t, "depth"), Hops: rapid.Uint8Max(127).Draw(t, "hops"), Cookie: rapid.Bool().Draw(t, "cookie"),
			Tries: rapid.Uint16().Draw(t, "tries"), Spared: rapid.Uint8().Draw(t, "spared"), Run: rapid.Uint32().Draw(t, "run"),
			Range: rapid.SampledFrom([]Range{Now, Later, Held}).Draw(t, "range"),
			Rank:  n64.Draw(t, "rank"), Seq: n64.Draw(t, "seq"),
			Due: rapid.Int64Range(0, 1<<62).Draw(t, "due"), Reason: word.Draw(t, "reason"),
		},
	}
	if r.State != Pending {
		r.Page = Page{
			Time: rapid.Int64().Draw(t, "time"), Status: rapid.Uint16().Draw(t, "status"), Bytes: rapid.Int64().Draw(t, "bytes"),
			Media: word.Draw(t, "media"), Charset: word.Draw(t, "charset"), Flags: word.Draw(t, "flags"),
			HeaderLinks: word.Draw(t, "links"), PageDepth: rapid.Uint32().Draw(t, "page depth"),
		}
	}
	if r.State == Stored || r.State == Refused && r.Reason == "duplicate" {
		r.Digest[rapid.IntRange(0, 31).Draw(t, "at")] = 1
	}
	return r
}

func TestRecordRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawRecord(t)
		key, _ := Key(r.URL)
		v := r.Append(nil, key)
		got, err := Decode(key, v)
		if err != nil || got != r {
			t.Fatalf("got %+v, %v\nwant %+v", got, err, r)
		}
		// Every change of a byte and every cut is noticed.
		at := rapid.IntRange(0, len(v)-1).Draw(t, "at")
		if _, err := Decode(key, v[:at]); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("cut at %d: %v", at, err)
		}
		bad := bytes.Clone(v)
		bad[at] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		if _, err := Decode(key, bad); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("bit at %d: %v", at, err)
		}
		other := bytes.Clone(key)
		other[rapid.IntRange(0, len(key)-1).Draw(t, "at in key")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit of key")
		if _, err := Decode(other, v); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("under the key %q, not %q: %v", other, key, err)
		}
	})
}

func TestPendingRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawRecord(t).Row
		key, _ := Key(r.URL)
		k := AppendPendingKey(nil, &r, key)
		got, gotKey, err := DecodePending(k, []byte{0, 0, 0, 7})
		if err != nil || !bytes.Equal(gotKey, key) || got.URL != r.URL || got.Range != r.Range || got.Seq != r.Seq || got.Run != 7 {
			t.Fatalf("got %+v, %q, %v\nwant %+v", got, gotKey, err, r)
		}
		if !bytes.HasPrefix(k, RangePrefix(Host(r.URL), r.Range)) || !bytes.Equal(AppendPendingKey(nil, &got, gotKey), k) {
			t.Fatalf("key %q of %+v", k, r)
		}
	})
}

// What decodes, encodes to the same bytes. The checksum is added here, so that the fuzzer gets
// past it.
func FuzzDecode(f *testing.F) {
	key, err := Key("http://example.org/x?y")
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range States {
		v := (&Record{State: s, Row: Row{Range: Now, Depth: 300}, Page: Page{Media: "text/html"}}).Append(nil, key)
		f.Add(v[:len(v)-4])
	}
	v := (&Meta{Title: "t", Language: "en", Headings: []Heading{{1, "a"}, {3, ""}}}).Append(nil, key)
	f.Add(v[:len(v)-4])
	v = (&Look{State: Stored, Status: 304, Looks: 300, ETag: `"a"`}).Append(nil, key)
	f.Add(v[:len(v)-4])
	v = (&Look{State: Redirected, Target: "http://b.example/", Difference: Difference{Bits: 4, Removed: 2}}).Append(nil, key)
	f.Add(v[:len(v)-4])
	f.Add((&Record{Row: Row{Due: 5, Seq: 6}}).AppendRevisitKey(nil, key))
	f.Add([]byte{1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 0})
	f.Fuzz(func(t *testing.T, body []byte) {
		var v []byte
		under := func(key []byte) []byte {
			v = Seal(bytes.Clone(body), key)
			return v
		}
		same := func(what string, err error, again []byte) {
			if !errors.Is(err, ErrCorrupt) && err != nil {
				t.Errorf("%s: %v", what, err)
			}
			if err == nil && !bytes.Equal(again, v) {
				t.Errorf("%s: %x decodes, and encodes to %x", what, v, again)
			}
		}
		r, err := Decode(key, under(key))
		same("record", err, r.Append(nil, key))
		c, err := DecodeCounts(key, under(key))
		same("counts", err, Seal(c.Append(nil), key))
		sum, err := DecodeTotals(key, under(key))
		same("totals", err, sum.Append(nil, key))
		h, err := DecodeHost("example.org", under([]byte("example.org")))
		same("host", err, h.Append(nil))
		rob, err := DecodeRobots("http://example.org", under([]byte("http://example.org")))
		same("robots", err, rob.Append(nil))
		m, err := DecodeMeta(key, under(key))
		same("metadata", err, m.Append(nil, key))
		l, err := DecodeLook(key, under(key))
		same("look", err, l.Append(nil, key))
		if url, due, ok, err := DecodeAwaits(body); ok && err == nil {
			r := Record{Row: Row{URL: url, Due: due, Seq: binary.BigEndian.Uint64(body[10:])}}
			if key, err := Key(url); err != nil || !bytes.Equal(r.AppendRevisitKey(nil, key), body) {
				t.Errorf("row %q is of %s at %d: %v", body, url, due, err)
			}
		}
	})
}
