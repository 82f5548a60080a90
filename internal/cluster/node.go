package cluster

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"urltree/storage/record"
)

// Options of a node.
type Options struct {
	Bus     Bus
	Name    string // of the node, which stays the same: 1 to 32 of a-z, 0-9 and -
	Boot    string // of this process, another one each time
	Nodes   int    // so many must have joined before the hosts are divided; 0: 1
	Options string // of the crawl, which all nodes must have alike
	TTL     time.Duration
	Flush   time.Duration // longest time that a link waits for others to the same node; 0: 1 s
	Log     *slog.Logger  // nil: none
	// Hosts says that this process has the engine in it: Leave waits for the other nodes to leave.
	Hosts bool
	// Bulk has links sent in Sync alone: the crawl goes in supersteps.
	Bulk bool
}

// A Mailbox is what a node needs of the run that it is of.
type Mailbox interface {
	// Read returns rows of the outbox of a partition, in the order of their numbers, behind one.
	Read(part uint16, after uint64, most int) ([]record.Posted, error)
	// Len returns the number of rows of the outbox.
	Len() int64
	// Keep keeps what Join returned last in its present form.
	Keep(kept []byte) error
	// Exclusive calls fn while nothing is being committed. Only then the answers of Away change.
	Exclusive(fn func())
	// Reconsider is called after the answers of Asks have changed.
	Reconsider()
	// Quiet reports whether nothing of hosts that are not asked is on its way to a commit, once
	// Reconsider has been called.
	Quiet() bool
	// MoveOut posts the next part of what goes to other nodes, and returns where the scan goes on;
	// nil: it has ended.
	MoveOut(ctx context.Context, d *record.Departure) (next []byte, err error)
	// PostMarkers posts markers, and keeps what Keep would.
	PostMarkers(markers []record.Posted, kept []byte) error
	// Last returns the number of the row that was posted last.
	Last() uint64
	// Has reports whether the outbox has rows of some partitions up to a number.
	Has(parts []int, upTo uint64) (bool, error)
	// ReadAgain sends, or takes, once more the links of all pages, redirects and seeds to some hosts.
	// It returns once that is durable.
	ReadAgain(ctx context.Context, lost func(host string) bool) error
	// Figures returns how far the run is.
	Figures() Figures
	// Put has an outcome committed with others, and calls then once that is durable. refused says that
	// its links were not taken, see record.Outcome.Arrived. After an error then is not called.
	Put(ctx context.Context, o record.Outcome, then func(refused bool)) error
}

// ErrOther says that a node may not take part: it differs from the crawl, or another process has
// its name.
var ErrOther = errors.New("cannot join the crawl")

// ErrDrained says that all that the node had has gone to others, as it was asked to.
var ErrDrained = errors.New("drained")

// A Node is a process of a crawl of several. Its methods are called in the order Join, Exchange,
// Leave; the others may be called from any goroutine, from Join on.
//
// It asks hosts of its partitions alone, and only while its lease was renewed less than two thirds
// of TTL ago. It has nothing left once Idle has been called and has not returned.
type Node struct {
	opts Options
	own  atomic.Pointer[[]bool] // by partition, see kept.own; nil before Join
	asks atomic.Pointer[[]bool] // by partition, see kept.asks

	stopRenewing context.CancelFunc
	renewing     errgroup.Group
	lease        lease // of the name of the node
	leader       lease // of the key "leader", held by one node

	named atomic.Bool // the assignment names the present life of the node

	altering sync.Mutex // held while kept is changed; before mu

	mu        sync.Mutex
	lost      error              // guarded by mu, as is all below; the lease went to another process
	kept      kept               // in the index as well, from Join on
	life      int                // number of the present life in this process
	seen      Assign             // as the engine had it last; Epoch 0: it had none
	revision  uint64             // of seen
	receiving context.CancelFunc // ends the present subscription; nil: there is none
	idle      bool               // a call of Idle waits
	woken     bool               // rows have become eligible since Idle returned last
	counter   uint64             // goes up with all that may change what the node has to do
	finished  bool               // the crawl is
	changed   chan struct{}      // closed and replaced when one of these changes
	mail      Mailbox            // nil before Exchange
	sent      map[uint64]*sending
	flying    int64  // rows of these
	taking    int    // batches that have arrived and are not durable
	steps     *steps // nil: links are sent as they come
	heard     heard
}

// New returns a node that has not joined.
func New(opts Options) *Node {
	if opts.Nodes == 0 {
		opts.Nodes = 1
	}
	if opts.Flush == 0 {
		opts.Flush = time.Second
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.TTL == 0 {
		opts.TTL = 15 * time.Second
	}
	n := &Node{opts: opts, sent: map[uint64]*sending{}, changed: make(chan struct{})}
	if opts.Bulk {
		n.steps = newSteps()
	}
	return n
}

// Join waits until the engine knows this node and hosts are divided. before is what Join has
// returned to the same index, nil for a new one; what it returns is to be kept there.
func (n *Node) Join(ctx context.Context, before []byte) (keep []byte, err error) {
	if before != nil {
		if err := json.Unmarshal(before, &n.kept); err != nil {
			return nil, fmt.Errorf("%w: what the index keeps of it: %w", ErrOther, err)
		}
		if n.kept.Name != n.opts.Name {
			return nil, fmt.Errorf("%w: the tree is that of node %s, not of %s", ErrOther, n.kept.Name, n.opts.Name)
		}
	}
	own := conf{Version: 2, Partitions: Partitions, By: "domain", Options: n.opts.Options}
	n.kept.Name, n.kept.Conf = n.opts.Name, own
	n.kept.Lives++
	if err := n.agree(ctx, own); err != nil {
		return nil, err
	}
	if err := n.enter(ctx); err != nil {
		return nil, err
	}
	if err := n.await(ctx); err != nil {
		return nil, err
	}
	k, _ := n.keeps()
	return text(k), nil
}

// agree compares what all nodes must have alike, or is the first to say it.
func (n *Node) agree(ctx context.Context, own conf) error {
	return n.persist(ctx, func() (done bool, err error) {
		_, err = n.opts.Bus.Put(ctx, Control, Entry{Key: "conf", Value: text(own)})
		if !errors.Is(err, ErrRevision) {
			return err == nil, err
		}
		e, err := n.opts.Bus.Get(ctx, Control, "conf")
		if err != nil {
			return false, err // which may be that it is not to be seen yet
		}
		var theirs conf
		if err := json.Unmarshal(e.Value, &theirs); err != nil {
			return true, fmt.Errorf("%w: its conf: %w", ErrOther, err)
		}
		if what := theirs.differs(own); what != "" {
			return true, fmt.Errorf("%w: %s", ErrOther, what)
		}
		return true, nil
	})
}

// await waits until hosts are divided, which the leader does once there are enough nodes, and until
// that names the life of this node.
func (n *Node) await(ctx context.Context) error {
	told := false
	return n.persist(ctx, func() (done bool, err error) {
		switch err := n.look(ctx); {
		case errors.Is(err, ErrOther):
			return true, err
		case err != nil:
			return false, err
		}
		if n.isBehind() {
			return false, n.bringBack(ctx)
		}
		if named, err := n.adopt(); named || err != nil {
			return true, err
		}
		a := n.assigned()
		_, member := a.Members[n.opts.Name]
		switch {
		case a.Epoch > 0 && !member && n.steps != nil:
			return true, fmt.Errorf("%w: it goes in supersteps, which no other node may join", ErrOther)
		case !n.leads():
			return false, nil
		case a.Epoch > 0:
			return false, n.arrange(ctx)
		}
		here, err := tenures(ctx, n.opts.Bus)
		if err != nil {
			return false, err
		}
		lives := map[string]string{n.opts.Name: ""}
		for node, t := range here {
			lives[node] = t.life
		}
		nodes := slices.Sorted(maps.Keys(lives))
		if len(nodes) < n.opts.Nodes {
			if !told {
				told = true
				n.opts.Log.Info("waiting for other nodes", "here", strings.Join(nodes, " "), "wanted", n.opts.Nodes)
			}
			return false, nil
		}
		for _, node := range nodes {
			if _, runs := n.stateOf(ctx, node); runs {
				return false, nil // it will bring back what the engine has lost
			}
		}
		_, err = n.opts.Bus.Put(ctx, Control, Entry{Key: assignKey, Value: text(newAssign(rand.Text(), lives, Partitions))})
		return false, err
	})
}

// restore writes what all nodes must have alike where the engine has lost it: a node that joins
// waits for it. It reports whether it is there, which is false as long as Exchange has not begun.
func (n *Node) restore(ctx context.Context) bool {
	n.mu.Lock()
	begun, conf := n.mail != nil, n.kept.Conf
	n.mu.Unlock()
	if !begun {
		return false
	}
	if _, err := n.opts.Bus.Put(ctx, Control, Entry{Key: "conf", Value: text(conf)}); err != nil && !errors.Is(err, ErrRevision) {
		return false
	}
	if err := n.look(ctx); err != nil || n.isBehind() && n.bringBack(ctx) != nil {
		return false
	}
	return true
}

// present returns the nodes that have a lease, this one among them.
func (n *Node) present(ctx context.Context) (nodes []string, err error) {
	nodes, err = leased(ctx, n.opts.Bus)
	nodes = append(nodes, n.opts.Name)
	slices.Sort(nodes)
	return slices.Compact(nodes), err
}

const askAgain = 200 * time.Millisecond // while a node waits for others

// persist calls fn until it is done or ctx ends. An error without done is one of the engine, or of
// a key that another node has just written: it is tried again.
func (n *Node) persist(ctx context.Context, fn func() (done bool, err error)) error {
	told := false
	for {
		done, err := fn()
		if done {
			return err
		}
		if lost := n.failure(); lost != nil {
			return lost
		}
		if err != nil && !errors.Is(err, ErrRevision) && !errors.Is(err, ErrNoKey) && !told && ctx.Err() == nil {
			told = true
			n.opts.Log.Warn("the engine does not answer; it is asked again until it does", "err", err)
		}
		if !pause(ctx, askAgain) {
			return context.Cause(ctx)
		}
	}
}

// pause waits, and returns false if ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Away returns the partition of a host, and whether another node asks it.
func (n *Node) Away(host string) (part uint16, away bool) {
	part = Partition(host, Partitions)
	return part, !n.owns()[part]
}

// owns returns, by partition, of which the node takes what is for them: see kept.own.
func (n *Node) owns() []bool { return *n.own.Load() }

// Asks reports whether a host may be asked: it is of this node, and has been handed over.
func (n *Node) Asks(host string) bool {
	return (*n.asks.Load())[Partition(host, Partitions)]
}

// MayAsk reports whether a request may begin now.
func (n *Node) MayAsk() bool { return n.named.Load() && n.lease.fresh(n.opts.TTL*2/3) }

// Committed takes note of a transaction, before what has become durable by it can be confirmed to
// anybody: fresh says that rows have become eligible.
func (n *Node) Committed(fresh bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.counter++
	switch {
	case fresh:
		n.wakeLocked()
	case n.steps != nil && n.steps.open:
		n.changedLocked() // rows may have left the outbox
	}
}

// wakeLocked has Idle return, since rows may be eligible.
func (n *Node) wakeLocked() {
	n.idle, n.woken = false, true
	n.changedLocked()
}

func (n *Node) changedLocked() {
	close(n.changed)
	n.changed = make(chan struct{})
}

// Idle is called when no row is left and none is out. It waits, and returns true once rows may have
// become eligible, false once the crawl is finished. The error is that of the node or of ctx.
func (n *Node) Idle(ctx context.Context) (more bool, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for {
		switch {
		case n.woken:
			n.woken = false
			n.counter++
			return true, nil
		case n.finished:
			return false, nil
		case n.lost != nil:
			return false, n.lost
		case ctx.Err() != nil:
			n.idle = false
			return false, context.Cause(ctx)
		}
		if !n.idle {
			n.idle = true
			n.changedLocked()
		}
		changed := n.changed
		n.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		n.mu.Lock()
	}
}

// fail ends the node's part in the crawl.
func (n *Node) fail(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.lost == nil {
		n.lost = err
		n.changedLocked()
	}
}

func (n *Node) failure() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.lost
}

// Leave releases the leases. A node that has the engine in its process waits a while for the
// others, once the crawl is finished: they could not learn of it without.
func (n *Node) Leave() {
	if n.stopRenewing == nil {
		return
	}
	n.mu.Lock()
	waits := n.opts.Hosts && n.finished
	n.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), n.opts.TTL)
	defer cancel()
	for waits && pause(ctx, askAgain) {
		nodes, err := n.present(ctx)
		waits = err != nil || len(nodes) > 1
	}
	n.stopRenewing()
	n.renewing.Wait()
	release, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	n.lease.release(release, n.opts.Bus)
	n.leader.release(release, n.opts.Bus)
}
