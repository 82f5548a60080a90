package queue_test

import (
	"fmt"
	"slices"

	"urltree/internal/frontier/queue"
)

func Example() {
	q, err := queue.New[string](queue.QuickHeap)
	if err != nil {
		panic(err)
	}
	q.Insert(
		queue.Item[string]{Key: 2, Seq: 1, Value: "https://example.org/b"},
		queue.Item[string]{Key: 1, Seq: 2, Value: "https://example.org/c"},
		queue.Item[string]{Key: 1, Seq: 0, Value: "https://example.org/a"},
	)
	first := q.Extract(nil, 2)
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
