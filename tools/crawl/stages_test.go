//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What pprof prints: the innermost frame first, behind the time.
const someTraces = `File: crawl
Type: cpu
Duration: 1.90s, Total samples = 540000000ns (28.49%)
-----------+-------------------------------------------------------
 10000000ns   runtime.memmove /usr/local/go/src/runtime/memmove_amd64.s:184
             urltree/internal/extract.(*page).keepLinkText /src/internal/extract/meta.go:192
             urltree/internal/extract.Parse /src/internal/extract/extract.go:78 (inline)
             urltree/crawler.(*worker).url /src/crawler/worker.go:78
-----------+-------------------------------------------------------
 30000000ns   runtime.mallocgc /usr/local/go/src/runtime/malloc.go:1
             urltree/crawler/weburl.(*Base).Resolve /src/crawler/weburl/weburl.go:78
             urltree/internal/extract.Parse /src/internal/extract/extract.go:78 (inline)
-----------+-------------------------------------------------------
  5000000ns   go.etcd.io/bbolt.(*Cursor).seek /mod/go.etcd.io/bbolt@v1.5.0/cursor.go:1
             urltree/storage.(*Index).Commit /src/storage/commit.go:78
             urltree/iut.(*Committer).Run /src/iut/committer.go:78
-----------+-------------------------------------------------------
  7000000ns   runtime.scanobject /usr/local/go/src/runtime/mgcmark.go:1
             runtime.gcBgMarkWorker /usr/local/go/src/runtime/mgc.go:1
-----------+-------------------------------------------------------
  8000000ns   runtime.futex /usr/local/go/src/runtime/sys_linux_amd64.s:1
             runtime.mcall /usr/local/go/src/runtime/asm_amd64.s:1
-----------+-------------------------------------------------------
`

func TestAttribute(t *testing.T) {
	got, all, err := attribute(someTraces)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{stageContents: 1e7, stageResolve: 3e7, stageIndex: 5e6, stageCollect: 7e6, stageSchedule: 8e6}
	if diff := cmp.Diff(want, got); diff != "" || all != 6e7 {
		t.Errorf("all %g; %s", all, diff)
	}
	if _, _, err := attribute("File: crawl\n"); err == nil {
		t.Error("a profile without samples gives no error")
	}
}

// TestOwners: what a stage is told by exists. A package or file that got another name would be some
// other stage's.
func TestOwners(t *testing.T) {
	for _, o := range owners {
		name, ours := strings.CutPrefix(o.part, "urltree/")
		if !ours && !strings.HasPrefix(o.part, "/internal/") {
			continue
		}
		if _, err := os.Stat(filepath.Join("..", "..", strings.TrimRight(name, ".:"))); err != nil {
			t.Errorf("%q: %v", o.part, err)
		}
	}
}
