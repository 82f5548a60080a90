package main

import (
	"strings"
	"testing"
)

func TestSum(t *testing.T) {
	of := func(disk, tool string, user float64) measurement {
		return measurement{Disk: disk, Tool: tool, usage: usage{User: user, System: 1, Wall: 4}, Files: 1000}
	}
	r := report{Runs: []measurement{
		of("ext4", "crawler", 1), of("ext4", "wget2", 3), of("tmpfs", "crawler", 1),
		of("ext4", "crawler", 9), of("ext4", "wget2", 7), of("ext4", "crawler", 2),
	}}
	r.Runs[3].Missing = 5
	r.sum()
	if len(r.Rows) != 3 {
		t.Fatalf("%d rows, want 3", len(r.Rows))
	}
	w := r.Rows[0]
	if w.Tool != "crawler" || w.CPU != 3 || w.Least != 2 || w.Most != 10 || w.Ratio != 1 || w.Speed != 250 || w.Missing != 5 {
		t.Errorf("the crawler's row is %+v", w)
	}
	if w := r.Rows[1]; w.Tool != "wget2" || w.CPU != 4 || w.Ratio != 0.75 {
		t.Errorf("wget2's row is %+v", w)
	}
	if w := r.Rows[2]; w.Disk != "tmpfs" || w.Ratio != 1 {
		t.Errorf("the row of the other disk is %+v", w)
	}
}

func TestCompare(t *testing.T) {
	want := []string{"c", "a", "b"} // a walk with another port may have another order
	for _, tt := range []struct {
		name   string
		stored []string
		says   string
	}{
		{"same", []string{"a", "b", "c"}, ""},
		{"missing", []string{"a", "c"}, `1 are missing: ["b"]; 0 more`},
		{"more", []string{"a", "b", "c", "d"}, `0 are missing: []; 1 more: ["d"]`},
		{"twice", []string{"a", "b", "c", "c"}, "4 pages, 3 can be reached"},
	} {
		err := compare(tt.stored, want)
		if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}
