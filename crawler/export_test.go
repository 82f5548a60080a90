package crawler

import "time"

// HurryWatchdog makes the watchdog tell of a page that is stored, a sync or a transaction that
// takes longer than disk, and of a page that is parsed or a call-back that takes longer than parse,
// and give up after two seconds. A request may take as much longer than its own time limit as slack
// says, or less than that. 0 is as usual: on a busy machine other steps than the one that a test
// lets hang may take their time.
func (o *Options) HurryWatchdog(disk, parse, slack time.Duration) {
	o.steps = stepLimits{disk: disk, parse: parse, slack: slack, giveUp: 2 * time.Second, look: time.Second / 4}
}

func (l *Linker) Rejections() map[string]int64 { return l.rejections() }
