//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A kind is what may happen to a crawl, or to a tree at rest.
type kind struct {
	name   string
	weight int    // how often, among all
	disk   string // kind of disk that it wants; "": any
	play   func(*work) error
}

var kinds = []kind{
	{"power cut", 8, onExt4, (*work).powerCut},
	{"kill", 6, "", (*work).kill},
	{"SIGTERM", 2, "", ends(syscall.SIGTERM)},
	{"SIGHUP", 1, "", ends(syscall.SIGHUP)},
	{"SIGINT twice", 2, "", (*work).twice},
	{"stop, kill", 2, "", (*work).stopKill},
	{"time up", 2, "", (*work).timeUp},
	{"page limit", 2, "", (*work).pageLimit},
	{"two at once", 1, "", (*work).twoAtOnce},
	{"questions", 1, "", (*work).questions},
	{"disk full", 3, inMemory, (*work).diskFull},
	{"disk guarded", 2, inMemory, (*work).diskGuarded},
	{"retry", 1, "", (*work).retry},
	{"merge", 1, "", (*work).merge},
	{"merge, kill", 1, "", (*work).mergeKill},
	{"index lost", 1, "", (*work).indexLost},
	{"index old", 1, "", (*work).indexOld},
	{"index damaged", 2, "", (*work).indexDamaged},
}

// names returns those of the kinds of episodes that a soak plays.
func (s *soak) names() (all []string) {
	if s.members > 0 {
		for _, k := range nodeKinds {
			all = append(all, k.name)
		}
		return all
	}
	for _, k := range kinds {
		all = append(all, k.name)
	}
	return all
}

// pick draws the kind of an episode on a kind of disk.
func pick(r *rand.Rand, disk string) kind {
	fit := slices.DeleteFunc(slices.Clone(kinds), func(k kind) bool { return k.disk != "" && k.disk != disk })
	sum := 0
	for _, k := range fit {
		sum += k.weight
	}
	n, i := r.IntN(sum), 0
	for ; n >= fit[i].weight; i++ {
		n -= fit[i].weight
	}
	return fit[i]
}

// work is an episode in progress.
type work struct {
	*trial
	folder  string // in which the command runs
	ctx     context.Context
	r       *rand.Rand
	exit    exit     // of the crawl
	exits   []string // that were wrong
	lines   []string // commands
	note    string   // for the log
	rebuilt bool
	torn    map[string]bool
	repeats int    // URLs that may have been asked in vain
	late    int    // of them, those in flight
	limit   int    // of pages; 0: none
	depth   string // -max-depth, as FORMAT has it
	cut     bool   // with -max-held
	retried bool
	checks  int
}

// The defaults of options that hold URLs. The tree keeps such options, so each run is given them.
const (
	anyDepth   = ""
	budgetHost = "1000000"
	maxHeld    = "500000"
)

func holding(depth, budget, held string) []string {
	return []string{"-max-depth", depth, "-budget-host", budget, "-max-held", held}
}

// options draws the options of a crawl, -sync one of those given, or any. None of them changes the
// answer in the end.
func (w *work) options(sync ...string) []string {
	if len(sync) == 0 {
		sync = []string{"full", "none"}
	}
	one := func(values ...string) string { return values[w.r.IntN(len(values))] }
	crawlers, downloads, buffers := 1+w.r.IntN(12), 1+w.r.IntN(6), 1+w.r.IntN(6)
	size := []int{1, 3, 20, 100, 1000}[w.r.IntN(5)]
	w.late = crawlers * downloads
	w.repeats = w.late + buffers*size
	args := []string{
		"-quiet", "-allow-private", "-input", "seed.txt",
		"-crawlers", strconv.Itoa(crawlers), "-downloads", strconv.Itoa(downloads),
		"-buffers", strconv.Itoa(buffers), "-buffer-size", strconv.Itoa(size), "-buffer-bytes", one("4k", "256k", "16m"),
		"-delay", one("0", "0", "1ms", "3ms"), "-per-host", one("1", "1", "3"), "-retries", one("1", "1", "2"),
		"-flush-interval", one("20ms", "100ms", "1s"), "-sync", one(sync...),
		"-seen-memory", one("32k", "256k", "256m"), "-frontier-memory", one("64k", "1m", "64m"), "-memory-bodies", one("64k", "1m", "64m"),
		"-pick", one("extended", "batch", "single"),
	}
	args = append(args, w.keeping()...)
	order := one("breadth", "priority", "tree")
	if args = append(args, "-order", order); order == "priority" {
		args = append(args, "-score", one("opic", "inlinks", "depth"), "-queue", one("cbt", "quickheap"), "-queues", one("1", "2", "5"))
	}
	depth, budget, held := anyDepth, budgetHost, maxHeld
	switch w.r.IntN(8) {
	case 0:
		w.depth = one("2", "5", "9")
		depth = w.depth
	case 1:
		budget = one("3", "20", "100")
	case 2:
		w.cut = true
		budget, held = one("3", "20", "100"), one("1", "5")
	}
	return append(args, holding(depth, budget, held)...)
}

// keeping draws the options that say how pages are kept.
func (w *work) keeping() []string {
	args := []string{"-store", w.store}
	if w.store == "warc" {
		sizes, hows, revisit := []string{"1", "64k", "1m", "1g"}, []string{"gzip", "none"}, []string{"-warc-revisit", "-warc-revisit=false"}
		args = append(args, "-warc-size", sizes[w.r.IntN(4)], "-warc-compression", hows[w.r.IntN(2)], revisit[w.r.IntN(2)])
	}
	return args
}

// reopens reports which outcomes an episode may undo. What had links and left no folder is asked
// again for its links when they come to count: with another depth, or after links had no record. An
// index that came back from a copy may have been made with a depth that FORMAT does not name any
// more: it holds links, until a crawl has come to its end.
func (w *work) reopens() func(record) bool {
	cut := w.cut || w.trial.cut
	depth := w.depth != "-1" || w.depth != w.now.depth || w.older
	return func(was record) bool {
		return was.reason == "noindex" && (depth || cut) || was.state == "redirected" && cut || was.state == "failed" && w.retried
	}
}

// begin starts the command.
func (w *work) begin(args ...string) (*process, error) {
	w.lines = append(w.lines, "crawler "+strings.Join(args, " "))
	// Unless -min-free says otherwise, a crawl does not wait for room: it shall meet the full disk.
	env := []string{"GOMAXPROCS=" + strconv.Itoa(1+w.r.IntN(4)), "URLTREE_MIN_FREE=0", "URLTREE_MIN_FREE_INODES=0"}
	return start(w.ctx, w.binary, w.folder, env, args...)
}

// expect waits for the end of a crawl, which must be one of these.
func (w *work) expect(p *process, codes ...exit) {
	w.exit = p.wait()
	w.judgeExit(p, w.exit, codes...)
}

func (w *work) judgeExit(p *process, code exit, codes ...exit) {
	if slices.Contains(codes, code) || w.ctx.Err() != nil {
		return
	}
	said := strings.TrimSpace(p.stderr.String())
	w.exits = append(w.exits, fmt.Sprintf("exit %s, not %v: %s: %s", code, codes, strings.Join(p.cmd.Args[1:], " "), said[:min(len(said), 8<<10)]))
}

// run runs a subcommand to its end, which must be this.
func (w *work) run(code exit, args ...string) (*process, error) {
	p, err := w.begin(args...)
	if err != nil {
		return nil, err
	}
	w.judgeExit(p, p.wait(), code)
	if args[0] == "check" {
		w.checks++
	}
	return p, nil
}

// owns waits until a crawl has the tree: a signal that comes earlier may find a process that is
// not set up for signals yet. It is false if the crawl has ended instead.
func (w *work) owns(p *process) bool {
	for !p.after(5 * time.Millisecond) {
		lock, err := os.ReadFile(filepath.Join(w.folder, "iut", "LOCK"))
		if err == nil && strings.TrimSpace(string(lock)) == p.pid() {
			return true
		}
	}
	return false
}

// moment draws a time until something happens; the first milliseconds are as likely as the later
// seconds.
func (w *work) moment() time.Duration {
	const least, most = 15, 3000
	return time.Duration(least*math.Pow(most/least, w.r.Float64())) * time.Millisecond
}

func untouched(w *work) error {
	args := []string{"-quiet", "-allow-private", "-input", "seed.txt", "-delay", "0", "-per-host", "3", "-retries", "1"}
	p, err := w.begin(slices.Concat(args, w.keeping(), holding(anyDepth, budgetHost, maxHeld))...)
	if err != nil {
		return err
	}
	w.expect(p, 0)
	return nil
}

func (w *work) kill() error {
	p, err := w.begin(w.options()...)
	if err != nil {
		return err
	}
	if !p.after(w.moment()) {
		p.signal(syscall.SIGKILL)
	}
	w.expect(p, killed, 0)
	return nil
}

func ends(s syscall.Signal) func(*work) error {
	return func(w *work) error {
		p, err := w.begin(w.options()...)
		if err != nil {
			return err
		}
		if w.owns(p) && !p.after(w.moment()) {
			p.signal(s)
		}
		w.expect(p, 0)
		return nil
	}
}

func (w *work) twice() error {
	p, err := w.begin(w.options()...)
	if err != nil {
		return err
	}
	if w.owns(p) && !p.after(w.moment()) {
		p.signal(syscall.SIGINT)
		if !p.after(150*time.Millisecond + time.Duration(w.r.IntN(300))*time.Millisecond) { // closer ones count as one
			p.signal(syscall.SIGINT)
		}
	}
	w.expect(p, 130, 0)
	return nil
}

func (w *work) stopKill() error {
	p, err := w.begin(w.options()...)
	if err != nil {
		return err
	}
	if w.owns(p) && !p.after(w.moment()) {
		p.signal(syscall.SIGTERM)
		if !p.after(w.moment() / 4) {
			p.signal(syscall.SIGKILL)
		}
	}
	w.expect(p, killed, 0)
	return nil
}

func (w *work) timeUp() error {
	p, err := w.begin(append(w.options(), "-time", w.moment().String())...)
	if err != nil {
		return err
	}
	w.expect(p, 0)
	return nil
}

func (w *work) pageLimit() error {
	limit := 1 + w.r.IntN(300)
	p, err := w.begin(append(w.options(), "-max-pages", strconv.Itoa(limit))...)
	if err != nil {
		return err
	}
	w.expect(p, 0)
	w.limit, w.note = limit, fmt.Sprintf(", limit %d", limit)
	return nil
}

// twoAtOnce starts a second crawl while the first one has the tree.
func (w *work) twoAtOnce() error {
	first, err := w.begin(w.options()...)
	if err != nil {
		return err
	}
	w.owns(first)
	second, err := w.begin(w.options()...)
	if err != nil {
		return err
	}
	code := second.wait()
	had := !first.after(0) // it had the tree all the time
	if had && code == 0 {
		had = !first.after(5 * time.Second) // the tree is free a moment before the process is gone
	}
	if had {
		w.judgeExit(second, code, 3)
		if pid := first.pid(); !strings.Contains(second.stderr.String(), pid) {
			w.exits = append(w.exits, fmt.Sprintf("the second crawl does not name process %s: %s", pid, &second.stderr))
		}
	}
	first.signal(syscall.SIGTERM)
	w.expect(first, 0)
	return nil
}

// questions asks a crawl that goes on; it may be opening its tree, or closing it.
func (w *work) questions() error {
	crawl, err := w.begin(w.options()...)
	if err != nil {
		return err
	}
	for i := 0; w.owns(crawl) && i < 4; i++ {
		question, err := w.begin([][]string{{"stats"}, {"ls", "-r"}, {"export"}, {"why", w.web.Seeds()[0]}}[w.r.IntN(4)]...)
		if err != nil {
			return err
		}
		w.judgeExit(question, question.wait(), 0, 3)
	}
	crawl.signal(syscall.SIGTERM)
	w.expect(crawl, 0)
	return nil
}

// diskFull crawls with little room, and then makes room.
func (w *work) diskFull() error {
	bytes, inodes := int64(w.r.IntN(1<<20)), int64(1_000_000)
	if w.r.IntN(3) == 0 {
		bytes, inodes = 1<<30, int64(w.r.IntN(300))
	}
	if err := resize(w.disk, bytes, inodes); err != nil {
		return err
	}
	p, err := w.begin(w.options()...)
	if err != nil {
		return err
	}
	w.expect(p, 4, 0)
	w.note = fmt.Sprintf(", %d KiB and %d inodes free", bytes>>10, inodes)
	// Nobody needs room to find out what is there.
	if _, err := os.Stat(w.index()); err == nil {
		if _, err := w.run(0, "check"); err != nil {
			return err
		}
	}
	return remount(w.disk, roomy)
}

// diskGuarded crawls with so little room that fetching pauses before the disk is full, then makes
// room.
func (w *work) diskGuarded() error {
	bytes := 8<<20 + w.r.Int64N(64<<20)
	if err := resize(w.disk, bytes, 1_000_000); err != nil {
		return err
	}
	p, err := w.begin(append(w.options(), "-min-free", "auto")...)
	if err != nil {
		return err
	}
	p.after(w.moment())
	w.note = fmt.Sprintf(", %d KiB free", bytes>>10)
	if err := remount(w.disk, roomy); err != nil {
		return err
	}
	if w.owns(p) && !p.after(w.moment()) {
		p.signal(syscall.SIGTERM)
	}
	w.expect(p, 0)
	return nil
}

func (w *work) index() string { return filepath.Join(w.folder, "iut", "index.db") }

// retry opens what has failed.
func (w *work) retry() error {
	if _, err := os.Stat(w.index()); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	p, err := w.begin("retry")
	if err != nil {
		return err
	}
	w.retried = true
	w.expect(p, 0)
	return nil
}

func (w *work) merge() error {
	if _, err := os.Stat(w.index()); errors.Is(err, os.ErrNotExist) {
		return nil // there is nothing yet
	}
	p, err := w.begin("merge")
	if err != nil {
		return err
	}
	w.expect(p, 0)
	return nil
}

func (w *work) mergeKill() error {
	if _, err := os.Stat(w.index()); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	p, err := w.begin("merge")
	if err != nil {
		return err
	}
	if !p.after(w.moment() / 4) {
		p.signal(syscall.SIGKILL)
	}
	w.expect(p, killed, 0)
	return nil
}

// indexLost takes the index away; the next crawl makes it again, if it is not killed meanwhile.
func (w *work) indexLost() error {
	if err := os.Remove(w.index()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	w.rebuilt = true
	if w.r.IntN(2) == 0 {
		return w.kill()
	}
	return ends(syscall.SIGTERM)(w)
}

// indexOld plays a power cut after which the index is as it was before the last crawl, while the
// folders have what that wrote. merge takes the pages in.
func (w *work) indexOld() error {
	old, err := os.ReadFile(w.index())
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := w.kill(); err != nil {
		return err
	}
	if err := os.WriteFile(w.index(), old, 0o644); err != nil {
		return err
	}
	w.older = w.older || w.depth != w.now.depth
	// Outcomes without a folder are lost with the index, however many there were.
	w.rebuilt, w.repeats = true, math.MaxInt32
	return w.merge()
}

// indexDamaged plays a power cut on a disk that has lost what was not synced: the index is cut
// off or has holes, pages are torn. merge makes the index again from the pages that are whole.
func (w *work) indexDamaged() error {
	f, err := os.OpenFile(w.index(), os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if w.r.IntN(2) == 0 {
		at := w.r.Int64N(info.Size())
		err = f.Truncate(at)
		w.note = fmt.Sprintf(", cut at %d of %d", at, info.Size())
	} else {
		_, err = io.CopyN(io.NewOffsetWriter(f, 0), rand.NewChaCha8([32]byte{}), 16<<10)
		w.note = ", both beginnings gone"
	}
	if err != nil {
		return err
	}
	if err := w.tear(); err != nil {
		return err
	}
	w.rebuilt = true
	w.note += fmt.Sprintf(", %d pages torn", len(w.torn))
	return w.merge()
}

// tear cuts files of some pages, or the ends of some WARC files.
func (w *work) tear() error {
	if w.store == "warc" {
		return w.tearSegments()
	}
	for _, url := range slices.Sorted(maps.Keys(w.now.pages)) {
		if w.r.IntN(20) > 0 {
			continue
		}
		w.torn[url] = true
		if err := w.cutFile(filepath.Join(w.now.pages[url].where, []string{"content.html", "source.txt"}[w.r.IntN(2)])); err != nil {
			return err
		}
	}
	return nil
}

func (w *work) tearSegments() error {
	files, err := filepath.Glob(filepath.Join(w.folder, "iut", "warc", "*"))
	if err != nil {
		return err
	}
	for _, file := range files {
		if w.r.IntN(max(2, len(files)/5)) == 0 {
			w.damaged = true
			if err := w.cutFile(file); err != nil {
				return err
			}
		}
	}
	var left state
	if err := left.readTree(filepath.Join(w.folder, "iut")); err != nil {
		return err
	}
	for url := range w.now.pages {
		if _, ok := left.pages[url]; !ok {
			w.torn[url] = true
		}
	}
	return nil
}

// cutFile takes the end of a file, or all of it.
func (w *work) cutFile(file string) error {
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	return os.Truncate(file, w.r.Int64N(max(info.Size(), 1)))
}
