package cleaner

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"urltree/internal/testsite"
	"urltree/storage/record"
)

// TestVolumes checks what statistics.txt says of types, hosts and rates where there is much of
// them.
func TestVolumes(t *testing.T) {
	s := testsite.New(t, t.TempDir())
	t.Cleanup(s.Close)
	run, _, _, err := s.Index.Runs().Begin()
	if err != nil {
		t.Fatal(err)
	}
	sums := newTally()
	for host := range 25 {
		name := fmt.Sprintf("h%02d.org", host)
		s.Seed("http://" + name + "/")
		s.Commit(&record.Outcome{Host: &record.HostTimes{Name: name, Answer: int64(host+1) * int64(time.Millisecond), Seq: 1}})
		for page := range host + 1 {
			r := record.Record{Row: record.Row{URL: fmt.Sprintf("http://%s/%d", name, page)}, State: record.Stored}
			r.Bytes, r.Media = 10, fmt.Sprintf("text/%d", page)
			sums.add(&r)
		}
		if host%5 == 0 {
			r := record.Record{Row: record.Row{URL: "http://" + name + "/x", Reason: "dns"}, State: record.Failed}
			sums.add(&r)
		}
	}
	sums.endOrigin()
	for hour := range uint32(30) {
		h := record.Hour{Run: run.ID, Hour: hour + 1, Time: run.Start + int64(hour+1)*3600, Stored: 36 * int64(hour)}
		if err := s.Index.Runs().PutHour(h); err != nil {
			t.Fatal(err)
		}
	}
	f := filesIn(t, t.TempDir())
	l, err := writeLists(context.Background(), s.Index, f)
	if err != nil {
		t.Fatal(err)
	}
	l.tally = sums
	if err := writeStatistics(context.Background(), s.Index, f, "", RunFigures{Run: s.Index.Runs().Current()}, l, nil); err != nil {
		t.Fatal(err)
	}
	got := testsite.Read(t, f.Statistics)
	for title, want := range map[string][]string{
		"Pages by type":            {"text/0 25 250", "text/1 24 240", "text/19 6 60", "and 5 other types\n"},
		"Hosts with most pages":    {"http://h24.org 25 250 0 0", "http://h20.org 21 210 1 0", "http://h05.org 6 60 1 0", "and 5 other hosts"},
		"Hosts with most failures": {"http://h00.org 1 10 1 0", "http://h20.org 21 210 1 0"},
		"Slowest hosts":            {"h24.org 25ms 0 0", "h15.org 16ms 0 0"},
		"Rate over time":           {fmt.Sprintf("run 1, %s 0 ", date(run.Start))},
		"Rate by hours, this run":  {"hour 7, until " + date(run.Start+7*3600) + " 216 0.06", "hour 30, until " + date(run.Start+30*3600) + " 1044 0.29"},
	} {
		_, section, _ := strings.Cut(got, "\n"+title+"\n")
		section, _, _ = strings.Cut(section, "\n\n")
		var lines []string
		for line := range strings.Lines(section) {
			lines = append(lines, strings.Join(strings.Fields(line), " "))
		}
		text := strings.Join(lines, "\n") + "\n"
		for _, line := range want {
			if !strings.Contains(text, line) {
				t.Errorf("%s lacks %q:\n%s", title, line, section)
			}
		}
	}
	for _, no := range []string{"h04.org", "h14.org 15ms", "hour 6,"} {
		if strings.Contains(got, no) {
			t.Errorf("%q is named, which is none of the most or the last", no)
		}
	}
	users, papers, ok := strings.Cut(got, "Checks and queues of the published designs")
	if !ok || strings.Contains(users, "Accounting") || !strings.Contains(papers, "Accounting") || strings.Contains(papers, "Slowest") {
		t.Errorf("what a user wants does not come first:\n%s", got)
	}
}
