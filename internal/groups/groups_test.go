package groups

import (
	"errors"
	"fmt"
	"slices"
	"testing"
)

// walk calls each with the bytes of a text as keys; it counts in open until it ends.
func walk(keys string, end error, open *int) Walk[string] {
	return func(each func(key []byte, value string) error) error {
		*open++
		defer func() { *open-- }()
		for i := range len(keys) {
			if err := each([]byte{keys[i]}, fmt.Sprint(keys[i:i+1], i)); err != nil {
				return err
			}
		}
		return end
	}
}

// TestGroups: all entries come, in the order of keys and then of walks, those of one key together,
// and one of each walk at most. The error of a walk is that of the step that meets it.
func TestGroups(t *testing.T) {
	wrong := errors.New("wrong")
	for name, tt := range map[string]struct {
		walks []string
		end   error // of the first
		want  []string
	}{
		"none":      {nil, nil, nil},
		"empty":     {[]string{"", ""}, nil, nil},
		"one":       {[]string{"ac"}, nil, []string{"0a0", "0c1"}},
		"several":   {[]string{"ac", "bcd", "d"}, nil, []string{"0a0", "1b0", "0c1 1c1", "1d2 2d0"}},
		"key twice": {[]string{"aab", "a"}, nil, []string{"0a0 1a0", "0a1", "0b2"}},
		"error":     {[]string{"a", "abc"}, wrong, []string{"wrong"}},
		"at once":   {[]string{"", "abc"}, wrong, []string{"wrong"}},
	} {
		open := 0
		var walks []Walk[string]
		for i, keys := range tt.walks {
			end := tt.end
			if i > 0 {
				end = nil
			}
			walks = append(walks, walk(keys, end, &open))
		}
		var got []string
		g, err := Of(walks)
		for err == nil {
			var list []Item[string]
			if list, err = g.Next(); err != nil || len(list) == 0 {
				break
			}
			text := ""
			for _, it := range list {
				text += fmt.Sprintf(" %d%s", it.Part, it.Value)
			}
			got = append(got, text[1:])
		}
		if g != nil {
			g.Close()
		}
		if err != nil {
			got = append(got, err.Error())
		}
		if !slices.Equal(got, tt.want) || open != 0 {
			t.Errorf("%s: %q, %d walks open; want %q", name, got, open, tt.want)
		}
	}
}

// TestClose: walks that are left in the middle end.
func TestClose(t *testing.T) {
	open := 0
	g, err := Of([]Walk[string]{walk("ab", nil, &open), walk("ab", nil, &open)})
	if err != nil || open != 2 {
		t.Fatalf("%d walks open, %v", open, err)
	}
	if g.Close(); open != 0 {
		t.Errorf("%d walks open", open)
	}
}
