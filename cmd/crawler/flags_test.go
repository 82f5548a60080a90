package main

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"urltree/internal/words"
)

// TestDefaults: an option that no flag has changed is the one that the help text names.
func TestDefaults(t *testing.T) {
	f := newFlags()
	for _, o := range f.all {
		if o.value.String() != o.usual && o.name != "user-agent" {
			t.Errorf("-%s: %q is not %q", o.name, o.value, o.usual)
		}
		if _, ok := o.value.(toggle); !ok && o.usual == "" {
			t.Errorf("-%s names no default", o.name)
		}
	}
	o := f.options()
	if o.MaxDepth != 0 || o.NoSync || o.Delay != 0 || o.Buffers != 6 || o.BufferSize != 1000 || o.Crawlers != 12 {
		t.Errorf("defaults: %+v", o)
	}
}

// TestInstants: a moment is a date, a time or so long ago; the end of a range has the whole day.
func TestInstants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // where it is 2000-01-01
		for _, tt := range []struct{ in, from, to string }{
			{"1999-12-30", "1999-12-30T00:00:00Z", "1999-12-31T00:00:00Z"},
			{"1999-12-30T10:00:00+02:00", "1999-12-30T08:00:00Z", "1999-12-30T08:00:00Z"},
			{"1999-12-30T10:00:00.5Z", "1999-12-30T10:00:00Z", "1999-12-30T10:00:00Z"},
			{"7d", "1999-12-25T00:00:00Z", "1999-12-25T00:00:00Z"},
			{"1h30m", "1999-12-31T22:30:00Z", "1999-12-31T22:30:00Z"},
			{"0s", "2000-01-01T00:00:00Z", "2000-01-01T00:00:00Z"},
			{"", "", ""},
			{"yesterday", "", ""},
			{"-7d", "", ""},
			{"1999-12", "", ""},
			{"1960-01-01", "", ""},
			{"40000d", "", ""},
			{"1999-12-30T10:00:00", "", ""},
			{"1999-02-30", "", ""},
		} {
			for _, side := range []struct {
				end  bool
				want string
			}{{false, tt.from}, {true, tt.to}} {
				var at int64
				got, err := "", instant{&at, side.end}.Set(tt.in)
				if err == nil {
					got = time.Unix(at, 0).UTC().Format(time.RFC3339)
				}
				if got != side.want {
					t.Errorf("%q, end %v: %s, %v, want %s", tt.in, side.end, got, err, side.want)
				}
			}
		}
	})
}

func TestValues(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		want     int64 // math.MinInt64: refused
	}{
		{"bytes", "1", 1},
		{"unit", "16MiB", 16 << 20},
		{"short", "1.5k", 1536},
		{"powers of ten", "2 GB", 2e9},
		{"none", "", math.MinInt64},
		{"zero", "0", math.MinInt64},
		{"negative", "-1k", math.MinInt64},
		{"words", "NaN", math.MinInt64},
		{"endless", "Inf", math.MinInt64},
		{"too large", "9e18", math.MinInt64},
	} {
		t.Run("size/"+tt.name, func(t *testing.T) {
			n := int64(math.MinInt64)
			v := amount[int64]{in: sizes, p: &n, least: 1}
			err := v.Set(tt.in)
			if (err != nil) != (tt.want == math.MinInt64) || n != tt.want {
				t.Fatalf("Set(%q): %d, %v; want %d", tt.in, n, err, tt.want)
			}
			if err == nil {
				if again := v.Set(v.String()); again != nil || n != tt.want {
					t.Errorf("%q does not give itself: %d, %v", v, n, again)
				}
			}
		})
	}
	for _, tt := range []struct {
		name, in string
		want     time.Duration
		ok       bool
	}{
		{"the word", "auto", 0, true},
		{"none at all", "0", -1, true},
		{"usual", "1m30s", 90 * time.Second, true},
		{"hours", "10h", 10 * time.Hour, true},
		{"days", "1d", 24 * time.Hour, true},
		{"weeks", "2w", 14 * 24 * time.Hour, true},
		{"days and hours", "1d12h", 36 * time.Hour, true},
		{"parts of a day", "1w0.1d.5h", 7*24*time.Hour + 144*time.Minute + 30*time.Minute, true},
		{"too many weeks", "99999999w", 7, false},
		{"no number", "d", 7, false},
		{"days below 0", "-1d", 7, false},
		{"no unit", "10", 7, false},
		{"negative", "-1s", 7, false},
	} {
		t.Run("delay/"+tt.name, func(t *testing.T) {
			d := time.Duration(7)
			err := amount[time.Duration]{in: times, p: &d, word: "auto"}.Set(tt.in)
			if (err == nil) != tt.ok || d != tt.want {
				t.Errorf("Set(%q): %v, %v; want %v", tt.in, d, err, tt.want)
			}
		})
	}
}

// TestTimes: a time is written as it is read, and in few units.
func TestTimes(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 250 * time.Millisecond: "250ms", 10 * time.Second: "10s", 10 * time.Minute: "10m", 61 * time.Second: "1m1s",
		10 * time.Hour: "10h", 10*time.Hour + 10*time.Minute: "10h10m", time.Hour + time.Second: "1h0m1s",
		24 * time.Hour: "1d", 36 * time.Hour: "1d12h", 15*24*time.Hour + time.Minute: "15d1m",
	} {
		if got := words.Duration(d); got != want {
			t.Errorf("%s is written %s, want %s", d, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		unit := rapid.SampledFrom([]time.Duration{1, time.Microsecond, time.Second, time.Minute, time.Hour, 24 * time.Hour}).Draw(t, "unit")
		d := unit * time.Duration(rapid.Int64Range(0, 10_000).Draw(t, "number"))
		if again, err := parseTime(words.Duration(d)); again != int64(d) {
			t.Fatalf("%s is written %s and read %d, %v", d, words.Duration(d), again, err)
		}
	})
}

// TestGoOn: the line that goes on keeps every argument but secrets and standard input, and a
// shell reads it as it was.
func TestGoOn(t *testing.T) {
	for _, tt := range []struct{ name, args, want string }{
		{"plain", "crawler|-time|1s|http://a/?x=1&y", "crawler -time 1s 'http://a/?x=1&y'"},
		{"quotes", "crawler|-user-agent|it's", `crawler -user-agent 'it'\''s'`},
		{"password", "crawler|-password|secret|-user|me", "crawler -password ... -user me"},
		{"joined", "crawler|--password=secret|http://a/", "crawler -password ... http://a/"},
		{"header", "crawler|-header=Cookie: secret", "crawler -header 'Cookie: ...'"},
		{"proxy", "crawler|-proxy|http://me:secret@b:1", "crawler -proxy http://me:xxxxx@b:1"},
		{"seed", "crawler|-quiet|http://me:secret@b/", "crawler -quiet http://me:xxxxx@b/"},
		{"seed with another spelling", "crawler|-quiet|http://me:100%secret@b/", "crawler -quiet http://...@b/"},
		{"at sign", "crawler|-user-agent|bot (me@a.org): x|https://b/@me", "crawler -user-agent 'bot (me@a.org): x' https://b/@me"},
		{"standard input", "crawler|-input|-|-quiet", "crawler -quiet"},
		{"file", "crawler|-input|a b|-quiet", "crawler -input 'a b' -quiet"},
		{"switches", "crawler|-sitemaps=false|-edges=true|http://a/", "crawler -sitemaps=false -edges http://a/"},
		{"behind the seed", "crawler|http://a/|-quiet|-scope=host", "crawler -quiet -scope host http://a/"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newCommand(strings.Split(tt.args, "|"))
			if _, _, err := c.parse(nil); err != nil {
				t.Fatal(err)
			}
			got := c.goOn()
			if got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
			if strings.Contains(got, "secret") {
				t.Errorf("a secret: %s", got)
			}
		})
	}
}

// TestOutputFails: a reader that has gone is no error, a full disk is one.
func TestOutputFails(t *testing.T) {
	for _, tt := range []struct {
		name   string
		err    error
		code   int
		stderr string
	}{
		{"reader gone", syscall.EPIPE, exitDone, ""},
		{"disk full", syscall.ENOSPC, exitDisk, "crawler: no space left on device\n"},
		{"something else", errors.New("odd"), exitOther, "crawler: odd\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var stderr bytes.Buffer
			code := run([]string{"crawler", "version"}, strings.NewReader(""), failing{tt.err}, &stderr)
			if code != tt.code || stderr.String() != tt.stderr {
				t.Errorf("exit %d, %q; want %d, %q", code, &stderr, tt.code, tt.stderr)
			}
		})
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
