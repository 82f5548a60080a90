package testdisk

import (
	"context"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// How an ext4 is shut down: fs/ext4/ext4.h and include/uapi/linux/ext4.h of the kernel.
const (
	ioctlShutdown   = 0x8004587d // EXT4_IOC_SHUTDOWN
	withoutLogFlush = 2          // EXT4_GOING_FLAGS_NOLOGFLUSH: the journal ends where it is
)

// Cut cuts the power of an ext4: from now on all who use it get EIO, and of what was not synced
// only that is left which happened to be written. The image itself is no drive with a cache to
// lose.
func (d *Disk) Cut() error {
	f, err := os.Open(d.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.IoctlSetPointerInt(int(f.Fd()), ioctlShutdown, withoutLogFlush); err != nil {
		return fmt.Errorf("shut down %s: %w", d.Path, err)
	}
	return nil
}

// Restart mounts the ext4 again after a cut, which plays its journal. Nobody may have a file of it
// open any more. A journal that the file system does not accept is an error.
func (d *Disk) Restart() error {
	if err := unix.Unmount(d.Path, 0); err != nil {
		return fmt.Errorf("unmount %s: %w", d.Path, err)
	}
	return command(context.Background(), "mount", "-o", "loop", d.image, d.Path)
}

// Sync makes all that was written to the disk safe from a cut.
func (d *Disk) Sync() error {
	f, err := os.Open(d.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Syncfs(int(f.Fd())); err != nil {
		return fmt.Errorf("sync %s: %w", d.Path, err)
	}
	return nil
}
