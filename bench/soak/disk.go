//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// A disk is a file system in memory whose size can be changed.
type disk string

// roomy is the size of one that is not full.
const roomy = "size=1g,nr_inodes=1000000"

// mountable tries whether file systems may be mounted.
func mountable(work string) error {
	d, err := mountDisk(filepath.Join(work, "try"))
	if err != nil {
		return err
	}
	return d.unmount()
}

// mountDisk makes a folder and mounts a file system there.
func mountDisk(folder string) (disk, error) {
	if err := os.Mkdir(folder, 0o755); err != nil {
		return "", err
	}
	if err := command("mount", "-t", "tmpfs", "-o", roomy, "tmpfs", folder); err != nil {
		return "", err
	}
	return disk(folder), nil
}

func (d disk) unmount() error {
	if err := command("umount", string(d)); err != nil {
		return err
	}
	return os.Remove(string(d))
}

// resize gives it as many bytes and inodes more than it has in use.
func (d disk) resize(bytes, inodes int64) error {
	var st syscall.Statfs_t
	if err := syscall.Statfs(string(d), &st); err != nil {
		return fmt.Errorf("statfs %s: %w", d, err)
	}
	size := int64(st.Blocks-st.Bfree)*st.Bsize + bytes
	return d.remount(fmt.Sprintf("size=%d,nr_inodes=%d", size, int64(st.Files-st.Ffree)+inodes))
}

func (d disk) remount(options string) error {
	return command("mount", "-o", "remount,"+options, string(d))
}

func command(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return nil
}
