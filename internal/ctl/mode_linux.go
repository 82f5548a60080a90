package ctl

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// private sets the mode of the socket before it is bound, so that it never exists with another.
func private(_, _ string, c syscall.RawConn) error {
	var err error
	if cerr := c.Control(func(fd uintptr) { err = unix.Fchmod(int(fd), 0o600) }); cerr != nil {
		return cerr
	}
	return err
}
