package iut

import (
	"maps"
	"runtime/pprof"
	"slices"
	"strings"
)

// WalkNames lets a disk resolve names one by one, as where the kernel cannot do it.
func (d *Disk) WalkNames() { d.beneath = false }

// Written returns what the next SyncAll has to sync where it works file by file.
func (d *Disk) Written() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(d.written))
}

// Waiting returns how many goroutines wait for the lock of a path.
func Waiting() int {
	var text strings.Builder
	_ = pprof.Lookup("goroutine").WriteTo(&text, 2) // a Builder takes all
	return strings.Count(text.String(), "iut.(*pathLocks).lock(") + strings.Count(text.String(), "iut.(*pathLocks).rlock(")
}

// View returns the tree as seen through another file system. Without locked its path locks are its
// own: between two such views there is no lock, as if it had been taken out.
func (t *Tree) View(through FS, locked bool) *Tree {
	locks := t.pages.(*folders).locks
	if !locked {
		locks = newPathLocks()
	}
	return &Tree{root: t.root, fs: through, paths: t.paths, format: t.Format(), pages: &folders{through, t.paths, locks}}
}
