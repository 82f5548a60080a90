package strace

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	got := parse(`% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 60.00    0.003000           3      1000         7 read
 40.00    0.002000           2       900           write
  0.00    0.000000           0         1           execve
------ ----------- ----------- --------- --------- ----------------
100.00    0.005000           2      1901         7 total
`)
	want := map[string]int{"read": 1000, "write": 900, "execve": 1}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
