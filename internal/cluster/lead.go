package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// drainKey returns the key in Control that asks for a node to be drained.
func drainKey(node string) string { return "drain." + node }

// A tenure is what the value of a node's lease says: which life has it, and of which epoch the
// latest assignment was that the node knew when that life began.
type tenure struct {
	life  string
	epoch uint64
}

func (t tenure) String() string { return fmt.Sprintf("%s %d", t.life, t.epoch) }

func parseTenure(value []byte) (t tenure, ok bool) {
	life, epoch, ok := strings.Cut(string(value), " ")
	n, err := strconv.ParseUint(epoch, 10, 64)
	return tenure{life, n}, ok && err == nil
}

// tenures returns what the leases of all nodes say that have one.
func tenures(ctx context.Context, bus Bus) (map[string]tenure, error) {
	list, err := bus.List(ctx, Leases)
	if err != nil {
		return nil, err
	}
	found := map[string]tenure{}
	for _, e := range list {
		if node, ok := strings.CutPrefix(e.Key, leaseOf("")); ok {
			if t, ok := parseTenure(e.Value); ok {
				found[node] = t
			}
		}
	}
	return found, nil
}

// beginLifeLocked begins another life of the node, which asks nothing before the assignment names
// it.
func (n *Node) beginLifeLocked() {
	n.life++
	n.lease.become(n.tenureLocked().String())
	n.named.Store(false)
}

func (n *Node) tenureLocked() tenure {
	return tenure{fmt.Sprintf("%s.%d", n.opts.Boot, n.life), n.kept.Assign.Epoch}
}

// lapse takes note that the lease of the node has lapsed: other nodes may have been given its hosts
// since.
func (n *Node) lapse() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.beginLifeLocked()
	n.counter++
}

// A view is what the leader knows of nodes.
type view struct {
	lives   map[string]string // of those that have a lease
	drains  map[string]bool   // those that are to have nothing
	clean   map[string]bool   // of these, the ones that have nothing left
	arrived map[int]bool      // partitions that have been handed over
	gone    map[string]bool   // nodes that have been silent for long, and are gone for good
	frozen  bool              // nodes neither come nor go, as in supersteps
}

// next returns the assignment that follows; changed reports whether it is another one.
func (a *Assign) next(v *view) (next Assign, changed bool) {
	next = a.clone()
	next.Epoch++
	maps.DeleteFunc(next.Left, func(node, life string) bool { return v.lives[node] != life })
	for node := range v.gone {
		next.lose(node, v)
	}
	for node, life := range v.lives {
		if _, member := a.Members[node]; next.Left[node] != life && next.Gone[node] == 0 && (member || !v.frozen) {
			next.Members[node] = life
		}
	}
	for p, from := range next.From {
		if _, member := next.Members[from]; v.arrived[p] || !member {
			next.From[p] = ""
		}
	}
	for node := range v.clean {
		if life, member := next.Members[node]; member && len(next.of(node)) == 0 && !slices.Contains(next.From, node) {
			next.Left[node] = life
			delete(next.Members, node)
		}
	}
	if !v.frozen {
		next.balance(v)
	}
	return next, !next.equal(a)
}

// balance moves as few partitions as it takes to have none at nodes that are to be drained, and at
// no other one more than one more than at another. It moves none of a node that is silent, nor one
// that is on its way.
func (a *Assign) balance(v *view) {
	load := map[string]int{}
	for node, life := range a.Members {
		if v.lives[node] == life && !v.drains[node] {
			load[node] = 0
		}
	}
	if len(load) == 0 {
		return
	}
	for _, owner := range a.Owner {
		if _, takes := load[owner]; takes {
			load[owner]++
		}
	}
	nodes := slices.Sorted(maps.Keys(load))
	least := func() string {
		return slices.MinFunc(nodes, func(x, y string) int { return load[x] - load[y] })
	}
	move := func(p int, to string) {
		load[to]++
		a.From[p], a.Owner[p], a.Moved[p] = a.Owner[p], to, a.Epoch
	}
	for p, owner := range a.Owner {
		if _, here := v.lives[owner]; here && v.drains[owner] && a.From[p] == "" {
			move(p, least())
		}
	}
	total := 0
	for _, n := range load {
		total += n
	}
	share := total / len(load)
	for _, most := range []int{share + 1, share} { // first what everybody has too much
		for p, owner := range a.Owner {
			to := least()
			if _, takes := load[owner]; takes && a.From[p] == "" && load[owner] > most && load[to] < most {
				load[owner]--
				move(p, to)
			}
		}
	}
}

// arrange changes the assignment where nodes have come, have begun new lives, or are to leave. The
// caller leads.
func (n *Node) arrange(ctx context.Context) error {
	if err := n.look(ctx); err != nil {
		return err
	}
	n.mu.Lock()
	a, revision, behind := n.seen, n.revision, n.seen.Epoch < n.kept.Assign.Epoch
	n.mu.Unlock()
	if behind {
		return n.bringBack(ctx)
	}
	drains, err := n.said(ctx, &a, drainKey(""))
	if err != nil {
		return err
	}
	gone, err := n.said(ctx, &a, goneKey(""))
	if err != nil {
		return err
	}
	here, err := tenures(ctx, n.opts.Bus)
	if err != nil {
		return err
	}
	v := &view{lives: map[string]string{}, drains: map[string]bool{}, clean: map[string]bool{}, arrived: map[int]bool{}, frozen: n.steps != nil}
	for node, t := range here {
		v.lives[node] = t.life
	}
	if !v.frozen {
		if v.gone, err = n.goneNow(ctx, gone, v.lives); err != nil {
			return err
		}
	}
	n.ask(ctx, &a, drains, v)
	next, changed := a.next(v)
	if !changed {
		return nil
	}
	// What the engine has may be older than what a node knows, which brings that back then.
	for node, t := range here {
		if s, _ := n.stateOf(ctx, node); t.epoch > a.Epoch || s.Epoch > a.Epoch {
			return nil
		}
	}
	e := Entry{Key: assignKey, Value: text(next), Revision: revision}
	if e.Revision, err = n.opts.Bus.Put(ctx, Control, e); err != nil {
		return err
	}
	return n.see(e)
}

// said returns the members of which keys with a prefix say something: that they are to be drained,
// or are gone. What was said of a node that has left is over: it may come back.
func (n *Node) said(ctx context.Context, a *Assign, prefix string) (map[string]bool, error) {
	list, err := n.opts.Bus.List(ctx, Control)
	if err != nil {
		return nil, err
	}
	said := map[string]bool{}
	for _, e := range list {
		node, is := strings.CutPrefix(e.Key, prefix)
		_, member := a.Members[node]
		switch {
		case is && member:
			said[node] = true
		case is:
			if err := n.opts.Bus.Delete(ctx, Control, e.Key, e.Revision); err != nil {
				return nil, err
			}
		}
	}
	return said, nil
}

// ask finds out which partitions have been handed over, and which of the nodes that are to be
// drained have nothing left. One that has the engine in its process stays.
func (n *Node) ask(ctx context.Context, a *Assign, drains map[string]bool, v *view) {
	asked := map[string]bool{}
	for p, from := range a.From {
		if from != "" {
			asked[a.Owner[p]] = true
		}
	}
	for node := range drains {
		asked[node] = true
	}
	for node := range asked {
		s, ok := n.stateOf(ctx, node)
		if drains[node] && !s.Hosts {
			v.drains[node] = true
		}
		if !ok || s.Epoch != a.Epoch {
			continue
		}
		v.clean[node] = v.drains[node] && s.Outbox == 0 && s.Leaves == 0 && s.Taking == 0
		for p, from := range a.From {
			if from != "" && a.Owner[p] == node && !slices.Contains(s.Waits, p) {
				v.arrived[p] = true
			}
		}
	}
	maps.DeleteFunc(v.clean, func(_ string, clean bool) bool { return !clean })
}
