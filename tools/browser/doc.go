// Package browser has tests alone: a browser shows what crawler serve serves, plays archives and
// opens mirrors that crawler export writes.
package browser
