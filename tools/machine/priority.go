package machine

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

// Pinned returns a command on some cores, such as "0" or "0,1", by taskset; and with a priority
// other than 0 before all usual work, by chrt: real-time and round robin, from 1, the least, to 99.
func Pinned(cores string, priority int, command ...string) []string {
	pinned := append([]string{"taskset", "-c", cores}, command...)
	if priority == 0 {
		return pinned
	}
	return append([]string{"chrt", "-r", strconv.Itoa(priority)}, pinned...)
}

// MayHave returns an error if Pinned cannot set this priority here, by running a program that does
// nothing.
func MayHave(priority int) error {
	if priority == 0 {
		return nil
	}
	if priority < 0 || priority > 99 {
		return fmt.Errorf("%d: a priority is 1 to 99, or 0 for the usual one", priority)
	}
	if text, err := exec.Command("chrt", "-r", strconv.Itoa(priority), "true").CombinedOutput(); err != nil {
		return fmt.Errorf("%d: chrt cannot give it: %w: %s", priority, err, strings.TrimSpace(string(text)))
	}
	return nil
}

// HasCore returns an error if a command cannot be pinned to a core here, likewise.
func HasCore(core int) error {
	if text, err := exec.Command("taskset", "-c", strconv.Itoa(core), "true").CombinedOutput(); err != nil {
		return fmt.Errorf("core %d: taskset cannot give it: %w: %s", core, err, strings.TrimSpace(string(text)))
	}
	return nil
}
