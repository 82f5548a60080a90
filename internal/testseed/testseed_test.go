package testseed

import "testing"

// TestDraw: two seeds differ, unless one is asked for.
func TestDraw(t *testing.T) {
	t.Setenv(Variable, "")
	if a, b := Draw(t), Draw(t); a == b {
		t.Errorf("%d twice", a)
	}
	t.Setenv(Variable, "17")
	if n := Draw(t); n != 17 {
		t.Errorf("%d, want 17", n)
	}
}
