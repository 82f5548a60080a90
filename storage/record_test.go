package storage

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"urltree/storage/record"
)

// TestDamageIsToldOnce: damage of a value is damage of the index, and one line says so once.
func TestDamageIsToldOnce(t *testing.T) {
	_, err := record.Decode([]byte("http\x00da\x00dorg\x00r"), []byte("no record"))
	if !errors.Is(err, record.ErrCorrupt) || !errors.Is(err, record.ErrDamaged) || errors.Is(err, ErrSchema) {
		t.Errorf("error %v", err)
	}
	err = fmt.Errorf("%w: %w", record.ErrDamaged, err)
	if n := strings.Count(err.Error(), record.ErrDamaged.Error()); n != 1 {
		t.Errorf("%v: said %d times", err, n)
	}
}
