//go:build linux

package main

import (
	"os"
	"syscall"
	"time"
)

// powerCut cuts the power of the disk while a crawl or merge goes on, and switches it on again.
// What episodes before it wrote, maybe with -sync none, has long come to the disk.
func (w *work) powerCut() error {
	if err := w.disk.Sync(); err != nil {
		return err
	}
	args, moment := w.options("full"), w.moment()
	if _, err := os.Stat(w.index()); err == nil && w.r.IntN(4) == 0 {
		args, moment = []string{"merge"}, moment/4
	}
	p, err := w.begin(args...)
	if err != nil {
		return err
	}
	ended := p.after(moment)
	if err := w.disk.Cut(); err != nil {
		p.signal(syscall.SIGKILL)
		p.wait()
		return err
	}
	w.note = ", after " + moment.Round(time.Millisecond).String()
	if args[0] == "merge" {
		w.note += " of merge"
	}
	if ended {
		w.expect(p, 0)
	} else {
		w.expect(p, 4, 0)
	}
	return w.disk.Restart()
}
