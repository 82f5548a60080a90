package iut

import "golang.org/x/sys/unix"

const folderFlags = unix.O_RDONLY | unix.O_DIRECTORY

// The system can neither resolve names beneath a descriptor nor sync a whole file system and
// report its errors: names are walked one by one, and every file is synced by itself.

func canResolveBeneath(int) bool { return false }

func openBeneath(int, string, int, uint32) (int, error) { return -1, unix.ENOSYS }

func canSyncAll(int) bool { return false }

func syncAll(int) error { return unix.ENOSYS }

// fsync also empties the cache of the drive, which plain fsync does not do here.
func fsync(fd int) error {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_FULLFSYNC, 0)
	return err
}
