package seen

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

// TestMain takes fewer random runs than rapid does by itself: each of the model's adds thousands.
// More by -rapid.checks.
func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", "10"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}
