package record

import (
	"strings"
	"testing"
)

// TestWeightOfLabels checks that a folder of a host's name weighs as much as one of a path: both
// have counts.
func TestWeightOfLabels(t *testing.T) {
	labels := Link{URL: "http://" + strings.Repeat("a.", 100) + "b.test/"}
	path := Link{URL: "http://b.test/" + strings.Repeat("a/", 100)}
	if got, want := weigh(&labels), weigh(&path); got < want*9/10 {
		t.Errorf("a link below 100 labels weighs %d, one below 100 segments %d", got, want)
	}
}
