package iut_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"urltree/iut"
)

// TestSeedMarks reads on from any mark, and notices a file that is another one or shorter.
func TestSeedMarks(t *testing.T) {
	root := filepath.Join(t.TempDir(), "iut")
	tree, err := iut.Open(root, iut.Options{Identity: &iut.Identity{Canonical: "1", Partition: "host"}})
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	want := []string{"http://a.org/", "http://b.org/" + strings.Repeat("x", 200_000), "http://c.org/"}
	if err := tree.AddSeeds(context.Background(), want); err != nil {
		t.Fatal(err)
	}
	marks := []iut.SeedMark{{}}
	read := func(from iut.SeedMark) (got []string, err error) {
		err = tree.Seeds(from, func(url string, mark iut.SeedMark) error {
			if got = append(got, url); from == (iut.SeedMark{}) {
				marks = append(marks, mark)
			}
			return nil
		})
		return got, err
	}
	if got, err := read(iut.SeedMark{}); err != nil || !slices.Equal(got, want) {
		t.Fatalf("%.50q, %v", got, err)
	}
	for i, mark := range marks[1:] {
		if got, err := read(mark); err != nil || !slices.Equal(got, want[i+1:]) {
			t.Errorf("after %d seeds: %.50q, %v", i+1, got, err)
		}
	}
	last := marks[3]
	for _, mark := range []iut.SeedMark{{last.Bytes, last.Sum + 1}, {last.Bytes + 1, last.Sum}, {0, 1}} {
		if got, err := read(mark); !errors.Is(err, iut.ErrSeedMark) || got != nil {
			t.Errorf("mark %+v: %.50q, %v", mark, got, err)
		}
	}
	if err := os.Remove(filepath.Join(root, "seeds.txt")); err != nil {
		t.Fatal(err)
	}
	if _, err := read(last); !errors.Is(err, iut.ErrSeedMark) {
		t.Errorf("without a file: %v", err)
	}
}

// TestAddSeedsTwice: what the file has, and what comes twice in a call, is not added.
func TestAddSeedsTwice(t *testing.T) {
	root := filepath.Join(t.TempDir(), "iut")
	tree, err := iut.Open(root, iut.Options{Identity: &iut.Identity{Canonical: "1", Partition: "host"}})
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	var all string
	for n := range 5 {
		urls := []string{"http://a.org/", fmt.Sprintf("http://a.org/%d", n), fmt.Sprintf("http://a.org/%d", n)}
		if err := tree.AddSeeds(context.Background(), urls); err != nil {
			t.Fatal(err)
		}
		all += strings.Join(urls[min(n, 1):2], "\n") + "\n"
	}
	if got, err := os.ReadFile(filepath.Join(root, "seeds.txt")); err != nil || string(got) != all {
		t.Errorf("%q, %v; want %q", got, err, all)
	}
}
