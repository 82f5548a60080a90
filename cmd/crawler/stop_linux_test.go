package main

import (
	"cmp"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestStopWhileServersStall stops crawls in every way while a server owes them an answer that it
// never gives, and for which they would wait ten minutes: each ends after the ten seconds that
// downloads in flight get, or at once when forced, with a whole tree, and the next run goes on.
func TestStopWhileServersStall(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		flags []string
		stop  func(t *testing.T, p *os.Process)
		pipe  bool // standard error is a full pipe
		tty   bool // the command has a terminal, which is closed
		want  int
		pages int // asked for before it is stopped; 0: 20
	}{
		{name: "SIGTERM", stop: send(syscall.SIGTERM)},
		{name: "SIGINT", stop: send(syscall.SIGINT)},
		{name: "SIGHUP", stop: send(syscall.SIGHUP)},
		{name: "two SIGINT", stop: func(t *testing.T, p *os.Process) {
			send(syscall.SIGINT)(t, p)
			<-time.After(2 * together) // of a process, so real time
			send(syscall.SIGINT)(t, p)
		}, want: exitForced},
		{name: "time", flags: []string{"-time", "8s"}, stop: func(*testing.T, *os.Process) {}, pages: 3},
		{name: "closed terminal", tty: true},
		{name: "full pipe and time", flags: []string{"-verbose", "-time", "8s"}, pipe: true, stop: func(*testing.T, *os.Process) {}, pages: 3},
		{name: "full pipe and SIGTERM", flags: []string{"-verbose"}, pipe: true, stop: send(syscall.SIGTERM)},
	} {
		s := newSite(t.TempDir())
		server := httptest.NewServer(s)
		defer server.Close()
		defer s.end()
		args := append([]string{"-delay", "30ms", "-per-host", "2", "-scope", "host", "-timeout", "10m"}, tt.flags...)
		args = append(args, server.URL+"/endless/1", server.URL+"/hang")
		dir := t.TempDir()
		cmd := child(dir, args...)
		stop := tt.stop
		switch {
		case tt.pipe:
			cmd.Stderr = fullPipe(t)
		case tt.tty:
			var err error
			if stop, err = terminalOf(t, cmd); err != nil {
				t.Run(tt.name, func(t *testing.T) { t.Skip("no pseudo-terminals here: ", err) })
				continue
			}
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan time.Time, 1)
		go func() {
			_ = cmd.Wait() // what came of it is in cmd.ProcessState
			ended <- time.Now()
		}()
		pages := cmp.Or(tt.pages, 20)
		for _, path := range []string{"/hang", fmt.Sprintf("/endless/%d", pages)} {
			select {
			case <-s.asked(path):
			case <-time.After(patience):
				t.Errorf("%s: never asked for %s", tt.name, path)
			}
		}
		stop(t, cmd.Process)
		begin := time.Now() // after the last signal
		// All of them are on their way before the first is waited for.
		defer t.Run(tt.name, func(t *testing.T) {
			select {
			case end := <-ended:
				took := end.Sub(begin).Round(100 * time.Millisecond)
				t.Logf("ended after %s", took)
				if tt.want == exitForced && took >= 10*time.Second {
					t.Errorf("forced to end, and yet it waited for downloads: %s", took)
				}
			case <-time.After(patience): // less than the ten minutes
				_ = cmd.Process.Kill()
				<-ended
				t.Fatalf("still there after %s", patience)
			}
			if code := cmd.ProcessState.ExitCode(); code != tt.want {
				t.Errorf("exit %d, want %d", code, tt.want)
			}
			must(t, dir, "check", "-links")
			if tt.want == exitDone && !slices.Contains(urlsOf(t, filepath.Join(dir, "res.txt")), fmt.Sprintf("%s/endless/%d", server.URL, pages-1)) {
				t.Error("res.txt lacks a page that was fetched")
			}
			must(t, dir, "-quiet", "-delay", "0", "-scope", "host", "-max-pages", "3")
		})
	}
}

func send(s os.Signal) func(*testing.T, *os.Process) {
	return func(t *testing.T, p *os.Process) {
		if err := p.Signal(s); err != nil {
			t.Error(err)
		}
	}
}

// terminalOf makes a terminal of its own for a command, and returns the function that closes it.
// The error says that there are no terminals here.
func terminalOf(t *testing.T, cmd *exec.Cmd) (closeFn func(*testing.T, *os.Process), err error) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	fd := int(master.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { slave.Close() })
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	return func(*testing.T, *os.Process) { master.Close() }, nil
}
