package batch

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	"pgregory.net/rapid"
)

// golden is a body as version 1 of the schema has it: nodes of other versions of the program must
// read it.
var golden = []struct {
	name, body string
	list       []Record
}{
	{"a link", "6e" + "01" + "00" + "10" + hex.EncodeToString([]byte("https://a.org/b/")) + "00" + "03" + "8002" +
		"0e" + "01" + "63" + "00" + "00", []Record{
		{URL: "https://a.org/b/", Depth: 3, Priority: 256, Source: "https://a.org/c"},
	}},
	{"all fields", "6e" + "02" +
		"00" + "08" + hex.EncodeToString([]byte("http://a")) + "10" + "00" + "07" + "00" + "04" + "73656564" +
		"08" + hex.EncodeToString([]byte("http://b")) + "02" +
		"08" + "01" + "2f" + "49" + "00" + "00" + "00" + "00" + "00" + "00" + "02" + "0102", []Record{
		{URL: "http://a", Priority: 7, Source: "seed", Via: "http://b", Hops: 2, Cookie: true},
		{URL: "http://a/", Kind: Moved + 1, Value: []byte{1, 2}},
	}},
	{"a marker", "6e" + "01" + "00" + "02" + "3137" + "0d" + "00" + "00" + "00" + "00" + "00" + "00", []Record{
		{URL: "17", Kind: Last},
	}},
}

func TestGolden(t *testing.T) {
	for _, tt := range golden {
		t.Run(tt.name, func(t *testing.T) {
			body, n, err := Pack(tt.list, Plain)
			if got := hex.EncodeToString(body); err != nil || n != len(tt.list) || got != tt.body {
				t.Errorf("Pack: %d records, %v\n got %s\nwant %s", n, err, got, tt.body)
			}
			want, err := hex.DecodeString(tt.body)
			if err != nil {
				t.Fatal(err)
			}
			list, err := Unpack(want)
			if diff := cmp.Diff(tt.list, list); err != nil || diff != "" {
				t.Errorf("Unpack: %v\n%s", err, diff)
			}
		})
	}
}

func drawRecord(t *rapid.T) Record {
	url := rapid.StringMatching(`https?://[ab]{1,3}/[ab]{0,4}`)
	r := Record{
		URL:      url.Draw(t, "url"),
		Kind:     rapid.SampledFrom([]Kind{Queued, Sitemap, Moved + 1, Last}).Draw(t, "kind"),
		Depth:    rapid.Uint32().Draw(t, "depth"),
		Priority: rapid.Uint64().Draw(t, "priority"),
		Source:   rapid.OneOf(url, rapid.Just("seed"), rapid.Just("")).Draw(t, "source"),
		Via:      rapid.OneOf(url, rapid.Just("")).Draw(t, "via"),
		Hops:     rapid.Uint8Max(127).Draw(t, "hops"),
		Cookie:   rapid.Bool().Draw(t, "cookie"),
	}
	if v := rapid.SliceOfN(rapid.Byte(), 0, 9).Draw(t, "value"); len(v) > 0 {
		r.Value = v
	}
	return r
}

// TestRoundTrip: what is packed is unpacked, sorted, whatever the order and the codec.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfNDistinct(rapid.Custom(drawRecord), 1, 40, func(r Record) string {
			return fmt.Sprint(r.Kind, r.URL)
		}).Draw(t, "records")
		body, n, err := Pack(list, rapid.SampledFrom([]Codec{Plain, Zstd}).Draw(t, "codec"))
		if err != nil || n != len(list) {
			t.Fatalf("Pack: %d of %d, %v", n, len(list), err)
		}
		got, err := Unpack(body)
		if err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(list, func(a, b Record) int { return compare(&a, &b) })
		if diff := cmp.Diff(list, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

// TestLimits: a body ends after 1000 records and 256 KiB, and goes into a message of the engine.
func TestLimits(t *testing.T) {
	many := make([]Record, 2500)
	for i := range many {
		many[i].URL = fmt.Sprintf("https://a.org/%d", i)
	}
	random := make([]byte, 500<<10)
	src := rand.NewChaCha8([32]byte{1})
	if _, err := src.Read(random); err != nil {
		t.Fatal(err)
	}
	large := Record{URL: "https://a.org", Kind: Moved + 3, Value: random}
	long := slices.Clone(many[:100])
	for i := range long {
		long[i].URL += strings.Repeat("x", 8000)
	}
	for _, tt := range []struct {
		name string
		list []Record
		want int
	}{
		{"records", many, MaxRecords},
		{"bytes", long, 32},
		{"one that is larger", []Record{large, many[0]}, 1},
		{"before one that is larger", []Record{many[0], large}, 1},
	} {
		body, n, err := Pack(tt.list, Zstd)
		if err != nil || n != tt.want || len(body) > MaxBody {
			t.Errorf("%s: %d records in %d bytes, %v; want %d", tt.name, n, len(body), err, tt.want)
			continue
		}
		if list, err := Unpack(body); err != nil || len(list) != n {
			t.Errorf("%s: unpacked %d, %v", tt.name, len(list), err)
		}
	}
	large.Value = append(slices.Clone(random), random...)
	if _, n, err := Pack([]Record{large}, Plain); err == nil || n != 0 {
		t.Errorf("a record of 1000 KiB: %d packed, %v", n, err)
	}
}

// TestUnpackRejects: what Pack does not make is damaged, and what a later version may make is
// unknown, so that it can be left to a program that knows it.
func TestUnpackRejects(t *testing.T) {
	good, _, err := Pack([]Record{{URL: "http://a/"}, {URL: "http://a/b"}}, Plain)
	if err != nil {
		t.Fatal(err)
	}
	plain := func(parts ...any) []byte {
		b := []byte{'n'}
		for _, p := range parts {
			switch p := p.(type) {
			case int:
				b = append(b, byte(p))
			case string:
				b = append(b, p...)
			}
		}
		return b
	}
	w, _ := coders()
	bomb := w.EncodeAll(make([]byte, 64<<20), []byte{'z'})
	stream := new(bytes.Buffer)
	stream.WriteByte('z')
	z, err := zstd.NewWriter(stream) // its frame does not say how long it is
	if err != nil {
		t.Fatal(err)
	}
	if _, err := z.Write(make([]byte, 64<<20)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	huge := "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
	for _, tt := range []struct {
		name string
		body []byte
		want error
	}{
		{"empty", nil, ErrDamaged},
		{"other codec", append([]byte{'b'}, good[1:]...), ErrUnknown},
		{"no records", plain(0), ErrDamaged},
		{"a thousand and one records", plain("\xe9\x07", 0, 1, "a", 0, 0, 0, 0, 0, 0, 0), ErrDamaged},
		{"number of records", plain(huge), ErrDamaged},
		{"number that never ends", plain("\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"), ErrDamaged},
		{"number over 64 bits", plain("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"), ErrDamaged},
		{"number with a zero more", plain("\x81\x00", 0, 1, "a", 0, 0, 0, 0, 0, 0, 0), ErrDamaged},
		{"text beyond the end", plain(1, 0, huge, "a"), ErrDamaged},
		{"more shared than there is", plain(1, 1, 0, 0, 0, 0, 0, 0, 0, 0), ErrDamaged},
		{"less shared than there is", plain(2, 0, 1, "a", 0, 0, 0, 0, 0, 0, 0, 0, 2, "ab", 0, 0, 0, 0, 0, 0, 0), ErrDamaged},
		{"the same twice", plain(2, 0, 1, "a", 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0), ErrDamaged},
		{"kind", plain(1, 0, 1, "a", 8, 0, 0, 0, 0, 0, 0), ErrDamaged},
		{"flag", plain(1, 0, 1, "a", 0x80, 0, 0, 0, 0, 0, 0), ErrDamaged},
		{"cut off", good[:len(good)-1], ErrDamaged},
		{"more than it says", append(slices.Clone(good), 0), ErrDamaged},
		{"no frame", append([]byte{'z'}, good[1:]...), ErrDamaged},
		{"frame of 64 MiB", bomb, ErrDamaged},
		{"frame of unknown length", stream.Bytes(), ErrDamaged},
	} {
		list, err := Unpack(tt.body)
		if !errors.Is(err, tt.want) || list != nil {
			t.Errorf("%s: %d records, %v; want %v", tt.name, len(list), err, tt.want)
		}
	}
}

// FuzzUnpack: what Unpack takes, Pack makes again.
func FuzzUnpack(f *testing.F) {
	for _, tt := range golden {
		body, err := hex.DecodeString(tt.body)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
	f.Add([]byte("n\x02\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
	f.Fuzz(func(t *testing.T, body []byte) {
		list, err := Unpack(body)
		if err != nil {
			if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrUnknown) {
				t.Fatal(err)
			}
			return
		}
		again, n, err := Pack(list, Codec(body[0]))
		if err != nil || n != len(list) {
			t.Skip("larger than what is packed")
		}
		if body[0] == byte(Plain) && !bytes.Equal(again, body) {
			t.Fatalf("%x becomes %x", body, again)
		}
		if got, err := Unpack(again); err != nil || cmp.Diff(list, got) != "" {
			t.Fatalf("%v: %s", err, cmp.Diff(list, got))
		}
	})
}

// BenchmarkBody packs and unpacks a body of 1000 links, and reports its length.
func BenchmarkBody(b *testing.B) {
	list := make([]Record, MaxRecords)
	for i := range list {
		list[i] = Record{
			URL: fmt.Sprintf("https://host%d.example.org/articles/%x/page-%d.html", i%40, i*7919, i), Depth: 4, Priority: 4,
			Source: fmt.Sprintf("https://other%d.example.org/articles/%x.html", i%3, i*31),
		}
	}
	for _, codec := range []Codec{Plain, Zstd} {
		b.Run(string(codec), func(b *testing.B) {
			var body []byte
			for b.Loop() {
				var err error
				if body, _, err = Pack(list, codec); err != nil {
					b.Fatal(err)
				}
				if _, err = Unpack(body); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(body))/MaxRecords, "bytes/record")
		})
	}
}
