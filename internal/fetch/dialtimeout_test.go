package fetch

import (
	"net"
	"os"
	"testing"
)

// TestDialTimeout: that no connection is there in time is told as such, and not as a slow answer.
func TestDialTimeout(t *testing.T) {
	for op, want := range map[string]string{"dial": Connect, "read": Timeout} {
		reason, passing := classify(&net.OpError{Op: op, Net: "tcp", Err: os.ErrDeadlineExceeded})
		if reason != want || !passing {
			t.Errorf("%s: %s, passing %v; want %s", op, reason, passing, want)
		}
	}
}
