// Package cluster makes one crawl of several processes.
//
// Hosts are divided into partitions, and partitions among nodes: a node alone asks the hosts of
// its partitions. A link to any other host goes through an engine that carries messages, the [Bus],
// to the node that owns its partition. The engine is never the only holder of a URL: a sender keeps
// each batch until its receiver has confirmed that the batch is merged, committed and synced.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"urltree/internal/cluster/batch"
)

// A Bus is the engine as a node uses it. Its methods may be called from any goroutine. Errors other
// than those below mean that the engine could not be reached or did not answer: the call may have
// had its effect or not, and the caller decides by trying again.
type Bus interface {
	// Publish hands a batch to the engine, which keeps it until a subscription acknowledges it. That
	// Publish returns nil frees nothing: the sender keeps the batch until it is confirmed, and
	// publishes it again, with Try raised, if that takes too long. ErrFull: not now.
	Publish(ctx context.Context, b Batch) error
	// Subscribe begins to receive the batches of partitions, those included that wait already, in
	// whatever order and perhaps more than once. ErrOwned: a subscription of somebody else has one of
	// the partitions still; the caller tries again. A subscription of the same name is replaced.
	// Subscriptions of earlier lives of a node stay until they are fenced.
	Subscribe(ctx context.Context, name Subscriber, parts []int) (Subscription, error)
	// Fence ends the subscriptions of a node for epochs before the one that is named. Once it has
	// returned, no acknowledgement of theirs has an effect, and what they have received and not
	// acknowledged is delivered to others.
	Fence(ctx context.Context, node string, before uint64) error

	// Confirm reports to the sender of batches that they are merged, committed and synced: an
	// end-to-end acknowledgement. It may be lost; the sender publishes again then, and is
	// confirmed again.
	Confirm(ctx context.Context, sender string, batches []uint64) error
	// Confirmed calls fn with the batches that are confirmed to a node, in turn, until ctx ends.
	Confirmed(ctx context.Context, node string, fn func(batches []uint64)) error

	// Get returns the value of a key and its revision; ErrNoKey. It may be stale: nothing may be
	// decided by it but what to try to write.
	Get(ctx context.Context, t Table, key string) (Entry, error)
	// Put writes a key whose revision is still that of e, 0 where the key must not exist, and
	// returns the new one, which is greater. ErrRevision: another writer was first.
	Put(ctx context.Context, t Table, e Entry) (revision uint64, err error)
	// Delete removes a key whose revision is still the one named. ErrRevision: it is not.
	Delete(ctx context.Context, t Table, key string, revision uint64) error
	// List returns all keys of a table that there are, sorted. It may be stale, as Get.
	List(ctx context.Context, t Table) ([]Entry, error)
	// Watch calls fn, in turn, with each key of a table as it is and then as it changes, until ctx
	// ends. Changes in between may be left out; the last one is not. A key that was removed or has
	// expired has Revision 0.
	Watch(ctx context.Context, t Table, fn func(Entry)) error

	// Probe asks a node for its state, and returns the answer. An error after a while, or when ctx
	// ends: nobody answers to that name.
	Probe(ctx context.Context, node string) ([]byte, error)
	// Answer has fn answer the probes of a node until ctx ends.
	Answer(ctx context.Context, node string, fn func() []byte) error

	// Reconnected calls fn each time after the engine could not be reached and can be again, until ctx
	// ends: what was published before may not have arrived.
	Reconnected(ctx context.Context, fn func())
	// Close releases the connection. What was published and not acknowledged stays.
	Close() error
}

// A Table is one of the two that the engine keeps.
type Table int

const (
	// Control has the keys of the crawl, which stay.
	Control Table = iota
	// Leases has keys that expire a while after they were last written: see [Config.TTL].
	Leases
)

// A Config is what a crawl's streams and tables are made with by the first node that joins.
type Config struct {
	Crawl      string        // its name: 1 to 16 of a-z and 0-9
	Partitions int           // V
	Replicas   int           // of streams and tables
	Shards     int           // streams among which the partitions are divided
	TTL        time.Duration // after which a key of Leases expires
	MaxBytes   int64         // of all batches that wait; 0: no limit
}

var (
	// ErrRevision says that another writer of a key was first.
	ErrRevision = errors.New("key was written by another node")
	// ErrNoKey says that there is no such key.
	ErrNoKey = errors.New("no such key")
	// ErrOwned says that a partition is received by somebody else.
	ErrOwned = errors.New("partition is received by another node")
	// ErrFull says that the engine takes no batches at the moment.
	ErrFull = errors.New("engine takes no more batches at the moment")
	// ErrNoCrawl says that the engine has no crawl of this name.
	ErrNoCrawl = errors.New("no such crawl")
	// ErrFenced says that a subscription was ended from outside.
	ErrFenced = errors.New("subscription was ended")
)

// An Entry is a key of a table.
type Entry struct {
	Key      string
	Value    []byte
	Revision uint64
}

// A Subscriber names a subscription: that of a node, in one of its lives, for the assignment of an
// epoch.
type Subscriber struct {
	Node  string
	Boot  string // of the process: another one at each start
	Epoch uint64
}

// A Subscription receives the batches of some partitions.
type Subscription interface {
	// Next waits for at least one batch and returns those that are there, at most so many. The error
	// is that of ctx, or ErrFenced, after which nothing more comes.
	Next(ctx context.Context, most int) ([]Delivery, error)
	// Close ends the subscription. What it has received and not acknowledged is delivered again, here
	// or elsewhere.
	Close() error
}

// A Delivery is a batch that has arrived. It is delivered again if it is neither acknowledged nor
// refused for a minute.
type Delivery interface {
	Batch() Batch
	// Ack lets the engine forget the batch. Of a subscription that was ended it has no effect.
	Ack(ctx context.Context) error
	// Nak has the batch delivered again, here or to another subscription, not before delay.
	Nak(ctx context.Context, delay time.Duration) error
}

// A Batch is what a node sends at once to a partition.
type Batch struct {
	Sender    string // node
	Number    uint64 // of the sender's batches, which it uses once, over all its lives
	Boot      string // of the sender
	Try       int    // how often it was published before, in this life
	Partition int
	Body      []byte // what batch.Pack returned
	Schema    string // of Body, as it has arrived; "" of one to be published: that of package batch
}

// Records returns what the batch says. batch.ErrUnknown: a newer program has made it, which it must
// be left to.
func (b *Batch) Records() ([]batch.Record, error) {
	if b.Schema != "" && b.Schema != batch.Schema {
		return nil, fmt.Errorf("%w: schema %.20q", batch.ErrUnknown, b.Schema)
	}
	return batch.Unpack(b.Body)
}
