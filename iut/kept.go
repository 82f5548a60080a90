//go:build linux || darwin

package iut

import (
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// A folder is kept open by a Disk: the one in which another was made last. What comes next are that
// one's files, and perhaps its neighbours. They are made from there, without a walk from the root.
//
// Owner: whoever took it out of Disk.kept, and keeps it again or closes it. Who comes meanwhile
// finds none, and loses nothing but time.
//
// Only what is new is made by way of it, and what fails is tried again from the root: so one that
// was removed meanwhile is missed, and in one that was moved nothing is written over. SyncAll lets
// go of it: what is made after that is where names lead to then.
type folder struct {
	fd   int
	name string // with a slash behind it; never that of the root
}

func (f *folder) close() { unix.Close(f.fd) }

// keep keeps a folder, unless another one is kept by now.
func (d *Disk) keep(f *folder) {
	if !d.kept.CompareAndSwap(nil, f) {
		f.close()
	}
}

func (d *Disk) letGo() {
	if f := d.kept.Swap(nil); f != nil {
		f.close()
	}
}

// mkdir makes a folder and keeps the one that it is in.
func (d *Disk) mkdir(name string) error {
	if !fs.ValidPath(name) || name == "." {
		return unix.EINVAL
	}
	i := strings.LastIndexByte(name, '/')
	if i < 0 {
		return mkdirAt(d.root, name)
	}
	dir, base := name[:i+1], name[i+1:]
	if f := d.kept.Swap(nil); f != nil {
		if f.name == dir && mkdirAt(f.fd, base) == nil {
			d.keep(f)
			return nil
		}
		f.close()
	}
	fd, err := d.openBelow(d.root, name[:i], folderFlags|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	err = mkdirAt(fd, base)
	d.keep(&folder{fd, dir})
	return err
}

func mkdirAt(parent int, base string) error {
	return againOnly(func() error { return unix.Mkdirat(parent, base, 0o777) })
}

// create makes a new file below the folder that is kept. If that cannot be, it may still be
// possible from the root.
func (d *Disk) create(name string, flag int, perm uint32) (fd int, ok bool) {
	if flag&os.O_EXCL == 0 {
		return -1, false
	}
	f := d.kept.Swap(nil)
	if f == nil {
		return -1, false
	}
	rest, ok := strings.CutPrefix(name, f.name)
	if !ok || !fs.ValidPath(rest) {
		d.keep(f)
		return -1, false
	}
	fd, err := d.openBelow(f.fd, rest, flag|unix.O_CLOEXEC, perm)
	if err != nil {
		f.close()
		return -1, false
	}
	d.keep(f)
	return fd, true
}
