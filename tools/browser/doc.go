// Package browser has tests alone: a browser shows what crawler serve serves, and plays
// the archives that crawler export writes.
package browser
