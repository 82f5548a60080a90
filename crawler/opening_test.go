package crawler_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"urltree/crawler"
	"urltree/crawler/scope"
)

// TestStopWhileOpening: a run that is stopped while it makes the index again, or parses the
// stored pages again, gives up at once, and the next run finds all that it would have found.
func TestStopWhileOpening(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"index gone", "wider scope"} {
		t.Run(way, func(t *testing.T) {
			var origins []string
			origins = hosts(t, 2, func(host int, rw http.ResponseWriter, r *http.Request) {
				fmt.Fprintf(rw, "<a href=/a><a href=%s/b>", origins[1])
			})
			dir := t.TempDir()
			opts := crawler.Options{
				Tree:       filepath.Join(dir, "iut"),
				Output:     filepath.Join(dir, "res.txt"),
				Bounds:     crawler.Bounds{Scope: scope.Host},
				Seeds:      []string{origins[0] + "/"},
				Politeness: crawler.Politeness{Delay: -1},
				HTTP:       crawler.HTTP{AllowPrivate: true},
			}
			if _, err := crawler.Run(t.Context(), opts); err != nil {
				t.Fatal(err)
			}
			opts.Scope = scope.Any
			index := filepath.Join(opts.Tree, "index.db")
			if way == "index gone" {
				if err := os.Remove(index); err != nil {
					t.Fatal(err)
				}
			}
			stopped, stop := context.WithCancel(t.Context())
			stop()
			result, err := crawler.Run(stopped, opts)
			if err != nil || result.Ended != "stopped" || result.Run.ID != 0 {
				t.Errorf("stopped run: %+v, %v", result, err)
			}
			if _, err := os.Stat(index); way == "index gone" && !os.IsNotExist(err) {
				t.Errorf("index.db: %v; it was made to the end", err)
			}
			if _, err := crawler.Run(t.Context(), opts); err != nil {
				t.Fatal(err)
			}
			requireChecked(t, dir)
			requireSame(t, crawled(t, opts.Output), []string{
				origins[0] + "/", origins[0] + "/a", origins[1] + "/a", origins[1] + "/b",
			})
		})
	}
}

// TestIndexMadeAgain: a run with a narrower scope makes the index again and is killed before
// its options are in FORMAT. The index has all links that the options in FORMAT admit.
func TestIndexMadeAgain(t *testing.T) {
	t.Parallel()
	var origins []string
	origins = hosts(t, 2, func(host int, rw http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(rw, "<a href=/a><a href=%s/b>", origins[1])
	})
	dir := t.TempDir()
	opts := crawler.Options{
		Tree:       filepath.Join(dir, "iut"),
		Output:     filepath.Join(dir, "res.txt"),
		Limits:     crawler.Limits{MaxPages: 1},
		Seeds:      []string{origins[0] + "/"},
		Politeness: crawler.Politeness{Delay: -1},
		HTTP:       crawler.HTTP{AllowPrivate: true},
	}
	if _, err := crawler.Run(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(opts.Tree, "index.db")); err != nil {
		t.Fatal(err)
	}
	narrow := opts
	narrow.Scope = scope.Host
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	narrow.Log = slog.New(slog.NewTextHandler(writerFunc(func(line []byte) {
		if bytes.Contains(line, []byte("index.db was missing")) {
			stop() // nothing is written after this
		}
	}), nil))
	if result, err := crawler.Run(ctx, narrow); err != nil || result.Run.ID != 0 {
		t.Fatalf("the run was not stopped while it opened the tree: %+v, %v", result, err)
	}
	requireChecked(t, dir)
	opts.MaxPages = 0
	if _, err := crawler.Run(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	requireChecked(t, dir)
	requireSame(t, crawled(t, opts.Output), []string{
		origins[0] + "/", origins[0] + "/a", origins[1] + "/a", origins[1] + "/b",
	})
}

type writerFunc func([]byte)

func (w writerFunc) Write(b []byte) (int, error) {
	w(b)
	return len(b), nil
}
