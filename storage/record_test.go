package storage

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func drawRecord(t *rapid.T) Record {
	word := rapid.SampledFrom([]string{"", "-", "seed", "timeout", Duplicate, "http://a.b/?\xff"})
	n64 := rapid.Uint64()
	r := Record{
		State: rapid.SampledFrom(States).Draw(t, "state"), Reopened: rapid.Byte().Draw(t, "reopened"),
		Found: rapid.Int64().Draw(t, "found"),
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
		v := r.append(nil, key)
		got, err := decodeRecord(key, v)
		if err != nil || got != r {
			t.Fatalf("got %+v, %v\nwant %+v", got, err, r)
		}
		// Every change of a byte and every cut is noticed.
		at := rapid.IntRange(0, len(v)-1).Draw(t, "at")
		if _, err := decodeRecord(key, v[:at]); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("cut at %d: %v", at, err)
		}
		bad := bytes.Clone(v)
		bad[at] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		if _, err := decodeRecord(key, bad); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("bit at %d: %v", at, err)
		}
		other := bytes.Clone(key)
		other[rapid.IntRange(0, len(key)-1).Draw(t, "at in key")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit of key")
		if _, err := decodeRecord(other, v); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("under the key %q, not %q: %v", other, key, err)
		}
	})
}

func TestPendingRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawRecord(t).Row
		key, _ := Key(r.URL)
		k := appendPendingKey(nil, &r, key)
		got, gotKey, err := decodePending(k, []byte{0, 0, 0, 7})
		if err != nil || !bytes.Equal(gotKey, key) || got.URL != r.URL || got.Range != r.Range || got.Seq != r.Seq || got.Run != 7 {
			t.Fatalf("got %+v, %q, %v\nwant %+v", got, gotKey, err, r)
		}
		if !bytes.HasPrefix(k, rangePrefix(Host(r.URL), r.Range)) || !bytes.Equal(appendPendingKey(nil, &got, gotKey), k) {
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
		v := (&Record{State: s, Row: Row{Range: Now, Depth: 300}, Page: Page{Media: "text/html"}}).append(nil, key)
		f.Add(v[:len(v)-4])
	}
	v := (&Meta{Title: "t", Language: "en", Headings: []Heading{{1, "a"}, {3, ""}}}).append(nil, key)
	f.Add(v[:len(v)-4])
	f.Add([]byte{1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 0})
	f.Fuzz(func(t *testing.T, body []byte) {
		var v []byte
		under := func(key []byte) []byte {
			v = seal(bytes.Clone(body), key)
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
		r, err := decodeRecord(key, under(key))
		same("record", err, r.append(nil, key))
		c, err := decodeCounts(key, under(key))
		same("counts", err, seal(c.append(nil), key))
		sum, err := decodeTotals(key, under(key))
		same("totals", err, sum.append(nil, key))
		h, err := decodeHost("example.org", under([]byte("example.org")))
		same("host", err, h.append(nil))
		rob, err := decodeRobots("http://example.org", under([]byte("http://example.org")))
		same("robots", err, rob.append(nil))
		m, err := decodeMeta(key, under(key))
		same("metadata", err, m.append(nil, key))
	})
}

// TestDamageIsToldOnce: damage of a value is damage of the index, and one line says so once.
func TestDamageIsToldOnce(t *testing.T) {
	_, err := decodeRecord([]byte("http\x00da\x00dorg\x00r"), []byte("no record"))
	if !errors.Is(err, ErrCorrupt) || !errors.Is(err, ErrDamaged) || errors.Is(err, ErrSchema) {
		t.Errorf("error %v", err)
	}
	err = fmt.Errorf("%w: %w", ErrDamaged, err)
	if n := strings.Count(err.Error(), ErrDamaged.Error()); n != 1 {
		t.Errorf("%v: said %d times", err, n)
	}
}
