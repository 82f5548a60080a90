package fetch

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// rateWindow is how long a body may be slower than Options.MinRate before its request fails.
const rateWindow = 10 * time.Second

// A watch is the clock of one request. Waiting for our own limits stops it, so that a host is not
// blamed for them. Used by one goroutine.
//
// It has one timer, set to the first limit that is to be met: the first byte, then the end of a
// window in which the body is too slow so far, but never later than the whole request.
type watch struct {
	parent context.Context
	ctx    context.Context // ends with parent, or with cause errTimeout
	cancel context.CancelCauseFunc
	timer  *time.Timer
	begin  time.Time // moved on by each pause
	limits limits

	due     time.Duration // what spent is when the timer goes off
	reading bool          // the first byte is there
	window  time.Duration // what spent was when the present window began
	got     int64         // bytes of the body in it
}

// limits are those of one request, all positive but least.
type limits struct {
	whole, first time.Duration
	least        int64         // bytes in each window of the body; 0: any
	window       time.Duration // its length
	ahead        time.Duration // of a look-up of ours for which a proxy waits
}

var errTimeout = errors.New("too slow")

func newWatch(parent context.Context, l limits) *watch {
	w := &watch{parent: parent, begin: time.Now(), limits: l, due: min(l.first, l.whole)}
	w.ctx, w.cancel = context.WithCancelCause(parent)
	w.timer = time.AfterFunc(w.due, func() { w.cancel(errTimeout) })
	return w
}

func (w *watch) stop() {
	w.timer.Stop()
	w.cancel(nil)
}

// spent returns the time since the start, without pauses.
func (w *watch) spent() time.Duration { return time.Since(w.begin) }

func (w *watch) setDue(due time.Duration) {
	if due = min(due, w.limits.whole); due != w.due {
		w.due = due
		w.timer.Reset(due - w.spent())
	}
}

// pause calls wait with the clock stopped; wait ends with the context of the caller of Get.
func (w *watch) pause(wait func(context.Context) error) error {
	w.timer.Stop()
	start := time.Now()
	err := wait(w.parent)
	w.begin = w.begin.Add(time.Since(start))
	w.timer.Reset(w.due - w.spent())
	return err
}

// read begins the time of the body: the first byte is there.
func (w *watch) read() {
	w.reading = true
	if w.limits.least == 0 {
		w.setDue(w.limits.whole)
		return
	}
	w.window = w.spent()
	w.setDue(w.window + w.limits.window)
}

// count takes note of n bytes of the body. A window that has enough of them cannot fail any more,
// so the timer is set to the end of the next one.
func (w *watch) count(n int) {
	if w.limits.least == 0 {
		return
	}
	if now := w.spent(); now >= w.window+w.limits.window && w.got >= w.limits.least {
		w.window, w.got = w.window+w.limits.window, 0
		w.setDue(w.window + w.limits.window)
	}
	w.got += int64(n)
	if w.got >= w.limits.least {
		w.setDue(w.window + 2*w.limits.window)
	}
}

// fail makes the error that Get returns.
func (w *watch) fail(err error) error {
	if w.parent.Err() != nil {
		return context.Cause(w.parent)
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	if context.Cause(w.ctx) == errTimeout {
		return &Error{Timeout, true, w.late()}
	}
	reason, passing := classify(err)
	return &Error{reason, passing, err}
}

// late says which limit the timer stood for.
func (w *watch) late() error {
	switch {
	case w.due == w.limits.whole:
		return fmt.Errorf("%w: no complete answer in %v", errTimeout, w.limits.whole)
	case !w.reading:
		return fmt.Errorf("%w: no first byte in %v", errTimeout, w.limits.first)
	}
	return fmt.Errorf("%w: less than %d bytes in %v", errTimeout, w.limits.least, w.limits.window)
}
