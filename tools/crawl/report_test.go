//go:build linux

package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// The table and the JSON give the same figures.
func TestReport(t *testing.T) {
	r := report{
		Result: crawlResult{Pages: 1000, CPU: 0.25, User: 0.2, Wall: 0.5, Allocs: 144_000, Alloced: 9_000_000, Written: 34_000_000},
		Traced: 208, Calls: map[string]float64{"write": 4.25, "openat": 2.5, "nanosleep": 70},
	}
	r.sum()
	var table strings.Builder
	if err := r.write(&table); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| sum (user 200.0, system 50.0) | 250.0 | |", "| pages/s, with the profile | 2000 |", "| allocations/page | 144 |",
		"| bytes written/page, requests included | 34000 |", "| system calls/page of the first 208, without nanosleep | 6.8 |",
	} {
		if !strings.Contains(table.String(), want+"\n") {
			t.Errorf("no %q in\n%s", want, table.String())
		}
	}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]float64{
		"cpu_us_per_page": 250, "pages_per_s": 2000, "allocations_per_page": 144, "allocated_bytes_per_page": 9000,
		"written_bytes_per_page": 34000, "system_calls_per_page_without_nanosleep": 6.75, "system_calls_of_first_pages": 208,
	} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	for _, name := range []string{"machine", "command", "stages"} {
		if _, found := got[name]; !found {
			t.Errorf("the JSON has no %s", name)
		}
	}
}

func TestFlags(t *testing.T) {
	for _, tt := range []struct{ args, says string }{
		{"", ""},
		{"-json a.json -json b.json -disk ext4 -corpus c", ""},
		{"stray", `argument "stray"`},
		{"-pages 0", "at least 1"},
		{"-sync half", "full or none"},
		{"-disk xfs", "ext4 or tmpfs"},
		{"-traced -1", "-traced -1"},
		{"-cpu -1", "from 0 on"},
	} {
		b, err := parse(strings.Fields(tt.args))
		if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%q: %v", tt.args, err)
		}
		if err != nil || b.json == "" {
			continue
		}
		if b.json != "b.json" {
			t.Errorf("%q: %s, want the last", tt.args, b.json)
		}
		if needs := b.needs(); !slices.Contains(needs, "nginx") || !slices.Contains(needs, "mkfs.ext4") {
			t.Errorf("%q needs %q", tt.args, needs)
		}
	}
}
