package iut_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"urltree/internal/faultfs"
	"urltree/iut"
	"urltree/storage/record"
)

// revision returns a page of which the tree has another version, and its item.
func revision(n, version int) (*iut.Page, *iut.Item) {
	p := page(n)
	p.Body = fmt.Appendf(nil, "<p>version %d <a href=%d>", version, n)
	p.Time += int64(version)
	p.Bytes, p.Digest = int64(len(p.Body)), sha256.Sum256(p.Body)
	item := itemOf(p)
	item.Row.Kind = record.RevisitRow
	return p, item
}

// inTemp returns what kinds of files tmp/ has.
func inTemp(t *testing.T, disk iut.FS) (kinds string) {
	t.Helper()
	entries, err := disk.List("tmp")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		kind, _, _ := strings.Cut(e.Name, "-")
		kinds += kind + " "
	}
	return strings.TrimSpace(kinds)
}

// TestRevisionOrder: a new version is durable before it is committed, and takes the place of the
// old one after that and not before; what says so goes only after another sync.
func TestRevisionOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.build(0, 0)
		s.let(s.sync, nil)
		s.let(s.commits, nil)
		s.steps.want(t, "a page is stored", "sync", "synced", "commit p0", "committed 1", "after p0, out [1 0 0]")
		next, item := revision(0, 1)
		if err := s.add(0, s.frees.watch(item)); err != nil {
			t.Fatal(err)
		}
		s.buffers[0].Flush()
		synctest.Wait()
		requirePage(t, s.tree, page(0))
		if got := inTemp(t, s.disk); got != "new revised" {
			t.Errorf("before the sync tmp/ has %q", got)
		}
		s.let(s.sync, nil)
		s.steps.want(t, "the new version is durable", "sync", "synced", "commit p0")
		requirePage(t, s.tree, page(0))
		s.let(s.commits, nil)
		s.steps.want(t, "and committed", "committed 1", "after p0, out [1 0 0]")
		requirePage(t, s.tree, next)
		if got := inTemp(t, s.disk); got != "new revised" {
			t.Errorf("before the next sync tmp/ has %q", got)
		}
		s.build(0, 1)
		if got := inTemp(t, s.disk); got != "new revised" {
			t.Errorf("while that goes on tmp/ has %q", got)
		}
		s.let(s.sync, nil)
		if got := inTemp(t, s.disk); got != "" {
			t.Errorf("after it tmp/ has %q", got)
		}
		s.let(s.commits, nil)
		last, item := revision(1, 2)
		if err := s.add(0, s.frees.watch(item)); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- s.end() }()
		synctest.Wait()
		s.let(s.sync, nil)
		s.let(s.commits, nil)
		requirePage(t, s.tree, last)
		s.let(s.sync, nil) // at the end there is no other set
		if err := <-ended; err != nil || inTemp(t, s.disk) != "" {
			t.Errorf("%v, and tmp/ has %q", err, inTemp(t, s.disk))
		}
	})
}

// TestFinish: what a kill leaves of a new version is completed if the index has it, and goes if the
// index has the old one. Where there is no index, what is whole counts.
func TestFinish(t *testing.T) {
	old := page(0)
	old.Bytes, old.Digest = int64(len(old.Body)), sha256.Sum256(old.Body)
	next, _ := revision(0, 1)
	for _, tt := range []struct {
		name  string
		knows *iut.Page                                    // the index has it; nil: there is none
		spoil func(disk iut.FS, body, list, folder string) // of what a set leaves that is committed
		want  *iut.Page
	}{
		{name: "committed", knows: next, want: next},
		{name: "not committed", knows: old, want: old},
		{name: "no index", want: next},
		{name: "its body is there, its line is not", knows: next, want: next, spoil: func(disk iut.FS, body, _, folder string) {
			content := readFrom(t, disk, body)
			writeTo(t, disk, folder+"/content.html", content)
		}},
		{name: "its line is there, its body is not", knows: next, want: next, spoil: func(disk iut.FS, _, list, folder string) {
			writeTo(t, disk, folder+"/source.txt", readFrom(t, disk, list))
		}},
		{name: "its line is torn there", knows: next, want: next, spoil: func(disk iut.FS, _, list, folder string) {
			writeTo(t, disk, folder+"/source.txt", readFrom(t, disk, list)[:20])
		}},
		{name: "the list is torn", knows: old, want: old, spoil: func(disk iut.FS, _, list, _ string) {
			writeTo(t, disk, list, readFrom(t, disk, list)[:20])
		}},
		{name: "the body is torn, no index", want: old, spoil: func(disk iut.FS, body, _, _ string) {
			writeTo(t, disk, body, readFrom(t, disk, body)[:3])
		}},
		{name: "the list is gone", knows: old, want: old, spoil: func(disk iut.FS, _, list, _ string) {
			if err := disk.Remove(list); err != nil {
				t.Error(err)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			disk := faultfs.NewMem()
			tree := open(t, "", onFS(disk))
			store(t, tree, old)
			if _, err := tree.Revise(next); err != nil {
				t.Fatal(err)
			}
			list := "tmp/revised-7"
			writeTo(t, disk, list, string(next.AppendLine(nil)))
			entries, err := disk.List("tmp")
			if err != nil || len(entries) != 2 {
				t.Fatal(entries, err)
			}
			folder, err := tree.Path(old.URL)
			if err != nil {
				t.Fatal(err)
			}
			if tt.spoil != nil {
				tt.spoil(disk, "tmp/"+entries[0].Name, list, folder)
			}
			again := open(t, "", onFS(disk)) // which empties tmp/ of all else
			var known func(string) (record.Record, error)
			if tt.knows != nil {
				known = func(url string) (record.Record, error) {
					return record.Record{Row: record.Row{URL: url}, State: record.Stored, Page: tt.knows.Facts.Page}, nil
				}
			}
			for range 2 {
				if err := again.Finish(known); err != nil {
					t.Fatal(err)
				}
				requirePage(t, again, tt.want)
				if got := inTemp(t, disk); got != "" {
					t.Errorf("tmp/ has %q", got)
				}
			}
		})
	}
}

func readFrom(t *testing.T, disk iut.FS, name string) string {
	t.Helper()
	f, err := disk.Open(name, os.O_RDONLY)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(f)
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func writeTo(t *testing.T, disk iut.FS, name, text string) {
	t.Helper()
	f, err := disk.Open(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	if err == nil {
		_, err = io.WriteString(f, text)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}
