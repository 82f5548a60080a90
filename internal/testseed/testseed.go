// Package testseed draws the seeds of tests that choose at random. Tests only.
package testseed

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// Variable is the environment variable that gives the seed.
const Variable = "TEST_URLTREE_SEED"

// Draw returns another seed each time, or the one that the environment names, and logs how a test
// is played again.
func Draw(t testing.TB) uint64 {
	t.Helper()
	seed := rand.Uint64()
	if text := os.Getenv(Variable); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("%s: %v", Variable, err)
		}
	}
	t.Logf("random seed: %s=%d", Variable, seed)
	return seed
}
