package record

import (
	"errors"
	"reflect"
	"testing"
)

// FuzzPosted: what decodes as a row of the outbox encodes to the same bytes.
func FuzzPosted(f *testing.F) {
	p := Posted{Part: 3, Seq: 9, Link: Link{URL: "http://a.org/", Source: Seed, Via: "http://b.org/", Depth: 2, Rank: 7, Hops: 1, Cookie: true}}
	v := p.Append(nil)
	f.Add(PostedKey(3, 9), v[:len(v)-4])
	f.Add(PostedKey(0, 0), []byte{1, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, key, body []byte) {
		value := Seal(body, key)
		p, err := DecodePosted(key, value)
		switch {
		case err == nil:
			if got := p.Append(nil); string(got) != string(value) || string(PostedKey(p.Part, p.Seq)) != string(key) {
				t.Errorf("%q under %q became %q", value, key, got)
			}
		case !errors.Is(err, ErrCorrupt):
			t.Error(err)
		}
	})
}

func TestPosted(t *testing.T) {
	want := Posted{Part: 255, Seq: 1 << 40, Link: Link{URL: "http://a.org/x?y", Source: "http://c.org/", Kind: SitemapRow, Depth: 3, Hops: 5}}
	got, err := DecodePosted(PostedKey(want.Part, want.Seq), want.Append(nil))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	if _, err := DecodePosted(PostedKey(want.Part, want.Seq+1), want.Append(nil)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("under another key: %v", err)
	}
	o, err := DecodeOutbox((&Outbox{Rows: 4, Last: 9}).Append(nil))
	if none, noErr := DecodeOutbox(nil); err != nil || o != (Outbox{4, 9}) || none != (Outbox{}) || noErr != nil {
		t.Errorf("got %+v, %v and %+v, %v", o, err, none, noErr)
	}
}
