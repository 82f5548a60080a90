package cleaner

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"urltree/internal/disk"
	"urltree/internal/testsite"
	"urltree/storage/record"
)

func figures() RunFigures {
	return RunFigures{
		Run: record.Run{
			ID: 2, Start: 1_800_000_000, End: 1_800_000_060, Clean: true, Found: 7, Stored: 3, NewURLs: 2, Bytes: 300,
			Outcomes: map[string]int64{"stored": 3, "failed 404": 1, "failed timeout": 2, "refused robots": 1},
			Statuses: map[string]int64{"2xx": 3, "4xx": 1},
		},
		Stages: []Stage{
			{"request", 7, 12_345_678, 10 * time.Millisecond, time.Second, 90 * time.Second},
			{"parse", 3, 123_456, 100 * time.Microsecond, 999 * time.Nanosecond, time.Millisecond},
		},
		LockWait: 1500 * time.Microsecond,
		Queues:   []Queue{{"crawler 1", 4, 3}, {"crawler 2", 3, 3}, {"frontier", 9, 7}, {"buffer 1", 7, 6}},
		Rejected: map[string]int64{"scope": 5, "mailto": 1},
	}
}

const wantStatistics = `Summary
                                      this run  all runs
  pages                                      3         3
  bytes of pages                           300       214
  pages per second                        0.05         -
  run time                                  1m        0s
  URLs discovered                            7        11
  new URLs in the tree                       2         2
  runs                                       -         0

URLs by state
                                      this run  all runs
  stored                                     3         3
  pending                                    -         5
  redirected                                 0         1
  failed                                     3         1
  refused                                    1         1

Outcomes by status
                                      this run  all runs
  2xx                                        3         3
  4xx                                        1         3

Reasons
                                      this run  all runs
  pending, 503                               -         1
  pending, not asked yet                     -         3
  pending, scope                             -         1
  failed, 404                                1         1
  failed, timeout                            2         0
  refused, robots                            1         1

Pages by type
                                      pages  bytes
  text/html                               3    214

Hosts with most pages
                                      pages  bytes  failed  pending
  http://a.org                            3    214       1        3

Hosts with most failures
                                      pages  bytes  failed  pending
  http://a.org                            3    214       1        3

Checks and queues of the published designs (docs/sources.md)
============================================================

Accounting
                                      counters  scan
  discovered                                11    11
  stored                                     3     3
  pending, to be asked                       3     3
  pending, to be asked again later           1     1
  pending, held                              1     1
  redirected                                 1     1
  failed                                     1     1
  refused                                    1     1
  sum of the states                         11    11
  discovered = sum of the states: holds
  counters = scan: holds

New URLs
lines of res.txt and res2.txt as they lie on the disk, seeds left out
new URLs (counters) = lines of res.txt without seeds + lines of res2.txt - 1 - pending seeds
  5 = 2 + 6 - 1 - 2: holds

Time per stage, this run
                                      count    mean    p50    p95    p99
  request                                 7  12.3ms   10ms     1s  1m30s
  parse                                   3   123µs  100µs  999ns    1ms
  longest wait for the frontier           -   1.5ms

Queues, this run
                                      added  removed
  crawler 1                               4        3
  crawler 2                               3        3
  all crawlers                            7        6
  frontier                                9        7
  buffer 1                                7        6

Links not followed, this run
  mailto                              1
  scope                               5

Seen filter
  URLs expected to be lost            0.0e+00
`

func TestStatistics(t *testing.T) {
	s := testsite.Small(t)
	f := filesIn(t, t.TempDir())
	ctx := context.Background()
	l, err := writeLists(ctx, s.Index, f)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the order never changes
		if err := writeStatistics(ctx, s.Index, f, "", figures(), l, nil); err != nil {
			t.Fatal(err)
		}
		if got := testsite.Read(t, f.Statistics); got != wantStatistics {
			t.Fatalf("got:\n%s\nwant:\n%s", got, wantStatistics)
		}
	}
	// Without a run nothing is said of this one.
	if err := writeStatistics(ctx, s.Index, f, "", RunFigures{}, l, nil); err != nil {
		t.Fatal(err)
	}
	got := testsite.Read(t, f.Statistics)
	if !strings.Contains(got, "5 = 2 + 6 - 1 - 2: holds") || strings.Contains(got, "Queues") || !strings.Contains(got, "URLs discovered                            -        11\n") {
		t.Errorf("without a run:\n%s", got)
	}
}

// The equation counts the files, so a line that is lost or twice there breaks it.
func TestEquation(t *testing.T) {
	s := testsite.Small(t)
	ctx := context.Background()
	for _, tt := range []struct {
		name  string
		spoil func(f Files) error
		want  string
	}{
		{"as written", func(Files) error { return nil }, "5 = 2 + 6 - 1 - 2: holds"},
		{"page lost", func(f Files) error { return testsite.CutLine(f.Res, "http://a.org/x\t") }, "5 = 1 + 6 - 1 - 2: DOES NOT HOLD"},
		{"seed's page lost", func(f Files) error { return testsite.CutLine(f.Res, "http://a.org/\t") }, "5 = 2 + 6 - 1 - 2: holds"},
		{"pending URL lost", func(f Files) error { return testsite.CutLine(f.Res2, "http://c.org/\t") }, "5 = 2 + 5 - 1 - 2: DOES NOT HOLD"},
		{"pending seed lost", func(f Files) error { return testsite.CutLine(f.Res2, "http://d.org/\t") }, "5 = 2 + 5 - 1 - 1: holds"},
		{"title lost", func(f Files) error { return testsite.CutLine(f.Res2, "URL\t") }, "5 = 2 + 5 - 1 - 2: DOES NOT HOLD"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := filesIn(t, t.TempDir())
			l, err := writeLists(ctx, s.Index, f)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(tt.spoil(f), writeStatistics(ctx, s.Index, f, "", RunFigures{}, l, nil)); err != nil {
				t.Fatal(err)
			}
			if got := testsite.Read(t, f.Statistics); !strings.Contains(got, tt.want+"\n") {
				t.Errorf("want %q in:\n%s", tt.want, got)
			}
		})
	}
}

// Long lines are counted as lines, and the last one without an end too.
func TestCountLines(t *testing.T) {
	name := filepath.Join(t.TempDir(), "list")
	long := strings.Repeat("x", 600<<10)
	for _, tt := range []struct {
		name, text   string
		lines, seeds int64
	}{
		{"empty", "", 0, 0},
		{"one", "a\tseed\t0\n", 1, 1},
		{"no end", "a\tseed\t0\nb\tseed\t", 2, 2},
		{"long", long + "\tseed\t0\nb\tb\tseed\t\n" + long, 3, 1},
		{"seed elsewhere", "seed\tx\tseed\t\nb\tseeds\t\nseed\n", 3, 0},
	} {
		file, err := disk.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(file, tt.text); err != nil {
			t.Fatal(err)
		}
		if err := file.Commit(); err != nil {
			t.Fatal(err)
		}
		lines, seeds, err := countLines(t.Context(), file)
		if err != nil || lines != tt.lines || seeds != tt.seeds {
			t.Errorf("%s: %d lines, %d seeds, %v; want %d, %d", tt.name, lines, seeds, err, tt.lines, tt.seeds)
		}
	}
}

func TestHourly(t *testing.T) {
	s := testsite.Small(t)
	f := filesIn(t, t.TempDir())
	if _, _, _, err := s.Index.Runs().Begin(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Index.Runs().Finish(); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the first of these two is never ended
		if _, _, _, err := s.Index.Runs().Begin(); err != nil {
			t.Fatal(err)
		}
	}
	for _, h := range []record.Hour{
		{Run: 1, Hour: 1, Time: 1_800_003_600, Stored: 5, Rows: map[string][2]int64{
			"crawler 10": {1, 1}, "crawler 2": {4, 3}, "frontier": {9, 8}, "buffer 1": {6, 5}, "buffer 2": {2, 2},
		}},
		{Run: 1, Hour: 2, Time: 1_800_005_000},
		{Run: 3, Hour: 1, Time: 1_800_009_000, Stored: 1},
	} {
		if err := s.Index.Runs().PutHour(h); err != nil {
			t.Fatal(err)
		}
	}
	if err := WriteHourly(t.Context(), s.Index, f, nil); err != nil {
		t.Fatal(err)
	}
	got := testsite.Read(t, f.Hourly)
	want := `  hour 1, until 2027-01-15T09:00:00Z  added  removed
    new URLs                              5        -
    buffer 1                              6        5
    buffer 2                              2        2
    all buffers                           8        7
    crawler 2                             4        3
    crawler 10                            1        1
    all crawlers                          5        4
    frontier                              9        8
  hour 2, until 2027-01-15T09:23:20Z  added  removed
    new URLs                              0        -
`
	if !strings.Contains(got, want) {
		t.Errorf("want:\n%s\nin:\n%s", want, got)
	}
	at := -1
	for _, head := range []string{", ended ", ", stopped without a clean end,", ", going on,"} {
		next := strings.Index(got, head)
		if next <= at {
			t.Errorf("%q is not where it should be in:\n%s", head, got)
		}
		at = next
	}
	if again := strings.Count(got, "Run "); again != 3 {
		t.Errorf("%d blocks, want 3:\n%s", again, got)
	}
}

// Clean goes in source A's order, and an error ends it before anything later is written.
func TestClean(t *testing.T) {
	bad := errors.New("disk full")
	for _, tt := range []struct {
		name  string
		drain error
		trap  func(f Files) string // the file that cannot be written
		want  []string             // what was written
	}{
		{"all goes well", nil, nil, []string{"hourly_statistics.txt", "res.txt", "res2.txt", "statistics.txt"}},
		{"drain fails", bad, nil, nil},
		{"res.txt fails", nil, func(f Files) string { return f.Res }, nil},
		{"res2.txt fails", nil, func(f Files) string { return f.Res2 }, []string{"res.txt"}},
		{"statistics fail", nil, func(f Files) string { return f.Statistics }, []string{"res.txt", "res2.txt"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := testsite.Small(t)
			f := filesIn(t, t.TempDir())
			if tt.trap != nil {
				// A folder that is not empty cannot be replaced by a file.
				if err := os.MkdirAll(filepath.Join(tt.trap(f), "x"), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			var log strings.Builder
			var order []string
			err := Clean(context.Background(), Steps{
				Drain: func(context.Context) error {
					order = append(order, "drain")
					s.Store("http://c.org/", "http://a.org/", 1) // the last item of a buffer
					return tt.drain
				},
				Index: s.Index, Files: f,
				Figures: func() RunFigures { order = append(order, "figures"); return figures() },
				Log:     slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
			})
			if (err != nil) != (tt.drain != nil || tt.trap != nil) || tt.drain != nil && !errors.Is(err, bad) {
				t.Fatalf("got %v", err)
			}
			var got []string
			entries, err := os.ReadDir(filepath.Dir(f.Res))
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				if !e.IsDir() {
					got = append(got, e.Name())
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("written: %v, want %v", got, tt.want)
			}
			if tt.drain == nil && tt.trap == nil {
				if !strings.Contains(testsite.Read(t, f.Res), "http://c.org/\t") || strings.Contains(testsite.Read(t, f.Res2), "http://c.org/\t") {
					t.Error("what was drained is not in the results")
				}
				if !slices.Equal(order, []string{"drain", "figures"}) {
					t.Errorf("order: %v", order)
				}
				if lines := strings.Count(log.String(), "took="); lines != 4 || strings.Index(log.String(), "step=1") > strings.Index(log.String(), "step=4") {
					t.Errorf("log:\n%s", log.String())
				}
			}
		})
	}
}

// TestSlowStep checks that a step of the end is logged for all when it takes more than two seconds,
// while it goes on and when it has ended, and for the curious alone otherwise.
func TestSlowStep(t *testing.T) {
	for took, want := range map[time.Duration]string{
		slowStep - time.Millisecond: "",
		slowStep + time.Second: `level=INFO msg="clean: a step goes on" step=1 what="drain the buffers into the tree"
level=INFO msg=clean step=1 what="drain the buffers into the tree" took=3s
`,
	} {
		synctest.Test(t, func(t *testing.T) {
			var log strings.Builder
			s := Steps{Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey {
					return slog.Attr{}
				}
				return a
			}}))}
			if err := s.timed(1, "drain the buffers into the tree", func() error { <-time.After(took); return nil }); err != nil {
				t.Fatal(err)
			}
			if log.String() != want {
				t.Errorf("%s: %q, want %q", took, log.String(), want)
			}
		})
	}
}
