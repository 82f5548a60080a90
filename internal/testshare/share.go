// Package testshare is for tests that try so much that a usual run takes only a share of it: each
// of n runs in a row another one.
package testshare

import (
	"fmt"
	"os"
)

// Variable is the variable of the environment that names a share as K/N, the K-th of N. Without it
// there is one share, which is the whole.
const Variable = "TEST_URLTREE_SHARE"

// Mine reports whether the i-th of many cases belongs to the share of this run. It panics if the
// variable names none.
func Mine(i int) bool {
	k, n := 1, 1
	if s := os.Getenv(Variable); s != "" {
		if _, err := fmt.Sscanf(s, "%d/%d", &k, &n); err != nil || k < 1 || k > n {
			panic(Variable + "=" + s + " is no share such as 1/4")
		}
	}
	return i%n == k%n
}
