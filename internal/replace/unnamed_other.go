//go:build !linux

package replace

import (
	"errors"
	"os"
)

func createUnnamed(string) *os.File { return nil }

func link(*os.File, string) error { return errors.ErrUnsupported }
