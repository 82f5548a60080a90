package cleaner

import (
	"os"
	"strings"
	"testing"
)

// TestSeedsDamaged: lines of seeds.txt that are no URLs cost themselves and nothing else.
func TestSeedsDamaged(t *testing.T) {
	s := newSite(t, t.TempDir())
	defer s.close()
	s.seed("http://a.org/")
	text := read(t, s.path("seeds.txt")) + "no URL\nhttp://\x00/\nhttp://long.org/" + strings.Repeat("x", maxSeed) + "\nhttp://b.org/\n"
	if err := os.WriteFile(s.path("seeds.txt"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := rebuildIndex(t.Context(), s.tree, s.index, &parser{}, nil); err != nil {
		t.Fatal(err)
	}
	records := s.records()
	for _, url := range []string{"http://a.org/", "http://b.org/"} {
		if _, there := records[url]; !there {
			t.Errorf("%s has no record", url)
		}
	}
	if len(records) != 2 {
		t.Errorf("%d records, want 2", len(records))
	}
}
