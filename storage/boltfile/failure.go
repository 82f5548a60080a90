package boltfile

import (
	"errors"
	"syscall"
)

// ErrDisk says that the file system failed, not that a file is damaged. The system's error is
// wrapped if bbolt returns it, such as syscall.ENOSPC.
var ErrDisk = errors.New("disk error")

// A failure is an error that is ErrDisk without saying so: callers say what they were about.
type failure struct{ error }

func (failure) Is(target error) bool { return target == ErrDisk }

func (f failure) Unwrap() error { return f.error }

// OnDisk makes an error of a system call [ErrDisk], but for that of a file that does not exist.
func OnDisk(err error) error {
	if _, ok := errors.AsType[syscall.Errno](err); !ok || errors.Is(err, syscall.ENOENT) { // a file that is too short ends without a number
		return err
	}
	return failure{err}
}
