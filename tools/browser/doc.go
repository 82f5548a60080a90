// Package browser has tests alone: a browser shows what crawler serve serves.
package browser
