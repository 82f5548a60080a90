//go:build linux

package main

import (
	"bytes"
	"path/filepath"
	"regexp"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestSmall measures a small tree from end to end: each order, with a filter that fits and one that
// does not, has two times.
func TestSmall(t *testing.T) {
	out := t.TempDir()
	t.Chdir(filepath.Join("..", ".."))
	var table bytes.Buffer
	if err := run(t.Context(), []string{"-known", "2000", "-hosts", "20", "-held", "10", "-out", out}, &table); err != nil {
		t.Fatal(err)
	}
	if rows := regexp.MustCompile(`(?m)^\| [a-z -]+ \| \d+ MiB \| \d+\.\d\d \| \d+\.\d\d \|$`).FindAllString(table.String(), -1); len(rows) != 8 {
		t.Errorf("%d rows of 8:\n%s", len(rows), &table)
	}
}
