package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"urltree/tools/lab/queues"
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
	b.WriteString("# Experiments\n\n")
	wrap(&b, "", "The experiments of the sources (see [sources.md](sources.md)), made again with this program: `go run -C tools ./lab` has made this "+
		"file. Where a source prints numbers they stand beside ours. Its figures are pictures, off which no value is read: a sentence of the "+
		"source stands beside what we found, with what counts as agreement. Numbers of comparisons, blocks and transfers depend on the "+
		"program alone. Times are rough, and so are verdicts that rest on them: the web, the crawler and whatever else ran shared one machine.")
	b.WriteByte('\n')
	wrap(&b, "- ", fmt.Sprintf("Date: %s; it took %s.", r.Begin.UTC().Format("2006-01-02 15:04 MST"), r.Took.Round(time.Second)))
	wrap(&b, "- ", fmt.Sprintf("Machine: %s/%s, %d processors, %s.", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version()))
	if len(r.Load) == 2 {
		wrap(&b, "- ", fmt.Sprintf("Load: %s processes wanted a processor when it began, %s when it ended (averages of a minute).", r.Load[0], r.Load[1]))
	}
	scale := "the sources' numbers of items, URLs and crawlers; a second stands for an hour of A's"
	if r.Scale != 1 {
		scale = "the sources' numbers of items and URLs are multiplied by it, those of crawlers are not"
	}
	wrap(&b, "- ", fmt.Sprintf("Scale: %g, %s.", r.Scale, scale))
	for i := range r.Findings {
		r.Findings[i].write(&b)
	}
	return b.Bytes()
}

func (f *Finding) write(b *bytes.Buffer) {
	fmt.Fprintf(b, "\n## Source %s, %s: %s\n\n", f.Source, f.Name, f.Title)
	wrap(b, "", f.Setup)
	b.WriteByte('\n')
	for _, c := range f.Claims {
		verdict := "Ours does not agree"
		if c.Agrees {
			verdict = "Ours agrees"
		}
		wrap(b, "- ", fmt.Sprintf("The source: \"%s\". **%s.** %s", strings.TrimSuffix(c.Says, "."), verdict, c.Ours))
	}
	if len(f.Claims) > 0 {
		b.WriteByte('\n')
	}
	writeTable(b, f.Table)
	for j := range f.Charts {
		fmt.Fprintf(b, "\n![%s](experiments/%s)\n", f.Charts[j].Title, f.picture(j))
	}
}

// wrap writes a paragraph, or an item of a list whose first line begins with mark, in lines of
// about 100 columns.
func wrap(b *bytes.Buffer, mark, text string) {
	b.WriteString(mark)
	at := len(mark)
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
		case at+1+len(word) > 100:
			b.WriteString("\n" + strings.Repeat(" ", len(mark)))
			at = len(mark)
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += len(word)
	}
	b.WriteByte('\n')
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
