package crawler_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"urltree/crawler"
	"urltree/iut"
	"urltree/storage/record"
)

// TestForeignFiles: a FIFO, which nobody writes to, or a link in the place of a file of the tree
// neither holds up a crawl nor is written through.
func TestForeignFiles(t *testing.T) {
	t.Parallel()
	origins := hosts(t, 1, func(_ int, rw http.ResponseWriter, r *http.Request) { fmt.Fprint(rw, "<a href=/a>") })
	dir := t.TempDir()
	opts := crawler.Options{
		Tree:       filepath.Join(dir, "iut"),
		Output:     filepath.Join(dir, "res.txt"),
		Seeds:      []string{origins[0] + "/"},
		Politeness: crawler.Politeness{Delay: -1},
		HTTP:       crawler.HTTP{AllowPrivate: true},
	}
	file := func(name string) string { return filepath.Join(opts.Tree, name) }
	crawl := func() error {
		t.Helper()
		ended := make(chan error, 1)
		go func() {
			_, err := crawler.Run(t.Context(), opts)
			ended <- err
		}()
		select {
		case err := <-ended:
			return err
		case <-time.After(noHang):
			t.Fatal("the crawl does not end")
			return nil
		}
	}
	if err := crawl(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(file("LOCK")), syscall.Mkfifo(file("LOCK"), 0o666)); err != nil {
		t.Fatal(err)
	}
	if err := crawl(); !errors.Is(err, iut.ErrTree) {
		t.Errorf("LOCK is a FIFO: %v, want %v", err, iut.ErrTree)
	}
	if err := os.Remove(file("LOCK")); err != nil {
		t.Fatal(err)
	}
	// Readers share the tree, and whoever finds it held says so.
	tree, err := iut.Open(opts.Tree, iut.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := crawl(); !errors.Is(err, iut.ErrBusy) {
		t.Errorf("a crawl beside a reader: %v, want %v", err, iut.ErrBusy)
	}
	if err := tree.Close(); err != nil {
		t.Fatal(err)
	}
	requireChecked(t, dir)

	other := filepath.Join(dir, "other")
	// A crawl that ends before it has read the whole index saves no filter, and leaves the FIFO.
	if err := os.Remove(file("seen.new")); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(other, []byte("mine"), 0o666), os.Symlink(other, file("seen.new"))); err != nil {
		t.Fatal(err)
	}
	if err := crawl(); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(other); string(b) != "mine" {
		t.Errorf("the file behind a link holds %q, %v", b, err)
	}
	// merge makes the index again where this is told, as it does for any damage.
	if err := errors.Join(os.Remove(file("index.db")), os.Symlink(filepath.Join(dir, "nowhere"), file("index.db"))); err != nil {
		t.Fatal(err)
	}
	if err := crawl(); !errors.Is(err, record.ErrDamaged) {
		t.Errorf("index.db is a link that leads nowhere: %v, want %v", err, record.ErrDamaged)
	}
}
