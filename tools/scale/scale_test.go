//go:build linux

package main

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"urltree/tools/command"
	"urltree/tools/machine"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// made returns the samples of a crawl of so many pages, one each 1,000 pages and second, whose
// pages take 100 µs, from the 100,000th on 125; and the end, one second and 200 pages later.
func made(pages int64) (samples []sample, end sample) {
	at := func(n int64) sample {
		return sample{
			at: time.Duration(n) * time.Millisecond, pages: n, known: 10 * n, anon: n << 10,
			user: time.Duration(n*80+max(0, n-100_000)*25) * time.Microsecond, system: time.Duration(n*20) * time.Microsecond,
		}
	}
	for n := int64(1000); n <= pages; n += 1000 {
		samples = append(samples, at(n))
	}
	end = at(pages + 200)
	end.at, end.anon = samples[len(samples)-1].at+time.Second, 0
	return samples, end
}

func TestRows(t *testing.T) {
	samples, _ := made(20_000)
	samples = samples[:18] // the last row has one sample, the others two
	from := samples[0].pages
	all, rest := rows(samples)
	for _, r := range all {
		if r.pages <= from || r.cpu < 99 || r.cpu > 101 || r.speed < 999 || r.speed > 1001 || r.known != 10*r.pages || r.anon == 0 {
			t.Errorf("after %d: %+v", from, r)
		}
		from = r.pages
	}
	if len(all) != 9 || from != 18_000 || rest != samples[17] {
		t.Errorf("%d rows to %d, want 9 to the last sample", len(all), from)
	}
	// The last two looks saw the same pages: what the second has more belongs to the rest.
	later := rest
	later.at += time.Second
	if _, again := rows(append(samples, later)); again != rest {
		t.Errorf("the rest begins with %+v", again)
	}
	if all, _ := rows(samples[:1]); len(all) != 0 {
		t.Errorf("nothing lies between one sample, but %+v", all)
	}
}

func TestCosts(t *testing.T) {
	samples, _ := made(300_000)
	begin, end, ok := costs(samples)
	if !ok || begin != (cost{25_000, 75_000, 100}) || end != (cost{250_000, 300_000, 125}) {
		t.Errorf("%+v, %+v, %v", begin, end, ok)
	}
	samples, _ = made(124_000)
	if _, _, ok := costs(samples); ok {
		t.Error("the first and the last pages are the same, in part")
	}
}

func TestReport(t *testing.T) {
	samples, end := made(300_000)
	var b strings.Builder
	folder := t.TempDir()
	if err := report(&b, folder, samples, end, "HEAD"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"HEAD\n\n| pages |", "| 300000 | 3000000 | 125 |", "| 300200, closed | 3002000 | 0.03 s in all | 0.00 s in all | in 1.0 s | |\n\n", "300200 pages in 301.0 s, 997 pages/s, 116.7 CPU µs/page",
		"that at 50,000 pages: 1.250; 125.0 µs, of pages 250000 to 300000, to 100.0 µs, of pages 25000 to 75000.",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	for _, name := range []string{"cpu.svg", "speed.svg", "memory.svg"} {
		svg, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(svg), `text-anchor="end">0</text>`) {
			t.Errorf("%s: its axis does not begin at 0", name)
		}
	}
	if err := report(io.Discard, folder, nil, end, "HEAD"); err == nil {
		t.Error("no samples, but a report")
	}
}

func TestFlags(t *testing.T) {
	for _, tt := range []struct{ args, says string }{
		{"", ""},
		{"-pages 5 -- -crawlers 64", ""},
		{"-pages 0", "at least 1"},
		{"-every 0", "-every 0s"},
		{"-latency -1s", "-latency -1s"},
		{"-pages many", `"many"`},
		{"-pages 5 stray", `"stray"`},
	} {
		_, err := parse(strings.Fields(tt.args))
		if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%q: %v", tt.args, err)
		}
	}
	t.Setenv("SHARED", t.TempDir())
	b, err := parse([]string{"-out", filepath.Join(t.TempDir(), "out")})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.run(t.Context(), machine.Head{}); err == nil || !strings.Contains(err.Error(), "SHARED") {
		t.Errorf("without synthweb: %v", err)
	}
}

// TestSmall takes a small crawl from end to end.
func TestSmall(t *testing.T) {
	source, err := filepath.Abs(synthweb(t))
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out")
	t.Chdir(filepath.Join("..", ".."))
	b, err := parse([]string{"-pages", "300", "-hosts", "2", "-every", "50ms", "-web", source, "-out", out})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.run(t.Context(), machine.Head{}); err != nil {
		t.Fatal(err)
	}
	if list, err := os.ReadFile(filepath.Join(out, "res.txt")); err != nil || strings.Count(string(list), "\n") != 300 {
		t.Errorf("not the pages that were asked for: %v\n%s", err, list)
	}
}

func TestServe(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seed, err := serve(ctx, []string{"sh", "-c", `echo "web: a line before" >&2; echo "web: 2 hosts, start at http://127.9.9.9:1/" >&2; exec sleep 60`})
	if err != nil || seed != "http://127.9.9.9:1/" {
		t.Errorf("%q, %v", seed, err)
	}
	for _, tt := range []struct{ script, says string }{
		{`echo "web: listen tcp 127.1.0.1:9000: bind: address already in use" >&2; exit 1`, "exit status 1: web: listen tcp 127.1.0.1:9000: bind"},
		{"exit 0", "it has ended"},
	} {
		if _, err := serve(ctx, []string{"sh", "-c", tt.script}); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v", tt.script, err)
		}
	}
}

// synthweb returns the folder of the web's sources.
func synthweb(t *testing.T) string {
	source := command.Shared("synthweb")
	if os.Getenv("SHARED") == "" { // the default is as seen from the repository
		source = filepath.Join("..", "..", source)
	}
	if _, err := os.Stat(source); err != nil {
		t.Skip("needs shared test data: ", err)
	}
	return source
}

// The real web, whose port is taken.
func TestServeTaken(t *testing.T) {
	source := synthweb(t)
	web := filepath.Join(t.TempDir(), "synthweb")
	if text, err := exec.CommandContext(t.Context(), "go", "build", "-C", source, "-o", web, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	l, err := net.Listen("tcp", "127.1.0.1:9000")
	if err == nil {
		defer l.Close()
	} else if !errors.Is(err, syscall.EADDRINUSE) {
		t.Skip("no such loopback address: ", err)
	}
	if _, err := serve(t.Context(), []string{web, "-infinite", "-tiny"}); err == nil || !strings.Contains(err.Error(), "127.1.0.1:9000") || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("the port is taken: %v", err)
	}
}
