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

	"urltree/internal/faultfs"
	"urltree/iut"
)

// addSeeds adds a list of one part.
func addSeeds(tree *iut.Tree, urls []string) error {
	list := tree.SeedList()
	defer list.Close()
	return list.Add(context.Background(), urls)
}

// TestSeedMarks reads on from any mark, and notices a file that is another one or shorter.
func TestSeedMarks(t *testing.T) {
	root := filepath.Join(t.TempDir(), "iut")
	tree, err := iut.Open(root, iut.Options{Identity: &iut.Identity{Canonical: "1", Partition: "host"}})
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	want := []string{"http://a.org/", "http://b.org/" + strings.Repeat("x", 200_000), "http://c.org/"}
	if err := addSeeds(tree, want); err != nil {
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

// TestAddSeedsTwice: what the file has, and what comes twice in a part, is not added.
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
		if err := addSeeds(tree, urls); err != nil {
			t.Fatal(err)
		}
		all += strings.Join(urls[min(n, 1):2], "\n") + "\n"
	}
	if got, err := os.ReadFile(filepath.Join(root, "seeds.txt")); err != nil || string(got) != all {
		t.Errorf("%q, %v; want %q", got, err, all)
	}
}

// TestSeedLists adds long lists in many parts: seeds.txt is read once for each, and a list that was
// added whole, even if only after kills, adds nothing any more.
func TestSeedLists(t *testing.T) {
	root := filepath.Join(t.TempDir(), "iut")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	disk, err := iut.OpenDisk(root, iut.SyncNone)
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	file := filepath.Join(root, "seeds.txt")
	const parts, each = 50, 40
	// add adds parts as the next run does, and returns seeds.txt.
	add := func(lists ...[][]string) string {
		t.Helper()
		reads := faultfs.Count(disk)
		reads.Only = "read"
		tree, err := iut.Open(root, iut.Options{Identity: &rules, FS: reads})
		if err != nil {
			t.Fatal(err)
		}
		defer tree.Close()
		before := len(reads.Calls())
		for _, parts := range lists {
			list := tree.SeedList()
			defer list.Close()
			for _, part := range parts {
				if err := list.Add(t.Context(), part); err != nil {
					t.Fatal(err)
				}
			}
		}
		text := read(t, file)
		// A buffer at a time, the last one cut, and the end of the file.
		if n, most := len(reads.Calls())-before, len(lists)*(len(text)>>16+2); n > most {
			t.Errorf("seeds.txt, %d bytes, is read in %d calls, want at most %d", len(text), n, most)
		}
		return text
	}
	cut := func(urls []string) (parts [][]string) { return slices.Collect(slices.Chunk(urls, each)) }
	text := func(parts [][]string) string { return strings.Join(slices.Concat(parts...), "\n") + "\n" }
	list := func(name string) (urls []string) {
		for n := range parts * each {
			urls = append(urls, fmt.Sprintf("http://%s.org/%d/%s", name, n, strings.Repeat("x", 200)))
		}
		urls[1000], urls[1999] = urls[0], urls[500] // behind the part that has them
		return urls
	}
	a, b := list("a"), list("b")
	want := text(cut(a))
	for range 2 {
		if add(cut(a)) != want {
			t.Fatal("the list is not what seeds.txt has, or grows")
		}
	}
	for _, at := range []int{0, 100, len(want) / 3, len(want) - 1} { // killed there
		put(t, file, want[:at])
		if add(cut(a)) != want {
			t.Errorf("cut at %d the list is not made whole", at)
		}
	}
	if add([][]string{{b[1], a[5], b[1]}}, cut(a)) != want+b[1]+"\n" {
		t.Error("a seed before the list changes what is added")
	}
	put(t, file, want)
	want += text(cut(b))
	for _, urls := range [][]string{b, a, b, a} {
		if add(cut(urls)) != want {
			t.Error("of two lists one is not added, or added again")
		}
	}
	turned := slices.Clone(a)
	slices.Reverse(turned)
	for name, edited := range map[string][]string{
		"longer": append(slices.Clone(a), "http://c.org/"), "shifted": append([]string{"http://d.org/"}, a...),
		"without one": a[1:], "turned round": turned,
	} {
		known := map[string]bool{}
		once := add(cut(edited))
		for line := range strings.Lines(once) {
			known[strings.TrimSuffix(line, "\n")] = true
		}
		if slices.ContainsFunc(edited, func(url string) bool { return !known[url] }) || !strings.HasPrefix(once, want) {
			t.Errorf("%s: seeds are lost", name)
		}
		if len(once) > len(want)+len(text(cut(edited))) || add(cut(edited)) != once {
			t.Errorf("%s: the list is added more than once", name)
		}
		want = once
	}
}
