package crawler

import (
	"time"

	"urltree/internal/disk"
)

// HurryWatchdog makes the watch report a call to the disk or a transaction that takes longer than
// call, and the parsing of a page or a call-back that takes longer than work, and give up after two
// seconds. 0 is as usual: on a busy machine other steps than the one that a test lets hang may take
// their time.
func (o *Options) HurryWatchdog(call, work time.Duration) {
	o.steps = disk.Limits{Disk: call, Work: work, GiveUp: 2 * time.Second, Look: time.Second / 4}
}

// AnswerNobody leaves out the socket of ls and show, which keeps virtual time from passing.
func (o *Options) AnswerNobody() { o.silent = true }

func (l *Linker) Rejections() map[string]int64 { return l.rejections() }
