// Package memory is an engine in the memory of one process, for tests. It has the semantics of
// JetStream that the crawl relies on, as the tests of both compare them: work queues with
// acknowledgements and redelivery, subscriptions that are fenced, tables with revisions and expiry,
// a window of duplicates, a limit of bytes.
//
// It can fail as an engine does: be down, be cut off from one node, lose or repeat or delay calls
// and answers, answer reads from the past, lose its store, and get back an old copy of it.
//
// All time is that of package time, so it runs in the bubble of testing/synctest.
package memory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"urltree/internal/cluster"
)

const (
	ackWait   = 60 * time.Second // until what was delivered and not acknowledged is delivered again
	mostHeld  = 512              // batches that a subscription has and has not acknowledged
	duplicate = 10 * time.Second // in which a message with the same id is dropped
	patience  = 2 * time.Second  // until a call to an engine that is down fails
)

var errDown = errors.New("engine does not answer")

// An Engine is what the nodes of one crawl connect to.
type Engine struct {
	cfg cluster.Config

	mu        sync.Mutex
	store     *Store                     // guarded by mu
	stores    uint64                     // guarded by mu; how many it had before
	changed   chan struct{}              // guarded by mu; closed and replaced whenever something has changed
	faults    func(Call) Fault           // guarded by mu; may be nil
	down      bool                       // guarded by mu
	cut       map[string]bool            // guarded by mu; nodes that do not reach it
	connected map[string]int             // guarded by mu; how often a node could reach it again
	confirms  map[string][]*confirmation // guarded by mu; who listens, by node
	answers   map[string]func() []byte   // guarded by mu; who answers probes, by node
}

// A Call is a use of the engine, named after the method of [cluster.Bus] or of what it returned.
type Call struct{ Node, Method string }

// A Fault is what happens to a call.
type Fault struct {
	Delay  time.Duration // before it has its effect
	Lose   bool          // it has no effect, and the caller an error, but for Confirm, Ack and Nak; of Next what it took
	Deaf   bool          // it has its effect, and the caller gets an error
	Repeat bool          // Confirm and what Next returns: twice
	Stale  bool          // Get and List: the state before the last write of each key
}

// A Store is what an engine keeps on its disk.
type Store struct {
	seq       uint64
	messages  []*message // oldest first
	bytes     int64
	published map[string]time.Time // when, by id
	consumers map[string]*consumer
	tables    [2]map[string]*entry
}

type message struct {
	seq    uint64
	batch  cluster.Batch
	holder string    // the consumer that it was delivered to, or ""
	due    time.Time // when that gets it again
}

type consumer struct {
	by     cluster.Subscriber
	serial uint64 // another one for each that is made
	parts  []int
}

type entry struct {
	now, before cluster.Entry // before the last write; Revision 0: there was none
	expires     time.Time     // zero: never
}

// newStore returns an empty store. Its numbers are of no other one that an engine has had.
func newStore(n uint64) *Store {
	return &Store{
		seq: n << 32, published: map[string]time.Time{}, consumers: map[string]*consumer{},
		tables: [2]map[string]*entry{{}, {}},
	}
}

// clone returns a copy that shares nothing that changes.
func (s *Store) clone() *Store {
	c := &Store{seq: s.seq, bytes: s.bytes, published: maps.Clone(s.published), consumers: maps.Clone(s.consumers)}
	for _, m := range s.messages {
		copied := *m
		c.messages = append(c.messages, &copied)
	}
	for i, t := range s.tables {
		c.tables[i] = map[string]*entry{}
		for key, e := range t {
			copied := *e
			c.tables[i][key] = &copied
		}
	}
	return c
}

// New returns an engine with an empty store.
func New(cfg cluster.Config) *Engine {
	return &Engine{
		cfg: cfg, store: newStore(0), changed: make(chan struct{}), cut: map[string]bool{}, connected: map[string]int{},
		confirms: map[string][]*confirmation{}, answers: map[string]func() []byte{},
	}
}

// Connect returns the engine as a node uses it.
func (e *Engine) Connect(node string) cluster.Bus { return &client{e: e, node: node} }

// SetFaults has f decide what happens to each call from now on; nil: nothing. It is called from
// any goroutine.
func (e *Engine) SetFaults(f func(Call) Fault) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.faults = f
}

// SetDown stops the engine, or starts it again with what it has stored.
func (e *Engine) SetDown(down bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.down && !down {
		e.restartedLocked()
	}
	e.down = down
	e.changedLocked()
}

// Cut separates a node from the engine, or connects both again.
func (e *Engine) Cut(node string, cut bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cut[node] && !cut {
		e.connected[node]++
	}
	e.cut[node] = cut
	e.changedLocked()
}

// Copy returns a copy of the store as it is.
func (e *Engine) Copy() *Store {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.store.clone()
}

// Restart stops the engine and starts it with a store: a copy that Copy has returned, or nil for an
// empty one.
func (e *Engine) Restart(with *Store) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stores++
	e.store = newStore(e.stores)
	if with != nil {
		e.store = with.clone()
	}
	e.restartedLocked()
	e.changedLocked()
}

// Waiting returns how many batches no subscription has acknowledged, and their bytes.
func (e *Engine) Waiting() (batches int, bytes int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.store.messages), e.store.bytes
}

// restartedLocked has each node that can reach the engine learn that it could not.
func (e *Engine) restartedLocked() {
	e.connected[""]++
}

// connectionsLocked returns how often a node could reach the engine again.
func (e *Engine) connectionsLocked(node string) int { return e.connected[node] + e.connected[""] }

func (e *Engine) changedLocked() {
	close(e.changed)
	e.changed = make(chan struct{})
}

func (e *Engine) reachableLocked(node string) bool { return !e.down && !e.cut[node] }

// wait calls ready, with mu, until that is done, each time that something has changed or that the
// time it returned has come; zero: only something else changes it.
func (e *Engine) wait(ctx context.Context, ready func() (done bool, at time.Time)) error {
	for {
		e.mu.Lock()
		done, at := ready()
		changed := e.changed
		e.mu.Unlock()
		if done {
			return nil
		}
		until, cancel := ctx, context.CancelFunc(func() {})
		if !at.IsZero() {
			until, cancel = context.WithDeadline(ctx, at)
		}
		select {
		case <-until.Done():
		case <-changed:
		}
		cancel()
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// fault returns what is to happen to a call.
func (e *Engine) fault(node, method string) Fault {
	e.mu.Lock()
	faults := e.faults
	e.mu.Unlock()
	if faults == nil {
		return Fault{}
	}
	return faults(Call{Node: node, Method: method})
}

// call does what a node asks for, with mu and with the fault that it is to have.
func (e *Engine) call(ctx context.Context, node, method string, do func(Fault) error) error {
	fault := e.fault(node, method)
	if err := sleep(ctx, fault.Delay); err != nil {
		return err
	}
	limit := time.Now().Add(patience)
	reached := false
	err := e.wait(ctx, func() (bool, time.Time) {
		reached = e.reachableLocked(node)
		return reached || !time.Now().Before(limit), limit
	})
	if err != nil {
		return err
	}
	if !reached || fault.Lose {
		return fmt.Errorf("%s: %w", method, errDown)
	}
	e.mu.Lock()
	err = do(fault)
	e.mu.Unlock()
	if err == nil && fault.Deaf {
		err = fmt.Errorf("%s: %w", method, errDown)
	}
	return err
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// table returns the keys of a table that have not expired, and when the next one does.
func (s *Store) table(t cluster.Table) (live map[string]*entry, next time.Time) {
	for key, e := range s.tables[t] {
		switch {
		case e.expires.IsZero():
		case !time.Now().Before(e.expires):
			delete(s.tables[t], key)
		case next.IsZero() || e.expires.Before(next):
			next = e.expires
		}
	}
	return s.tables[t], next
}

func (s *Store) put(t cluster.Table, e cluster.Entry, ttl time.Duration) (uint64, error) {
	live, _ := s.table(t)
	old := live[e.Key]
	if old == nil {
		old = new(entry)
	}
	if old.now.Revision != e.Revision {
		return 0, cluster.ErrRevision
	}
	s.seq++
	e.Revision, e.Value = s.seq, bytes.Clone(e.Value)
	put := &entry{now: e, before: old.now}
	if t == cluster.Leases {
		put.expires = time.Now().Add(ttl)
	}
	live[e.Key] = put
	return e.Revision, nil
}

func (s *Store) entries(t cluster.Table, stale bool) (list []cluster.Entry) {
	live, _ := s.table(t)
	for _, e := range live {
		it := e.now
		if stale {
			it = e.before
		}
		if it.Revision != 0 {
			it.Value = bytes.Clone(it.Value)
			list = append(list, it)
		}
	}
	slices.SortFunc(list, func(a, b cluster.Entry) int { return strings.Compare(a.Key, b.Key) })
	return list
}
