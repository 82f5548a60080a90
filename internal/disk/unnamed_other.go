//go:build !linux

package disk

import (
	"errors"
	"os"
)

func createUnnamed(string) *os.File { return nil }

func link(*os.File, string) error { return errors.ErrUnsupported }
