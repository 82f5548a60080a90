//go:build !race

package stages

const raced = false
