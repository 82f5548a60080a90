//go:build race

package stages

// raced: the race detector is on.
const raced = true
