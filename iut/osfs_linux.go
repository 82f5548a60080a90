package iut

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// folderFlags open a folder only to reach what is in it; permission to list it is not needed.
const folderFlags = unix.O_PATH | unix.O_DIRECTORY

func openBeneath(root int, name string, flag int, perm uint32) (int, error) {
	how := unix.OpenHow{Flags: uint64(flag), Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS}
	if flag&unix.O_CREAT != 0 { // any other use of a mode is an error
		how.Mode = uint64(perm)
	}
	return unix.Openat2(root, name, &how)
}

// canResolveBeneath is false before Linux 5.6 and in sandboxes that do not know openat2.
func canResolveBeneath(root int) bool {
	fd, err := again(func() (int, error) { return openBeneath(root, ".", folderFlags|unix.O_CLOEXEC, 0) })
	if err != nil {
		return false
	}
	unix.Close(fd)
	return true
}

func syncAll(root int) error { return againOnly(func() error { return unix.Syncfs(root) }) }

func fsync(fd int) error { return unix.Fsync(fd) }

// canSyncAll reports whether syncfs can be trusted: before Linux 5.8 it does not report failed
// writes, and network and layered file systems may not pass it on.
func canSyncAll(root int) bool {
	var st unix.Statfs_t
	if err := unix.Fstatfs(root, &st); err != nil {
		return false
	}
	switch int64(st.Type) {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC, unix.TMPFS_MAGIC:
	default:
		return false
	}
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return false
	}
	return atLeast(unix.ByteSliceToString(name.Release[:]), 5, 8)
}

// atLeast compares a kernel release such as "6.1.0-18-amd64".
func atLeast(release string, major, minor int) bool {
	first, rest, _ := strings.Cut(release, ".")
	if i := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' }); i >= 0 {
		rest = rest[:i]
	}
	a, err1 := strconv.Atoi(first)
	b, err2 := strconv.Atoi(rest)
	return err1 == nil && err2 == nil && (a > major || a == major && b >= minor)
}
