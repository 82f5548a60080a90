package cluster

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
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

// An assign says which node asks the hosts of which partition. It is under the key "assign".
type assign struct {
	Epoch uint64   `json:"epoch"`
	Nodes []string `json:"nodes"` // in the order of their names
	Owner []int    `json:"owner"` // of each partition, an index of Nodes
}

// newAssign divides partitions among nodes: none has more than one more than another.
func newAssign(nodes []string, partitions int) assign {
	a := assign{Epoch: 1, Nodes: slices.Sorted(slices.Values(nodes)), Owner: make([]int, partitions)}
	for p := range a.Owner {
		a.Owner[p] = p % len(a.Nodes)
	}
	return a
}

// of returns the partitions of a node.
func (a *assign) of(node string) (parts []int) {
	for p, i := range a.Owner {
		if a.Nodes[i] == node {
			parts = append(parts, p)
		}
	}
	return parts
}

func (a *assign) valid(partitions int) error {
	if a.Epoch == 0 || len(a.Owner) != partitions || slices.ContainsFunc(a.Owner, func(i int) bool { return i < 0 || i >= len(a.Nodes) }) {
		return fmt.Errorf("assignment of epoch %d is not of %d partitions", a.Epoch, partitions)
	}
	return nil
}

// text is how values stand under their keys.
func text(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // only of types that have no such form
	}
	return b
}

// AwayOf returns, of what Join has returned, which hosts other nodes ask: see Node.Away. It returns
// nil for nil, the tree of a whole crawl.
func AwayOf(keep []byte) (away func(host string) (part uint16, away bool), err error) {
	if keep == nil {
		return nil, nil
	}
	var n Node
	if err := json.Unmarshal(keep, &n.kept); err != nil {
		return nil, fmt.Errorf("what the index keeps of its node: %w", err)
	}
	n.own = ownOf(&n.kept.Assign, n.kept.Name)
	return n.Away, nil
}

// ownOf returns which partitions are those of a node.
func ownOf(a *assign, node string) []bool {
	own := make([]bool, Partitions)
	for _, p := range a.of(node) {
		own[p] = true
	}
	return own
}
