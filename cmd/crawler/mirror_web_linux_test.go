package main

import (
	"cmp"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	markup "golang.org/x/net/html"

	"urltree/internal/mirror"
	"urltree/internal/testweb"
	"urltree/iut"
)

// TestMirrorOfWeb mirrors a made-up web from both stores. Each stored page has its file, and each
// reference, read by the library's parser, leads to a file, or else is absolute and leads to no
// page of the tree.
func TestMirrorOfWeb(t *testing.T) {
	t.Parallel()
	web := startWeb(t, testweb.Options{Kind: testweb.Linked, Hosts: 3, Pages: 90, Seed: 7, MinSize: 300, MaxSize: 3000, Redirects: .15, Errors: .06, Images: .1, Texts: .1})
	for _, store := range iut.Stores {
		dir := t.TempDir()
		writeSeeds(t, dir, web.Seeds())
		must(t, dir, "-quiet", "-delay", "0", "-assets", "-allow-private", "-per-host", "4", "-retries", "0", "-store", store, "-input", "seed.txt")
		must(t, dir, "export", "-what", "mirror", "-output", "copy")
		files := mirrorFiles(t, filepath.Join(dir, "copy"))
		known, targets := map[string]string{}, map[string]string{} // names of files, and of redirects where they lead to
		for line := range strings.Lines(must(t, dir, "export", "-format", "tsv", "-columns", "url,type,state,target")) {
			switch f := strings.Split(strings.TrimSpace(line), "\t"); f[2] {
			case "stored":
				known[f[0]] = mirror.Name(f[0], f[1])
				if _, ok := files[known[f[0]]]; !ok {
					t.Errorf("%s has no file %s", f[0], known[f[0]])
				}
			case "redirected":
				targets[f[0]] = f[3]
			}
		}
		relative, absolute := 0, 0
		for name, text := range files {
			if path.Ext(name) != ".html" {
				continue
			}
			for _, ref := range hrefs(t, text) {
				u, err := url.Parse(ref)
				if err != nil {
					t.Fatal(err)
				}
				if u.IsAbs() {
					absolute++
					u.Fragment = ""
					to := u.String()
					for range len(targets) {
						to = cmp.Or(targets[to], to)
					}
					if file, ok := known[to]; ok {
						t.Errorf("%s: %s is absolute, and %s is there", name, ref, file)
					}
					continue
				}
				relative++
				base := url.URL{Path: "/" + name}
				if to := strings.TrimPrefix(base.ResolveReference(u).Path, "/"); files[to] == "" {
					t.Errorf("%s: %s leads to %s, which is not there", name, ref, to)
				}
			}
		}
		if relative < 300 || absolute < 20 || len(targets) < 5 {
			t.Errorf("%s: only %d relative and %d absolute references of %d pages and %d redirects", store, relative, absolute, len(known), len(targets))
		}
	}
}

// hrefs returns the references of links and images.
func hrefs(t *testing.T, text string) (list []string) {
	t.Helper()
	root, err := markup.Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for n := range root.Descendants() {
		for _, a := range n.Attr {
			if slices.Contains([]string{"href", "src"}, a.Key) {
				list = append(list, a.Val)
			}
		}
	}
	return list
}
