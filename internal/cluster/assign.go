package cluster

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"

	"urltree/storage/record"
)

// Partitions is into how many parts the hosts of a crawl are divided: at least ten times the nodes
// that it may come to.
const Partitions = 256

// Partition returns the partition of a host. Hosts of one registrable domain are in one partition:
// www.example.org has the robots.txt and the cookies of example.org more often than not, and what
// counts for a domain is counted by one node.
func Partition(host string, of int) uint16 {
	h := fnv.New64a()
	h.Write([]byte(record.Domain(host)))
	return uint16(mix64(h.Sum64()) % uint64(of))
}

// mix64 is the finalizer of SplitMix64: FNV leaves the low bits of similar names alike.
func mix64(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// A conf is what all nodes of a crawl must have alike. It is under the key "conf" from the first
// node on.
type conf struct {
	Version    int    `json:"version"` // of all that nodes say to each other
	Partitions int    `json:"partitions"`
	By         string `json:"by"`      // what of a host the partition is of
	Options    string `json:"options"` // of the crawl
}

// differs returns what of a crawl's conf is not that of a node that wants to join, "" if nothing
// is.
func (c conf) differs(own conf) string {
	switch {
	case c.Version != own.Version:
		return fmt.Sprintf("the crawl is of version %d of the protocol, this program speaks %d", c.Version, own.Version)
	case c.Partitions != own.Partitions || c.By != own.By:
		return fmt.Sprintf("the crawl has %d partitions by %s, this node has %d by %s", c.Partitions, c.By, own.Partitions, own.By)
	case c.Options != own.Options:
		return fmt.Sprintf("the crawl has the options %q, this node has %q", c.Options, own.Options)
	}
	return ""
}

// An Assign says which node asks the hosts of which partition. It is under the key "assign". The
// leader alone changes it, and each change has the next epoch. All nodes follow it.
//
// A life of a node begins when it takes its lease: when its process begins, and when a lease that
// has lapsed is taken anew. A node asks nothing before the assignment names its life: then the
// assignment is one from after the lapse, however late the node hears of it.
type Assign struct {
	Epoch uint64 `json:"epoch"` // from 1 on
	Crawl string `json:"crawl"` // a name that no other crawl has
	// Members are the nodes that have ever joined and have not left cleanly, whether they own
	// something or not, each with its life that may ask.
	Members map[string]string `json:"members"`
	// Left are nodes that have just left, each with the life that has: it is not taken in again.
	Left map[string]string `json:"left,omitempty"`
	// Gone are nodes that are gone for good, each with the epoch from which on it has nothing. What
	// they knew is lost: Lost has, of each partition of theirs, the epoch of that.
	Gone  map[string]uint64 `json:"gone,omitempty"`
	Lost  map[int]uint64    `json:"lost,omitempty"`
	Owner []string          `json:"owner"` // of each partition
	From  []string          `json:"from"`  // of each partition, the node that has still to hand it over to the owner, or ""
	Moved []uint64          `json:"moved"` // of each partition, the epoch of its latest move
}

// newAssign divides partitions among nodes, by their lives: none has more than one more than
// another.
func newAssign(crawl string, lives map[string]string, partitions int) Assign {
	a := Assign{
		Epoch: 1, Crawl: crawl, Members: maps.Clone(lives),
		Owner: make([]string, partitions), From: make([]string, partitions), Moved: make([]uint64, partitions),
	}
	nodes := slices.Sorted(maps.Keys(lives))
	for p := range a.Owner {
		a.Owner[p] = nodes[p%len(nodes)]
	}
	return a
}

// clone returns a copy that shares nothing with a.
func (a *Assign) clone() Assign {
	c := *a
	c.Members, c.Left = maps.Clone(a.Members), maps.Clone(a.Left)
	if c.Left == nil {
		c.Left = map[string]string{}
	}
	c.Gone, c.Lost = maps.Clone(a.Gone), maps.Clone(a.Lost)
	c.Owner, c.From, c.Moved = slices.Clone(a.Owner), slices.Clone(a.From), slices.Clone(a.Moved)
	return c
}

// of returns the partitions of a node.
func (a *Assign) of(node string) (parts []int) {
	for p, owner := range a.Owner {
		if owner == node {
			parts = append(parts, p)
		}
	}
	return parts
}

func (a *Assign) valid(partitions int) error {
	if a.Epoch == 0 || len(a.Members) == 0 || len(a.Owner) != partitions || len(a.From) != partitions || len(a.Moved) != partitions {
		return fmt.Errorf("assignment of epoch %d is not of %d partitions", a.Epoch, partitions)
	}
	return nil
}

// equal reports whether both say the same, whatever their epochs.
func (a *Assign) equal(b *Assign) bool {
	return maps.Equal(a.Members, b.Members) && maps.Equal(a.Left, b.Left) && maps.Equal(a.Gone, b.Gone) && slices.Equal(a.Owner, b.Owner) && slices.Equal(a.From, b.From)
}

// text is how values stand under their keys.
func text(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // only of types that have no such form
	}
	return b
}

// AwayOf returns, of what Join has returned, of which hosts others may have what this node has not:
// other nodes ask them, or what these know of them has still to be handed over or found out again.
// It returns nil for nil, the tree of a whole crawl.
func AwayOf(keep []byte) (away func(host string) bool, err error) {
	if keep == nil {
		return nil, nil
	}
	var k kept
	if err := json.Unmarshal(keep, &k); err != nil {
		return nil, fmt.Errorf("what the index keeps of its node: %w", err)
	}
	whole := k.own()
	for _, p := range slices.Concat(k.waiting(), k.lost()) {
		whole[p] = false
	}
	return func(host string) bool { return !whole[Partition(host, Partitions)] }, nil
}
