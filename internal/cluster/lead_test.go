package cluster

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestBalance: whatever nodes come, go silent and are drained, each change moves no more partitions
// than it takes, none that is on its way, and none of a node that is silent; in the end no node
// that is there has more than one more than another one, and those that are drained have none and
// are gone.
func TestBalance(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 5))
		v := &view{lives: map[string]string{}, drains: map[string]bool{}, clean: map[string]bool{}, arrived: map[int]bool{}}
		for i := range 1 + r.IntN(4) {
			v.lives[fmt.Sprint("n", i)] = "1"
		}
		a := newAssign("c", v.lives, Partitions)
		for step := range 12 {
			name := fmt.Sprint("n", r.IntN(7))
			switch r.IntN(4) {
			case 0:
				v.lives[name] = fmt.Sprint(step + 2)
			case 1:
				if len(v.lives) > 1 {
					delete(v.lives, name)
				}
			case 2:
				if _, here := v.lives[name]; here && len(v.lives)-len(v.drains) > 1 {
					v.drains[name] = true
				}
			}
			a = settle(t, a, v)
			for node := range v.drains {
				v.clean[node] = v.lives[node] != ""
			}
			a = settle(t, a, v)
			for node := range v.clean {
				if _, member := a.Members[node]; member && v.clean[node] {
					t.Errorf("seed %d: %s has nothing and does not leave", seed, node)
				} else if !member {
					delete(v.lives, node)
					delete(v.drains, node)
				}
			}
			clear(v.clean)
			least, most := Partitions, 0
			for node := range v.lives {
				if n := len(a.of(node)); !v.drains[node] {
					least, most = min(least, n), max(most, n)
				}
			}
			if most-least > 1 && least < Partitions {
				t.Errorf("seed %d: a node has %d partitions, another one %d", seed, least, most)
			}
		}
	}
}

// settle goes on until nothing changes, and checks each step.
func settle(t *testing.T, a Assign, v *view) Assign {
	t.Helper()
	for rounds := 0; ; rounds++ {
		clear(v.arrived)
		for p, from := range a.From {
			if _, here := v.lives[a.Owner[p]]; from != "" && here {
				v.arrived[p] = rounds%2 == 1
			}
		}
		next, changed := a.next(v)
		if !changed && rounds%2 == 1 {
			return a
		}
		gets, gives := map[string]bool{}, map[string]bool{}
		for p := range a.Owner {
			from, to := a.Owner[p], next.Owner[p]
			if from == to {
				continue
			}
			gets[to], gives[from] = true, true
			if _, here := v.lives[from]; !here || a.From[p] != "" && next.Moved[p] != next.Epoch || next.From[p] != from {
				t.Fatalf("partition %d was moved from %s to %s, though it is silent, or it was on its way", p, from, to)
			}
		}
		for node := range gets {
			if gives[node] {
				was, is := map[string]int{}, map[string]int{}
				for p := range a.Owner {
					was[a.Owner[p]]++
					is[next.Owner[p]]++
				}
				t.Fatalf("%s gets and gives partitions at once: %v, then %v; lives %v, drains %v", node, was, is, v.lives, v.drains)
			}
		}
		if changed {
			a = next
		}
		if rounds > 50 {
			t.Fatal("it changes for ever")
		}
	}
}

// TestFollow: a node begins to hand over what it has lost, again where another node than before is
// to get it, and goes on with what it has got back; it asks what it has got from the marker on that
// belongs to the latest move.
func TestFollow(t *testing.T) {
	a := newAssign("c", map[string]string{"a": "1", "b": "1", "c": "1"}, Partitions)
	k := kept{Name: "a", Assign: a}
	step := func(owner, from string) {
		a = k.Assign.clone()
		a.Epoch++
		a.Owner[0], a.From[0], a.Moved[0] = owner, from, a.Epoch
		k.follow(a)
	}
	want := func(when string, leaves int, own, asks bool) {
		t.Helper()
		if len(k.Leaves) != leaves || k.own()[0] != own || k.asks()[0] != asks {
			t.Errorf("%s: %d leaves, own %t, asks %t; want %d, %t, %t", when, len(k.Leaves), k.own()[0], k.asks()[0], leaves, own, asks)
		}
	}
	want("at first", 0, true, true)
	step("b", "a")
	want("lost", 1, true, false)
	k.Leaves[0].Step = stepGone
	want("gone", 1, false, false)
	step("c", "a")
	want("lost to another one", 1, true, false)
	if !slices.Equal(k.Leaves[0].Parts, []int{0}) {
		t.Errorf("%v leaves", k.Leaves[0].Parts)
	}
	step("a", "")
	want("got back as it is", 0, true, true)
	step("b", "a")
	k.Leaves = nil
	step("a", "b")
	want("got back", 0, true, false)
	k.Marked = map[int]uint64{0: k.Assign.Epoch - 1}
	want("with the marker of an earlier move", 0, true, false)
	k.Marked[0]++
	want("with its marker", 0, true, true)
}
