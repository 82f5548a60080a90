//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

// patience is after what time a process that should end is said to hang; it is generous because
// the machine may have other work. How fast a crawl ends is measured elsewhere.
const patience = 3 * time.Minute

// A process is the command at work.
type process struct {
	cmd            *exec.Cmd
	stdout, stderr bytes.Buffer  // valid when it has ended
	ended          chan struct{} // closed then
}

// An exit is the code of a process, or the signal that ended it below 0.
type exit int

const (
	killed exit = -exit(syscall.SIGKILL)
	hung   exit = -1000 // it did not end and was killed
)

func (e exit) String() string {
	switch {
	case e == hung:
		return "hung"
	case e == killed:
		return "killed"
	case e < 0:
		return fmt.Sprintf("signal %d", -e)
	}
	return fmt.Sprint(int(e))
}

// start starts the command in a folder. When ctx ends it is killed.
func start(ctx context.Context, binary, dir string, env []string, args ...string) (*process, error) {
	p := &process{cmd: exec.CommandContext(ctx, binary, args...), ended: make(chan struct{})}
	p.cmd.Dir, p.cmd.Env = dir, append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait() // the state tells all
		close(p.ended)
	}()
	return p, nil
}

// after waits for a time, or for the end of the process, which it tells of.
func (p *process) after(d time.Duration) (ended bool) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-p.ended:
		return true
	case <-t.C:
		return false
	}
}

func (p *process) pid() string { return strconv.Itoa(p.cmd.Process.Pid) }

func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// wait waits for the end. A process that hangs is made to print its stacks first.
func (p *process) wait() exit {
	if !p.after(patience) {
		p.signal(syscall.SIGQUIT)
		if !p.after(10 * time.Second) {
			p.signal(syscall.SIGKILL)
		}
		<-p.ended
		return hung
	}
	if status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return -exit(status.Signal())
	}
	return exit(p.cmd.ProcessState.ExitCode())
}
