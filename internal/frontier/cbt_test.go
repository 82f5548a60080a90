package frontier

import (
	"math/rand/v2"
	"testing"
)

// checkTree asserts that every match of the tournament has the right winner.
func checkTree(t *testing.T, tree *cbt, in map[*host]bool) {
	t.Helper()
	n := tree.len()
	if n != len(in) || n > 0 && len(tree.node) != 2*n {
		t.Fatalf("%d nodes for %d hosts, want a leaf for each and a match less", len(tree.node), len(in))
	}
	for i := 1; i < n; i++ {
		winner, left, right := tree.node[i], tree.node[2*i], tree.node[2*i+1]
		if winner != left && winner != right || winner.key != min(left.key, right.key) || winner.key != winner.h.key {
			t.Fatalf("match %d of keys %d and %d won by key %d", i, left.key, right.key, winner.key)
		}
	}
	for i := n; i < 2*n; i++ {
		if h := tree.node[i].h; !in[h] || int(h.leaf) != i {
			t.Fatalf("leaf %d holds a host that says %d", i, h.leaf)
		}
	}
}

func TestTreeAgainstModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	tree, in := new(cbt), map[*host]bool{}
	all := make([]*host, 70)
	for i := range all {
		all[i] = new(host)
	}
	for step := range 20_000 {
		h := all[rng.IntN(len(all))]
		key := rng.Int64N(50)
		switch {
		case !in[h]:
			h.key, in[h] = key, true
			tree.insert(h)
		case rng.IntN(2) == 0 || step > 19_000: // in the end it runs empty
			delete(in, h)
			tree.remove(h)
			if h.leaf != 0 {
				t.Fatal("a removed host still has a leaf")
			}
		default:
			h.key = key
			tree.update(h)
		}
		checkTree(t, tree, in)
		below, limit := 0, rng.IntN(80)
		for h := range in {
			if h.key <= key {
				below++
			}
		}
		if got := tree.count(key, limit); got != min(below, limit) {
			t.Fatalf("count(%d, %d) = %d, want %d", key, limit, got, min(below, limit))
		}
	}
}

func TestTreeGivesInOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for n := range 130 {
		tree := new(cbt)
		for range n {
			tree.insert(&host{key: rng.Int64N(100)})
		}
		last := int64(-1)
		for range n {
			h := tree.first()
			if h.key < last {
				t.Fatalf("of %d hosts, key %d came after %d", n, h.key, last)
			}
			last = h.key
			tree.remove(h)
		}
		if tree.first() != nil || tree.count(1000, 10) != 0 {
			t.Fatalf("%d hosts in, and one is left", n)
		}
	}
}
