package nats_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"urltree/internal/cluster"
	"urltree/internal/cluster/nats"
)

// TestReplicas: three servers of one cluster are killed in turn while batches are sent and a lease
// is renewed. The crawl goes on with the other two: every batch arrives, and no writer of a key
// sees the turn of another one missed.
func TestReplicas(t *testing.T) {
	if testing.Short() {
		t.Skip("each election takes seconds")
	}
	t.Parallel()
	cfg := config
	cfg.Replicas, cfg.TTL = 3, 15*time.Second
	var servers []*process
	var routes, addresses []string
	for range 3 {
		routes = append(routes, "nats://"+freeAddress())
	}
	for i, route := range routes {
		s := &process{
			store: store{filepath.Join(t.TempDir(), "store")}, cfg: cfg, program: program(t), listen: freeAddress(),
			more: fmt.Sprintf("server_name: s%d\ncluster { name: crawl, listen: %q, routes: [%s] }\n",
				i, strings.TrimPrefix(route, "nats://"), strings.Join(routes, ", ")),
		}
		s.start(t)
		t.Cleanup(func() { s.stop(t) })
		servers, addresses = append(servers, s), append(addresses, "nats://"+s.listen)
	}
	var a, b cluster.Bus
	for _, bus := range []*cluster.Bus{&a, &b} {
		retry(t, func() (err error) { // until the three have a leader
			*bus, err = nats.Connect(within(t), nats.Options{Servers: strings.Join(addresses, ",")}.WithAckWait(5*time.Second), cfg)
			return err
		})
		defer func() { _ = (*bus).Close() }()
	}
	s := subscribe(t, b, "b", 1, 0, 1)
	lease := &cluster.Entry{Key: "node.a", Value: []byte("boot")}
	number := uint64(0)
	for round := range 4 { // all are there, then each is killed in turn
		if round > 0 {
			servers[round-1].stop(t)
		}
		missing := map[uint64]bool{}
		for range 20 {
			number++
			missing[number] = true
			try := 0
			retry(t, func() error {
				try++
				return a.Publish(within(t), cluster.Batch{
					Sender: "a", Boot: "b", Number: number, Try: try, Partition: int(number) % 2, Body: []byte("n"),
				})
			})
		}
		for len(missing) > 0 {
			got := receive(t, s, 1)
			delete(missing, got[0].Batch().Number)
			acknowledge(t, got)
		}
		retry(t, func() error { return renew(t, a, lease) })
		if round > 0 {
			servers[round-1].start(t)
		}
	}
	requireClosed(t, s)
}

// renew writes a lease. If the answer to an earlier call was lost, it finds that in the table,
// which may be older than what it was told last.
func renew(t *testing.T, b cluster.Bus, lease *cluster.Entry) error {
	rev, err := b.Put(within(t), cluster.Leases, *lease)
	switch {
	case err == nil && rev <= lease.Revision:
		t.Errorf("revision %d after %d", rev, lease.Revision)
	case errors.Is(err, cluster.ErrRevision):
		got, errGet := b.Get(within(t), cluster.Leases, lease.Key)
		if errors.Is(errGet, cluster.ErrNoKey) {
			lease.Revision = 0 // it has expired meanwhile
		} else if errGet == nil && got.Revision > lease.Revision {
			lease.Revision = got.Revision
		}
		return errors.Join(err, errGet)
	case err == nil:
		lease.Revision = rev
	}
	return err
}
