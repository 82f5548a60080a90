package disk

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"path"
	"runtime"
	"runtime/pprof"
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

// A Watch notices steps of a run that take longer than they may: a disk that hangs, a page that is
// parsed without end, a call-back that does not return. Whatever may hang is called through it. It
// reports each such step with its stack, and again whenever the time has doubled, since the step
// may be elsewhere by then. It also watches how much room the disk has, see [Space].
//
// Guard makes it look; Begin says how far the run is. The nil Watch calls without watching. Steps
// may begin on any goroutine, and inside of each other.
type Watch struct {
	limits Limits
	space  Space
	log    *slog.Logger
	hung   chan Hang
	stuck  atomic.Int64 // see Figures
	room   *room        // of the disk that FS has opened; nil: not watched

	mu      sync.Mutex
	until   context.Context // guarded by mu; once it ends no step is waited for without end
	closing bool            // guarded by mu; the very end has come: no step is spared any more
	steps   []*Step         // guarded by mu; all that there are, to be used again and again
	free    []*Step         // guarded by mu; those of them that are not in use
	clock   time.Duration   // guarded by mu; stands still while the process does
	last    time.Time       // guarded by mu; of the last look
}

// A Hang is a step for which the end of the crawl does not wait.
type Hang struct {
	Step string // what is done, and to what
	For  time.Duration
	Disk bool // it is a call to the disk
}

func (h *Hang) Error() string {
	return fmt.Sprintf("%s has not ended for %s", h.Step, h.For.Round(time.Second))
}

// A Step is what one goroutine does. Only its goroutine and looks, which hold Watch.mu, use it.
type Step struct {
	watch *Watch

	what, about string // "write", the name of a file
	limit       time.Duration
	disk        bool
	spared      bool // the crawl is not ended for it before the very end
	busy        bool
	number      int           // of the use
	begun       time.Duration // on Watch.clock
	told        time.Duration // how long it had taken when it was reported last
}

// NewWatch returns a Watch that logs to log, of a run that is to end once ctx does.
func NewWatch(ctx context.Context, limits Limits, space Space, log *slog.Logger) *Watch {
	limits.Disk, limits.Work = cmp.Or(limits.Disk, time.Minute), cmp.Or(limits.Work, time.Minute)
	limits.GiveUp, limits.Look = cmp.Or(limits.GiveUp, 2*time.Minute), cmp.Or(limits.Look, 5*time.Second)
	return &Watch{limits: limits, space: space, log: log, hung: make(chan Hang, 1), until: ctx, last: time.Now()}
}

// Guard calls run, and then end, which is the very end, on a goroutine of their own, and looks at
// all steps meanwhile. It returns nil once both have returned. Once the context of the Watch has
// ended, or in its place that of fetching once Begin was called, it waits for no step longer than
// Limits.GiveUp: it returns the step, and leaves the goroutine to itself.
func (w *Watch) Guard(run, end func()) *Hang {
	looking, stop := context.WithCancel(context.Background())
	var looks sync.WaitGroup
	looks.Go(func() { w.run(looking) })
	defer looks.Wait()
	defer stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		run()
		w.close()
		end()
	}()
	select {
	case <-ended:
		return nil
	case hung := <-w.hung:
		return &hung
	}
}

// Begin says that fetching begins: it is over once fetching ends, and alive ends with an error of
// the disk.
func (w *Watch) Begin(alive, fetching context.Context) {
	w.mu.Lock()
	w.until = fetching
	w.mu.Unlock()
	w.room.begin(alive, fetching.Done())
}

// close says that the very end has come, and waits until nothing asks about the room any more.
func (w *Watch) close() {
	w.mu.Lock()
	w.closing = true
	w.mu.Unlock()
	w.room.close()
}

// Figures returns how often fetching has paused for room, and the number of steps that were
// reported.
func (w *Watch) Figures() (pauses, stuck int64) { return w.room.paused(), w.stuck.Load() }

// run looks at all steps from time to time until ctx ends.
func (w *Watch) run(ctx context.Context) {
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

// Disk calls fn, which calls the disk: what about a file, such as "write".
func (w *Watch) Disk(what, about string, fn func() error) error {
	if w == nil {
		return fn()
	}
	return w.begin(what, about, w.limits.Disk, true, false).run(fn)
}

// Work calls fn, which computes: a parser, or a call-back of the library's user. It may take more
// time than the limit of such work.
func (w *Watch) Work(what, about string, more time.Duration, fn func(at *Step) error) error {
	if w == nil {
		return fn(nil)
	}
	s := w.begin(what, about, w.limits.Work+more, false, false)
	return s.run(func() error { return fn(s) })
}

// Wait calls fn, which waits for others, from the function of a step: its time does not count.
func (s *Step) Wait(fn func()) {
	if s == nil {
		fn()
		return
	}
	s.watch.set(s, false)
	defer s.watch.set(s, true)
	fn()
}

func (w *Watch) set(s *Step, busy bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s.busy, s.begun, s.told = busy, w.clock, 0
}

// run runs fn as the step. A stack shows by the receiver of this call whose it is.
//
//go:noinline
func (s *Step) run(fn func() error) error {
	defer s.watch.end(s)
	err := fn()
	runtime.KeepAlive(s) // or a stack may show something else in its place
	return err
}

func (w *Watch) begin(what, about string, limit time.Duration, disk, spared bool) *Step {
	w.mu.Lock()
	defer w.mu.Unlock()
	var s *Step
	if n := len(w.free); n > 0 {
		s, w.free = w.free[n-1], w.free[:n-1]
	} else {
		s = &Step{watch: w}
		w.steps = append(w.steps, s)
	}
	s.what, s.about, s.limit, s.disk, s.spared = what, about, limit, disk, spared
	s.busy, s.begun, s.told = true, w.clock, 0
	s.number++
	return s
}

func (w *Watch) end(s *Step) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s.busy, s.about = false, ""
	w.free = append(w.free, s)
}

func (w *Watch) look(now time.Time) {
	w.mu.Lock()
	if passed := now.Sub(w.last); passed <= 2*w.limits.Look { // else the process was stopped
		w.clock += passed
	}
	w.last = now
	ending := w.until.Err() != nil
	type late struct {
		*Step
		was Step
	}
	var list []late
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
			list = append(list, late{s, *s})
		}
		if ending && took > w.limits.GiveUp && (!s.spared || w.closing) {
			select {
			case w.hung <- Hang{s.what + " " + s.about, took, s.disk}:
			default:
			}
		}
	}
	w.mu.Unlock()
	for _, l := range list {
		w.log.Error("this takes longer than it may",
			"what", l.was.what+" "+l.was.about, "for", l.was.told.Round(time.Second), "stack", w.stack(l.Step, l.was.number))
	}
}

// stack returns the calls of the goroutine of a step in one line, the innermost first. number is
// that of the use that was late.
func (w *Watch) stack(s *Step, number int) string {
	var text bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&text, 2); err != nil {
		return err.Error()
	}
	w.mu.Lock()
	goesOn := s.busy && s.number == number
	w.mu.Unlock()
	if goesOn {
		of := fmt.Sprintf(".(*Step).run(%p,", s)
		for block := range strings.SplitSeq(text.String(), "\n\n") {
			if strings.Contains(block, of) {
				return callsOf(block)
			}
		}
	}
	return "not there any more"
}

// callsOf reads the stack of one goroutine: after a headline, for each call a line with the
// function and its arguments, and one with file and line.
func callsOf(block string) string {
	var list []string
	lines := strings.Split(block, "\n")
	for i := 1; i+1 < len(lines) && !strings.HasPrefix(lines[i], "created by "); i++ {
		place, isCall := strings.CutPrefix(lines[i+1], "\t")
		if end := strings.LastIndexByte(lines[i], '('); isCall && end > 0 && !strings.HasSuffix(lines[i][:end], ".(*Step).run") {
			place, _, _ = strings.Cut(place, " +0x")
			list = append(list, path.Base(lines[i][:end])+" "+path.Base(place))
		}
	}
	return strings.Join(list, " < ")
}
