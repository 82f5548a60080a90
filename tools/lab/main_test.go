package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestCommand: the experiments make a document and pictures, and leave nothing else.
func TestCommand(t *testing.T) {
	temp, out := t.TempDir(), filepath.Join(t.TempDir(), "made", "docs")
	t.Setenv("TMPDIR", temp)
	if err := run(t.Context(), []string{"-scale", "0.001", "-only", "e1,E10", "-out", out}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(out, "experiments.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{`## Source E, table 1: .*`, `\| 8 \| .* \| 0\.95 \| 0\.93 \|`, `!\[.*\]\(experiments/e10-1\.svg\)`} {
		if !regexp.MustCompile("(?m)^" + line + "$").Match(text) {
			t.Errorf("no line %s in\n%s", line, text)
		}
	}
	if strings.Contains(string(text), "\n## Source A") {
		t.Error("there is an experiment that was not asked for")
	}
	if _, err := os.Stat(filepath.Join(out, "experiments", "e10-1.svg")); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(temp); len(left) != 0 || err != nil {
		t.Errorf("left: %v, %v", left, err)
	}
	file := filepath.Join(temp, "file")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), []string{"-scale", "0.001", "-only", "E1", "-out", filepath.Join(file, "x")}); err == nil {
		t.Error("a folder below a file was made")
	}
}

func TestParse(t *testing.T) {
	for _, tt := range []struct{ args, says string }{
		{"-scale 0", "above 0"},
		{"-scale NaN", "above 0"},
		{"-only A7,X", "A7,D3"},
		{"more", `"more"`},
		{"-scale 2 -only d1", ""},
	} {
		_, _, err := parse(strings.Fields(tt.args))
		if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v", tt.args, err)
		}
	}
}
