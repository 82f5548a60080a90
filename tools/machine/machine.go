// Package machine describes what a measurement ran on, and what a process has used. Linux only: it
// reads /proc.
package machine

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// A Machine is what figures depend on. Two measurements are compared only if it is the same.
type Machine struct {
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	Kernel string `json:"kernel"`
	Go     string `json:"go"`
	Date   string `json:"date"` // as 2006-01-02
}

// Here describes this machine. What /proc does not tell stays empty.
func Here() Machine {
	m := Machine{Cores: strings.Count(read("/proc/cpuinfo"), "processor\t:"), Go: runtime.Version(), Date: time.Now().Format(time.DateOnly)}
	_, rest, _ := strings.Cut(read("/proc/cpuinfo"), "model name\t: ")
	m.CPU, _, _ = strings.Cut(rest, "\n")
	m.Kernel = strings.TrimSpace(read("/proc/sys/kernel/osrelease"))
	return m
}

func (m Machine) String() string {
	return fmt.Sprintf("%s, %d cores, Linux %s, %s, %s", m.CPU, m.Cores, m.Kernel, m.Go, m.Date)
}

func read(file string) string {
	b, _ := os.ReadFile(file)
	return string(b)
}

// CPU returns the time that a process has used since its start, in user space and in the kernel.
func CPU(pid int) (user, system time.Duration, err error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, err
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 13 {
		return 0, 0, errors.New("/proc: stat")
	}
	utime, err1 := strconv.ParseInt(fields[11], 10, 64)
	stime, err2 := strconv.ParseInt(fields[12], 10, 64)
	const tick = 10 * time.Millisecond // of both, as proc(5) has it
	return time.Duration(utime) * tick, time.Duration(stime) * tick, errors.Join(err1, err2)
}

// Anon returns the bytes of a process's own memory (RssAnon).
func Anon(pid int) (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(status), "\nRssAnon:")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return 0, errors.New("/proc: no RssAnon")
	}
	kib, err := strconv.ParseInt(fields[0], 10, 64)
	return kib << 10, err
}

// Watch looks at the own memory of a process ten times a second until peak is called, once, which
// gives the most it has seen, in bytes. The kernel's own peak counts what this program had when it
// forked.
func Watch(pid int) (peak func() int64) {
	end, most := make(chan struct{}), make(chan int64)
	go func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		var high int64
		for {
			select {
			case <-end:
				most <- high
				return
			case <-tick.C:
				if n, err := Anon(pid); err == nil {
					high = max(high, n)
				}
			}
		}
	}()
	return func() int64 {
		close(end)
		return <-most
	}
}
