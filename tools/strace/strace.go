// Package strace counts the system calls of a program, by the tool of that name.
package strace

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Command returns what a command line begins with so that the calls of its program and of all its
// threads are counted into a file.
func Command(file string) []string { return []string{"strace", "-f", "-c", "-o", file} }

// Calls reads that file: the number of calls by name.
func Calls(file string) (map[string]int, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	calls := parse(string(text))
	if len(calls) == 0 {
		return nil, fmt.Errorf("%s: strace has counted no calls", file)
	}
	return calls, nil
}

// parse reads the table that strace prints.
func parse(table string) map[string]int {
	calls := map[string]int{}
	for line := range strings.Lines(table) {
		// % time, seconds, usecs/call, calls, errors where there are any, name
		fields := strings.Fields(line)
		if len(fields) < 5 || fields[len(fields)-1] == "total" {
			continue
		}
		if n, err := strconv.Atoi(fields[3]); err == nil {
			calls[fields[len(fields)-1]] = n
		}
	}
	return calls
}
