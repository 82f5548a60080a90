package disk

// FS opens a file system, in a step that names its root, and returns it as one of which calls that
// hang are reported. It is the one whose room is watched; FS is called before anything else asks
// for room.
func (w *Watch) FS(root string, open func() (FS, error)) (FS, error) {
	fs, err := step(w, "open", root, open)
	if err != nil || w == nil {
		return fs, err
	}
	watched := watchedFS{fs, w}
	w.room = newRoom(w.until, w.space, watched.Free, w.log)
	return watched, nil
}

// step is [Watch.Disk] for a call with a result.
func step[T any](w *Watch, what, about string, fn func() (T, error)) (v T, err error) {
	err = w.Disk(what, about, func() error {
		v, err = fn()
		return err
	})
	return v, err
}

// A watchedFS reports calls to an FS that hang.
type watchedFS struct {
	FS
	watch *Watch
}

func (w watchedFS) Mkdir(name string) error {
	return w.watch.Disk("make folder", name, func() error { return w.FS.Mkdir(name) })
}

func (w watchedFS) Open(name string, flag int) (Handle, error) {
	h, err := step(w.watch, "open", name, func() (Handle, error) { return w.FS.Open(name, flag) })
	if err != nil {
		return nil, err
	}
	return &watchedHandle{h, w.watch, name}, nil
}

func (w watchedFS) Rename(from, to string) error {
	return w.watch.Disk("rename to", to, func() error { return w.FS.Rename(from, to) })
}

func (w watchedFS) Remove(name string) error {
	return w.watch.Disk("remove", name, func() error { return w.FS.Remove(name) })
}

func (w watchedFS) RemoveFolder(name string) error {
	return w.watch.Disk("remove", name, func() error { return w.FS.RemoveFolder(name) })
}

func (w watchedFS) List(name string) ([]Entry, error) {
	return step(w.watch, "list", name, func() ([]Entry, error) { return w.FS.List(name) })
}

func (w watchedFS) Stat(name string) (Entry, error) {
	return step(w.watch, "look at", name, func() (Entry, error) { return w.FS.Stat(name) })
}

func (w watchedFS) SyncDir(name string) error {
	return w.watch.Disk("sync folder", name, func() error { return w.FS.SyncDir(name) })
}

func (w watchedFS) SyncAll() error {
	return w.watch.Disk("sync", "the tree", w.FS.SyncAll)
}

// Free is spared: nothing but the very end of the crawl waits for it.
func (w watchedFS) Free() (bytes, inodes uint64, err error) {
	s := w.watch.begin("ask", "how much room the disk has", w.watch.limits.Disk, true, true)
	err = s.run(func() error {
		bytes, inodes, err = w.FS.Free()
		return err
	})
	return bytes, inodes, err
}

type watchedHandle struct {
	Handle
	watch *Watch
	name  string
}

func (h *watchedHandle) Read(b []byte) (int, error) {
	return step(h.watch, "read", h.name, func() (int, error) { return h.Handle.Read(b) })
}

func (h *watchedHandle) ReadAt(b []byte, offset int64) (int, error) {
	return step(h.watch, "read from", h.name, func() (int, error) { return h.Handle.ReadAt(b, offset) })
}

func (h *watchedHandle) Write(b []byte) (int, error) {
	return step(h.watch, "write", h.name, func() (int, error) { return h.Handle.Write(b) })
}

func (h *watchedHandle) Close() error {
	return h.watch.Disk("close", h.name, h.Handle.Close)
}

func (h *watchedHandle) Sync() error {
	return h.watch.Disk("sync", h.name, h.Handle.Sync)
}

func (h *watchedHandle) Truncate(size int64) error {
	return h.watch.Disk("cut", h.name, func() error { return h.Handle.Truncate(size) })
}
