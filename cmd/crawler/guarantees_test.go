package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestGuarantees: every file, test and target of make that docs/guarantees.md names is there.
func TestGuarantees(t *testing.T) {
	const root = "../.."
	text, err := os.ReadFile(filepath.Join(root, "docs", "guarantees.md"))
	if err != nil {
		t.Fatal(err)
	}
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	tests := regexp.MustCompile(`^([a-z/]+)\.((?:Test|Fuzz)\w+)$`)
	found := map[string]int{}
	for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(string(text), -1) {
		name := m[1]
		target, isTarget := strings.CutPrefix(name, "make ")
		switch test := tests.FindStringSubmatch(name); {
		case test != nil:
			found["tests"]++
			if !hasTest(t, filepath.Join(root, test[1]), test[2]) {
				t.Errorf("there is no test %s", name)
			}
		case isTarget:
			found["targets"]++
			if !strings.Contains(string(makefile), "\n"+target+":") {
				t.Errorf("there is no target %s", name)
			}
		case strings.Contains(name, "/"):
			found["files"]++
			if _, err := os.Stat(filepath.Join(root, name)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if found["tests"] < 40 || found["files"] < 20 || found["targets"] < 2 {
		t.Errorf("only %v are named, or this test does not see them", found)
	}
}

// hasTest reports whether a test of that name is in the folder of a package.
func hasTest(t *testing.T, folder, name string) bool {
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(source), "\nfunc "+name+"(") {
			return true
		}
	}
	return false
}
