package cluster_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"urltree/internal/cluster"
	"urltree/internal/cluster/memory"
)

// TestSeedsAtTheEnd: seeds that are taken while a leader finds out that nothing is left, and has
// asked their node before, keep it from saying so, or whoever gives them learns that it has.
func TestSeedsAtTheEnd(t *testing.T) {
	for _, tt := range []struct {
		name  string
		early bool // the leader writes before Give hears that the seeds are taken
		want  error
	}{
		{"taken first", false, nil},
		{"ended first", true, cluster.ErrEnded},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				engine := memory.New(cluster.Config{Crawl: "seeds", Partitions: cluster.Partitions, TTL: 15 * time.Second})
				bus := engine.Connect("a")
				node := cluster.New(cluster.Options{Bus: bus, Name: "a", Boot: "a1"})
				if _, err := node.Join(t.Context(), nil); err != nil {
					t.Fatal(err)
				}
				defer node.Leave()
				var parts []int
				for p := range cluster.Partitions {
					parts = append(parts, p)
				}
				sub, err := bus.Subscribe(t.Context(), cluster.Subscriber{Node: "a", Boot: "a1", Epoch: 1}, parts)
				if err != nil {
					t.Fatal(err)
				}
				result := make(chan error)
				go func() {
					_, err := cluster.Give(t.Context(), engine.Connect("visitor"), func(yield func(string, error) bool) {
						yield("http://a.test/", nil)
					})
					result <- err
				}()
				list, err := sub.Next(t.Context(), 1)
				if err != nil {
					t.Fatal(err)
				}
				// The leader has read the state now, and heard from all nodes that nothing is left.
				state, err := bus.Get(t.Context(), cluster.Control, "state")
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait() // Give listens
				state.Value = []byte("finished a1")
				if tt.early {
					if _, err := bus.Put(t.Context(), cluster.Control, state); err != nil {
						t.Fatal(err)
					}
				}
				if err := bus.Confirm(t.Context(), list[0].Batch().Sender, []uint64{list[0].Batch().Number}); err != nil {
					t.Fatal(err)
				}
				if err := <-result; !errors.Is(err, tt.want) {
					t.Errorf("Give: %v, want %v", err, tt.want)
				}
				if _, err := bus.Put(t.Context(), cluster.Control, state); !errors.Is(err, cluster.ErrRevision) {
					t.Errorf("the leader writes that the crawl is finished: %v", err)
				}
			})
		})
	}
}
