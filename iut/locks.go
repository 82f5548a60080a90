package iut

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gofrs/flock"
)

// ErrBusy says that another process has the tree. The text names it if it is known.
var ErrBusy = errors.New("iut: tree is in use")

// An owner holds the file LOCK of a tree: one writer or several readers. The lock goes with
// the process, however it ends. A writer leaves its pid in the file and empties it when it is
// done, so that a pid of a process that is gone tells of a kill.
type owner struct {
	lock   *flock.Flock
	writer bool
}

// lockTree takes LOCK below root without waiting.
func lockTree(root string, shared bool) (*owner, error) {
	name := filepath.Join(root, lockName)
	flag, try := os.O_CREATE|os.O_RDWR, (*flock.Flock).TryLock
	if shared {
		flag, try = os.O_CREATE|os.O_RDONLY, (*flock.Flock).TryRLock
	}
	// Not blocking: a FIFO of this name must not stop us.
	o := &owner{flock.New(name, flock.SetFlag(flag|noFollow|syscall.O_NONBLOCK), flock.SetPermissions(0o666)), !shared}
	switch held, err := try(o.lock); {
	case err != nil:
		return nil, diskError("lock", err)
	case !held:
		return nil, busy(root)
	}
	if o.writer {
		// On a full disk the lock holds without the pid, which is only told to others.
		if err := o.writePid(strconv.Itoa(os.Getpid()) + "\n"); err != nil && !errors.Is(err, syscall.ENOSPC) {
			return nil, errors.Join(err, o.lock.Close())
		}
	}
	return o, nil
}

func (o *owner) release() error {
	var err error
	if o.writer {
		err = o.writePid("")
	}
	return errors.Join(err, o.lock.Close())
}

func (o *owner) writePid(text string) error {
	f, err := os.OpenFile(o.lock.Path(), os.O_WRONLY|os.O_TRUNC|noFollow|syscall.O_NONBLOCK, 0)
	if err != nil {
		return diskError("lock", err)
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return diskError("lock", err)
	}
	return nil
}

func busy(root string) error {
	name := filepath.Join(root, lockName)
	if info, err := os.Lstat(name); err == nil && info.Mode().IsRegular() {
		// Readers leave no pid, and the one that stands there may be of a killed writer.
		// A writer that has only just started is about to write its own.
		for late := time.Now().Add(500 * time.Millisecond); ; time.Sleep(10 * time.Millisecond) {
			text, _ := os.ReadFile(name)
			if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && pid > 0 && runs(pid) {
				return fmt.Errorf("%w: process %d has %s", ErrBusy, pid, root)
			}
			if time.Now().After(late) {
				break
			}
		}
	}
	return fmt.Errorf("%w: another process has %s", ErrBusy, root)
}

func runs(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	defer p.Release()
	err = p.Signal(syscall.Signal(0))
	return err == nil || errors.Is(err, syscall.EPERM)
}

// pathLocks are the locks of the page folders in use: any number of readers or one writer
// each. Invariant: a path has an entry exactly while someone holds or waits for its lock.
type pathLocks struct {
	mu     sync.Mutex // never held while waiting for an entry
	byPath map[string]*pathLock
}

type pathLock struct {
	sync.RWMutex
	users int // guarded by pathLocks.mu; holders and waiters
}

func (l *pathLocks) lock(path string) (unlock func()) {
	p := l.enter(path)
	p.Lock()
	return func() { p.Unlock(); l.leave(path, p) }
}

func (l *pathLocks) rlock(path string) (unlock func()) {
	p := l.enter(path)
	p.RLock()
	return func() { p.RUnlock(); l.leave(path, p) }
}

func (l *pathLocks) enter(path string) *pathLock {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.byPath[path]
	if p == nil {
		if l.byPath == nil {
			l.byPath = map[string]*pathLock{}
		}
		p = new(pathLock)
		l.byPath[path] = p
	}
	p.users++
	return p
}

func (l *pathLocks) leave(path string, p *pathLock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.users--; p.users == 0 {
		delete(l.byPath, path)
	}
}
