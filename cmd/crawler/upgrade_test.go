package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"

	"urltree/storage/record"
)

// unpackTree unpacks the tree of testdata/trees into a new folder and returns that. Beside each
// such tree stands what `crawler export` of its own version printed of it.
func unpackTree(t *testing.T, name string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	f, err := os.Open(filepath.Join("testdata", "trees", name+".tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return dir
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(path, 0o777)
		} else {
			var text []byte
			if text, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(path, text, 0o666)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// bucketsOf returns all values of an index that stand in the given buckets.
func bucketsOf(t *testing.T, dir string, names ...string) map[string]string {
	t.Helper()
	db, err := bolt.Open(filepath.Join(dir, "iut", "index.db"), 0o666, &bolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	values := map[string]string{}
	err = db.View(func(tx *bolt.Tx) error {
		for _, name := range names {
			err := tx.Bucket([]byte(name)).ForEach(func(k, v []byte) error {
				values[name+" "+string(k)] = string(v)
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return values
}

// upgrades are the trees of testdata/trees that an earlier version has made, with what merge
// reports of them. That of schema6 has version 2 of FORMAT; that of format3 differs from this
// version in FORMAT alone.
var upgrades = map[string]string{
	"schema6": "brought from the version before",
	"format3": "index: kept",
}

// TestTreesOfEachVersion requires a tree of this version in testdata/trees, which is read as it
// is, and that TestUpgrade brings those of all other versions to this one. Whoever raises the
// version of FORMAT or of the index thus has one of the version before, and adds one of the new
// version.
func TestTreesOfEachVersion(t *testing.T) {
	t.Parallel()
	fresh := t.TempDir()
	call(t, fresh, "-quiet", "-sync", "none", "-robots", "ignore", "-max-depth", "0", "-time", "1ms", "http://127.0.0.1:1/")
	present := versionOf(t, fresh)
	archives, err := filepath.Glob(filepath.Join("testdata", "trees", "*.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, archive := range archives {
		tree := strings.TrimSuffix(filepath.Base(archive), ".tar.gz")
		dir := unpackTree(t, tree)
		_, upgraded := upgrades[tree]
		if version := versionOf(t, dir); version != present {
			if !upgraded {
				t.Errorf("%s is %s, this version is %s, and TestUpgrade does not upgrade it", archive, version, present)
			}
			continue
		}
		found = true
		requireKnown(t, dir, exportOf(t, tree))
		if out := must(t, dir, "options"); strings.Count(out, " kept\n") != 6 {
			t.Errorf("%s: options that the tree keeps are lost: %s", tree, out)
		}
	}
	if !found {
		t.Errorf("no tree of this version, %s: crawl one, pack it and what export prints of it", present)
	}
}

// versionOf returns the versions of FORMAT and of the index of a tree.
func versionOf(t *testing.T, dir string) string {
	t.Helper()
	format, err := os.ReadFile(filepath.Join(dir, "iut", "FORMAT"))
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(format), "\n")
	body, err := record.Unseal([]byte(bucketsOf(t, dir, "sys")["sys schema"]), nil)
	if err != nil {
		t.Fatal(err)
	}
	schema, _ := binary.Uvarint(body)
	return fmt.Sprintf("%s, schema %d", first, schema)
}

// TestUpgrade brings trees of earlier versions to this one: nothing but merge touches them, and
// merge keeps all that they know.
func TestUpgrade(t *testing.T) {
	for tree, report := range upgrades {
		t.Run(tree, func(t *testing.T) {
			t.Parallel()
			testUpgrade(t, tree, report)
		})
	}
}

func testUpgrade(t *testing.T, tree, report string) {
	want, dir := exportOf(t, tree), unpackTree(t, tree)
	known := []string{"url", "host", "robots", "run", "hour", "meta", "sitemap", "scope"}
	before := bucketsOf(t, dir, known...)
	for _, args := range [][]string{{"http://127.0.0.1:1/"}, {"ls"}, {"export"}, {"check"}, {"retry"}, {"rank"}, {"options"}, {"options", "-reset", "scope"}} {
		requireOlder(t, dir, args...)
	}
	if diff := cmp.Diff(before, bucketsOf(t, dir, known...)); diff != "" {
		t.Fatalf("a command that refuses the tree has changed it:\n%s", diff)
	}
	const again = "give those of this crawl once more"
	if out := must(t, dir, "merge"); !strings.Contains(out, report) || !strings.Contains(out, again) {
		t.Errorf("merge says %q", out)
	}
	if diff := cmp.Diff(before, bucketsOf(t, dir, known...)); diff != "" {
		t.Errorf("merge has lost or changed what the index knew:\n%s", diff)
	}
	requireKnown(t, dir, want)
	if out := must(t, dir, "options"); strings.Contains(out, " kept") {
		t.Errorf("options that nobody gave to this version: %s", out)
	}
	if out := must(t, dir, "merge"); strings.Contains(out, "version before") || strings.Contains(out, again) {
		t.Errorf("the second merge says %q", out)
	}
	requireKnown(t, dir, want)
	must(t, dir, "-scope", "host", "-max-depth", "2", "-exclude", ".", "-time", "1ms")
	if out := must(t, dir, "options"); strings.Count(out, " kept") != 3 {
		t.Errorf("a run had three options: %s", out)
	}
}

// exportOf returns what crawler export printed of a tree of testdata/trees, by its own version.
func exportOf(t *testing.T, tree string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "trees", tree+".tsv"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestUpgradeAfterDamage upgrades a tree of schema 6 that a kill or the disk has damaged.
func TestUpgradeAfterDamage(t *testing.T) {
	const tree = "schema6"
	want := exportOf(t, tree)

	// A kill between the two writes of an upgrade: FORMAT is new, the index is not.
	t.Run("half", func(t *testing.T) {
		t.Parallel()
		dir := unpackTree(t, tree)
		path := filepath.Join(dir, "iut", "index.db")
		old, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		must(t, dir, "merge")
		if err := os.WriteFile(path, old, 0o666); err != nil {
			t.Fatal(err)
		}
		requireOlder(t, dir, "ls")
		requireOlder(t, dir)
		must(t, dir, "merge")
		requireKnown(t, dir, want)
	})

	// One record is damaged: the others are taken over.
	t.Run("damaged", func(t *testing.T) {
		t.Parallel()
		dir := unpackTree(t, tree)
		path := filepath.Join(dir, "iut", "index.db")
		index, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		key := []byte("http-4xx") // in the record of /gone
		if !bytes.Contains(index, key) {
			t.Fatalf("no %q in the index", key)
		}
		if err := os.WriteFile(path, bytes.ReplaceAll(index, key, []byte("http-4xy")), 0o666); err != nil {
			t.Fatal(err)
		}
		must(t, dir, "merge")
		got := must(t, dir, "export")
		lost := 0
		for _, line := range strings.Split(strings.TrimSpace(want), "\n")[1:] {
			if !strings.Contains(got, line+"\n") {
				lost++
				t.Logf("changed: %s", line)
			}
		}
		// The page that names the damaged record is asked again as well, if it was not kept.
		if lost == 0 || lost > 3 {
			t.Errorf("%d URLs changed:\n%s", lost, got)
		}
		must(t, dir, "check")
	})
}

// requireOlder requires that a command refuses a tree of the version before and names merge.
func requireOlder(t *testing.T, dir string, args ...string) {
	t.Helper()
	_, text, code := call(t, dir, args...)
	if code != exitTree || strings.Count(text, "\n") != 1 || !strings.Contains(text, "version before") ||
		!strings.Contains(text, "crawler merge") {
		t.Errorf("%q ends with %d and %q", args, code, text)
	}
}

// requireKnown requires that export prints want and that check finds no fault.
func requireKnown(t *testing.T, dir, want string) {
	t.Helper()
	if diff := cmp.Diff(want, must(t, dir, "export")); diff != "" {
		t.Errorf("export:\n%s", diff)
	}
	must(t, dir, "check")
}
