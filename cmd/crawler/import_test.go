package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"urltree/crawler"
	"urltree/internal/testweb"
)

// importColumns are those of a URL that an import brings back: all but where a page is and when the
// URL became known.
const importColumns = "url,state,reason,status,tries,source,via,depth,bytes,time,type,charset,sha256,target,title,description,language,canonical"

// ledger returns the rows of an export of a tree: of one state, or of all.
func ledger(t *testing.T, dir, state string) []string {
	t.Helper()
	text := must(t, dir, "export", "-columns", importColumns, "-state", state)
	return slices.Sorted(strings.Lines(text))
}

// column returns the rows with the named columns alone.
func pick(rows []string, columns ...string) (list []string) {
	names := strings.Split(importColumns, ",")
	for _, row := range rows {
		fields := strings.Split(strings.TrimSuffix(row, "\n"), "\t")
		var kept []string
		for _, c := range columns {
			kept = append(kept, fields[slices.Index(names, c)])
		}
		list = append(list, strings.Join(kept, "\t"))
	}
	return list
}

// importSite crawls a web with pages of many kinds into a tree of a store, and returns the folder
// that it is in.
func importSite(t *testing.T, store string) (dir string, web *testweb.Web) {
	t.Helper()
	web = testweb.New(testweb.Options{Hosts: 3, Pages: 300, Seed: 4, MaxSize: 9 << 10, Redirects: .1, Texts: .1, NoIndex: .05, Images: .05})
	if err := web.Start(0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(web.Stop)
	dir = t.TempDir()
	seeds := filepath.Join(dir, "seed.txt")
	if err := os.WriteFile(seeds, []byte(strings.Join(web.Seeds(), "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	must(t, dir, "-quiet", "-store", store, "-delay", "0", "-allow-private", "-input", seeds)
	return dir, web
}

// archivesOf returns the WARC files of a tree: an export, and its segments.
func archivesOf(t *testing.T, dir, store string) map[string][]string {
	t.Helper()
	file := filepath.Join(dir, "pages.warc.gz")
	must(t, dir, "export", "-what", "warc", "-output", file)
	files := map[string][]string{"export": {file}}
	if store == crawler.StoreWARC {
		segments, err := filepath.Glob(filepath.Join(dir, "iut", "warc", "*"))
		if err != nil || len(segments) == 0 {
			t.Fatal(segments, err)
		}
		files["segments"] = segments
	}
	return files
}

// TestImportOwn: what a tree exports, and its segments, make the same tree again, in either store:
// its pages are the same in all columns but, from an export of a tree of segments, the time, which
// is that of the request then.
func TestImportOwn(t *testing.T) {
	for _, from := range crawler.Stores {
		dir, _ := importSite(t, from)
		want := ledger(t, dir, "stored")
		for what, files := range archivesOf(t, dir, from) {
			for _, to := range crawler.Stores {
				t.Run(from+" "+what+" "+to, func(t *testing.T) {
					into := t.TempDir()
					must(t, into, append([]string{"import", "-quiet", "-store", to}, files...)...)
					if diff := cmp.Diff(want, ledger(t, into, "stored")); diff != "" {
						t.Error(diff)
					}
					must(t, into, "check")
				})
			}
		}
	}
}
