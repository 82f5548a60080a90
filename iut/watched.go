package iut

import "urltree/internal/disk"

// A watchedFS reports calls to an FS that hang.
type watchedFS struct {
	FS
	watch *disk.Watch
}

func (w watchedFS) Mkdir(name string) error {
	return w.watch.Disk("make folder", name, func() error { return w.FS.Mkdir(name) })
}

func (w watchedFS) Open(name string, flag int) (f File, err error) {
	err = w.watch.Disk("open", name, func() error {
		f, err = w.FS.Open(name, flag)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &watchedFile{f, w.watch, name}, nil
}

func (w watchedFS) Rename(from, to string) error {
	return w.watch.Disk("rename to", to, func() error { return w.FS.Rename(from, to) })
}

func (w watchedFS) Remove(name string) error {
	return w.watch.Disk("remove", name, func() error { return w.FS.Remove(name) })
}

func (w watchedFS) List(name string) (list []Entry, err error) {
	err = w.watch.Disk("list", name, func() error {
		list, err = w.FS.List(name)
		return err
	})
	return list, err
}

func (w watchedFS) Stat(name string) (e Entry, err error) {
	err = w.watch.Disk("look at", name, func() error {
		e, err = w.FS.Stat(name)
		return err
	})
	return e, err
}

func (w watchedFS) SyncDir(name string) error {
	return w.watch.Disk("sync folder", name, func() error { return w.FS.SyncDir(name) })
}

func (w watchedFS) SyncAll() error {
	return w.watch.Disk("sync", "the tree", w.FS.SyncAll)
}

// Free is spared: nothing but the end of the crawl waits for it.
func (w watchedFS) Free() (bytes, inodes uint64, err error) {
	err = w.watch.Spare("ask", "how much room the disk has", func() error {
		bytes, inodes, err = w.FS.Free()
		return err
	})
	return bytes, inodes, err
}

type watchedFile struct {
	File
	watch *disk.Watch
	name  string
}

func (f *watchedFile) Read(b []byte) (n int, err error) {
	err = f.watch.Disk("read", f.name, func() error {
		n, err = f.File.Read(b)
		return err
	})
	return n, err
}

func (f *watchedFile) Write(b []byte) (n int, err error) {
	err = f.watch.Disk("write", f.name, func() error {
		n, err = f.File.Write(b)
		return err
	})
	return n, err
}

func (f *watchedFile) Close() error {
	return f.watch.Disk("close", f.name, f.File.Close)
}

func (f *watchedFile) Sync() error {
	return f.watch.Disk("sync", f.name, f.File.Sync)
}

func (f *watchedFile) Truncate(size int64) error {
	return f.watch.Disk("cut", f.name, func() error { return f.File.Truncate(size) })
}
