package main

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"urltree/crawler"
)

// screen returns the lines that a terminal shows after all that was written: "\r\x1b[K" takes the
// line back that the cursor is on.
func screen(t *testing.T, written string) []string {
	t.Helper()
	lines := []string{""}
	for written != "" {
		switch {
		case strings.HasPrefix(written, "\r\x1b[K"):
			lines[len(lines)-1] = ""
			written = written[len("\r\x1b[K"):]
		case written[0] == '\n':
			lines = append(lines, "")
			written = written[1:]
		case written[0] < ' ':
			t.Fatalf("control character in %q", written)
		default:
			lines[len(lines)-1] += written[:1]
			written = written[1:]
		}
	}
	return lines
}

// TestLiveLine: lines of the log stay as they are, above one line that is always the latest
// state, never as wide as the terminal, and gone at the end.
func TestLiveLine(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(&out, false)
	p.width = func() int { return 30 }
	want := []string{""}
	check := func(when string) {
		t.Helper()
		got := screen(t, out.String())
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Fatalf("%s: the screen shows %q, want %q", when, got, want)
		}
		if last := got[len(got)-1]; len(last) >= 30 {
			t.Errorf("%s: the live line has %d columns", when, len(last))
		}
	}
	live := func(text string) { want[len(want)-1] = text }
	log := func(text string) { want = append(want[:len(want)-1], text, want[len(want)-1]) }

	p.Write([]byte("before\n"))
	log("before")
	check("a line before any state")
	p.update(crawler.Progress{Pages: 1, Phase: "fetch"})
	live("1 page, 0/s, 0 waiting, 0 fai")
	check("a state")
	p.Write([]byte("one\ntwo\n"))
	log("one")
	log("two")
	check("lines of the log")
	p.update(crawler.Progress{Pages: 2, PerSecond: 1.25, Phase: "fetch"})
	live("2 pages, 1.2/s, 0 waiting, 0 ")
	check("the next state")
	p.close()
	p.close()
	live("")
	check("the end")
}

// TestLineAMinute: what is no terminal gets a whole line after ten seconds and then each minute,
// and nothing when quiet.
func TestLineAMinute(t *testing.T) {
	for _, tt := range []struct {
		name  string
		quiet bool
		want  int
	}{{"usual", false, 4}, {"quiet", true, 0}} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out bytes.Buffer
				p := newProgress(&out, tt.quiet)
				for end := time.Now().Add(3*time.Minute + 30*time.Second); time.Now().Before(end); {
					<-time.After(time.Second)
					p.update(crawler.Progress{Pages: 7, Phase: "fetch", Left: 9*time.Hour + 58*time.Minute + 9*time.Second, Waiting: "1 host resting"})
				}
				p.close()
				line := "crawler: 7 pages, 0/s, 0 waiting, 0 failed, 1 host resting, stops in 9h58m, 0 B\n"
				if got := out.String(); got != strings.Repeat(line, tt.want) {
					t.Errorf("%q, want %d times %q", got, tt.want, line)
				}
			})
		})
	}
}

// TestMeter: a long answer shows what has been written of it, and leaves nothing on the screen.
func TestMeter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out, screened bytes.Buffer
		p := newProgress(&screened, false)
		p.width = func() int { return 80 }
		m := &meter{w: &out}
		stop := showEach(p, func() string { return "export: " + m.String() })
		for range 1000 {
			if _, err := m.Write([]byte("a line\nanother\nand")); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		if got := screen(t, screened.String()); got[0] != "export: 2000 lines, 0.0 MB" {
			t.Errorf("the screen shows %q", got)
		}
		stop()
		if got := screen(t, screened.String()); len(got) != 1 || got[0] != "" || out.Len() != 18000 {
			t.Errorf("in the end the screen shows %q, and %d bytes are written", got, out.Len())
		}
	})
}

// TestSteps: the live line has how far it is, the rate, and the time that is left.
func TestSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &steps{of: "convert"}
		m.set("copying", 0, 300)
		time.Sleep(10 * time.Second)
		m.set("copying", 100, 300)
		if got, want := m.String(), "convert: copying 100 of 300, 10 a second, 20s left"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if !m.hasMore() {
			t.Error("nothing is left")
		}
		m.set("copying", 300, 300)
		if m.hasMore() {
			t.Error("something is left")
		}
		m.set("removing", 0, 0)
		if got, want := m.String(), "convert: removing"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
		time.Sleep(time.Second)
		m.set("removing", 50, 0)
		if got, want := m.String(), "convert: removing 50, 50 a second"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	})
}
