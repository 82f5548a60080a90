package queue_test

import (
	"fmt"
	"slices"

	"urltree/internal/frontier/queue"
)

func Example() {
	q, err := queue.New(queue.QuickHeap, queue.Options[string]{})
	if err != nil {
		panic(err)
	}
	err = q.Insert(
		queue.Item[string]{Key: 2, Seq: 1, Value: "https://example.org/b"},
		queue.Item[string]{Key: 1, Seq: 2, Value: "https://example.org/c"},
		queue.Item[string]{Key: 1, Seq: 0, Value: "https://example.org/a"},
	)
	if err != nil {
		panic(err)
	}
	first, err := q.Extract(nil, 2)
	if err != nil {
		panic(err)
	}
	slices.SortFunc(first, queue.Compare)
	for _, item := range first {
		fmt.Println(item.Key, item.Value)
	}
	fmt.Println("left:", q.Len())
	// Output:
	// 1 https://example.org/a
	// 1 https://example.org/c
	// left: 1
}
