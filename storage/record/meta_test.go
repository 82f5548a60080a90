package record

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
		for range rapid.IntRange(0, 4).Draw(t, "links") {
			text := rapid.String().Draw(t, "link text")
			m.LinkTexts = append(m.LinkTexts, text)
			size += len(text)
		}
		key := rapid.SliceOf(rapid.Byte()).Draw(t, "key")
		v := m.Append(nil, key)
		got, err := DecodeMeta(key, v)
		if err != nil || !cmp.Equal(got, m) {
			t.Fatalf("got %+v, %v\nwant %+v", got, err, m)
		}
		if m.Size() != size {
			t.Fatalf("size %d, want %d", m.Size(), size)
		}
		// Every change of a byte and every cut is noticed.
		at := rapid.IntRange(0, len(v)-1).Draw(t, "at")
		if _, err := DecodeMeta(key, v[:at]); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("cut at %d: %v", at, err)
		}
		bad := bytes.Clone(v)
		bad[at] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		if _, err := DecodeMeta(key, bad); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("bit at %d: %v", at, err)
		}
	})
}

// A value of a version without link texts is read as ever. One that no version writes is corrupt.
func TestMetaOld(t *testing.T) {
	old := make([]byte, 0, 64)
	for _, s := range []string{"T", "D", "en", "", "", ""} {
		old = appendString(old, s)
	}
	old = appendString(append(old, 1), "A")
	old = appendString(append(old, 3), "B")
	want := Meta{Title: "T", Description: "D", Language: "en", Headings: []Heading{{1, "A"}, {3, "B"}}}
	if got, err := DecodeMeta(nil, Seal(bytes.Clone(old), nil)); err != nil || !cmp.Equal(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	if v := want.Append(nil, nil); !bytes.Equal(v, Seal(bytes.Clone(old), nil)) {
		t.Errorf("without link texts the value is %x", v)
	}
	mixed := appendString(append(bytes.Clone(old), levelLink), "link")
	want.LinkTexts = []string{"link"}
	if got, err := DecodeMeta(nil, Seal(bytes.Clone(mixed), nil)); err != nil || !cmp.Equal(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	mixed = appendString(append(mixed, 2), "heading behind it")
	if _, err := DecodeMeta(nil, Seal(mixed, nil)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a heading behind link texts: %v", err)
	}
}
