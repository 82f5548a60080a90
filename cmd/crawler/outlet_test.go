package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"urltree/internal/testweb"
)

// TestOutlet: while nobody reads, a write waits for a while once, those after it not at all;
// when somebody reads again, the lines that were left out are counted.
func TestOutlet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		o := newOutlet(w)
		start := time.Now()
		for _, line := range []string{"one\n", "two\n", "three\n"} {
			if n, err := o.Write([]byte(line)); n != len(line) || err != nil {
				t.Errorf("Write: %d, %v", n, err)
			}
		}
		if took := time.Since(start); took != o.stall {
			t.Errorf("three lines that nobody takes: %v, want %v", took, o.stall)
		}
		var read strings.Builder
		ended := make(chan error, 1)
		go func() {
			_, err := io.Copy(&read, r)
			ended <- err
		}()
		synctest.Wait()
		for _, line := range []string{"four\n", "five\n"} {
			if _, err := o.Write([]byte(line)); err != nil {
				t.Error(err)
			}
		}
		w.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if want := "one\n\ncrawler: 2 writes left out: nobody took them\nfour\nfive\n"; read.String() != want {
			t.Errorf("read %q, want %q", read.String(), want)
		}
		if _, err := o.Write([]byte("six\n")); err == nil {
			t.Error("a write to a closed pipe gives no error")
		}
	})
}

// TestNobodyReads: with standard error a pipe that is full and that nobody empties, a crawl ends
// when its time is over, and a second signal ends it at once.
func TestNobodyReads(t *testing.T) {
	t.Parallel()
	web := testweb.New(testweb.Options{Pages: 500, Latency: 50 * time.Millisecond})
	if err := web.Start(0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(web.Stop) // once the parallel tests have ended
	for _, way := range []string{"time", "signals"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"-verbose", "-allow-private", "-delay", "1s"}, web.Seeds()[0])
			if way == "time" {
				args = append([]string{"-time", "2s"}, args...)
			}
			cmd := child(t.TempDir(), args...)
			cmd.Stderr = fullPipe(t)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			if way == "signals" {
				requireOpen(t, cmd, "index.db")
				_ = cmd.Process.Signal(os.Interrupt)
				<-time.After(2 * time.Second) // of a process, so real time
				_ = cmd.Process.Signal(os.Interrupt)
			}
			select {
			case <-ended:
			case <-time.After(patience):
				_ = cmd.Process.Kill()
				<-ended
				t.Fatalf("still there after %s", patience)
			}
			// The first signal may have been enough.
			if code := cmd.ProcessState.ExitCode(); code != exitDone && code != exitForced {
				t.Errorf("exit %d", code)
			}
		})
	}
	t.Run("results", func(t *testing.T) {
		// Where nobody takes the answer of a subcommand, a second signal must end it too.
		t.Parallel()
		dir := t.TempDir()
		must(t, dir, "-quiet", "-allow-private", "-max-pages", "1", web.Seeds()[0])
		cmd := child(dir, "export")
		cmd.Stdout, cmd.Stderr = fullPipe(t), fullPipe(t)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		requireOpen(t, cmd, "index.db")
		if code := interrupt(t, cmd); code != exitForced {
			t.Errorf("exit %d, want %d", code, exitForced)
		}
	})
}

// requireOpen waits until a process has a file of this name open: long before that it has asked for
// signals.
func requireOpen(t *testing.T, cmd *exec.Cmd, name string) {
	t.Helper()
	fds := fmt.Sprintf("/proc/%d/fd", cmd.Process.Pid)
	for late := time.Now().Add(patience); time.Now().Before(late); <-time.After(10 * time.Millisecond) { // of a process, so real time
		list, err := os.ReadDir(fds)
		if _, none := os.Stat("/proc/self/fd"); none != nil {
			t.Skip("no /proc to see open files in")
		} else if err != nil {
			break
		}
		for _, fd := range list {
			if file, _ := os.Readlink(filepath.Join(fds, fd.Name())); filepath.Base(file) == name {
				return
			}
		}
	}
	_ = cmd.Process.Kill()
	t.Errorf("it has not opened %s", name)
}

// interrupt sends signals, a second apart, until the command ends, at most ten.
func interrupt(t *testing.T, cmd *exec.Cmd) int {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for range 10 {
		select {
		case <-ended:
			return cmd.ProcessState.ExitCode()
		case <-time.After(time.Second):
			_ = cmd.Process.Signal(os.Interrupt)
		}
	}
	_ = cmd.Process.Kill()
	<-ended
	t.Error("ten signals have not ended it")
	return cmd.ProcessState.ExitCode()
}

// fullPipe returns the end of a pipe that takes nothing more.
func fullPipe(t *testing.T) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	_ = w.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
	for err == nil {
		_, err = w.Write(make([]byte, 4096))
	}
	for err = nil; err == nil; { // and the last bytes of it
		_ = w.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
		_, err = w.Write([]byte{0})
	}
	// As a shell gives it: a write waits.
	if err := syscall.SetNonblock(int(w.Fd()), false); err != nil {
		t.Fatal(err)
	}
	return w
}

// TestOutletJSON: each line of a text becomes an object, and one that is an object stays as it is.
func TestOutletJSON(t *testing.T) {
	var out bytes.Buffer
	o := newOutlet(&out)
	o.json.Store(true)
	for _, text := range []string{"crawler: one \"line\"\n", "{\"a\":1}\n", "\ntwo\n three \n"} {
		if n, err := io.WriteString(o, text); n != len(text) || err != nil {
			t.Errorf("%q: %d, %v", text, n, err)
		}
	}
	var got []any
	for line := range strings.Lines(out.String()) {
		object := map[string]any{}
		if err := json.Unmarshal([]byte(line), &object); err != nil {
			t.Errorf("%q: %v", line, err)
		}
		if object["msg"] != nil {
			got = append(got, object["msg"])
		} else {
			got = append(got, object["a"])
		}
	}
	if want := []any{`one "line"`, 1., "two", "three"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
