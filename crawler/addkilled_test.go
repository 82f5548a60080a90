package crawler_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"urltree/crawler"
	"urltree/storage"
	"urltree/storage/record"
)

const (
	addFolder = "TEST_URLTREE_ADD"       // the folder of the process that is killed
	addRound  = "TEST_URLTREE_ADD_ROUND" // its number
	addAtOnce = 100
)

// addUntilKilled adds seeds, so many at once, and prints a line for each time that Add returns.
func addUntilKilled(t *testing.T, dir, round string) {
	o := crawler.Options{
		Tree: filepath.Join(dir, "iut"), Output: filepath.Join(dir, "res.txt"), Seeds: []string{graphSite},
		Fetch: func(ctx context.Context, _ string) (crawler.Content, error) {
			<-ctx.Done()
			return crawler.Content{}, ctx.Err()
		},
	}
	c, err := crawler.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	go c.Run(t.Context()) //nolint:errcheck // the process is killed
	for n := range 1000 {
		var list []crawler.Request
		for i := range addAtOnce {
			list = append(list, crawler.Request{URL: fmt.Sprintf("%s%s/%d/%d", graphSite, round, n, i)})
		}
		if err := c.Add(t.Context(), list...); err != nil {
			t.Fatal(err)
		}
		fmt.Printf("added %s/%d/\n", round, n)
	}
}

// TestAddKilled: of the seeds of one Add a kill leaves all or none, and all of one that has
// returned, in the index and in seeds.txt.
func TestAddKilled(t *testing.T) {
	if dir := os.Getenv(addFolder); dir != "" {
		addUntilKilled(t, dir, os.Getenv(addRound))
		return
	}
	dir := t.TempDir()
	said := map[string]bool{}
	for round := range 4 {
		child := exec.Command(os.Args[0], "-test.run=^TestAddKilled$")
		child.Env = append(os.Environ(), addFolder+"="+dir, fmt.Sprintf("%s=%d", addRound, round))
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for first := true; lines.Scan(); first = false {
			group, ok := strings.CutPrefix(lines.Text(), "added ")
			if !ok {
				t.Errorf("the process that is to be killed: %s", lines.Text())
				continue
			}
			said[graphSite+group] = true
			if first {
				time.AfterFunc(time.Duration(rand.IntN(200))*time.Millisecond, func() { _ = child.Process.Kill() })
			}
		}
		if err := child.Wait(); child.ProcessState.Exited() {
			t.Fatalf("it ended before it was killed: %v", err)
		}
		checkAdded(t, dir, said)
	}
}

// checkAdded checks what the index has of the groups of seeds, and seeds.txt of those that said
// names.
func checkAdded(t *testing.T, dir string, said map[string]bool) {
	t.Helper()
	index, err := storage.Open(filepath.Join(dir, "iut", "index.db"), storage.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer index.Close()
	has := map[string]int{}
	err = index.Records(t.Context(), nil, func(r record.Record, err error) error {
		has[r.URL[:strings.LastIndexByte(r.URL, '/')+1]]++
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	delete(has, graphSite)
	for group, n := range has {
		if n != addAtOnce {
			t.Errorf("%d of %d seeds of %s", n, addAtOnce, group)
		}
	}
	list, err := os.ReadFile(filepath.Join(dir, "iut", "seeds.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for group := range said {
		if n := strings.Count(string(list), group); has[group] == 0 || n < addAtOnce {
			t.Errorf("Add of %s had returned: %d in the index, %d in seeds.txt", group, has[group], n)
		}
	}
}
