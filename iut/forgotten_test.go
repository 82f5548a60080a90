package iut_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"urltree/internal/testseed"
	"urltree/iut"
	"urltree/storage/record"
)

func entriesOf(list []iut.ForgottenEntry) iter.Seq2[iut.ForgottenEntry, error] {
	return func(yield func(iut.ForgottenEntry, error) bool) {
		for _, e := range list {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// TestForgottenModel adds and removes random entries and compares the list with a map, and what it
// keeps out with a search of all entries.
func TestForgottenModel(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(testseed.Draw(t), 1))
	root := filepath.Join(t.TempDir(), "iut")
	open := func() *iut.Tree {
		tree, err := iut.Open(root, iut.Options{Identity: &iut.Identity{Canonical: "1", Partition: "host"}, Sync: iut.SyncNone, Forgetting: true})
		if err != nil {
			t.Fatal(err)
		}
		return tree
	}
	url := func() string {
		longer := []string{"", "", ":81", ".org"}[rng.IntN(4)] // in the folder of the host, but not below its prefix
		return fmt.Sprintf("http://h%d.test%s/%d/%s%d", rng.IntN(9), longer, rng.IntN(9), strings.Repeat("x", rng.IntN(60)), rng.IntN(4))
	}
	draw := func() iut.ForgottenEntry {
		switch text := url(); rng.IntN(40) {
		case 0:
			return iut.ForgottenEntry{Kind: iut.ForgottenHost, Text: record.Host(text)}
		case 1:
			if rng.IntN(4) == 0 {
				return iut.ForgottenEntry{Kind: iut.ForgottenPrefix, Text: record.Origin(text) + "/"}
			}
			return iut.ForgottenEntry{Kind: iut.ForgottenPrefix, Text: text[:strings.LastIndexByte(text, '/')+1]}
		default:
			return iut.ForgottenEntry{Kind: iut.ForgottenURL, Text: text}
		}
	}
	tree, want := open(), map[iut.ForgottenEntry]bool{}
	for range 40 {
		var list []iut.ForgottenEntry
		for range rng.IntN(300) {
			list = append(list, draw())
		}
		change, add := tree.Remember, false
		if rng.IntN(3) > 0 {
			change, add = tree.Forget, true
		}
		if !add && len(want) > 0 { // some that are there
			for e := range want {
				if list = append(list, e); rng.IntN(30) == 0 {
					break
				}
			}
		}
		changed := int64(0)
		for _, e := range list {
			if want[e] != add {
				changed++
			}
			if want[e] = true; !add {
				delete(want, e)
			}
		}
		if n, err := change(context.Background(), entriesOf(list)); err != nil || n != changed {
			t.Fatalf("%d changed, %v, want %d", n, err, changed)
		}
		if rng.IntN(3) == 0 {
			if err := tree.Close(); err != nil {
				t.Fatal(err)
			}
			tree = open()
		}
		var got []iut.ForgottenEntry
		if err := tree.EachForgotten(func(e iut.ForgottenEntry) error { got = append(got, e); return nil }); err != nil {
			t.Fatal(err)
		}
		if len(got) != len(want) || slices.ContainsFunc(got, func(e iut.ForgottenEntry) bool { return !want[e] }) {
			t.Fatalf("the list has %d entries, want %d", len(got), len(want))
		}
		check := func(url string) {
			kept := false
			for e := range want {
				kept = kept || e.Kind == iut.ForgottenHost && e.Text == record.Host(url) || e.Kind == iut.ForgottenURL && e.Text == url ||
					e.Kind == iut.ForgottenPrefix && (strings.HasPrefix(url, e.Text) || url+"/" == e.Text)
			}
			if has, err := tree.Forgotten().Has(url); err != nil || has != kept {
				t.Fatalf("%s: %t, %v, want %t", url, has, err, kept)
			}
		}
		for range 200 {
			check(url())
		}
		for _, e := range got {
			if e.Kind == iut.ForgottenURL {
				check(e.Text)
			}
		}
	}
	if err := tree.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestForgottenLongPath: a page whose folder does not say its URL, and whose source.txt is torn,
// goes with its host, and not with another part of it.
func TestForgottenLongPath(t *testing.T) {
	t.Parallel()
	root := filepath.Join(t.TempDir(), "iut")
	tree, err := iut.Open(root, iut.Options{Identity: &iut.Identity{Canonical: "1"}, Sync: iut.SyncNone, Forgetting: true})
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	url := "http://a.test/" + strings.Repeat("long/", 300)
	body := []byte("text")
	if _, err := tree.Store(&iut.Page{Facts: iut.Facts{URL: url, Source: record.Seed}, Body: body}); err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(root, "pr-http/do-a/do-test/*/source.txt"))
	if err != nil || len(found) != 1 {
		t.Fatalf("%v, %v", found, err)
	}
	if err := os.WriteFile(found[0], []byte("torn"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		entry iut.ForgottenEntry
		there bool
	}{
		{iut.ForgottenEntry{Kind: iut.ForgottenPrefix, Text: "http://a.test/other/"}, true},
		{iut.ForgottenEntry{Kind: iut.ForgottenHost, Text: "a.test"}, false},
	} {
		if _, err := tree.Forget(t.Context(), entriesOf([]iut.ForgottenEntry{tt.entry})); err != nil {
			t.Fatal(err)
		}
		if err := tree.RemoveForgotten(func(string, bool) error { return nil }); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Dir(found[0])); (err == nil) != tt.there {
			t.Errorf("%v: %v", tt.entry, err)
		}
	}
}

// TestForgottenDamaged: a list of which a byte is another one, or that is cut, is refused and not
// taken for a shorter one.
func TestForgottenDamaged(t *testing.T) {
	t.Parallel()
	root := filepath.Join(t.TempDir(), "iut")
	tree, err := iut.Open(root, iut.Options{Identity: &iut.Identity{Canonical: "1", Partition: "host"}, Sync: iut.SyncNone})
	if err != nil {
		t.Fatal(err)
	}
	_, err = tree.Forget(context.Background(), entriesOf([]iut.ForgottenEntry{{Kind: iut.ForgottenHost, Text: "a.test"}, {Kind: iut.ForgottenURL, Text: "http://b.test/x"}}))
	if err = errors.Join(err, tree.Forgot(), tree.Close()); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(root, "forgotten.txt")
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(b []byte) {
		t.Helper()
		if err := os.WriteFile(name, b, 0o644); err != nil {
			t.Fatal(err)
		}
		tree, err := iut.Open(root, iut.Options{ReadOnly: true})
		if !errors.Is(err, iut.ErrFormat) || !strings.Contains(err.Error(), "forgotten.txt") {
			t.Fatalf("%q: %v, %v", b, tree, err)
		}
	}
	for i := range text {
		refused(text[:i])
		bad := slices.Clone(text)
		bad[i] ^= 1
		refused(bad)
	}
	refused(append(slices.Clone(text), '\n'))
	if err := os.WriteFile(name, text, 0o644); err != nil {
		t.Fatal(err)
	}
	if tree, err = iut.Open(root, iut.Options{}); err != nil {
		t.Fatal(err)
	}
	if err := tree.Close(); err != nil {
		t.Fatal(err)
	}
}
