package main

import (
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// memory is where Linux has a file system in memory.
const memory = "/dev/shm"

// leastMemory is how many bytes must be free there: some 1 GiB that the tests take at a time, and
// what a crawl leaves free of its disk.
const leastMemory = 4 << 30

// tmpfs makes a folder for the files of tests in memory, where a sync takes no time, and returns
// its name and the function that removes it. The name is empty if there is no place for that from
// which programs can be started.
func tmpfs(mounts string) (dir string, remove func()) {
	var fs unix.Statfs_t
	if !executable(mounts) || unix.Statfs(memory, &fs) != nil || int64(fs.Bavail)*int64(fs.Bsize) < leastMemory {
		return "", func() {}
	}
	dir, err := os.MkdirTemp(memory, "urltree-test")
	if err == nil {
		err = os.Chmod(dir, 0o755) // tests start programs as other users
	}
	if err != nil {
		return "", func() {}
	}
	return dir, func() { os.RemoveAll(dir) }
}

// executable reports whether mounts, in the form of /proc/mounts, has a tmpfs at memory from which
// programs can be started.
func executable(mounts string) (ok bool) {
	for line := range strings.Lines(mounts) {
		// Device, folder, type, options; of mounts in one place the last one counts.
		if f := strings.Fields(line); len(f) >= 4 && f[1] == memory {
			ok = f[2] == "tmpfs" && !slices.Contains(strings.Split(f[3], ","), "noexec")
		}
	}
	return ok
}
