package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"urltree/internal/testweb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// small makes experiments last a moment. It finds nothing of interest.
func small(t *testing.T, only ...string) Options {
	return Options{
		Scale: 0.0005, Only: only, Dir: t.TempDir(), NoSync: !full(),
		Say: func(format string, args ...any) { t.Logf(format, args...) },
	}
}

// full reports whether there is time for what takes more than a few seconds.
func full() bool { return os.Getenv("TEST_URLTREE_FULL") != "" }

func TestExperiments(t *testing.T) {
	for _, tt := range []struct {
		only          string
		long          bool
		rows, columns map[string]int
		printed       []string // cells of the sources
	}{
		{"A7", false, map[string]int{"A7": 12}, map[string]int{"A7": 6}, []string{"925", "101900", "171341"}},
		{
			"D1", true,
			map[string]int{"D3": 6, "D4": 6, "D1": 6, "D5": 6, "D2": 6},
			map[string]int{"D3": 7, "D4": 7, "D1": 9, "D5": 7, "D2": 9},
			[]string{"5.1", "1.75", "10.2", "14"},
		},
		{"E8", false, map[string]int{"E8": 9}, map[string]int{"E8": 8}, nil},
		{"E9", true, map[string]int{"E9": 18}, map[string]int{"E9": 9}, nil},
		{"E1", false, map[string]int{"E1": 4}, map[string]int{"E1": 10}, []string{"0.98", "0.93"}},
		{"E10", false, map[string]int{"E10": 7}, map[string]int{"E10": 6}, nil},
		{"EP", false, map[string]int{"EP": 9}, map[string]int{"EP": 9}, nil},
	} {
		t.Run(tt.only, func(t *testing.T) {
			if tt.long && !full() {
				t.Skip("set TEST_URLTREE_FULL for this")
			}
			o := small(t, tt.only)
			rep, err := Run(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			var cells []string
			for _, f := range rep.Findings {
				if len(f.Table.Rows) != tt.rows[f.ID] || len(f.Table.Columns) != tt.columns[f.ID] {
					t.Errorf("%s: %d rows, %d columns", f.ID, len(f.Table.Rows), len(f.Table.Columns))
				}
				for _, row := range f.Table.Rows {
					if len(row) != len(f.Table.Columns) {
						t.Errorf("%s: row %v for columns %v", f.ID, row, f.Table.Columns)
					}
					cells = append(cells, row...)
				}
			}
			if len(rep.Findings) != len(tt.rows) {
				t.Errorf("%d findings, want %d", len(rep.Findings), len(tt.rows))
			}
			for _, c := range tt.printed {
				if !slices.Contains(cells, c) {
					t.Errorf("no cell has %s", c)
				}
			}
			if left, err := os.ReadDir(o.Dir); err != nil || len(left) != 0 {
				t.Errorf("files left: %v, %v", left, err)
			}
			checkDocument(t, rep)
		})
	}
}

// checkDocument looks for every table, claim and picture.
func checkDocument(t *testing.T, rep *Report) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "docs")
	if err := rep.Write(dir); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "experiments.md"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	pictures := 0
	for _, f := range rep.Findings {
		pictures += len(f.Charts)
		want := []string{"## Source " + f.Source + ", " + f.Name, "| " + strings.Join(f.Table.Rows[0], " | ") + " |"}
		for i := range f.Charts {
			want = append(want, "](experiments/"+f.picture(i)+")")
		}
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("%s: the document lacks %q", f.ID, w)
			}
		}
	}
	claims := 0
	for _, f := range rep.Findings {
		claims += len(f.Claims)
	}
	if n := strings.Count(text, "\n- The source: \""); n != claims {
		t.Errorf("%d claims in the document, want %d", n, claims)
	}
	files, err := filepath.Glob(filepath.Join(dir, "experiments", "*.svg"))
	if err != nil || len(files) != pictures || pictures != strings.Count(text, "\n![") {
		t.Errorf("%d pictures, want %d: %v", len(files), pictures, err)
	}
}

// One crawl of D for each way of picking stores all URLs and has all times.
func TestPoint(t *testing.T) {
	o := small(t)
	web, err := o.web(6, 30)
	if err != nil {
		t.Fatal(err)
	}
	defer web.Stop()
	urls := web.Answer().Stored
	for _, pick := range picks {
		p, err := o.point(t.Context(), urls, 12, pick)
		if err != nil {
			t.Fatal(err)
		}
		if p.pick <= 0 || p.store <= 0 || p.parse <= 0 || p.meta <= 0 || p.perCommit <= 0 {
			t.Errorf("%s: a time is missing: %+v", pick, p)
		}
		if ms := float64(latency / time.Millisecond); p.ask < ms*7/8 {
			t.Errorf("%s: answers came after %.0f ms, before the web's %.0f", pick, p.ask, ms)
		}
	}
	if asked := web.Requests(); len(asked) != len(urls) {
		t.Errorf("%d URLs were asked for, want %d", len(asked), len(urls))
	}
}

// The tables of D have the times in the right places, and its claims follow from these.
func TestStageTables(t *testing.T) {
	var good, bad points
	for i := range good {
		falls, rises := 1/float64(i+1), float64(i+1)
		for j := range picks {
			good[i][j] = point{pick: falls, ask: 50, store: 1, parse: 2, meta: 4, perCommit: 100}
			bad[i][j] = point{pick: rises, ask: 50, store: 1, parse: 2, meta: 4, perCommit: 1}
		}
		good[i][2].pick = falls / 4
	}
	for _, tt := range []struct {
		name   string
		all    points
		agrees bool
	}{{"as the source has it", good, true}, {"the other way", bad, false}} {
		t.Run(tt.name, func(t *testing.T) {
			claims := 0
			for _, r := range tt.all.results("setup") {
				for _, c := range r.Claims {
					if claims++; c.Agrees != tt.agrees {
						t.Errorf("%s: agrees is %v: %s", r.Name, c.Agrees, c.Ours)
					}
				}
				for _, row := range r.Table.Rows {
					if len(row) != len(r.Table.Columns) {
						t.Errorf("%s: row %v for columns %v", r.Name, row, r.Table.Columns)
					}
				}
			}
			if claims != 3 {
				t.Errorf("%d claims, want 3", claims)
			}
		})
	}
	want := []string{"10", "0.0500", "0.0010", "0.0500", "0.0010", "0.0500", "0.0010", "1", "0.5"}
	if got := good.table1().Table.Rows[0]; !slices.Equal(got, want) {
		t.Errorf("table I: %v, want %v", got, want)
	}
	want = []string{"160", "0.0020", "0.0040", "0.0020", "0.0040", "0.0020", "0.0040", "18", "14"}
	if got := good.table2().Table.Rows[5]; !slices.Equal(got, want) {
		t.Errorf("table II: %v, want %v", got, want)
	}
}

func TestCancelEndsExperiments(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, e := range experiments() {
		o := small(t, e.ids...)
		if _, err := Run(ctx, o); !errors.Is(err, context.Canceled) {
			t.Errorf("%v: error is %v, want %v", e.ids, err, context.Canceled)
		}
		if left, err := os.ReadDir(o.Dir); err != nil || len(left) != 0 {
			t.Errorf("%v: files left: %v, %v", e.ids, left, err)
		}
	}
}

// The loop that the crawler is compared with finds what there is.
func TestSequentialFindsAll(t *testing.T) {
	web := testweb.New(testweb.Options{Kind: testweb.Linked, Hosts: 3, Pages: 40, Seed: 1})
	if err := web.Start(0); err != nil {
		t.Fatal(err)
	}
	defer web.Stop()
	found, err := small(t).sequential(t.Context(), web.Seeds(), time.Minute)
	want := len(web.Answer().Stored) - len(web.Seeds())
	if err != nil || found != int64(want) {
		t.Errorf("found %d new URLs, %v; want %d", found, err, want)
	}
	for url, n := range web.Requests() {
		if n != 1 {
			t.Errorf("%s was asked for %d times", url, n)
		}
	}
}

func TestNear(t *testing.T) {
	for _, tt := range []struct {
		name    string
		a, b, n int64
		want    bool
	}{
		{"exact", 60, 10, 6, true},
		{"one less", 50, 10, 6, true},
		{"one more", 70, 10, 6, true},
		{"too little", 49, 10, 6, false},
		{"too much", 71, 10, 6, false},
	} {
		if got := near(tt.a, tt.b, tt.n); got != tt.want {
			t.Errorf("%s: %v, %s times", tt.name, got, times(tt.a, tt.b))
		}
	}
}

func TestWrap(t *testing.T) {
	long := strings.Repeat("some words of a text ", 40)
	for _, tt := range []struct{ name, mark, text string }{
		{"short", "", "one line"},
		{"paragraph", "", long},
		{"item", "- ", long},
		{"long word", "", "a " + strings.Repeat("x", 150) + " b"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var b bytes.Buffer
			wrap(&b, tt.mark, tt.text)
			if got := strings.Fields(strings.TrimPrefix(b.String(), tt.mark)); !slices.Equal(got, strings.Fields(tt.text)) {
				t.Errorf("other words: %q", b.String())
			}
			for i, line := range strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n") {
				if len(line) > 100 && strings.Contains(strings.TrimSpace(line), " ") {
					t.Errorf("line %d is too long: %q", i+1, line)
				}
				if indent := fmt.Sprintf("%*s", len(tt.mark), ""); i > 0 && !strings.HasPrefix(line, indent) {
					t.Errorf("line %d is not indented: %q", i+1, line)
				}
			}
		})
	}
}
