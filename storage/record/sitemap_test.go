package record

import (
	"bytes"
	"errors"
	"testing"

	"pgregory.net/rapid"
)

func drawSitemap(t *rapid.T) Record {
	word := rapid.SampledFrom([]string{"", "timeout", "http://a.b/?\xff"})
	r := Record{
		Row: Row{
			URL: drawURL(t), Kind: SitemapRow, Depth: uint32(rapid.Byte().Draw(t, "level")), Hops: rapid.Byte().Draw(t, "hops"), Source: word.Draw(t, "source"),
			Tries: rapid.Uint16().Draw(t, "tries"), Spared: rapid.Uint8().Draw(t, "spared"), Due: rapid.Int64().Draw(t, "due"), Reason: word.Draw(t, "reason"),
		},
		State: rapid.SampledFrom([]State{Pending, Read, Failed}).Draw(t, "state"), Cut: rapid.Uint32().Draw(t, "cut"),
		Generation: rapid.Uint32().Draw(t, "generation"),
		Page:       Page{Time: rapid.Int64().Draw(t, "time"), Status: rapid.Uint16().Draw(t, "status"), Bytes: int64(rapid.Uint32().Draw(t, "locs"))},
	}
	if r.State == Pending {
		r.Range = Later
	}
	return r
}

func TestSitemapRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawSitemap(t)
		key, v := SitemapKey(r.URL), r.AppendSitemap(nil)
		if got, err := DecodeSitemap(key, v); err != nil || got != r || SitemapWaits(v) != (r.State == Pending) {
			t.Fatalf("got %+v, %v\nwant %+v", got, err, r)
		}
		at := rapid.IntRange(0, len(v)-1).Draw(t, "at")
		bad := bytes.Clone(v)
		bad[at] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		for _, bad := range [][]byte{v[:at], bad} {
			if _, err := DecodeSitemap(key, bad); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("damaged at %d: %v", at, err)
			}
		}
	})
}
