package iut

import (
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
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

// patience is how long lockTree waits for others that are about to be done: subcommands that read a
// tree, most of them for a moment.
const patience = 3 * time.Second

// lockTree takes LOCK below root. It does not wait for a writer that runs, and for patience only
// for readers.
func lockTree(root string, shared bool) (*owner, error) {
	name := filepath.Join(root, lockName)
	flag, try := os.O_CREATE|os.O_RDWR, (*flock.Flock).TryLock
	if shared {
		flag, try = os.O_CREATE|os.O_RDONLY, (*flock.Flock).TryRLock
	}
	// Not blocking: a FIFO of this name must not stop us.
	o := &owner{flock.New(name, flock.SetFlag(flag|noFollow|syscall.O_NONBLOCK), flock.SetPermissions(0o666)), !shared}
	for late := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		held, err := try(o.lock)
		if err != nil {
			return nil, DiskError("lock", err)
		}
		if held {
			break
		}
		// Readers leave no pid, and the one that stands there may be of a killed writer. A writer
		// that has only just started is about to write its own.
		if pid := writerOf(name); pid != 0 {
			return nil, fmt.Errorf("%w: process %d has %s", ErrBusy, pid, root)
		}
		if time.Now().After(late) {
			return nil, fmt.Errorf("%w: another process has %s", ErrBusy, root)
		}
	}
	if o.writer {
		// On a full disk the lock holds without the pid, which is only told to others.
		if err := o.writePid(strconv.Itoa(os.Getpid()) + "\n"); err != nil && !errors.Is(err, syscall.ENOSPC) {
			return nil, errors.Join(err, o.lock.Close())
		}
	}
	return o, nil
}

// InUse returns [ErrBusy] if another process has LOCK of the tree in the folder root for writing.
// It makes none.
func InUse(root string) error {
	if _, err := os.Lstat(filepath.Join(root, lockName)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	o, err := lockTree(root, true)
	if err != nil {
		return err
	}
	return o.release()
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
		return DiskError("lock", err)
	}
	_, err = f.WriteString(text)
	return DiskError("lock", errors.Join(err, f.Close()))
}

// writerOf returns the process whose pid stands in a LOCK, if it runs, else 0.
func writerOf(name string) int {
	info, err := os.Lstat(name)
	if err != nil || !info.Mode().IsRegular() {
		return 0
	}
	text, _ := os.ReadFile(name)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || pid <= 0 || !runs(pid) {
		return 0
	}
	return pid
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

// pathLocks are the locks of the page folders: any number of readers or one writer each. Paths that
// share a lock by chance wait for each other, so a goroutine holds one at a time.
type pathLocks struct {
	seed  maphash.Seed
	locks [256]sync.RWMutex // a few times as many as goroutines use at a time
}

func newPathLocks() *pathLocks { return &pathLocks{seed: maphash.MakeSeed()} }

func (l *pathLocks) of(path string) *sync.RWMutex {
	return &l.locks[maphash.String(l.seed, path)%uint64(len(l.locks))]
}

func (l *pathLocks) lock(path string) (unlock func()) {
	m := l.of(path)
	m.Lock()
	return m.Unlock
}

func (l *pathLocks) rlock(path string) (unlock func()) {
	m := l.of(path)
	m.RLock()
	return m.RUnlock
}
