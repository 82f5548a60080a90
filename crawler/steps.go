package crawler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"urltree/internal/frontier"
	"urltree/iut"
	"urltree/storage/record"
)

// steps are the supersteps of a run with Options.Step, as source E has them: a process asks its
// first rows, so many, while links wait in the outbox of the index, those to its own hosts too.
// Once all rows of a step have their outcomes, processes exchange the links, merge what is for
// them in a fixed order, and choose their next rows. So what is asked in which step does not
// depend on how long anything takes.
//
// They are where the frontier reads, which knows the rows of the present step alone: to it, the
// end of a step is the end of a crawl. All that a step is lies in the index as well, see
// record.Step: after a kill it goes on where it was.
type steps struct {
	e     *engine
	timer *time.Timer // ends the step, see Options.StepTime; nil: none

	mu     sync.Mutex
	number uint64                           // guarded by mu, as is all below; of the present step
	hosts  map[string]map[string]record.Row // rows that have no outcome, by host and ID
}

// newSteps returns the steps of a run, nil without Options.Step.
func (e *engine) newSteps() *steps {
	if e.opts.Step == 0 || e.opts.External {
		return nil
	}
	return &steps{e: e, hosts: map[string]map[string]record.Row{}}
}

// beginSteps makes the index that of a crawl in supersteps, if it is to be one. It stays so:
// without steps, links to hosts of this process would wait in its outbox for ever.
func (e *engine) beginSteps(context.Context) error {
	begun, err := e.store.index.Steps().Begun()
	switch {
	case err != nil || begun && e.steps != nil || !begun && e.steps == nil:
		return err
	case begun:
		return fmt.Errorf("%w: %s has a crawl in supersteps: start it with -bsp", ErrOptions, e.opts.Tree)
	}
	return iut.DiskError("step", e.store.index.Steps().Set(nil, func(*record.Step) {}))
}

// resume goes on with a step that an earlier run has begun.
func (s *steps) resume(ctx context.Context) error {
	step := s.e.store.index.Steps().Get()
	if step.Phase != record.StepAsks {
		return nil
	}
	members, err := s.e.store.index.Steps().Members()
	if err != nil || len(members) == 0 {
		return err
	}
	of := make(map[uint64]bool, len(members))
	for _, m := range members {
		of[m] = true
	}
	others := func(id string) bool { return !of[fingerprint(id)] }
	var rows []record.Row
	err = s.eachHost(ctx, func(host string) error {
		found, err := s.read(host, len(members), others)
		rows = append(rows, found...)
		return err
	})
	if err == nil {
		s.begin(step.Number, rows)
	}
	return err
}

// errWaits ends a search for a row that waits.
var errWaits = errors.New("a row waits")

// empty reports whether this process has nothing in the present step, and nothing for the next one:
// other options or orders may have opened rows since the step was chosen.
func (s *steps) empty(ctx context.Context) (bool, error) {
	index := s.e.store.index
	if index.Outbox().Len() > 0 {
		return false, nil
	}
	members, err := index.Steps().Members()
	if err != nil || len(members) > 0 {
		return false, err
	}
	err = s.eachHost(ctx, func(host string) error {
		rows, err := s.read(host, 1, func(string) bool { return false })
		if err == nil && len(rows) > 0 {
			err = errWaits
		}
		return err
	})
	if errors.Is(err, errWaits) {
		return false, nil
	}
	return true, err
}

// next ends a step of which no row is left, and begins the next one. It returns false if the crawl
// is finished, or can ask nothing more in this run.
func (s *steps) next(ctx context.Context) (more bool, err error) {
	index := s.e.store.index
	if s.e.frontier.Left() {
		return s.rest(ctx)
	}
	step := index.Steps().Get()
	if step.Phase == record.StepAsks {
		empty, err := s.empty(ctx)
		if err == nil {
			err = index.Steps().Set(nil, func(step *record.Step) { step.Phase, step.Busy = record.StepSends, !empty })
		}
		if err != nil {
			return false, err
		}
		step = index.Steps().Get()
	}
	if step.Phase == record.StepSends {
		following, finished := step.Number+1, !step.Busy
		if node := s.e.opts.Cluster; node != nil {
			if following, finished, err = node.Sync(ctx, step.Number, step.Busy); err != nil {
				return false, err
			}
		}
		err = index.Steps().Set(nil, func(step *record.Step) {
			if step.Phase = record.StepMerges; finished {
				step.Phase, step.Number = record.StepAsks, following
			}
		})
		if err != nil || finished {
			return false, err
		}
	}
	if err := s.merge(ctx); err != nil {
		return false, err
	}
	return true, s.choose(ctx)
}

// rest waits a while for a host that rests for longer than a step has patience. Without others that
// wait, the run ends in place of that.
func (s *steps) rest(ctx context.Context) (more bool, err error) {
	if s.e.opts.Cluster == nil {
		return false, nil
	}
	select {
	case <-time.After(time.Minute):
	case <-ctx.Done():
	}
	return true, ctx.Err()
}

// choose begins the next step with the first rows that wait.
func (s *steps) choose(ctx context.Context) error {
	var rows []record.Row
	var last *record.Row // no row behind it is among the first
	most := s.e.opts.Step
	err := s.eachHost(ctx, func(host string) error {
		first, err := s.first(host, most, last)
		if rows = append(rows, first...); len(rows) >= 2*most {
			rows = s.best(rows, most)
			last = new(record.Row)
			*last = rows[most-1]
		}
		return err
	})
	if err != nil {
		return err
	}
	rows = s.best(rows, most)
	members := make([]uint64, len(rows))
	for i := range rows {
		members[i] = fingerprint(rows[i].ID())
	}
	err = s.e.store.index.Steps().Set(members, func(step *record.Step) {
		step.Phase, step.Number = record.StepAsks, step.Number+1
		if len(rows) > 0 {
			step.Asking++
		}
	})
	if err == nil {
		s.begin(s.e.store.index.Steps().Get().Number, rows)
	}
	return err
}

// begin lets the frontier lend the rows of a step.
func (s *steps) begin(number uint64, rows []record.Row) {
	s.mu.Lock()
	s.number = number
	clear(s.hosts)
	for _, r := range rows {
		host := record.Host(r.URL)
		if s.hosts[host] == nil {
			s.hosts[host] = map[string]record.Row{}
		}
		s.hosts[host][r.ID()] = r
	}
	s.mu.Unlock()
	s.e.opts.Log.Debug("step", "number", number, "rows", len(rows))
	if s.timer != nil {
		s.timer.Stop()
	}
	if s.e.opts.StepTime > 0 && len(rows) > 0 {
		s.timer = time.AfterFunc(s.e.opts.StepTime, func() { s.over(number) })
	}
	s.e.frontier.Add(rows, number)
}

// figures returns the number of steps in which this process had a URL, and the trace; 0 and "" if
// there are no steps.
func (s *steps) figures() (asking uint64, trace string) {
	if s == nil {
		return 0, ""
	}
	step := s.e.store.index.Steps().Get()
	return step.Asking, step.Trace.String()
}

// over ends a step, if it is still the present one, but for what is being asked.
func (s *steps) over(number uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.number == number {
		clear(s.hosts)
		s.e.frontier.Withdraw()
	}
}

// end lets no step end any more.
func (s *steps) end() {
	if s != nil && s.timer != nil {
		s.timer.Stop()
	}
}

// best returns the first rows of a list, at most so many, in order.
func (s *steps) best(rows []record.Row, most int) []record.Row {
	slices.SortFunc(rows, func(a, b record.Row) int { return s.compare(&a, &b) })
	return rows[:min(len(rows), most)]
}

// compare is the order in which rows get into a step: sitemaps, pages that were not asked yet, and
// others; of these by what they are worth now, then as they were merged.
func (s *steps) compare(a, b *record.Row) int {
	turn := func(r *record.Row) int {
		switch r.Kind {
		case record.SitemapRow:
			return 0
		case record.PageRow:
			return 1
		}
		return 2
	}
	if a.Kind == record.SitemapRow && b.Kind == record.SitemapRow {
		return cmp.Compare(a.URL, b.URL)
	}
	return cmp.Or(cmp.Compare(turn(a), turn(b)), cmp.Compare(s.rank(a), s.rank(b)), cmp.Compare(a.Seq, b.Seq))
}

func (s *steps) rank(r *record.Row) uint64 {
	if scorer := s.e.rules.scorer; scorer != nil {
		return scorer.Rank(r)
	}
	return r.Rank
}

// eachHost calls fn with each host that has rows.
func (s *steps) eachHost(ctx context.Context, fn func(host string) error) error {
	for cursor := ""; ; {
		hosts, _, err := s.e.store.index.Queues().NextHosts(cursor, 256)
		if err != nil || len(hosts) == 0 {
			return err
		}
		for i := range hosts {
			cursor = hosts[i].Name
			if err := fn(cursor); err != nil {
				return err
			}
			if err := ctx.Err(); err != nil {
				return err
			}
		}
	}
}

// first returns the first rows of a host, at most so many. It leaves out most of those behind the
// row last; nil: there is none.
func (s *steps) first(host string, most int, last *record.Row) (rows []record.Row, err error) {
	for n := min(64, most); ; n = min(4*n, most) {
		if rows, err = s.read(host, n, func(string) bool { return false }); err != nil || len(rows) < n || n == most {
			return rows, err
		}
		if r := rows[len(rows)-1]; last != nil && r.Range == record.Now && s.compare(last, &r) < 0 {
			return rows, nil
		}
	}
}

// read returns the first rows of a host that wait, whenever they are due: pages at most so many,
// and sitemaps as many.
func (s *steps) read(host string, most int, skip func(id string) bool) (rows []record.Row, err error) {
	sitemaps := -1
	if s.e.opts.ReadsSitemaps() {
		sitemaps = most
	}
	rows, _, err = s.e.store.index.Queues().Refill(host, time.Unix(0, math.MaxInt64), most, sitemaps, skip)
	return rows, err
}

// committed takes note of an outcome that is durable, and of where its row waits now, before the
// frontier does.
func (s *steps) committed(row, next *record.Row) {
	s.mu.Lock()
	defer s.mu.Unlock()
	host, id := record.Host(row.URL), row.ID()
	rows := s.hosts[host]
	if _, there := rows[id]; !there {
		return
	}
	if next.Range == record.Now || next.Range == record.Later {
		rows[id] = *next
		return
	}
	if delete(rows, id); len(rows) == 0 {
		delete(s.hosts, host)
	}
}

// Refill implements [frontier.Store].
func (s *steps) Refill(host string, now time.Time, pages, sitemaps int, skip func(id string) bool) (rows []record.Row, due int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var feeds []record.Row
	later := func(r *record.Row) {
		if at := max(r.Due, 1); r.Range == record.Later && (due == 0 || at < due) {
			due = at
		}
	}
	for id, r := range s.hosts[host] {
		switch sitemap := r.Kind == record.SitemapRow; {
		case skip(id) || sitemap && sitemaps < 0:
		case r.Range == record.Later && r.Due > now.UnixNano():
			later(&r)
		case sitemap:
			feeds = append(feeds, r)
		default:
			rows = append(rows, r)
		}
	}
	for _, list := range []struct {
		rows *[]record.Row
		most int
	}{{&rows, pages}, {&feeds, sitemaps}} {
		slices.SortFunc(*list.rows, func(a, b record.Row) int {
			return cmp.Or(-cmp.Compare(a.Range, b.Range), cmp.Compare(a.Due, b.Due), s.compare(&a, &b))
		})
		for ; len(*list.rows) > max(list.most, 0); *list.rows = (*list.rows)[:len(*list.rows)-1] {
			later(&(*list.rows)[len(*list.rows)-1])
		}
	}
	return append(rows, feeds...), due, nil
}

// HostAt implements [frontier.Store].
func (s *steps) HostAt(name string) (record.HostRow, uint64, error) {
	return s.e.store.index.Queues().HostAt(name)
}

// NextHosts implements [frontier.Store]. The numbers of steps stand for those of transactions: a
// step comes whole, before the frontier learns of its rows.
func (s *steps) NextHosts(after string, n int) (hosts []record.HostRow, tx uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for name := range s.hosts {
		if name > after {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names[:min(n, len(names))] {
		h, _, err := s.HostAt(name)
		if err != nil {
			return nil, 0, err
		}
		h.Now, h.Later, h.Sitemaps, h.Revisits = 0, 0, 0, 0
		for _, r := range s.hosts[name] {
			switch {
			case r.Kind == record.SitemapRow:
				h.Sitemaps++
			case r.Range == record.Later:
				h.Later++
			default:
				h.Now++
			}
		}
		hosts = append(hosts, h)
	}
	return hosts, s.number, nil
}

var _ frontier.Store = (*steps)(nil)
