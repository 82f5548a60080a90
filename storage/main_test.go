package storage

import (
	"flag"
	"os"
	"testing"
)

// TestMain takes fewer random runs than rapid does by itself: each of the model's makes a file.
// More by -rapid.checks.
func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", "20"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
