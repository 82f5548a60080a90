package disk

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// createUnnamed opens a file that has no name, or returns nil where that is not possible.
func createUnnamed(dir string) *os.File {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o666)
	if err != nil {
		return nil // the file system does not have it, or else a named file meets the same error
	}
	f := os.NewFile(uintptr(fd), dir)
	if _, err := os.Stat(byDescriptor(f)); err != nil { // without /proc it could not get a name later
		_ = f.Close()
		return nil
	}
	return f
}

// link links a file of createUnnamed to a name that is not taken.
func link(f *os.File, name string) error {
	if err := unix.Linkat(unix.AT_FDCWD, byDescriptor(f), unix.AT_FDCWD, name, unix.AT_SYMLINK_FOLLOW); err != nil {
		return &os.LinkError{Op: "link", Old: "a new file", New: name, Err: err}
	}
	return nil
}

func byDescriptor(f *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", f.Fd()) }
