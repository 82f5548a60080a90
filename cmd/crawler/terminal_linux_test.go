package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// openTerminal returns both ends of a new terminal.
func openTerminal(t *testing.T) (screen, program *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no terminal can be made here: %v", err)
	}
	t.Cleanup(func() { screen.Close() })
	if err := unix.IoctlSetPointerInt(int(screen.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(screen.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Skipf("no terminal can be made here: %v", err)
	}
	t.Cleanup(func() { program.Close() })
	return screen, program
}

// TestBinaryOnTerminal: what is no text does not go to a terminal, and to a pipe it does.
func TestBinaryOnTerminal(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	dir := t.TempDir()
	call(t, dir, "-quiet", "-delay", "0", server.URL+"/")
	for _, tt := range []struct {
		args   string
		binary bool
	}{
		{"-format parquet", true},
		{"-what pages -format parquet", true},
		{"-what wacz", true},
		{"-what warc", true},
		{"-what warc -format plain", false},
		{"-what pages", false},
		{"-what cdxj", false},
		{"", false},
	} {
		args := append([]string{"export"}, strings.Fields(tt.args)...)
		_, program := openTerminal(t)
		cmd := child(dir, args...)
		var stderr strings.Builder
		cmd.Stdout, cmd.Stderr = program, &stderr
		_ = cmd.Run()
		want := 0
		if tt.binary {
			want = exitUsage
		}
		if code := cmd.ProcessState.ExitCode(); code != want || tt.binary != strings.Contains(stderr.String(), "is no text that a terminal shows: name a file by -output") {
			t.Errorf("export %s: exit %d, %s", tt.args, code, &stderr)
		}
		must(t, dir, args...)
	}
}

// TestLongAnswer: a terminal on standard error shows how far an answer is that takes its time, here
// for a reader that stands still, and nothing is left of that in the end.
func TestLongAnswer(t *testing.T) {
	t.Parallel()
	const links = 1500 // more than a pipe takes at once
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		for n := range links {
			fmt.Fprintf(w, "<a href=/%d>%s</a>\n", n, strings.Repeat("x", 90))
		}
	}))
	defer server.Close()
	dir := t.TempDir()
	must(t, dir, "-quiet", "-delay", "0", "-scope", "host", "-edges", "-per-host", "8", server.URL+"/")
	for _, command := range [][]string{{"export"}, {"export", "-what", "edges", "-format", "jsonl"}, {"broken"}} {
		screen, program := openTerminal(t)
		cmd := child(dir, command...)
		cmd.Stderr = program
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		shown := &transcript{more: make(chan struct{})}
		go func() { _, _ = io.Copy(shown, screen) }()
		if !shown.wait(regexp.MustCompile(command[0] + `: (writing URLs [1-9]\d* of 1501, \d+ a second, \S+ left|reading links.*|[1-9]\d* lines), \d+\.\d MB`)) {
			t.Errorf("%v shows %q", command, shown.text)
		}
		text, err := io.ReadAll(out)
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
		if err != nil || strings.Count(string(text), "\n") < links {
			t.Errorf("%v: %d lines, %v", command, strings.Count(string(text), "\n"), err)
		}
		if !shown.wait(regexp.MustCompile(`\r\x1b\[K$`)) {
			t.Errorf("%v leaves %q on the screen", command, shown.text)
		}
	}
}

// TestStepsOnATerminal: while a step is under way the terminal shows how far it is, with what is
// left, and then what has been written.
func TestStepsOnATerminal(t *testing.T) {
	t.Parallel()
	screen, program := openTerminal(t)
	shown := &transcript{more: make(chan struct{})}
	go func() { _, _ = io.Copy(shown, screen) }()
	m := &steps{of: "broken"}
	w, stop := (&command{stderr: program}).metered(m, io.Discard)
	defer stop()
	for _, step := range []struct {
		do   func()
		want string
	}{
		{func() { m.set("looking", 0, 0) }, `broken: looking$`},
		{func() { m.set("reading pages", 3, 7) }, `broken: reading pages 3 of 7, \d+ a second, \d+m?s left$`},
		{func() { fmt.Fprintln(w, "http://a.test/: http-4xx") }, `broken: reading pages 3 of 7, \d+ a second, \d+m?s left, 0\.0 MB$`},
		{func() { m.set("reading pages", 7, 7) }, `broken: 1 line, 0\.0 MB$`},
	} {
		step.do()
		if !shown.wait(regexp.MustCompile(step.want)) {
			t.Errorf("it shows %q, want %s", shown.text, step.want)
		}
	}
}
