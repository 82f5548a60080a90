package crawler

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"urltree/iut"
)

// ErrStuck says that the crawl was to end and a step of it did not, for two minutes. What had
// been committed is safe; what had not will be asked again.
var ErrStuck = errors.New("stuck")

// How long steps may take before the watchdog tells of them.
type stepLimits struct {
	disk   time.Duration // a page, a sync or a transaction; 0: 1 min
	parse  time.Duration // 0: 1 min, several times what a page may ask for
	slack  time.Duration // of a request, beyond the client's own time limit; 0: 1 min
	giveUp time.Duration // of any step once fetching is over; 0: 2 min, as Linux tells of hung tasks
	look   time.Duration // from one look to the next; 0: 5 s
}

func (l stepLimits) defaults() stepLimits {
	for _, d := range []struct {
		p *time.Duration
		v time.Duration
	}{
		{&l.disk, time.Minute},
		{&l.parse, time.Minute},
		{&l.slack, time.Minute},
		{&l.giveUp, 2 * time.Minute},
		{&l.look, 5 * time.Second},
	} {
		if *d.p == 0 {
			*d.p = d.v
		}
	}
	return l
}

// A watchdog looks for steps of the crawl that take longer than they may: a disk that hangs, a
// page that is parsed without end. It tells of each with the stack, again whenever it has taken
// twice as long, for it may be elsewhere by then; once fetching is over it ends the crawl rather
// than wait for one for ever.
//
// Waiting for others is no step: they have limits of their own.
type watchdog struct {
	limits stepLimits
	log    *slog.Logger
	ending atomic.Bool  // fetching is over, or will not begin
	stuck  atomic.Int64 // steps that were told of
	hung   chan error   // has room for one: what the crawl is not to wait for

	mu    sync.Mutex
	posts []*post   // guarded by mu
	last  time.Time // guarded by mu; of the last look
	since time.Time // guarded by mu; when this process went on after it had been stopped
}

func newWatchdog(limits stepLimits, log *slog.Logger) *watchdog {
	return &watchdog{limits: limits.defaults(), log: log, hung: make(chan error, 1), last: time.Now()}
}

// A post is where a goroutine says what it does. One goroutine has it at a time.
type post struct {
	name   string
	crawl  string // tells posts of one crawl from those of others
	limits *stepLimits
	labels context.Context // by which a profile tells the goroutine from others
	now    atomic.Pointer[step]
	paused *step       // the step that waits for a limit of our own
	spared atomic.Bool // nobody waits for this post: it is told of, and the crawl is not ended for it
}

// A step is what is being done. Nothing of it changes but told.
type step struct {
	what, about string // "store", a URL
	begun       time.Time
	limit       time.Duration
	disk        bool
	told        time.Duration // the watchdog's own: how long it had taken when it was last told of
}

func (d *watchdog) post(format string, args ...any) *post {
	p := &post{name: fmt.Sprintf(format, args...), crawl: fmt.Sprintf("%p", d), limits: &d.limits}
	p.labels = pprof.WithLabels(context.Background(), pprof.Labels(postLabel, p.name, crawlLabel, p.crawl))
	d.mu.Lock()
	defer d.mu.Unlock()
	d.posts = append(d.posts, p)
	return p
}

// leave takes away a post that nobody has any longer.
func (d *watchdog) leave(p *post) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.posts = slices.DeleteFunc(d.posts, func(q *post) bool { return q == p })
}

// once runs fn at a post that it has for this one time.
func (d *watchdog) once(name string, fn func(at *post) error) error {
	at := d.post("%s", name)
	defer d.leave(at)
	return at.do(func() error { return fn(at) })
}

// Labels of goroutines. A process may have several crawls, whose posts have the same names.
const (
	postLabel  = "post"
	crawlLabel = "crawl"
)

// do runs fn as what this post does. The profile finds the goroutine by its label, which those that
// it starts inherit, and by this frame, which they do not.
//
//go:noinline
func (p *post) do(fn func() error) error {
	pprof.SetGoroutineLabels(p.labels)
	defer p.rest()
	return fn()
}

// step says what is done from now on, and how long it may take.
func (p *post) step(what, about string, limit time.Duration) {
	p.now.Store(&step{what: what, about: about, begun: time.Now(), limit: limit})
}

// atDisk is step for what only the disk can hold up, and rest if it is "".
func (p *post) atDisk(what, about string) {
	if what == "" {
		p.rest()
		return
	}
	p.now.Store(&step{what: what, about: about, begun: time.Now(), limit: p.limits.disk, disk: true})
}

// rest says that nothing is done but waiting for others.
func (p *post) rest() { p.now.Store(nil) }

// waits is called when the present step begins and ends to wait for others.
func (p *post) waits(begin bool) {
	if begin {
		p.paused = p.now.Swap(nil)
	} else if s := p.paused; s != nil {
		p.step(s.what, s.about, s.limit)
	}
}

// working returns a context for long work, which asks it between two operations, a page or a batch
// of records, whether to go on: each time the present step begins anew, so that work which goes on
// is never stuck.
func (p *post) working(ctx context.Context) context.Context { return working{ctx, p} }

type working struct {
	context.Context
	at *post
}

// Err is also what [context.Cause] asks first.
func (w working) Err() error {
	if s := w.at.now.Load(); s != nil {
		w.at.now.CompareAndSwap(s, &step{what: s.what, about: s.about, begun: time.Now(), limit: s.limit, disk: s.disk})
	}
	return w.Context.Err()
}

// ends says that fetching is over: from now on no step is waited for for ever.
func (d *watchdog) ends() { d.ending.Store(true) }

// run looks at all posts from time to time until ctx ends.
func (d *watchdog) run(ctx context.Context) {
	ticker := time.NewTicker(d.limits.look)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			d.look(time.Now(), d.ending.Load())
		case <-ctx.Done():
			return
		}
	}
}

// look reports the steps that take too long.
func (d *watchdog) look(now time.Time, over bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now.Sub(d.last) > 2*d.limits.look {
		d.since = now // nothing could go on before: all steps begin anew
	}
	d.last = now
	for _, p := range d.posts {
		s := p.now.Load()
		if s == nil {
			continue
		}
		took := min(now.Sub(s.begun), now.Sub(d.since))
		if took > max(s.limit, 2*s.told) {
			if s.told == 0 {
				d.stuck.Add(1)
			}
			s.told = took
			d.log.Error("this takes longer than it may", "who", p.name, "what", s.what+" "+s.about,
				"for", took.Round(time.Second), "stack", p.stack())
		}
		if over && took > s.limit && took > d.limits.giveUp && !p.spared.Load() {
			select {
			case d.hung <- s.hangs(p.name, took):
			default:
			}
		}
	}
}

// hangs makes the error of a step for which the end of the crawl does not wait.
func (s *step) hangs(who string, took time.Duration) error {
	err := fmt.Errorf("%w: %s has been at it for %s: %s %s", ErrStuck, who, took.Round(time.Second), s.what, s.about)
	if s.disk {
		err = fmt.Errorf("%w: %w", iut.ErrDisk, err)
	}
	return err
}

// stack returns the calls of the post's goroutine in one line, the innermost first.
func (p *post) stack() string {
	var text bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&text, 1); err != nil {
		return err.Error()
	}
	post := strconv.Quote(postLabel) + ":" + strconv.Quote(p.name)
	crawl := strconv.Quote(crawlLabel) + ":" + strconv.Quote(p.crawl)
	for block := range strings.SplitSeq(text.String(), "\n\n") {
		if calls, ok := callsOf(block); ok && strings.Contains(block, post) && strings.Contains(block, crawl) {
			return calls
		}
	}
	return "not there any more"
}

// callsOf reads one goroutine of a profile: lines of an address, a function with the place in it,
// and a file with its line. It is false for one that is at no post.
func callsOf(block string) (string, bool) {
	var calls []string
	for line := range strings.Lines(block) {
		f := strings.Fields(line)
		if len(f) != 4 || f[0] != "#" || !strings.HasPrefix(f[1], "0x") {
			continue
		}
		name, _, _ := strings.Cut(f[2], "+0x")
		if strings.HasSuffix(name, ".(*post).do") {
			return strings.Join(calls, " < "), true
		}
		calls = append(calls, path.Base(name)+" "+path.Base(f[3]))
	}
	return "", false
}
