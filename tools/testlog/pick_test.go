package main

import (
	"go/ast"
	"slices"
	"strings"
	"testing"

	"urltree/internal/testshare"
)

// TestTestsOf: a test has a long form if it asks for -short, itself or through functions.
func TestTestsOf(t *testing.T) {
	src := `package a
func TestMain(m *testing.M) { testing.Short() }
func TestItself(t *testing.T) { t.Run("", func(t *testing.T) { if testing.Short() { t.Skip() } }) }
func TestThrough(t *testing.T) { one() }
func TestNever(t *testing.T) { three() }
func Testing(t *testing.T) { testing.Short() }
func one() int { return two() }
func two() int { if testing.Short() { return 1 }; return 2 }
func three() int { return 3 }
func (x short) TestMethod() { testing.Short() }
`
	file, err := parse("a_test.go", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	files := []*ast.File{file}
	if got, want := testsOf(files, true), []string{"TestItself", "TestThrough"}; !slices.Equal(got, want) {
		t.Errorf("with a long form: %v, want %v", got, want)
	}
	if got, want := testsOf(files, false), []string{"TestItself", "TestNever", "TestThrough"}; !slices.Equal(got, want) {
		t.Errorf("all: %v, want %v", got, want)
	}
}

// TestPick: the shares together are the whole, and no test is in two.
func TestPick(t *testing.T) {
	t.Setenv(testshare.Variable, "")
	whole, err := pick([]string{"-count=1", "."}, false, true)
	if err != nil {
		t.Fatal(err)
	}
	if len(whole) != 4 || whole[0] != "-count=1" || whole[1] != "-run" || whole[3] != "urltree/tools/testlog" {
		t.Errorf("%q", whole)
	}
	names := func(args []string) []string {
		return strings.Split(strings.Trim(args[len(args)-2], "^()$"), "|")
	}
	var both []string
	for _, share := range []string{"1/2", "2/2"} {
		t.Setenv(testshare.Variable, share)
		part, err := pick([]string{"."}, false, true)
		if err != nil {
			t.Fatal(err)
		}
		both = append(both, names(part)...)
	}
	slices.Sort(both)
	if want := names(whole); !slices.Equal(both, want) {
		t.Errorf("two shares have %q, the whole %q", both, want)
	}
	if long, err := pick([]string{"."}, true, false); err != nil || long != nil {
		t.Errorf("with a long form: %q, %v, want none", long, err)
	}
}
