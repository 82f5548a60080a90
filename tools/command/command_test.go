package command

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMistakes(t *testing.T) {
	flags := flag.NewFlagSet("x", flag.ContinueOnError)
	flags.Int("runs", 3, "")
	parsed := Parse(flags, []string{"-runs", "many"})
	if err := Parse(flags, []string{"-runs", "4", "stray"}); err != nil {
		t.Fatal(err)
	}
	_, stray := More(flags)
	for _, tt := range []struct {
		err  error
		code int
		says string
	}{
		{nil, 0, ""},
		{flag.ErrHelp, 0, ""},
		{errors.New("disk"), 1, "x: disk\n"},
		{fmt.Errorf("x: %w", Mistake("-runs %d", 0)), 2, "x: x: -runs 0\n"},
		{parsed, 2, `invalid value "many" for flag -runs`},
		{stray, 2, `"stray"`},
	} {
		var b bytes.Buffer
		if got := code(&b, "x", tt.err); got != tt.code || !strings.Contains(b.String(), tt.says) || strings.Count(b.String(), "\n") > 1 {
			t.Errorf("%v: %d and %q, want %d and %q in one line", tt.err, got, b.String(), tt.code, tt.says)
		}
	}
	if err := Parse(flags, []string{"--", "-crawlers", "64"}); err != nil {
		t.Fatal(err)
	}
	if more, err := More(flags); err != nil || len(more) != 2 {
		t.Errorf("%q, %v", more, err)
	}
}

func TestInstalled(t *testing.T) {
	err := Installed("go", "no-such-program", "nor-this-one")
	if err == nil || !strings.HasSuffix(err.Error(), ": no-such-program, nor-this-one") {
		t.Error(err)
	}
	if err := Installed("go"); err != nil {
		t.Error(err)
	}
}

func TestShared(t *testing.T) {
	t.Setenv("SHARED", "")
	if got := Shared("synthweb"); got != "../shared/synthweb" {
		t.Error(got)
	}
	t.Setenv("SHARED", "/data")
	if got := Shared("synthweb"); got != "/data/synthweb" {
		t.Error(got)
	}
}

// TestToRoot: a command that starts in the folder of this module goes on in that of the repository,
// and one that starts elsewhere stays there.
func TestToRoot(t *testing.T) {
	t.Chdir("..")
	for range 2 {
		if err := toRoot(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join("cmd", "crawler")); err != nil {
			t.Fatal(err)
		}
	}
}
