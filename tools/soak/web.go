//go:build linux

package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"urltree/internal/testdisk"
	"urltree/internal/testweb"
)

var stores = []string{"folders", "warc"}

// last is the name of the runs at the end of a web, which nobody disturbs.
const last = "to the end"

// A trial is one web and the tree into which it is crawled.
type trial struct {
	*soak
	seed   uint64
	store  string
	opts   testweb.Options
	web    *testweb.Web
	folder string
	disk   *testdisk.Disk // of folder; nil: the real one
	now    state
	asked  map[string]int // requests so far, by URL
	// late is how many requests of a killed run the web may count later.
	late  int
	cut   bool // there was a run that gave links no record, with -max-held
	older bool // an index came back that may have been made with another depth than FORMAT names
	wrong int
	// twice is whether nodes may have pages twice, since one was lost for good.
	twice bool
	// damaged is whether a WARC file has lost its end, which need not be that of a record.
	damaged bool
}

// web crawls the web of a seed to its end. It gives its folder if there were faults.
func (s *soak) web(ctx context.Context, seed uint64, until time.Time) (kept string, err error) {
	r := rand.New(rand.NewPCG(seed, 0))
	t := &trial{soak: s, seed: seed, opts: draw(r, seed), folder: filepath.Join(s.work, "web-"+strconv.FormatUint(seed, 10))}
	t.store = stores[r.IntN(2)]
	disks := s.disks
	if s.members > 0 {
		t.opts.Kind, t.opts.Errors, t.opts.Flaky = testweb.Linked, 0, 0 // so that each URL is to be asked once
		disks = slices.DeleteFunc(slices.Clone(disks), func(kind string) bool { return kind != inMemory })
	}
	t.web = testweb.New(t.opts)
	if err := t.web.Start(0); err != nil {
		return "", err
	}
	defer t.web.Stop()
	if n := r.IntN(4); n > 0 && len(disks) > 0 {
		if t.disk, err = mountDisk(ctx, t.folder, disks[n%len(disks)]); err != nil {
			return "", err
		}
		t.folder = t.disk.Path
	} else if err := os.Mkdir(t.folder, 0o755); err != nil {
		return "", err
	}
	if s.members > 0 {
		err = t.crawlByNodes(ctx, until)
	} else {
		err = t.play(ctx, until)
	}
	if t.wrong > 0 {
		// A mount would be gone with the machine: what is kept lies on the real disk.
		kept = filepath.Join(s.work, fmt.Sprintf("web-%d-kept", seed))
		err = errors.Join(err, execute("cp", "-a", t.folder, kept))
	}
	if t.disk != nil {
		return kept, errors.Join(err, unmountDisk(t.disk))
	}
	return kept, errors.Join(err, os.RemoveAll(t.folder))
}

// draw makes up a web.
func draw(r *rand.Rand, seed uint64) testweb.Options {
	o := testweb.Options{
		Kind: []testweb.Kind{testweb.Linked, testweb.Linked, testweb.Tree, testweb.Tree, testweb.Changing}[r.IntN(5)],
		Seed: seed, Hosts: 1 + r.IntN(30), Pages: 300 + r.IntN(2500), MinSize: 300, MaxSize: 400 + r.IntN(12_000),
		Latency: time.Duration(r.IntN(4000)) * time.Microsecond, Slow: .01, Drips: .02,
		Redirects: .05, Errors: .003, Texts: .02, Images: .02, NoIndex: .03, Private: .02, Hidden: .1 * float64(r.IntN(2)), Twins: .5,
	}
	if o.Kind != testweb.Changing { // there a second answer is another one
		o.Flaky = .001
	}
	if r.IntN(6) == 0 { // large pages take the way over files
		o.Pages, o.MaxSize = 200, 3<<20
	}
	return o
}

// play goes through the episodes until the web has been crawled, its time is over or there was a
// fault.
func (t *trial) play(ctx context.Context, until time.Time) error {
	if err := os.WriteFile(filepath.Join(t.folder, "seed.txt"), []byte(strings.Join(t.web.Seeds(), "\n")+"\n"), 0o644); err != nil {
		return err
	}
	where := map[string]string{"": "on disk", inMemory: "in memory", onExt4: "on an ext4 of its own"}[t.diskKind()]
	t.say("%s, %d pages on %d hosts, %s, %s", []string{"linked", "tree", "changing"}[t.opts.Kind], t.opts.Pages, t.opts.Hosts, t.store, where)
	for n := range uint64(maxEpisodes) {
		if !t.open() && n > 0 || !time.Now().Before(until) {
			break
		}
		r := rand.New(rand.NewPCG(t.seed, n+1))
		if err := t.episode(ctx, pick(r, t.diskKind()), r); err != nil || t.wrong > 0 {
			return err
		}
	}
	for range maxRuns {
		if err := t.episode(ctx, kind{name: last, play: untouched}, rand.New(rand.NewPCG(t.seed, 0))); err != nil || t.wrong > 0 {
			return err
		}
		if !t.open() {
			break
		}
	}
	if wrong := t.compare(t.folder); len(wrong) > 0 {
		t.of(last).other += len(wrong)
		t.fault("the end", wrong)
		return nil
	}
	t.done++
	return nil
}

const (
	maxEpisodes = 25
	maxRuns     = 20 // a host that is given up waits for the next run
)

// diskKind is "" where the tree is on the real disk.
func (t *trial) diskKind() string {
	if t.disk == nil {
		return ""
	}
	return t.disk.Kind
}

// open reports whether there are URLs to be asked.
func (t *trial) open() bool {
	for _, r := range t.now.ledger {
		if !r.closed() {
			return true
		}
	}
	return t.now.ledger == nil
}

// episode plays one episode and judges what it left.
func (t *trial) episode(ctx context.Context, k kind, r *rand.Rand) error {
	began := time.Now()
	w := &work{trial: t, folder: t.folder, ctx: ctx, r: r, torn: map[string]bool{}, depth: "-1"}
	if err := k.play(w); err != nil {
		return fmt.Errorf("%s: %w", k.name, err)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	c := t.of(k.name)
	c.episodes++
	after, faults, err := t.look(w, r.IntN(3) == 0 || k.name == last)
	if err != nil {
		return err
	}
	requests := t.web.Requests()
	e := episode{asked: map[string]int{}, rebuilt: w.rebuilt, torn: w.torn, reopens: w.reopens(), repeats: w.repeats + t.late, limit: w.limit}
	for url, n := range requests {
		if n > t.asked[url] {
			e.asked[url] = n - t.asked[url]
		}
	}
	v := judge(&t.now, &after, &e)
	v.other = append(v.other, faults...)
	pages := len(after.pages) - len(t.now.pages)
	c.pages += max(pages, 0)
	c.checks += w.checks
	c.lost += len(v.lost)
	c.doubled += len(v.doubled)
	c.exits += len(w.exits)
	c.other += len(v.other)
	t.say("%-12s %5.1fs  %-8s %+5d pages, %5d of %d records closed%s", k.name, time.Since(began).Seconds(), w.exit, pages, after.closed(), len(after.ledger), w.note)
	t.now, t.asked, t.late, t.cut = after, requests, w.late, t.cut || w.cut
	if wrong := slices.Concat(v.lost, v.doubled, w.exits, v.other); len(wrong) > 0 {
		t.fault(strings.Join(w.lines, "\n    "), wrong)
	}
	return nil
}

func (s *state) closed() (n int) {
	for _, r := range s.ledger {
		if r.closed() {
			n++
		}
	}
	return n
}

// look reads the state and lets check look for faults.
func (t *trial) look(w *work, links bool) (s state, faults []string, err error) {
	if err := s.readTree(filepath.Join(w.folder, "iut")); err != nil {
		return s, nil, err
	}
	if _, err := os.Stat(filepath.Join(w.folder, "iut", "index.db")); errors.Is(err, fs.ErrNotExist) {
		return s, nil, nil // killed before it was made
	}
	args := []string{"check"}
	if links {
		args = append(args, "-links")
	}
	checked, err := w.run(0, args...)
	if err != nil {
		return s, nil, err
	}
	for line := range strings.Lines(checked.stdout.String()) {
		if strings.HasPrefix(line, "fault: ") {
			faults = append(faults, strings.TrimSpace(line))
		}
	}
	export, err := w.run(0, "export")
	if err != nil {
		return s, nil, err
	}
	if s.ledger, err = readLedger(export.stdout.String()); err != nil {
		faults = append(faults, err.Error())
	}
	return s, faults, nil
}

// compare holds the end against the known answer, and the lists of pages in these folders.
func (t *trial) compare(folders ...string) (wrong []string) {
	bad := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	for url, r := range t.now.ledger {
		if !r.closed() {
			bad("%s: still pending, %s", url, r.reason)
		}
	}
	if !t.damaged {
		wrong = append(wrong, t.now.torn...)
	}
	if t.opts.Kind == testweb.Changing {
		return wrong // what a second answer says, nobody can foretell
	}
	answer := t.web.Answer()
	want := map[string]string{}
	for _, url := range answer.Stored {
		want[url] = "stored"
	}
	for state, urls := range map[string]map[string]string{"redirected": answer.Redirected, "failed": answer.Failed, "refused": answer.Refused} {
		for url := range urls {
			want[url] = state
		}
	}
	for url, state := range want {
		if is := t.now.ledger[url].state; is != state {
			bad("%s: is %q, should be %s", url, is, state)
		}
	}
	for url := range t.now.ledger {
		if want[url] == "" {
			bad("%s: the web has no such page", url)
		}
	}
	for url, page := range t.now.pages {
		if sum := sha256.Sum256(t.web.Body(url)); page.sum != hex.EncodeToString(sum[:]) {
			bad("%s: not what the web has: %s", url, page.where)
		}
	}
	var list []byte
	for _, folder := range folders {
		part, err := os.ReadFile(filepath.Join(folder, "res.txt"))
		if err != nil {
			bad("%v", err)
		}
		list = append(list, part...)
	}
	listed := map[string]bool{}
	for line := range strings.Lines(string(list)) {
		url, _, _ := strings.Cut(line, "\t")
		if want[url] != "stored" && !(t.twice && listed[url]) {
			bad("res.txt: %s is there twice, or is no page", url)
		}
		listed[url] = true
		delete(want, url)
	}
	for url, state := range want {
		if state == "stored" {
			bad("res.txt: %s is not there", url)
		}
	}
	return wrong
}

// say writes a line about the trial.
func (t *trial) say(format string, args ...any) {
	fmt.Fprintf(t.log, "web %d  "+format+"\n", append([]any{t.seed}, args...)...)
}

// fault logs what is wrong, at most twenty lines of it; all of them are in the file faults.txt.
func (t *trial) fault(how string, wrong []string) {
	t.wrong += len(wrong)
	slices.Sort(wrong)
	for _, line := range wrong[:min(len(wrong), 20)] {
		t.say("FAULT  %s", line)
	}
	t.say("%d faults after\n    %s", len(wrong), how)
	text := how + "\n\n" + strings.Join(wrong, "\n") + "\n\n" + fmt.Sprintf("%+v", t.opts) + "\n\nrequests\n"
	for _, url := range slices.Sorted(maps.Keys(t.asked)) {
		text += fmt.Sprintf("%s\t%d\n", url, t.asked[url])
	}
	if err := os.WriteFile(filepath.Join(t.folder, "faults.txt"), []byte(text), 0o644); err != nil {
		t.say("faults.txt: %v", err)
	}
}
