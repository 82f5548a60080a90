package main

import (
	"encoding/xml"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"urltree/internal/testseed"
	"urltree/internal/testweb"
)

// edgesOf returns the lines of export -what edges, in page order; pages sorted.
func edgesOf(t *testing.T, dir string) []string {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(must(t, dir, "export", "-what", "edges"), "\n"), "\n")[1:]
	slices.SortStableFunc(lines, func(a, b string) int {
		a, _, _ = strings.Cut(a, "\t")
		b, _, _ = strings.Cut(b, "\t")
		return strings.Compare(a, b)
	})
	return lines
}

// TestKillEdges kills a crawl that keeps edges five times, once in a while cuts the file of edges
// off as well, and lets it finish: its edges are those of a crawl that was not killed.
func TestKillEdges(t *testing.T) {
	t.Parallel()
	seed := testseed.Draw(t)
	rng := rand.New(rand.NewPCG(seed, 1))
	pages := 700
	switch {
	case os.Getenv("TEST_URLTREE_FULL") != "":
		pages = 3000
	case testing.Short():
		pages = 250
	}
	web := testweb.New(testweb.Options{
		Kind: testweb.Linked, Hosts: 10, Pages: pages, Seed: seed, MinSize: 300, MaxSize: 3000,
		Latency: 2 * time.Millisecond, Redirects: .05, Errors: .003, Texts: .02, Images: .02, NoIndex: .03, Private: .02,
	})
	if err := web.Start(0); err != nil {
		t.Fatal(err)
	}
	defer web.Stop()
	args := append(killArgs("seed.txt", killOrders[rng.IntN(len(killOrders))]), "-edges")
	calm, killed := t.TempDir(), t.TempDir()
	for _, dir := range []string{calm, killed} {
		writeSeeds(t, dir, web.Seeds())
	}
	must(t, calm, args...)
	want := edgesOf(t, calm)

	kills, cuts := 0, 0
	for kills < 5 {
		if kills++; !runKilled(t, rng, web, pages/5, killed, args...) {
			kills = 5 // too quick for five of them
		}
		file := filepath.Join(killed, "iut", "edges")
		info, err := os.Stat(file)
		if err != nil {
			continue
		}
		must(t, killed, "check") // also of a file that was cut off, where the kill came before that was mended
		if rng.IntN(2) == 0 {
			cuts++
			if err := os.Truncate(file, rng.Int64N(info.Size()+1)); err != nil {
				t.Fatal(err)
			}
		}
	}
	must(t, killed, args...)
	must(t, killed, "check", "-links")
	if got := edgesOf(t, killed); !slices.Equal(got, want) {
		t.Errorf("%d edges, want %d: %s", len(got), len(want), cmp.Diff(want, got))
	}
	t.Logf("%d edges; killed up to %d times, cut off %d times", len(want), kills, cuts)
}

// TestExportFormats: all formats have the same edges, and what reads XML reads GraphML, in which
// each node is declared once, before it is used.
func TestExportFormats(t *testing.T) {
	t.Parallel()
	web := testweb.New(testweb.Options{Kind: testweb.Linked, Hosts: 3, Pages: 60, Seed: 5, MinSize: 300, MaxSize: 1000, Redirects: .1})
	if err := web.Start(0); err != nil {
		t.Fatal(err)
	}
	defer web.Stop()
	dir := t.TempDir()
	writeSeeds(t, dir, web.Seeds())
	must(t, dir, append(killArgs("seed.txt", nil), "-edges")...)
	want := edgesOf(t, dir)

	var doc struct {
		Graph struct {
			Items []struct {
				XMLName xml.Name
				ID      string `xml:"id,attr"`
				Source  string `xml:"source,attr"`
				Target  string `xml:"target,attr"`
				Data    []struct {
					Key  string `xml:"key,attr"`
					Text string `xml:",chardata"`
				} `xml:"data"`
			} `xml:",any"`
		} `xml:"graph"`
	}
	if err := xml.Unmarshal([]byte(must(t, dir, "export", "-what", "edges", "-format", "graphml")), &doc); err != nil {
		t.Fatal(err)
	}
	declared := map[string]bool{}
	var graphml, dot []string
	for _, item := range doc.Graph.Items {
		switch item.XMLName.Local {
		case "node":
			if declared[item.ID] {
				t.Errorf("node %s is declared twice", item.ID)
			}
			declared[item.ID] = true
		case "edge":
			if !declared[item.Source] || !declared[item.Target] {
				t.Errorf("an edge from %s to %s comes before its nodes", item.Source, item.Target)
			}
			data := map[string]string{"element": "-", "rel": "-", "text": "-"}
			for _, d := range item.Data {
				data[d.Key] = d.Text
			}
			graphml = append(graphml, strings.Join([]string{item.Source, item.Target, data["element"], data["rel"], data["text"]}, "\t"))
		}
	}
	for line := range strings.Lines(must(t, dir, "export", "-what", "edges", "-format", "dot")) {
		var from, to, element, label string
		if n, _ := fmt.Sscanf(line, "  %q -> %q [element=%q", &from, &to, &element); n != 3 {
			continue
		}
		label = "-"
		if _, rest, ok := strings.Cut(line, "label="); ok {
			label = strings.Trim(strings.TrimSpace(rest), `"];`)
		}
		dot = append(dot, strings.Join([]string{from, to, element, "-", label}, "\t"))
	}
	for name, got := range map[string][]string{"graphml": graphml, "dot": dot} {
		slices.SortStableFunc(got, func(a, b string) int {
			a, _, _ = strings.Cut(a, "\t")
			b, _, _ = strings.Cut(b, "\t")
			return strings.Compare(a, b)
		})
		if !slices.Equal(got, want) {
			t.Errorf("%s: %d edges, want %d: %s", name, len(got), len(want), cmp.Diff(want, got))
		}
	}
}
