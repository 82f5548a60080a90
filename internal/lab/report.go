package lab

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"urltree/internal/lab/queues"
)

// A Report is what a run of experiments found, and where.
type Report struct {
	Scale    float64
	Begin    time.Time
	Took     time.Duration
	Load     []string // average number of processes that wanted a processor, before and after; nil: unknown
	Findings []Finding
}

func newReport(scale float64) *Report {
	r := &Report{Scale: scale, Begin: time.Now()}
	r.addLoad()
	return r
}

func (r *Report) end() {
	r.Took = time.Since(r.Begin)
	r.addLoad()
}

// addLoad takes the load average of a minute, where the system tells it.
func (r *Report) addLoad() {
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		load, _, _ := strings.Cut(string(text), " ")
		r.Load = append(r.Load, load)
	}
}

// Write makes the document experiments.md in a folder, and its pictures in experiments/ beside it.
func (r *Report) Write(dir string) error {
	pictures := filepath.Join(dir, "experiments")
	if err := os.MkdirAll(pictures, 0o777); err != nil {
		return fmt.Errorf("lab: %w", err)
	}
	for i := range r.Findings {
		f := &r.Findings[i]
		for j := range f.Charts {
			var svg bytes.Buffer
			err := f.Charts[j].WriteSVG(&svg)
			if err == nil {
				err = os.WriteFile(filepath.Join(pictures, f.picture(j)), svg.Bytes(), 0o666)
			}
			if err != nil {
				return fmt.Errorf("lab: %s: %w", f.ID, err)
			}
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "experiments.md"), r.document(), 0o666); err != nil {
		return fmt.Errorf("lab: %w", err)
	}
	return nil
}

// picture is the name of the file of a chart.
func (f *Finding) picture(chart int) string {
	return fmt.Sprintf("%s-%d.svg", strings.ToLower(f.ID), chart+1)
}

func (r *Report) document() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `# Experiments

The experiments of the sources (see [sources.md](sources.md)), made again with this program by
%scrawler lab%[1]s. Where a source prints numbers they stand beside ours. Where it has a picture,
nothing is read off: a sentence of the source stands beside what we found, and what we call agreement
is said. Numbers of comparisons, blocks and pages depend on the program alone; times are rough, for
the web, the crawler and whatever else ran shared one machine.

- Date: %s; it took %s.
- Machine: %s/%s, %d processors, %s.
`, "`", r.Begin.UTC().Format("2006-01-02 15:04 MST"), r.Took.Round(time.Second), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version())
	if len(r.Load) == 2 {
		fmt.Fprintf(&b, "- Load: %s processes wanted a processor when it began, %s when it ended (average of a minute).\n", r.Load[0], r.Load[1])
	}
	fmt.Fprintf(&b, "- Scale: %g", r.Scale)
	if r.Scale == 1 {
		b.WriteString(", which is the sources' numbers of items, URLs and crawlers")
	} else {
		b.WriteString(" of the sources' numbers of items and URLs, not of crawlers")
	}
	b.WriteString(".\n")
	for i := range r.Findings {
		r.Findings[i].write(&b)
	}
	return b.Bytes()
}

func (f *Finding) write(b *bytes.Buffer) {
	fmt.Fprintf(b, "\n## Source %s, %s: %s\n\n%s\n\n", f.Source, f.Name, f.Title, f.Setup)
	for _, c := range f.Claims {
		verdict := "Ours does not agree"
		if c.Agrees {
			verdict = "Ours agrees"
		}
		fmt.Fprintf(b, "- The source: \"%s\" **%s.** %s\n", c.Says, verdict, c.Ours)
	}
	if len(f.Claims) > 0 {
		b.WriteByte('\n')
	}
	writeTable(b, f.Table)
	for j := range f.Charts {
		fmt.Fprintf(b, "\n![%s](experiments/%s)\n", f.Charts[j].Title, f.picture(j))
	}
}

func writeTable(b *bytes.Buffer, t queues.Table) {
	rule := make([]string, len(t.Columns))
	for i := range rule {
		rule[i] = "---:"
	}
	for _, row := range append([][]string{t.Columns, rule}, t.Rows...) {
		fmt.Fprintf(b, "| %s |\n", strings.Join(row, " | "))
	}
}
