package storage

import (
	"errors"
	"syscall"
)

// ErrDisk says that the file system failed, not that a file is damaged. The system's error is
// wrapped where bbolt tells it, such as syscall.ENOSPC.
var ErrDisk = errors.New("disk error")

// failure is an error that is ErrDisk and does not say so: callers do, with what they were about.
type failure struct{ error }

func (failure) Is(target error) bool { return target == ErrDisk }

func (f failure) Unwrap() error { return f.error }

// ofSystem reports whether err came from a system call: then it says nothing about what is in a
// file. The end of a file that is too short is no such error.
func ofSystem(err error) bool {
	var number syscall.Errno
	return errors.As(err, &number)
}

// onDisk makes an error that came from a system call ErrDisk. A file that is not there is none.
func onDisk(err error) error {
	if !ofSystem(err) || errors.Is(err, syscall.ENOENT) {
		return err
	}
	return failure{err}
}
