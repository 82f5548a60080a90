package iut

import (
	"maps"
	"slices"
)

// WalkNames lets a disk resolve names one by one, as where the kernel cannot do it.
func (d *Disk) WalkNames() { d.beneath = false }

// Written gives what the next SyncAll has to sync where it works file by file.
func (d *Disk) Written() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(d.written))
}
