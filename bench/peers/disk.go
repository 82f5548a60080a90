package main

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

// A disk is a file system that nobody has written to.
type disk struct {
	kind  string
	path  string
	image string // the file it lies in; "": in memory
}

// newDisk makes a disk of so many bytes, which take room as they are written. An ext4 has all its
// tables written beforehand, so that the kernel does not do it meanwhile, and a journal.
func newDisk(ctx context.Context, work, kind string, size int64) (*disk, error) {
	d := &disk{kind: kind, path: filepath.Join(work, "disk")}
	if err := os.Mkdir(d.path, 0o755); err != nil {
		return nil, err
	}
	commands := [][]string{{"mount", "-t", "tmpfs", "-o", fmt.Sprintf("size=%d,nr_inodes=%d", size, size>>12), "tmpfs", d.path}}
	switch kind {
	case "tmpfs":
	case "ext4":
		d.image = filepath.Join(work, "ext4.img")
		commands = [][]string{
			{"truncate", "-s", strconv.FormatInt(size, 10), d.image},
			{"mkfs.ext4", "-q", "-F", "-O", "has_journal", "-i", "8192", "-E", "lazy_itable_init=0,lazy_journal_init=0", d.image},
			{"mount", "-o", "loop", d.image, d.path},
		}
	default:
		return nil, fmt.Errorf("-disks: %q is neither ext4 nor tmpfs", kind)
	}
	for _, c := range commands {
		if text, err := exec.CommandContext(ctx, c[0], c[1:]...).CombinedOutput(); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w: %s", c[0], err, text), d.drop())
		}
	}
	unix.Sync() // what was written before must not be written meanwhile
	return d, nil
}

// remove unmounts the disk, even if the context has ended, and frees it.
func (d *disk) remove() error {
	if err := unix.Unmount(d.path, 0); err != nil {
		return fmt.Errorf("unmount %s: %w", d.path, err)
	}
	return d.drop()
}

func (d *disk) drop() error {
	err := os.Remove(d.path)
	if d.image != "" {
		err = errors.Join(err, os.RemoveAll(d.image))
	}
	return err
}
