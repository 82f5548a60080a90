package frontier

import "time"

// A clock supplies the times by which hosts and rows wait. It begins with the time of the machine,
// or with the end of the last run where the machine's clock has been set back since, and goes on
// with the monotonic clock: whoever sets the time of the machine holds no host up and lets none be
// asked too soon. So the stored times of all runs of a tree are of one clock that never goes back.
type clock struct {
	read  func() time.Time
	began time.Time // with its monotonic reading
	start int64     // Unix nanoseconds at began
}

func newClock(read func() time.Time, notBefore int64) clock {
	if read == nil {
		read = time.Now
	}
	began := read()
	return clock{read: read, began: began, start: max(began.UnixNano(), notBefore)}
}

// at returns the Unix nanoseconds of a time that read returned.
func (c *clock) at(t time.Time) int64 { return c.start + int64(t.Sub(c.began)) }

func (c *clock) now() int64 { return c.at(c.read()) }

func (c *clock) time() time.Time { return time.Unix(0, c.now()) }

// Now returns the Unix nanoseconds with which next permitted times are to be compared.
func (f *Frontier) Now() int64 { return f.clock.now() }
