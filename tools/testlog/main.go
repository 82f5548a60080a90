// Testlog runs go test with the flags and packages that it is given, and prints what go test prints
// without -v. At the end it also lists each test that was skipped, with its reason: a test that a
// machine cannot run does not go missing unseen. The exit code is that of go test.
//
// Flags of its own come before all others, -C first: the folder to run in. With -tmpfs the files of
// the tests are in memory, where there is room for them: their folder is TMPDIR. With -long only
// tests run that are shorter with -short, or skipped. With -share only the share of the tests runs
// that TEST_URLTREE_SHARE names, see internal/testshare.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
)

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	signal.Notify(make(chan os.Signal, 1), os.Interrupt) // go test gets it as well, and ends
	if len(args) > 1 && args[0] == "-C" {
		if err := os.Chdir(args[1]); err != nil {
			fmt.Fprintln(os.Stderr, "testlog:", err)
			return 1
		}
		args = args[2:]
	}
	env := os.Environ()
	own := map[string]bool{"-tmpfs": false, "-long": false, "-share": false}
	for len(args) > 0 {
		if _, ok := own[args[0]]; !ok {
			break
		}
		own[args[0]], args = true, args[1:]
	}
	if own["-tmpfs"] {
		mounts, _ := os.ReadFile("/proc/mounts") // not there: no memory either
		if dir, remove := tmpfs(string(mounts)); dir != "" {
			defer remove()
			env = append(env, "GOTMPDIR="+os.TempDir(), "TMPDIR="+dir)
		}
	}
	if own["-long"] || own["-share"] {
		var err error
		if args, err = pick(args, own["-long"], own["-share"]); err != nil {
			fmt.Fprintln(os.Stderr, "testlog:", err)
			return 1
		}
		if args == nil {
			fmt.Println("no test is in this share")
			return 0
		}
	}
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Env, cmd.Stderr = env, os.Stderr
	events, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err == nil {
		err = errors.Join(report(os.Stdout, events), cmd.Wait())
	}
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return max(exit.ExitCode(), 1)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "testlog:", err)
		return 1
	}
	return 0
}

// An event is a line of go test -json, see go doc test2json.
type event struct{ Action, Package, Test, Output string }

// report prints what the events tell as soon as it is known, and at the end the tests that were
// skipped.
func report(w io.Writer, events io.Reader) error {
	type test struct{ pkg, name string }
	begun := map[string][]string{}         // tests by package, the oldest first
	printed := map[test]*strings.Builder{} // by tests that have not ended
	var skipped []string
	in := bufio.NewReader(events)
	for {
		line, err := in.ReadBytes('\n')
		if err == io.EOF && len(line) == 0 {
			break
		}
		if err != nil && err != io.EOF {
			return err
		}
		var e event
		if json.Unmarshal(line, &e) != nil {
			fmt.Fprintf(w, "%s", line) // what go itself says
			continue
		}
		t := test{e.Package, e.Test}
		switch {
		case e.Action == "build-output", e.Action == "output" && e.Test == "" && e.Output != "PASS\n":
			fmt.Fprint(w, e.Output)
		case e.Test == "" && e.Action == "fail":
			// A panic or the timeout of a package ends tests that no event tells the end of.
			for _, name := range begun[e.Package] {
				if text := printed[test{e.Package, name}]; text != nil {
					fmt.Fprint(w, text)
				}
			}
		case e.Test == "":
		case e.Action == "run":
			begun[e.Package] = append(begun[e.Package], e.Test)
			printed[t] = new(strings.Builder)
		case e.Action == "output" && printed[t] != nil && !strings.HasPrefix(e.Output, "=== "):
			printed[t].WriteString(e.Output)
		case e.Action == "pass", e.Action == "fail", e.Action == "skip":
			text := printed[t]
			if text == nil {
				continue
			}
			switch e.Action {
			case "fail":
				fmt.Fprint(w, text)
			case "skip":
				skipped = append(skipped, fmt.Sprintf("%s %s: %s", e.Package, e.Test, reason(text.String())))
			}
			delete(printed, t)
		}
	}
	for _, s := range skipped {
		fmt.Fprintln(w, "skipped:", s)
	}
	return nil
}

// reason returns in one line what a skipped test has said.
func reason(text string) string {
	var said []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "--- SKIP") {
			said = append(said, line)
		}
	}
	return strings.Join(said, " ")
}
