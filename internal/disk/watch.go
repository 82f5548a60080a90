package disk

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Limits say how long the steps of a crawl may take before a [Watch] reports them.
type Limits struct {
	Disk   time.Duration // a call to the disk, or a transaction of the index; 0: 1 min
	Work   time.Duration // a call-back, or the parsing of a page; 0: 1 min, a multiple of the longest legitimate parse
	GiveUp time.Duration // any step once the crawl is to end; 0: 2 min, as Linux reports hung tasks
	Look   time.Duration // from one look to the next; 0: 5 s
}

func (l Limits) defaults() Limits {
	for _, d := range []struct {
		p *time.Duration
		v time.Duration
	}{{&l.Disk, time.Minute}, {&l.Work, time.Minute}, {&l.GiveUp, 2 * time.Minute}, {&l.Look, 5 * time.Second}} {
		if *d.p == 0 {
			*d.p = d.v
		}
	}
	return l
}

// A Watch notices steps that take longer than they may: a disk that hangs, a page that is parsed
// without end, a call-back that does not return. Whatever may hang is called through it. It reports
// each such step with its stack, and again whenever the time has doubled, since the step may be
// elsewhere by then. Once the crawl is to end, Hung says of which step it need not wait for the
// end.
//
// The nil Watch calls without watching. All methods may be called from any goroutine.
type Watch struct {
	limits  Limits
	log     *slog.Logger
	hung    chan Hang
	ending  atomic.Bool  // see End
	closing atomic.Bool  // see Close
	stuck   atomic.Int64 // see Stuck

	mu    sync.Mutex
	steps []*Step       // guarded by mu; all that there are, to be used again and again
	free  []*Step       // guarded by mu; those of them that are not in use
	clock time.Duration // guarded by mu; stands still while the process does
	last  time.Time     // guarded by mu; of the last look
}

// A Hang is a step for which the end of the crawl does not wait.
type Hang struct {
	Step string // what is done, and to what
	For  time.Duration
	Disk bool // it is a call to the disk
}

func (h Hang) Error() string {
	return fmt.Sprintf("%s has not ended for %s", h.Step, h.For.Round(time.Second))
}

// A Step is what one goroutine does. Only its goroutine and looks, which hold Watch.mu, use it.
type Step struct {
	watch *Watch

	what, about string // "write", the name of a file
	limit       time.Duration
	disk        bool
	spared      bool // the crawl is not ended for it before Close
	busy        bool
	number      int           // of the use
	begun       time.Duration // on Watch.clock
	told        time.Duration // how long it had taken when it was reported last

	label  string          // of its goroutine, by which the profile tells it from others
	labels context.Context // with label
}

// NewWatch returns a Watch that logs to log. Run must be called for it to notice anything.
func NewWatch(limits Limits, log *slog.Logger) *Watch {
	return &Watch{limits: limits.defaults(), log: log, hung: make(chan Hang, 1), last: time.Now()}
}

// Run looks at all steps from time to time until ctx ends.
func (w *Watch) Run(ctx context.Context) {
	ticker := time.NewTicker(w.limits.Look)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			w.look(time.Now())
		case <-ctx.Done():
			return
		}
	}
}

// End says that the crawl is to end: from now on no step is waited for without end.
func (w *Watch) End() { w.ending.Store(true) }

// Hung returns the channel on which the first step arrives that is not worth waiting for.
func (w *Watch) Hung() <-chan Hang { return w.hung }

// Stuck returns the number of steps that were reported.
func (w *Watch) Stuck() int64 { return w.stuck.Load() }

// Disk calls fn, which calls the disk: what about a file, such as "write".
func (w *Watch) Disk(what, about string, fn func() error) error {
	if w == nil {
		return fn()
	}
	return w.do(w.begin(what, about, w.limits.Disk, true, false), fn)
}

// Spare is Disk for a call that holds up nothing but the very end: for the time until Close it is
// reported, and the crawl is not ended for it.
func (w *Watch) Spare(what, about string, fn func() error) error {
	if w == nil {
		return fn()
	}
	return w.do(w.begin(what, about, w.limits.Disk, true, true), fn)
}

// Close says that the very end has come: no step is spared any more.
func (w *Watch) Close() { w.closing.Store(true) }

// Work calls fn, which computes: a parser, or a call-back of the library's user. It may take more
// time than the limit of such work.
func (w *Watch) Work(what, about string, more time.Duration, fn func(at *Step) error) error {
	if w == nil {
		return fn(nil)
	}
	s := w.begin(what, about, w.limits.Work+more, false, false)
	return w.do(s, func() error { return fn(s) })
}

// Wait calls fn, which waits for others, from the function of a step: its time does not count, and
// it may begin steps of its own.
func (s *Step) Wait(fn func()) {
	if s == nil {
		fn()
		return
	}
	s.watch.set(s, false)
	defer pprof.SetGoroutineLabels(s.labels)
	defer s.watch.set(s, true)
	fn()
}

// set begins or ends the time of a step.
func (w *Watch) set(s *Step, busy bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s.busy, s.begun, s.told = busy, w.clock, 0
}

// Open opens a file for reading, of which calls that hang are reported.
func (w *Watch) Open(name string) (io.ReadCloser, error) {
	r := &reader{watch: w}
	err := w.Disk("open", name, func() (err error) {
		r.File, err = os.Open(name)
		return err
	})
	return r, err
}

type reader struct {
	*os.File
	watch *Watch
}

func (r *reader) Read(b []byte) (n int, err error) {
	err = r.watch.Disk("read", r.Name(), func() error {
		n, err = r.File.Read(b)
		return err
	})
	return n, err
}

// do runs fn as a step. The profile finds the goroutine by its label, which those that it starts
// inherit, and by this frame, which they do not.
//
//go:noinline
func (w *Watch) do(s *Step, fn func() error) error {
	pprof.SetGoroutineLabels(s.labels)
	defer w.end(s)
	return fn()
}

func (w *Watch) begin(what, about string, limit time.Duration, disk, spared bool) *Step {
	w.mu.Lock()
	defer w.mu.Unlock()
	var s *Step
	if n := len(w.free); n > 0 {
		s, w.free = w.free[n-1], w.free[:n-1]
	} else {
		s = &Step{watch: w, label: fmt.Sprintf("%p.%d", w, len(w.steps))}
		s.labels = pprof.WithLabels(context.Background(), pprof.Labels(stepLabel, s.label))
		w.steps = append(w.steps, s)
	}
	s.what, s.about, s.limit, s.disk, s.spared = what, about, limit, disk, spared
	s.busy, s.begun, s.told = true, w.clock, 0
	s.number++
	return s
}

func (w *Watch) end(s *Step) {
	pprof.SetGoroutineLabels(context.Background())
	w.mu.Lock()
	defer w.mu.Unlock()
	s.busy, s.about = false, ""
	w.free = append(w.free, s)
}

// look reports the steps that take too long.
func (w *Watch) look(now time.Time) {
	w.mu.Lock()
	if passed := now.Sub(w.last); passed <= 2*w.limits.Look { // else the process was stopped
		w.clock += passed
	}
	w.last = now
	var late []Step
	for _, s := range w.steps {
		took := w.clock - s.begun
		if !s.busy || took <= s.limit {
			continue
		}
		if took > 2*s.told {
			if s.told == 0 {
				w.stuck.Add(1)
			}
			s.told = took
			late = append(late, *s)
		}
		if w.ending.Load() && took > w.limits.GiveUp && (!s.spared || w.closing.Load()) {
			select {
			case w.hung <- Hang{s.what + " " + s.about, took, s.disk}:
			default:
			}
		}
	}
	w.mu.Unlock()
	for i := range late {
		s := &late[i]
		w.log.Error("this takes longer than it may", "what", s.what+" "+s.about, "for", s.told.Round(time.Second), "stack", w.stack(s))
	}
}

// stepLabel is the label of a goroutine at a step.
const stepLabel = "step"

// stack returns the calls of the goroutine of a step in one line, the innermost first.
func (w *Watch) stack(s *Step) string {
	var text bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&text, 1); err != nil {
		return err.Error()
	}
	if w.goesOn(s) {
		label := strconv.Quote(stepLabel) + ":" + strconv.Quote(s.label)
		for block := range strings.SplitSeq(text.String(), "\n\n") {
			if calls, ok := callsOf(block); ok && strings.Contains(block, label) {
				return calls
			}
		}
	}
	return "not there any more"
}

// goesOn reports whether a step, of which s is a copy, has not ended.
func (w *Watch) goesOn(s *Step) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, now := range w.steps {
		if now.label == s.label {
			return now.busy && now.number == s.number
		}
	}
	return false
}

// callsOf reads one goroutine of a profile: lines of an address, a function with the place in it,
// and a file with its line. ok is false for one that is at no step.
func callsOf(block string) (calls string, ok bool) {
	var list []string
	for line := range strings.Lines(block) {
		f := strings.Fields(line)
		if len(f) != 4 || f[0] != "#" || !strings.HasPrefix(f[1], "0x") {
			continue
		}
		name, _, _ := strings.Cut(f[2], "+0x")
		if strings.HasSuffix(name, ".(*Watch).do") {
			ok = true
			continue
		}
		list = append(list, path.Base(name)+" "+path.Base(f[3]))
	}
	return strings.Join(list, " < "), ok
}
