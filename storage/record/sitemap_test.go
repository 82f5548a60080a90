package record

import (
	"bytes"
	"errors"
	"testing"

	"pgregory.net/rapid"
)

func drawSitemap(t *rapid.T) Sitemap {
	word := rapid.SampledFrom([]string{"", "timeout", "http://a.b/?\xff"})
	return Sitemap{
		URL: drawURL(t), State: rapid.SampledFrom([]SitemapState{SitemapOpen, SitemapRead, SitemapFailed}).Draw(t, "state"),
		Level: rapid.Byte().Draw(t, "level"), Hops: rapid.Byte().Draw(t, "hops"), Source: word.Draw(t, "source"),
		Tries: rapid.Uint16().Draw(t, "tries"), Spared: rapid.Uint8().Draw(t, "spared"), Due: rapid.Int64().Draw(t, "due"), Time: rapid.Int64().Draw(t, "time"),
		Status: rapid.Uint16().Draw(t, "status"), Reason: word.Draw(t, "reason"),
		Locs: rapid.Uint32().Draw(t, "locs"), Outside: rapid.Uint32().Draw(t, "outside"),
	}
}

func TestSitemapRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSitemap(t)
		key, v := SitemapKey(s.URL), s.Append(nil)
		if got, err := DecodeSitemap(key, v); err != nil || got != s {
			t.Fatalf("got %+v, %v\nwant %+v", got, err, s)
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
