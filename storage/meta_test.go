package storage

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestMetaRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m Meta
		size := 0
		for _, s := range m.fields() {
			*s = rapid.String().Draw(t, "field")
			size += len(*s)
		}
		for range rapid.IntRange(0, 4).Draw(t, "headings") {
			h := Heading{Level: rapid.Uint8Range(1, 3).Draw(t, "level"), Text: rapid.String().Draw(t, "text")}
			m.Headings = append(m.Headings, h)
			size += len(h.Text)
		}
		v := m.append(nil)
		got, err := decodeMeta(v)
		if err != nil || !cmp.Equal(got, m) {
			t.Fatalf("got %+v, %v\nwant %+v", got, err, m)
		}
		if m.Size() != size {
			t.Fatalf("size %d, want %d", m.Size(), size)
		}
		// Every change of a byte and every cut is noticed.
		at := rapid.IntRange(0, len(v)-1).Draw(t, "at")
		if _, err := decodeMeta(v[:at]); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("cut at %d: %v", at, err)
		}
		bad := bytes.Clone(v)
		bad[at] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		if _, err := decodeMeta(bad); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("bit at %d: %v", at, err)
		}
	})
}
