//go:build !linux && !darwin

package iut

import (
	"errors"
	"fmt"
	"runtime"
)

const noFollow = 0

// A Disk is the real file system. It does not exist on this system.
type Disk struct{ FS }

// OpenDisk says that this system is not supported.
func OpenDisk(string, Sync) (*Disk, error) {
	return nil, fmt.Errorf("iut: %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

// Close does nothing.
func (d *Disk) Close() error { return nil }
