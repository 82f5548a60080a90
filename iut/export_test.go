package iut

import (
	"maps"
	"slices"
)

// WalkNames lets a disk resolve names one by one, as where the kernel cannot do it.
func (d *Disk) WalkNames() { d.beneath = false }

// Written returns what the next SyncAll has to sync where it works file by file.
func (d *Disk) Written() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(d.written))
}

// Users returns how many goroutines hold or wait for the lock of a path.
func (t *Tree) Users(rel string) int {
	t.locks.mu.Lock()
	defer t.locks.mu.Unlock()
	if p := t.locks.byPath[rel]; p != nil {
		return p.users
	}
	return 0
}

// View returns the tree as seen through another file system. Without locked its path locks are its
// own: between two such views there is no lock, as if it had been taken out.
func (t *Tree) View(through FS, locked bool) *Tree {
	v := &Tree{root: t.root, fs: through, paths: t.paths, format: t.Format(), locks: t.locks}
	if !locked {
		v.locks = new(pathLocks)
	}
	return v
}
