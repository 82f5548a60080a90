package main

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"urltree/internal/testweb"
)

// TestClusterUnited: the trees of the nodes of a crawl make one that has what one process finds in
// the same web: URLs, states, sources and bodies, in folders and in WARC files.
func TestClusterUnited(t *testing.T) {
	t.Parallel()
	for _, store := range []string{"folders", "warc"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			w := testweb.New(testweb.Options{
				Kind: testweb.Tree, Hosts: 16, Pages: 300, Seed: 23, MinSize: 300, MaxSize: 3000,
				Redirects: .08, Texts: .05, Twins: .5, Images: .03, NoIndex: .03, Private: .03, Hidden: .05,
			})
			if err := w.Start(0); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(w.Stop)
			args := append([]string{"-store", store, "-allow-private", "-delay", "5ms"}, w.Seeds()...)
			alone := t.TempDir()
			must(t, alone, args...)
			whole := exported(t, alone)

			engine, parts := freeEngine(), []string(nil)
			var nodes []*processNode
			for i, name := range []string{"a", "b", "c"} {
				n := &processNode{t: t, name: name, dir: t.TempDir()}
				n.args = append([]string{"-cluster", engine, "-node-id", name, "-cluster-nodes", "3", "-lease-ttl", nodeLease.String(), "-quiet=false"}, args...)
				if i == 0 {
					n.args = append([]string{"-engine", "embedded"}, n.args...)
				}
				t.Cleanup(func() {
					if n.cmd != nil {
						n.kill()
					}
				})
				nodes, parts = append(nodes, n), append(parts, filepath.Join(n.dir, "iut"))
			}
			for _, n := range nodes {
				n.start()
			}
			for _, n := range nodes {
				n.ends()
				if len(urlsOf(t, filepath.Join(n.dir, "res.txt"))) == 0 {
					t.Errorf("node %s has no pages", n.name)
				}
			}
			united := t.TempDir()
			must(t, united, append([]string{"unite", "iut"}, parts...)...)
			must(t, united, "check", "-links")
			if diff := cmp.Diff(whole, exported(t, united)); diff != "" {
				t.Errorf("of one process -, of nodes +:\n%s", diff)
			}
		})
	}
}

// exported returns the records and pages of the tree in a folder, sorted, without what may differ
// between two crawls of a web.
func exported(t *testing.T, dir string) []string {
	t.Helper()
	urls := must(t, dir, "export", "-columns", "url,state,reason,status,source,via,depth")
	pages := must(t, dir, "export", "-what", "pages", "-columns", "url,source,depth,bytes,type,charset,sha256,title,description,language,canonical")
	return sortedLines(urls + pages)
}
