package cluster_test

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"

	"urltree/internal/cluster"
	"urltree/internal/cluster/memory"
)

// A slowDisk takes its time to keep what a node has taken over.
type slowDisk struct{ empty }

func (slowDisk) Keep([]byte) error {
	time.Sleep(5 * time.Second)
	return nil
}

// TestEndingOfLatest: a crawl is not finished by an assignment that is no more the latest: neither
// while the node that leads takes over the one that it has written itself, for a node that joins,
// nor where another node has written one meanwhile.
func TestEndingOfLatest(t *testing.T) {
	for _, tt := range []struct {
		name  string
		joins func(t *testing.T, engine *memory.Engine, idle func())
	}{
		{"not taken over", func(t *testing.T, engine *memory.Engine, idle func()) {
			b := cluster.New(cluster.Options{Bus: engine.Connect("b"), Name: "b", Boot: "b1", TTL: ttl})
			if _, err := b.Join(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			defer b.Kill()
			idle()
			time.Sleep(2 * time.Second)
		}},
		{"not seen", func(t *testing.T, engine *memory.Engine, idle func()) {
			engine.SetFaults(func(call memory.Call) memory.Fault {
				if call.Node == "a" && call.Method == "Put" {
					return memory.Fault{Delay: time.Second}
				}
				return memory.Fault{}
			})
			idle()
			time.Sleep(500 * time.Millisecond) // it has asked all nodes, and writes
			other := engine.Connect("test")
			e, err := other.Get(t.Context(), cluster.Control, "assign")
			var a cluster.Assign
			if err == nil {
				err = json.Unmarshal(e.Value, &a)
			}
			if err != nil {
				t.Fatal(err)
			}
			a.Epoch++
			a.Members["b"] = "b1.1"
			if e.Value, err = json.Marshal(a); err == nil {
				_, err = other.Put(t.Context(), cluster.Control, e)
			}
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				engine := memory.New(cluster.Config{Crawl: "latest", Partitions: cluster.Partitions, TTL: ttl})
				a := cluster.New(cluster.Options{Bus: engine.Connect("a"), Name: "a", Boot: "a1", TTL: ttl})
				ctx, cancel := context.WithCancel(t.Context())
				if _, err := a.Join(ctx, nil); err != nil {
					t.Fatal(err)
				}
				var running errgroup.Group
				defer func() { _ = running.Wait(); a.Kill() }()
				defer cancel()
				running.Go(func() error { return a.Exchange(ctx, slowDisk{}, true) })
				synctest.Wait()
				tt.joins(t, engine, func() {
					running.Go(func() error {
						for {
							if more, err := a.Idle(ctx); err != nil || !more {
								return err
							}
						}
					})
				})
				s, err := cluster.Look(t.Context(), engine.Connect("test"))
				if err != nil || s.State != "running" {
					t.Errorf("the crawl is %s, %v; want it to wait for the node that has joined", s.State, err)
				}
			})
		})
	}
}
