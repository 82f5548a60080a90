package iut

import (
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"testing"

	"urltree/storage/record"
)

var sample = Facts{
	URL: "https://example.org/a", Source: "https://example.org/", Page: record.Page{
		Time: 1700000000, Status: 200, Bytes: 5, Digest: [32]byte{1, 2, 3}, Media: "text/html", Charset: "utf-8",
		Flags: "-", HeaderLinks: "https://example.org/b https://example.org/c", PageDepth: 3,
	},
}

func TestLine(t *testing.T) {
	const want = "https://example.org/a\thttps://example.org/\t3\t2023-11-14T22:13:20Z\t200\ttext/html\tutf-8\t-\t" +
		"https://example.org/b https://example.org/c\t5\t0102030000000000000000000000000000000000000000000000000000000000\t"
	got := string(sample.AppendLine([]byte("before")))
	if !strings.HasPrefix(got, "before"+want) || len(got) != len("before"+want)+9 {
		t.Fatalf("AppendLine = %q, want %q, checksum and line end", got, want)
	}
	if back, err := parseLine([]byte(got[len("before"):])); err != nil || back != sample {
		t.Fatalf("parseLine = %+v, %v; want %+v", back, err, sample)
	}
}

func TestClean(t *testing.T) {
	page := func(change func(*Facts)) Facts {
		f := sample
		change(&f)
		return f
	}
	for _, tt := range []struct {
		name     string
		in, want Facts
	}{
		{"clean", sample, sample},
		{"empty", Facts{}, Facts{Page: record.Page{Flags: "-"}}},
		{"tab in type", page(func(f *Facts) { f.Media = "text\t/html\r\n" }), sample},
		{"not ASCII", page(func(f *Facts) { f.Charset = "utf-8\xff\u2028" }), sample},
		{"no flags", page(func(f *Facts) { f.Flags = "" }), sample},
		{"spaces", page(func(f *Facts) { f.HeaderLinks = " https://example.org/b\n\n- https://example.org/c\x00" }), page(func(f *Facts) { f.HeaderLinks = "https://example.org/b - https://example.org/c" })},
		{"sign for empty", page(func(f *Facts) { f.Media, f.HeaderLinks = "-", " - " }), page(func(f *Facts) { f.Media, f.HeaderLinks = "", "" })},
		{"long type", page(func(f *Facts) { f.Media = strings.Repeat("x", 999) }), page(func(f *Facts) { f.Media = strings.Repeat("x", 128) })},
		{"times", page(func(f *Facts) { f.Time, f.Bytes = 1<<62, -1 }), page(func(f *Facts) { f.Time, f.Bytes = 253402300799, 0 })},
		{"before time", page(func(f *Facts) { f.Time = -1 }), page(func(f *Facts) { f.Time = 0 })},
	} {
		t.Run(tt.name, func(t *testing.T) {
			checkClean(t, tt.in)
			if got := tt.in.clean(); got != tt.want {
				t.Errorf("Clean = %+v, want %+v", got, tt.want)
			}
		})
	}
}

// checkClean checks the laws of Clean.
func checkClean(t *testing.T, f Facts) {
	t.Helper()
	clean := f.clean()
	if again := clean.clean(); again != clean {
		t.Errorf("not idempotent: %+v becomes %+v", clean, again)
	}
	if back, err := parseLine(f.AppendLine(nil)); err != nil || back != clean {
		t.Errorf("parseLine(AppendLine) = %+v, %v; want %+v", back, err, clean)
	}
}

func FuzzClean(f *testing.F) {
	f.Add("http://a/", "seed", uint32(1), int64(1700000000), uint16(200), "text/html", "-", "nt", "http://b/ - ", int64(5), []byte("digest"))
	f.Fuzz(func(t *testing.T, url, source string, depth uint32, at int64, status uint16, media, charset, flags, links string, size int64, digest []byte) {
		facts := Facts{URL: url, Source: source, Page: record.Page{
			Time: at, Status: status, Bytes: size, Media: media, Charset: charset, Flags: flags, HeaderLinks: links, PageDepth: depth,
		}}
		copy(facts.Digest[:], digest)
		checkClean(t, facts)
	})
}

func TestParseLineTorn(t *testing.T) {
	line := string(sample.AppendLine(nil))
	reseal := func(old, new string) string { // a line that only its writer can have made
		f := sample.AppendLine(nil)
		body := strings.Replace(string(f[:len(f)-9]), old, new, 1)
		return sealLine(body)
	}
	for _, tt := range []struct{ name, line string }{
		{"nothing", ""},
		{"no end", line[:len(line)-1]},
		{"twice", line + line},
		{"more behind", line + "x"},
		{"one bit", strings.Replace(line, "/a\t", "/c\t", 1)},
		{"capital checksum", line[:len(line)-9] + strings.ToUpper(line[len(line)-9:len(line)-1]) + "\n"},
		{"field missing", reseal("\tutf-8", "")},
		{"other zone", reseal("22:13:20Z", "22:13:20+01:00")},
		{"leading zero", reseal("\t200\t", "\t0200\t")},
		{"status too large", reseal("\t200\t", "\t65536\t")},
		{"negative", reseal("\t5\t", "\t-5\t")},
		{"short digest", reseal("0102", "02")},
		{"capital digest", reseal("010203", "01020A")},
		{"empty field", reseal("\tutf-8\t", "\t\t")},
		{"two spaces", reseal("b https", "b  https")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.line == line {
				t.Fatal("the case is no case")
			}
			if f, err := parseLine([]byte(tt.line)); !errors.Is(err, ErrTorn) {
				t.Errorf("parseLine = %+v, %v; want ErrTorn", f, err)
			}
		})
	}
	for n := range len(line) {
		if _, err := parseLine([]byte(line[:n])); !errors.Is(err, ErrTorn) {
			t.Fatalf("the first %d bytes of a line: %v, want ErrTorn", n, err)
		}
	}
}

func FuzzParseLine(f *testing.F) {
	f.Add(string(sample.AppendLine(nil)), false)
	f.Add(strings.TrimSuffix(string(sample.AppendLine(nil)), "\n"), true)
	f.Fuzz(func(t *testing.T, line string, seal bool) {
		if seal {
			line = sealLine(line)
		}
		facts, err := parseLine([]byte(line))
		if err != nil {
			return
		}
		if again := string(facts.AppendLine(nil)); again != line {
			t.Fatalf("%q parses and encodes to %q", line, again)
		}
	})
}

// sealLine appends the checksum to the fields before it, which end in a tab.
func sealLine(body string) string {
	return fmt.Sprintf("%s%08x\n", body, crc32.Checksum([]byte(body), castagnoli))
}

func TestKeepVisible(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"", ""},
		{"text/html", "text/html"},
		{" text/\thtml\n", "text/html"},
		{"!~", "!~"},
		{"a\x7fb\x00c", "abc"},
		{"\u00e9t\u00e9\xff", "t"},
		{"\u00e9", ""},
	} {
		if got := keepVisible(tt.in); got != tt.want {
			t.Errorf("keepVisible(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
}
