//go:build !linux

package ctl

import "syscall"

// private does nothing: here a socket takes its mode only once it is bound.
func private(_, _ string, _ syscall.RawConn) error { return nil }
