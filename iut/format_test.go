package iut

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var sampleFormat = Format{
	Identity: Identity{Canonical: "1", Strip: "utm_* sid", Partition: "host"},
	Kept: Kept{
		Options: []string{"scope=domain", "exclude=^https://a/", "exclude= =\n\"", "assets=true", ""},
		Secrets: []string{"user", "password"},
	},
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
			got, _, err = parseFormat(bytes.ReplaceAll(text, []byte("\n"), []byte("\r\n")))
			if diff := cmp.Diff(tt.f, got); err != nil || diff != "" {
				t.Fatalf("with CR LF: %v, want what was written:\n%s", err, diff)
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
		{"later version", "urltree 4", "urltree 5", "line 1"},
		{"older than its keys", "urltree 4", "urltree 3", "line 8"},
		{"unknown key", "scope = ", "scape = ", "line 17: scape"},
		{"options behind secrets", "secret = user\n", "secret = user\noption = scope=host\n", "line"},
		{"missing key", "robots = obey\n", "", "line"},
		{"key twice", "robots = obey\n", "robots = obey\nrobots = obey\n", "line"},
		{"order", "# Fixed", "sync = syncfs\n# Fixed", "line 2"},
		{"not a number", "max-depth = -1", "max-depth = far", "max-depth"},
		{"not a word", "assets = yes", "assets = true", "line"},
		{"spaces", "scope = domain", "scope =  domain", "line 17"},
		{"needless quotes", "scope = domain", `scope = "domain"`, "line 17"},
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

// TestFormatOfBefore reads FORMAT of each older version: what it had no key for is zero.
func TestFormatOfBefore(t *testing.T) {
	for version := oldestFormat; version < formatVersion; version++ {
		want := sampleFormat
		want.Kept = Kept{}
		want.Links.Budgets = Budgets{Host: 1, Prefix: 2, Query: 3, Repeat: 4, Depth: 5, MaxHeld: 6}
		if version >= 3 {
			want.Links.Budgets.Domain = 7
		}
		got, is, err := parseFormat(want.appendVersion(nil, version))
		if diff := cmp.Diff(want, got); err != nil || is != version || diff != "" {
			t.Errorf("version %d is read as %d: %v, want what was written:\n%s", version, is, err, diff)
		}
	}
	if _, _, err := parseFormat(sampleFormat.appendVersion(nil, oldestFormat-1)); !errors.Is(err, ErrFormat) {
		t.Errorf("a version that is too old: %v, want ErrFormat", err)
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
	if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "line 18: scape") {
		t.Errorf("%v, want ErrFormat at line 18", err)
	}
}

func FuzzFormat(f *testing.F) {
	f.Add(sampleFormat.append(nil))
	f.Add((&Format{}).append(nil))
	for version := oldestFormat; version < formatVersion; version++ {
		f.Add(sampleFormat.appendVersion(nil, version))
	}
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
