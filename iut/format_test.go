package iut

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var sampleFormat = Format{
	Identity: Identity{Canonical: "1", Strip: "utm_* sid", Partition: "host"},
	Links: LinkOptions{
		Scope: "domain", Include: []string{"^https://a/", " leading space"}, Exclude: []string{"", "a = b", "\xff\n\"x\""},
		MaxDepth: -1, Assets: true, Robots: "obey", Accept: []string{"text/html"},
	},
	Sync: "syncfs",
}

func TestFormatRoundTrip(t *testing.T) {
	for _, tt := range []struct {
		name string
		f    Format
	}{{"zero", Format{}}, {"full", sampleFormat}} {
		t.Run(tt.name, func(t *testing.T) {
			text := tt.f.append(nil)
			got, _, err := parseFormat(text)
			if diff := cmp.Diff(tt.f, got); err != nil || diff != "" {
				t.Fatalf("%v, want what was written:\n%s", err, diff)
			}
			for n := range len(text) {
				if _, _, err := parseFormat(text[:n]); !errors.Is(err, ErrFormat) {
					t.Fatalf("the first %d bytes: %v, want ErrFormat", n, err)
				}
			}
		})
	}
}

func TestFormatStrict(t *testing.T) {
	text := string(sampleFormat.append(nil))
	for _, tt := range []struct{ name, old, new, where string }{
		{"later version", "urltree 3", "urltree 4", "line 1"},
		{"unknown key", "scope", "scape", "line 9: scape"},
		{"missing key", "robots = obey\n", "", "line"},
		{"key twice", "robots = obey\n", "robots = obey\nrobots = obey\n", "line"},
		{"order", "# Fixed", "sync = syncfs\n# Fixed", "line 2"},
		{"not a number", "max-depth = -1", "max-depth = far", "max-depth"},
		{"not a word", "assets = yes", "assets = true", "line"},
		{"spaces", "scope = domain", "scope =  domain", "line 9"},
		{"needless quotes", "scope = domain", `scope = "domain"`, "line 9"},
		{"no key", "robots = obey", "robots", "want key = value"},
		{"more behind", "robots = obey\n", "robots = obey\n\n", "line"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			changed := strings.Replace(text, tt.old, tt.new, 1)
			_, _, err := parseFormat([]byte(changed))
			if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), tt.where) {
				t.Errorf("%v, want ErrFormat at %q", err, tt.where)
			}
		})
	}
}

// TestFormatComments writes other comments into FORMAT: they are for people.
func TestFormatComments(t *testing.T) {
	text := string(sampleFormat.append(nil))
	changed := strings.Replace(strings.Replace(text, "# Fixed", "# fixed", 1), "scope = ", "# mine\nscope = ", 1)
	got, _, err := parseFormat([]byte(changed))
	if diff := cmp.Diff(sampleFormat, got); err != nil || diff != "" {
		t.Errorf("%v, want what was written:\n%s", err, diff)
	}
	_, _, err = parseFormat([]byte(strings.Replace(changed, "scope = ", "scape = ", 1)))
	if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "line 10: scape") {
		t.Errorf("%v, want ErrFormat at line 10", err)
	}
}

func FuzzFormat(f *testing.F) {
	f.Add(sampleFormat.append(nil))
	f.Add((&Format{}).append(nil))
	f.Fuzz(func(t *testing.T, text []byte) {
		format, version, err := parseFormat(text)
		if err != nil {
			return
		}
		want, _ := withoutComments(text)
		if again, _ := withoutComments(format.appendVersion(nil, version)); !slices.Equal(again, want) {
			t.Fatalf("%q parses and encodes to %q", text, again)
		}
	})
}
