package storage

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

// TestMain takes fewer random runs than rapid does by itself: each of the model's makes a file.
// More by -rapid.checks.
func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", "20"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}
