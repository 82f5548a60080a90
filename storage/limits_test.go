package storage

import "testing"

func TestTooDeep(t *testing.T) {
	for _, tt := range []struct {
		most  int
		depth uint32
		want  bool
	}{{-1, 0, false}, {-1, 1, true}, {0, 1 << 31, false}, {2, 2, false}, {2, 3, true}, {1 << 32, 1, false}, {1<<32 + 1, 2, false}} {
		l := Limits{MaxDepth: tt.most}
		if got := l.TooDeep(tt.depth); got != tt.want {
			t.Errorf("at most %d links from a seed: TooDeep(%d) is %v", tt.most, tt.depth, got)
		}
	}
}
