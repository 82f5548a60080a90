// Package testdisk makes file systems for measurements and tests, each in a file of its own or in
// memory, and cuts their power. It needs root, for the mounts, and mkfs.ext4.
package testdisk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// A Disk is a file system that nobody has written to: what was removed before would make the next
// files slower.
type Disk struct {
	Kind string
	Path string

	image string // the file it lies in; "": in memory
}

// New mounts a disk, ext4 with a journal or tmpfs, of so many bytes, which take room as they are
// written, as the folder disk below work. An ext4 has all its tables written beforehand, so that
// the kernel does not do it meanwhile. The caller must Remove it.
func New(ctx context.Context, work, kind string, size int64) (*Disk, error) {
	d := &Disk{Kind: kind, Path: filepath.Join(work, "disk")}
	if err := os.Mkdir(d.Path, 0o755); err != nil {
		return nil, err
	}
	commands := [][]string{{"mount", "-t", "tmpfs", "-o", fmt.Sprintf("size=%d,nr_inodes=%d", size, size>>12), "tmpfs", d.Path}}
	switch kind {
	case "tmpfs":
	case "ext4":
		d.image = filepath.Join(work, "ext4.img")
		commands = [][]string{
			{"truncate", "-s", strconv.FormatInt(size, 10), d.image},
			{"mkfs.ext4", "-q", "-F", "-O", "has_journal", "-i", "8192", "-E", "lazy_itable_init=0,lazy_journal_init=0", d.image},
			{"mount", "-o", "loop", d.image, d.Path},
		}
	default:
		return nil, fmt.Errorf("disk: %q is neither ext4 nor tmpfs", kind)
	}
	for _, c := range commands {
		if err := command(ctx, c[0], c[1:]...); err != nil {
			return nil, errors.Join(err, d.drop())
		}
	}
	unix.Sync() // what was written before must not be written meanwhile
	return d, nil
}

// Remove unmounts the disk, even if the context has ended, and frees it. If somebody still uses it,
// that is an error, and the disk goes when he has ended.
func (d *Disk) Remove() error {
	var err error
	if busy := unix.Unmount(d.Path, 0); busy != nil {
		err = errors.Join(fmt.Errorf("unmount %s: %w", d.Path, busy), command(context.Background(), "umount", "-l", d.Path))
	}
	return errors.Join(err, d.drop())
}

func command(ctx context.Context, name string, args ...string) error {
	if text, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, text)
	}
	return nil
}

func (d *Disk) drop() error {
	err := os.Remove(d.Path)
	if d.image != "" {
		err = errors.Join(err, os.RemoveAll(d.image))
	}
	return err
}
