package frontier

import (
	"errors"
	"iter"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Source B as it is published, with a state for each node and a condition for the children of each
// node, that workers lock from below to above. What is built keeps counters instead (package
// storage), so the model says what these have to come to, under any interleaving of the workers:
// a node is closed if and only if all below it is.
//
// Put right are: whoever fails sets its node to error (the text never calls handle_error), and a
// retry opens a node that has failed by itself, where the text makes all errors visited. Added is
// that a new node opens those above it again.

type nodeState string

const (
	isOpen       nodeState = "open"
	isProcessing nodeState = "processing"
	isVisited    nodeState = "visited"
	isClosed     nodeState = "closed"
	isError      nodeState = "error"
)

// A bnode is a node of the tree that the workers share.
type bnode struct {
	parent   *bnode // nil: the sentinel
	state    nodeState
	children []*bnode // guarded by the condition, as are their states
	domain   []*bnode // what a worker finds when it processes this node
	fails    bool     // processing it fails
	failed   bool     // it is in error by itself
	tries    int
	workers  int    // at it
	holder   *actor // has the condition locked
}

// An actor is a thread of the model. It yields before each step; the scheduler decides who goes on.
type actor struct {
	next    func() (ask, bool)
	stop    func()
	asks    ask
	ended   bool
	held    []*bnode // whose conditions it has locked, from below to above
	waiting *bnode   // for a change of its children; nil: not
}

// An ask is what an actor needs for its next step: a condition to be locked, or nothing.
type ask struct{ lock *bnode }

var errStopped = errors.New("the schedule has ended")

// An exploration is a tree with its workers.
type exploration struct {
	t        *rapid.T
	sentinel *bnode
	nodes    []*bnode // all that the domain has, the sentinel left out
	actors   []*actor
}

// a thread of the model, in the words of the paper.
type thread struct {
	x     *exploration
	a     *actor
	yield func(ask) bool
}

func (h *thread) step(lock *bnode) {
	if !h.yield(ask{lock}) {
		panic(errStopped)
	}
}

func (h *thread) acquire(n *bnode) {
	if k := len(h.a.held); k > 0 && h.a.held[k-1].parent != n {
		h.x.t.Fatalf("a condition is locked that is not the next one upwards")
	}
	h.step(n)
	h.a.held = append(h.a.held, n)
}

func (h *thread) release(n *bnode) {
	n.holder = nil
	h.a.held = h.a.held[:len(h.a.held)-1]
}

func (h *thread) notifyAll(n *bnode) {
	for _, a := range h.x.actors {
		if a.waiting == n {
			a.waiting = nil
		}
	}
}

// wait unlocks the condition, waits for a change and locks it again.
func (h *thread) wait(n *bnode) {
	h.release(n)
	h.a.waiting = n
	h.acquire(n)
}

func (h *thread) explore() {
	for {
		node := h.x.sentinel
		failed := false
		for node != nil && !failed {
			node.workers++
			next, err := h.analyze(node)
			node.workers--
			node, failed = next, err
		}
		if !failed {
			return // the whole tree has been traversed
		}
	}
}

// analyze goes to the next node; failed sends the worker back to the sentinel.
func (h *thread) analyze(node *bnode) (next *bnode, failed bool) {
	child, process := h.availableChild(node)
	switch {
	case child == nil:
		return node.parent, false
	case !process:
		return child, false
	}
	h.step(nil) // the page is asked for
	child.tries++
	if child.fails {
		child.failed = true
		h.settle(child, isError)
		return nil, true
	}
	if len(child.domain) == 0 {
		h.settle(child, isClosed)
		return node, false
	}
	h.acquire(child)
	child.children = append(child.children, child.domain...)
	h.release(child)
	h.settle(child, isVisited)
	return child, false
}

func (h *thread) availableChild(node *bnode) (child *bnode, process bool) {
	for {
		h.acquire(node)
		var best *bnode
		for _, rank := range []nodeState{isOpen, isVisited, isProcessing} {
			for _, c := range node.children {
				if c.state == rank && (best == nil || best.state == rank && c.workers < best.workers) {
					best = c
				}
			}
		}
		switch {
		case best == nil:
			h.release(node)
			return nil, false
		case best.state == isOpen:
			best.state = isProcessing
			h.release(node)
			return best, true
		case best.state == isVisited:
			h.release(node)
			return best, false
		}
		h.wait(node)
		h.release(node)
	}
}

// settle sets the state of a node that was processed.
func (h *thread) settle(n *bnode, s nodeState) {
	h.acquire(n.parent)
	n.state = s
	if s != isVisited {
		h.update(n.parent)
	}
	h.notifyAll(n.parent)
	h.release(n.parent)
}

// update carries states upwards; the condition of n is locked.
func (h *thread) update(n *bnode) {
	if n.parent == nil {
		return
	}
	s := isClosed
	for _, c := range n.children {
		switch {
		case c.state == isError:
			s = isError
		case c.state != isClosed:
			return
		}
	}
	h.acquire(n.parent)
	n.state = s
	h.update(n.parent)
	h.notifyAll(n.parent)
	h.release(n.parent)
}

// add hangs a new node below one that has been processed, and opens what is above it.
func (h *thread) add(parent, n *bnode) {
	h.acquire(parent)
	n.parent = parent
	parent.children = append(parent.children, n)
	h.x.nodes = append(h.x.nodes, n)
	h.reopen(parent)
	h.notifyAll(parent)
	h.release(parent)
}

func (h *thread) reopen(n *bnode) {
	if n.parent == nil || n.state == isVisited {
		return
	}
	h.acquire(n.parent)
	n.state = isVisited
	h.reopen(n.parent)
	h.notifyAll(n.parent)
	h.release(n.parent)
}

// start adds an actor.
func (x *exploration) start(run func(*thread)) {
	a := &actor{}
	a.next, a.stop = iter.Pull(func(yield func(ask) bool) {
		defer func() {
			if p := recover(); p != nil && p != errStopped {
				panic(p)
			}
		}()
		run(&thread{x: x, a: a, yield: yield})
	})
	x.actors = append(x.actors, a)
	x.resume(a)
}

func (x *exploration) resume(a *actor) {
	if lock := a.asks.lock; lock != nil {
		lock.holder = a
	}
	asks, more := a.next()
	a.asks, a.ended = asks, !more
}

// run lets the actors go on, one step at a time, until all have ended.
func (x *exploration) run() {
	for {
		var ready []*actor
		left := 0
		for _, a := range x.actors {
			if a.ended {
				continue
			}
			left++
			if a.waiting == nil && (a.asks.lock == nil || a.asks.lock.holder == nil) {
				ready = append(ready, a)
			}
		}
		if left == 0 {
			break
		}
		if len(ready) == 0 {
			x.t.Fatalf("%d workers wait for ever", left)
		}
		x.resume(ready[rapid.IntRange(0, len(ready)-1).Draw(x.t, "who")])
		x.check()
	}
	x.actors = nil
}

// check compares the state of each node with those of its children, unless a condition is locked:
// then a state may be on its way up.
func (x *exploration) check() {
	if slices.ContainsFunc(x.actors, func(a *actor) bool { return len(a.held) > 0 }) {
		return
	}
	for _, n := range x.nodes {
		if len(n.children) == 0 || n.state == isProcessing {
			continue
		}
		want := isClosed
		for _, c := range n.children {
			switch {
			case c.state == isError && want == isClosed:
				want = isError
			case c.state != isClosed && c.state != isError:
				want = isVisited
			}
		}
		if n.state != want {
			x.t.Fatalf("a node is %s, its children make it %s", n.state, want)
		}
	}
}

// TestExploration lets workers explore random trees with failures, while nodes are added; then it
// retries what has failed.
func TestExploration(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := &exploration{t: t, sentinel: &bnode{}}
		defer func() {
			for _, a := range x.actors {
				a.stop()
			}
		}()
		for i := range rapid.IntRange(1, 14).Draw(t, "nodes") {
			n := &bnode{state: isOpen, parent: x.sentinel, fails: rapid.IntRange(0, 4).Draw(t, "fails") == 0}
			if i == 0 {
				x.sentinel.children = []*bnode{n}
			} else {
				n.parent = x.nodes[rapid.IntRange(max(0, i-4), i-1).Draw(t, "parent")]
				n.parent.domain = append(n.parent.domain, n)
			}
			x.nodes = append(x.nodes, n)
		}
		explore := func() {
			for range rapid.IntRange(1, 4).Draw(t, "workers") {
				x.start((*thread).explore)
			}
		}
		explore()
		for range rapid.IntRange(0, 3).Draw(t, "news") {
			x.start(func(h *thread) {
				for h.step(nil); rapid.IntRange(0, 9).Draw(t, "later") > 2; h.step(nil) {
				}
				known := slices.DeleteFunc(slices.Clone(x.nodes), func(n *bnode) bool {
					return n.state == isOpen || n.state == isProcessing || n.failed
				})
				if len(known) > 0 {
					h.add(rapid.SampledFrom(known).Draw(t, "under"), &bnode{state: isOpen})
				}
			})
		}
		x.run()
		explore() // what was added when all had gone home
		x.run()

		reached := func(n *bnode) bool {
			for p := n.parent; p != nil; p = p.parent {
				if p.failed {
					return false
				}
			}
			return true
		}
		var retried []*bnode
		for _, n := range x.nodes {
			want := 1
			if !reached(n) {
				want = 0
			}
			if n.tries != want {
				t.Fatalf("a node was processed %d times, want %d", n.tries, want)
			}
		}
		for _, n := range x.nodes {
			n.fails = false
			switch {
			case n.failed:
				retried = append(retried, n)
				n.state, n.failed = isOpen, false
			case n.state == isError:
				n.state = isVisited
			}
		}
		explore()
		x.run()
		for _, n := range x.nodes {
			want := 1
			if slices.Contains(retried, n) {
				want = 2
			}
			if n.tries != want || n.state != isClosed {
				t.Fatalf("after the retry a node is %s, processed %d times, want %d", n.state, n.tries, want)
			}
		}
	})
}
