package simhash

import (
	"cmp"
	"context"
	"iter"
	"math/bits"
	"slices"
)

// MaxDistance is in how many bits fingerprints near each other differ at most.
const MaxDistance = 3

// blocks of equal size make a fingerprint. Two that differ in fewer bits than there are blocks
// have one block in common, so only those are compared that have.
const blocks = MaxDistance + 1

// Near returns for each fingerprint the index of the first one that is near it, if that stands
// before it, else -1. There may be at most 2^31-1. It takes eight bytes of memory for each. The
// error is the cause of ctx.
func Near(ctx context.Context, fingerprints []uint64) ([]int32, error) {
	first := make([]int32, len(fingerprints))
	order := make([]int32, len(fingerprints))
	for i := range first {
		first[i], order[i] = -1, int32(i)
	}
	for b := range blocks {
		key := func(i int32) uint64 { return bits.RotateLeft64(fingerprints[i], b*64/blocks) }
		slices.SortFunc(order, func(i, j int32) int { return cmp.Or(cmp.Compare(key(i), key(j)), cmp.Compare(i, j)) })
		for run := range Runs(order, func(i int32) uint64 { return key(i) >> (64 - 64/blocks) }) {
			if err := compare(ctx, fingerprints, run, first); err != nil {
				return nil, err
			}
		}
	}
	for i, f := range first {
		// Equal ones were not compared but with the first of them.
		if f >= 0 && fingerprints[f] == fingerprints[i] && first[f] >= 0 {
			first[i] = first[f]
		}
	}
	return first, nil
}

// Runs returns the runs of numbers that have the same key.
func Runs[K comparable](numbers []int32, key func(int32) K) iter.Seq[[]int32] {
	return func(yield func([]int32) bool) {
		for n := 0; len(numbers) > 0; numbers, n = numbers[n:], 0 {
			for n < len(numbers) && key(numbers[n]) == key(numbers[0]) {
				n++
			}
			if !yield(numbers[:n]) {
				return
			}
		}
	}
}

// compare compares each two of those that some indexes name, which stand in the order of
// their fingerprints, equal ones by index. It changes the order.
func compare(ctx context.Context, fingerprints []uint64, some, first []int32) error {
	distinct := 0 // of some, at its front
	for k, i := range some {
		if distinct > 0 && fingerprints[some[distinct-1]] == fingerprints[i] {
			first[i] = some[distinct-1]
			continue
		}
		some[distinct], some[k] = i, some[distinct] // which is dealt with
		distinct++
	}
	for a, i := range some[:distinct] {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		for _, j := range some[:a] {
			if Distance(fingerprints[i], fingerprints[j]) > MaxDistance {
				continue
			}
			low, high := min(i, j), max(i, j)
			if first[high] < 0 || low < first[high] {
				first[high] = low
			}
		}
	}
	return nil
}
