package crawler

import "time"

// HurryWatchdog makes the watchdog tell of a page, a call-back, a sync or a transaction that takes longer than
// disk, and give up after twice that. A request may take as much longer than its own time limit as
// slack says, or less than that; 0: as usual.
func (o *Options) HurryWatchdog(disk, slack time.Duration) {
	o.steps = stepLimits{disk: disk, parse: disk, slack: slack, giveUp: 2 * disk, look: disk / 4}
}

func (l *Linker) Rejections() map[string]int64 { return l.rejections() }
