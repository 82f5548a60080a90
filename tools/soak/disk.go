//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"urltree/internal/testdisk"
)

// Kinds of disks of their own: the size of one in memory can be changed, the power of an ext4 be
// cut.
const (
	inMemory = "tmpfs"
	onExt4   = "ext4"
)

// roomy is the size of one in memory that is not full.
const roomy = "size=1g,nr_inodes=1000000"

// mountable tries whether disks of a kind may be mounted.
func mountable(ctx context.Context, work, kind string) error {
	d, err := mountDisk(ctx, filepath.Join(work, "try"), kind)
	if err != nil {
		return err
	}
	if kind == onExt4 {
		if err = d.Cut(); err == nil {
			err = d.Restart()
		}
	}
	return errors.Join(err, unmountDisk(d))
}

// mountDisk makes a folder and mounts a disk in it.
func mountDisk(ctx context.Context, folder, kind string) (*testdisk.Disk, error) {
	if err := os.Mkdir(folder, 0o755); err != nil {
		return nil, err
	}
	d, err := testdisk.New(ctx, folder, kind, 1<<30)
	if err == nil && kind == inMemory {
		if err = remount(d, roomy); err != nil {
			err = errors.Join(err, d.Remove())
		}
	}
	if err != nil {
		return nil, errors.Join(err, os.Remove(folder))
	}
	return d, nil
}

func unmountDisk(d *testdisk.Disk) error {
	return errors.Join(d.Remove(), os.Remove(filepath.Dir(d.Path)))
}

// resize makes a disk in memory larger than what is in use by so many bytes and inodes.
func resize(d *testdisk.Disk, bytes, inodes int64) error {
	var st syscall.Statfs_t
	if err := syscall.Statfs(d.Path, &st); err != nil {
		return fmt.Errorf("statfs %s: %w", d.Path, err)
	}
	size := int64(st.Blocks-st.Bfree)*st.Bsize + bytes
	return remount(d, fmt.Sprintf("size=%d,nr_inodes=%d", size, int64(st.Files-st.Ffree)+inodes))
}

func remount(d *testdisk.Disk, options string) error {
	return execute("mount", "-o", "remount,"+options, d.Path)
}

func execute(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return nil
}
