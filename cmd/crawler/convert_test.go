package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"urltree/internal/testseed"
	"urltree/internal/testweb"
	"urltree/iut"
)

// TestConvertKilled kills and stops conversions at random moments, in both directions. What is left
// can be read and refuses a crawl, and in the end the tree is what it was, in either store.
func TestConvertKilled(t *testing.T) {
	t.Parallel()
	pages, rounds := killSizes()
	rounds *= 2
	rng := rand.New(rand.NewPCG(testseed.Draw(t), 1))
	web := startWeb(t, testweb.Options{
		Kind: testweb.Linked, Hosts: killHosts, Pages: pages, Seed: 5, MinSize: 300, MaxSize: 3000, Redirects: .05, Texts: .02, NoIndex: .03,
	})
	dir := t.TempDir()
	writeSeeds(t, dir, web.Seeds())
	crawl := append(killArgs("seed.txt", nil), "-edges")
	must(t, dir, append(crawl, "-max-pages", fmt.Sprint(pages/2))...)
	urls, edges := must(t, dir, "export"), must(t, dir, "export", "-what", "edges")

	begin := time.Now()
	must(t, dir, "convert", "-store", "warc", "-warc-size", "64k")
	took, unfinished := time.Since(begin), 0
	for round := 0; round < rounds || unfinished == 0 && round < 10*rounds; round++ { // half of them have nothing to convert
		store := []string{"folders", "warc"}[rng.IntN(2)]
		stop := []os.Signal{os.Kill, os.Kill, os.Interrupt}[rng.IntN(3)]
		commandStopped(t, dir, stop, time.Duration(rng.Int64N(int64(took))), "convert", "-store", store, "-warc-size", "64k")
		if must(t, dir, "export") != urls {
			t.Fatal("the export is another one")
		}
		format, err := iut.ReadFormat(filepath.Join(dir, "iut"))
		if err != nil {
			t.Fatal(err)
		}
		if format.Converting != "" {
			unfinished++
			requireRefused(t, dir, format.Converting, untilKept(dir, crawl)...)
		}
	}
	t.Logf("%d were unfinished", unfinished)
	if unfinished == 0 {
		t.Error("no conversion was cut off")
	}
	for _, store := range []string{"warc", "folders", "warc"} {
		must(t, dir, "convert", "-store", store, "-warc-size", "64k")
		must(t, dir, "check", "-links")
		requireWholeSegments(t, filepath.Join(dir, "iut"))
		if must(t, dir, "export") != urls || must(t, dir, "export", "-what", "edges") != edges {
			t.Fatalf("in the store %s the export is another one", store)
		}
	}
	must(t, dir, untilKept(dir, crawl)...)
	must(t, dir, "check", "-links")
	requireSame(t, urlsOf(t, filepath.Join(dir, "res.txt")), web.Answer().Stored)
}

// commandStopped begins a command and sends it a signal after a time.
func commandStopped(t *testing.T, dir string, stop os.Signal, after time.Duration, args ...string) {
	t.Helper()
	cmd := child(dir, args...)
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case <-time.After(after): // of a process, so real time
		_ = cmd.Process.Signal(stop)
		<-ended
	case <-ended:
	}
	switch code := cmd.ProcessState.ExitCode(); {
	case code == exitDone, code == -1 && stop == os.Kill:
	case code == exitOther && stop == os.Interrupt && said.String() == "crawler: stopped\n":
	case code == -1 && said.String() == "": // the signal came before it was waited for
	default:
		t.Fatalf("exit %d: %s", code, said.String())
	}
}

// requireRefused requires that a command refuses a tree because of its unfinished conversion.
func requireRefused(t *testing.T, dir, to string, args ...string) {
	t.Helper()
	want := "crawler: there is an unfinished conversion of "
	hint := " -store " + to + " goes on with it\n"
	_, stderr, code := call(t, dir, args...)
	if code != exitTree || !strings.HasPrefix(stderr, want) || !strings.HasSuffix(stderr, hint) || strings.Count(stderr, "\n") != 1 {
		t.Errorf("%v: exit %d: %s", args, code, stderr)
	}
}

// TestUnfinishedConversion: while there is one whatever reads works, and whatever writes refuses,
// but for a merge that has to make the index.
func TestUnfinishedConversion(t *testing.T) {
	t.Parallel()
	web := startWeb(t, testweb.Options{Kind: testweb.Linked, Hosts: 1, Pages: 10, Seed: 3})
	dir := t.TempDir()
	seed := web.Seeds()[0]
	crawl := []string{"-quiet", "-delay", "0", "-allow-private", seed}
	must(t, dir, crawl...)
	format := filepath.Join(dir, "iut", "FORMAT")
	text, err := os.ReadFile(format)
	if err != nil {
		t.Fatal(err)
	}
	begun := strings.Replace(string(text), "\n# Given", "\nconverting = warc\n# Given", 1)
	if err := os.WriteFile(format, []byte(begun), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		crawl, {"merge"}, {"check"}, {"retry"}, {"rank"}, {"options", "-reset", "allow-private"},
	} {
		requireRefused(t, dir, "warc", args...)
	}
	for _, args := range [][]string{{"ls"}, {"show", seed}, {"cat", seed}, {"path", seed}, {"why", seed}, {"stats"}, {"stats", "-degrees"}, {"export"}, {"options"}} {
		must(t, dir, args...)
	}
	if err := os.Remove(filepath.Join(dir, "iut", "index.db")); err != nil {
		t.Fatal(err)
	}
	must(t, dir, "merge")
	requireRefused(t, dir, "warc", "merge")
	if out := must(t, dir, "convert", "-store", "folders"); !strings.Contains(out, "is given up: iut has the store folders as before\n") {
		t.Errorf("it says %q", out)
	}
	if got, err := os.ReadFile(format); err != nil || string(got) != string(text) {
		t.Errorf("FORMAT is %q, %v", got, err)
	}
	must(t, dir, "check", "-links")
	must(t, dir, crawl...)
}
