package queue_test

import (
	"fmt"

	"urltree/internal/frontier/queue"
)

func Example() {
	q, err := queue.New[string](queue.QuickHeap, 1)
	if err != nil {
		panic(err)
	}
	q.Insert(queue.Item[string]{Key: 2, Seq: 1, Value: "https://example.org/b"})
	q.Insert(queue.Item[string]{Key: 1, Seq: 2, Value: "https://example.org/c"})
	q.Insert(queue.Item[string]{Key: 1, Seq: 0, Value: "https://example.org/a"})
	for range 2 {
		item := q.Pop()
		fmt.Println(item.Key, item.Value)
	}
	fmt.Println("left:", q.Len())
	// Output:
	// 1 https://example.org/a
	// 1 https://example.org/c
	// left: 1
}
